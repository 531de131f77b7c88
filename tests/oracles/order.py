"""Order dependencies in the set-based canonical form, recomputed from their definition by nested loops.

Readings taken where the definition leaves room:

- Every column has the order of its values here (strings by code point, false < true). A column that is declared
  unordered takes part in no compatibility: leave those out that name it.
- *No smaller X does* is minimality among valid dependencies of one target and direction. A compatibility is
  hidden by a constant on the same context; with a constant on a smaller context it is not minimal anyway.
- The bound counts the attributes in X, for constants and compatibilities alike; 0 is no bound.
- Names are quoted as in denial constraints.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from tests.oracles.denial import quoted
from tests.oracles.remembering import remembered
from tests.oracles.values import compare, constraint_id

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.oracles.values import Column, Row

SAME = "same"
OPPOSITE = "opposite"


@dataclass(frozen=True)
class OrderDependency:
    """`{X}: [] -> A` (one target, no direction) or `{X}: A ~ B` (two targets, `same` or `opposite`)."""

    context: tuple[int, ...]
    target: tuple[int, ...]
    direction: str | None = None

    @property
    def kind(self) -> str:
        """Return `constant` or `order_compatible`."""
        return "constant" if len(self.target) == 1 else "order_compatible"


# Violation


def violates(t: Row, s: Row, dependency: OrderDependency) -> bool:
    """Tell whether `(t, s)` is a split (X equal, A different) or a swap (X equal, A rises and B moves wrongly)."""
    if any(compare(t[place], s[place]) != 0 for place in dependency.context):
        return False
    signs = [compare(t[place], s[place]) for place in dependency.target]
    if dependency.kind == "constant":
        return signs != [0]
    return signs == ([-1, 1] if dependency.direction == SAME else [-1, -1])


def violating_pairs(rows: Sequence[Row], dependency: OrderDependency) -> list[tuple[int, int]]:
    """List the ordered pairs of positions of distinct rows that violate the dependency."""
    return [(t, s) for t, s in itertools.permutations(range(len(rows)), 2) if violates(rows[t], rows[s], dependency)]


def holds(rows: Sequence[Row], dependency: OrderDependency) -> bool:
    """Tell whether no pair of rows violates the dependency."""
    return not any(violates(t, s, dependency) for t, s in itertools.permutations(rows, 2))


def as_denial(dependency: OrderDependency) -> list[tuple[int, str, int]]:
    """Return the predicates of the dependency as a DC: column, operator, column."""
    operators = {None: ["!="], SAME: ["<", ">"], OPPOSITE: ["<", "<"]}[dependency.direction]
    context = [(place, "=", place) for place in dependency.context]
    targets = zip(dependency.target, operators, strict=True)
    return context + [(place, operator, place) for place, operator in targets]


# Minimality


@lru_cache
def candidates(width: int) -> tuple[OrderDependency, ...]:
    """List every dependency over so many columns, smaller contexts first; A and B are not in X."""
    found: list[OrderDependency] = []
    for size in range(width):
        for context in itertools.combinations(range(width), size):
            rest = [place for place in range(width) if place not in context]
            found += [OrderDependency(context, (place,)) for place in rest]
            found += [
                OrderDependency(context, pair, direction)
                for pair in itertools.combinations(rest, 2)
                for direction in (SAME, OPPOSITE)
            ]
    return tuple(found)


@remembered
def covers(rows: Sequence[Row], width: int) -> set[OrderDependency]:
    """Return the valid dependencies that no smaller context makes hold, the hidden ones included."""
    valid = {dependency for dependency in candidates(width) if holds(rows, dependency)}
    return {dependency for dependency in valid if not any(_narrower(other, dependency) for other in valid)}


def hidden(rows: Sequence[Row], width: int) -> set[OrderDependency]:
    """Return the covers that are not reported: `{X}: [] -> A` or `{X}: [] -> B` holds."""
    return {dependency for dependency in covers(rows, width) if _is_hidden(rows, dependency)}


@remembered
def reported(rows: Sequence[Row], width: int, max_context: int = 0) -> set[OrderDependency]:
    """Return the complete set of minimal valid dependencies with at most `max_context` attributes in X."""
    return {
        dependency
        for dependency in covers(rows, width)
        if not _is_hidden(rows, dependency) and (max_context == 0 or len(dependency.context) <= max_context)
    }


def implies(strong: OrderDependency, weak: OrderDependency) -> bool:
    """Tell whether one dependency keeps another from being reported: its X is no larger, and it is either of
    the same target and direction, or a constant of one of the targets.
    """
    if strong == weak or not set(strong.context) <= set(weak.context):
        return False
    if (strong.target, strong.direction) == (weak.target, weak.direction):
        return True
    return strong.kind == "constant" and weak.kind == "order_compatible" and strong.target[0] in weak.target


def _is_hidden(rows: Sequence[Row], dependency: OrderDependency) -> bool:
    return dependency.kind == "order_compatible" and any(
        holds(rows, OrderDependency(dependency.context, (place,))) for place in dependency.target
    )


def _narrower(other: OrderDependency, dependency: OrderDependency) -> bool:
    return (other.target, other.direction) == (dependency.target, dependency.direction) and (
        set(other.context) < set(dependency.context)
    )


def reported_by_levels(
    rows: Sequence[Row], width: int, is_valid: Callable[[Sequence[Row], OrderDependency], bool] = holds
) -> set[OrderDependency]:
    """Return the complete set again, smallest contexts first: a dependency is reported when it holds and no
    reported one implies it.
    """
    found: set[OrderDependency] = set()
    for dependency in candidates(width):
        if not any(implies(strong, dependency) for strong in found) and is_valid(rows, dependency):
            found.add(dependency)
    return found


# Texts


def text(dependency: OrderDependency, columns: Sequence[Column]) -> str:
    """Write `{X}: [] -> A`, `{X}: A ~ B` or `{X}: A ~ B desc`, context and pair in column order."""
    names = [quoted(column.name) for column in columns]
    context = "{" + ", ".join(names[place] for place in dependency.context) + "}"
    targets = [names[place] for place in dependency.target]
    if dependency.kind == "constant":
        return f"{context}: [] -> {targets[0]}"
    return f"{context}: {targets[0]} ~ {targets[1]}" + (" desc" if dependency.direction == OPPOSITE else "")


def json_fields(dependency: OrderDependency, columns: Sequence[Column], table: str) -> dict[str, object]:
    """Return the fields of the JSON line of a dependency; only a compatibility has a direction."""
    constraint = text(dependency, columns)
    fields: dict[str, object] = {
        "family": "od",
        "table": table,
        "constraint": constraint,
        "id": constraint_id("od", table, constraint),
        "context": [columns[place].name for place in dependency.context],
        "kind": dependency.kind,
        "target": [columns[place].name for place in dependency.target],
        "size": len(dependency.context) + len(dependency.target),
    }
    return fields | ({"direction": dependency.direction} if dependency.direction else {})
