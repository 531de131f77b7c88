"""Suspects by their definition, with nested loops: every row has a weight, and every row of a group is looked at."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

Row = tuple[object, ...]


class Dependency(NamedTuple):
    """A functional dependency between columns that have numbers."""

    context: tuple[int, ...]
    dependent: int
    strength: float


def rounded(value: float, steps: int) -> float:
    """Return the multiple of a part of one that is nearest."""
    return round(value * steps) / steps


def scores(rows: Sequence[Row], dependencies: Sequence[Dependency]) -> list[list[float]]:
    """Return for each row the probability of each of its cells that it is wrong."""
    width = len(rows[0]) if rows else 0
    trust = [[1.0] * width for _ in rows]
    found: list[list[float]] = []
    doubted: set[int] = set()
    for _ in range(3):
        odds = [[0.0] * width for _ in rows]
        for one in dependencies:
            for number, value in enumerate(_fitting(rows, one, trust)):
                if value > 0:
                    doubted.add(number)
                odds[number][one.dependent] += value
                for column in one.context:
                    odds[number][column] += rounded(0.9 * value, 1024)
        found = []
        for row in odds:
            weights = [math.exp(value + math.log(0.002)) for value in row]
            found.append([weight / (1 + sum(weights)) for weight in weights])
        trust = [
            [rounded(1 - score, 1 << 24) if number in doubted else 1.0 for score in row]
            for number, row in enumerate(found)
        ]
    return found


def _fitting(rows: Sequence[Row], one: Dependency, trust: Sequence[Sequence[float]]) -> list[float]:
    """Return the log odds of each row by a dependency."""
    columns = (*one.context, one.dependent)
    weights = [rounded(math.prod(row[c] for c in sorted(columns)), 1 << 24) for row in trust]
    share = Counter(row[one.dependent] for row in rows)
    groups = defaultdict(list)
    for number, row in enumerate(rows):
        groups[tuple(row[c] for c in one.context)].append(number)
    certainty = min(5.0, max(0.0, math.log(one.strength / max(1 - one.strength, 1e-9)) - 2.5))
    found = [0.0] * len(rows)
    for group in groups.values():
        for number in group:
            by_value: dict[object, float] = defaultdict(float)
            for other in group:
                if other != number:
                    by_value[rows[other][one.dependent]] += weights[other]
            value = rows[number][one.dependent]
            own = by_value.pop(value, 0.0)
            most = max(by_value.values(), default=0.0)
            if most - own >= 1:
                found[number] = min(6.0, 0.5 + math.log(most - own)) + certainty
            elif own >= most and own >= 0.9:
                found[number] = max(-5.0, math.log(share[value] / len(rows))) * own / (own + 1)
    return [rounded(value, 1024) for value in found]
