"""Constraints that nearly hold, recomputed from their definition by trying all subsets of rows.

Readings taken where the definition leaves room:

- Every column has the order of its values, as in order dependencies, and is compared by `compare`: null equals null and
  is below all.
- *Near* is what has at most floor(share * rows) exceptions; a key names one column at least, its columns are its context.
- *In it* is the near set before anything is left out: what has few exceptions within the bound. Leaving out by the
  minimal ones alone gives the same (a test says so).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.oracles.denial import quoted
from tests.oracles.values import compare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from fractions import Fraction

    from tests.oracles.values import Column, Row


@dataclass(frozen=True)
class Near:
    """A constraint of one of the shapes `key`, `constant`, `order`, `order_desc`, by the places of its columns."""

    shape: str
    context: tuple[int, ...]
    target: tuple[int, ...]


def violates(t: Row, s: Row, near: Near) -> bool:
    """Tell whether two rows, in either order, break the constraint."""
    if any(compare(t[place], s[place]) != 0 for place in near.context):
        return False
    signs = [compare(t[place], s[place]) for place in near.target]
    match near.shape:
        case "key":
            return True
        case "constant":
            return signs[0] != 0
        case "order":
            return signs[0] * signs[1] < 0
    return signs[0] * signs[1] > 0


def removals(rows: Sequence[Row], near: Near) -> list[frozenset[int]]:
    """List the smallest sets of rows without which the constraint holds."""
    broken = [(t, s) for t, s in itertools.combinations(range(len(rows)), 2) if violates(rows[t], rows[s], near)]
    for size in range(len(rows) + 1):
        found = [
            frozenset(removed)
            for removed in itertools.combinations(range(len(rows)), size)
            if all(t in removed or s in removed for t, s in broken)
        ]
        if found:
            return found
    raise AssertionError("a table without rows breaks nothing")


def exceptions(rows: Sequence[Row], near: Near) -> int:
    """Return the least number of rows without which the constraint holds."""
    return len(removals(rows, near)[0])


def removed(rows: Sequence[Row], near: Near) -> dict[int, bool]:
    """Return the rows that are in some smallest removal, and whether they are undecided: not in all of them."""
    every = removals(rows, near)
    return {row: not all(row in one for one in every) for row in sorted(frozenset().union(*every))}


def candidates(width: int, max_context: int = 0) -> Iterator[Near]:
    """Yield all constraints over so many columns, with at most so many in the context (0: any number)."""
    for size in range((max_context or width) + 1):
        for context in itertools.combinations(range(width), size):
            rest = [place for place in range(width) if place not in context]
            if context:
                yield Near("key", context, ())
            yield from (Near("constant", context, (place,)) for place in rest)
            for pair in itertools.combinations(rest, 2):
                yield Near("order", context, pair)
                yield Near("order_desc", context, pair)


def near(
    rows: Sequence[Row],
    width: int,
    share: Fraction,
    max_context: int = 0,
    count: Callable[[Sequence[Row], Near], int] = exceptions,
) -> dict[Near, int]:
    """Return everything with few enough exceptions, and how many it has."""
    most = int(share * len(rows))
    counts = {one: count(rows, one) for one in candidates(width, max_context)}
    return {one: exceptions for one, exceptions in counts.items() if exceptions <= most}


def leaves_out(strong: Near, weak: Near) -> bool:
    """Tell whether one near constraint keeps another one from being reported."""
    if strong == weak or not set(strong.context) <= set(weak.context):
        return False
    if (strong.shape, strong.target) == (weak.shape, weak.target):
        return True
    if strong.shape == "key":
        return weak.shape != "key"
    return strong.shape == "constant" and weak.shape in {"order", "order_desc"} and strong.target[0] in weak.target


def reported(rows: Sequence[Row], width: int, share: Fraction, max_context: int = 0) -> dict[Near, int]:
    """Return the near set: complete and minimal, with its exceptions."""
    found = near(rows, width, share, max_context)
    return {one: count for one, count in found.items() if not any(leaves_out(strong, one) for strong in found)}


def border(rows: Sequence[Row], width: int, share: Fraction, max_context: int) -> dict[Near, int]:
    """Return what is not near but is in every larger context within the bound, with its exceptions."""
    most = int(share * len(rows))
    counts = {one: exceptions(rows, one) for one in candidates(width, max_context)}
    refused = {one: count for one, count in counts.items() if count > most}
    return {
        one: count
        for one, count in refused.items()
        if not any(
            (other.shape, other.target) == (one.shape, one.target) and set(one.context) < set(other.context)
            for other in refused
        )
    }


def text(near: Near, columns: Sequence[Column]) -> str:
    """Return the text of the constraint that nearly holds."""
    context = ", ".join(quoted(columns[place].name) for place in near.context)
    target = [quoted(columns[place].name) for place in near.target]
    match near.shape:
        case "key":
            return f"key({context})"
        case "constant":
            return f"{{{context}}}: [] -> {target[0]}"
        case "order":
            return f"{{{context}}}: {target[0]} ~ {target[1]}"
    return f"{{{context}}}: {target[0]} ~ {target[1]} desc"
