"""Denial constraints, recomputed from their definition by nested loops over rows and boxes.

A *space* is a tuple of column pairs. A *point* is a tuple of outcomes, one per column pair; the evidence of
an ordered pair of rows is a point. A *box* is a tuple of sets of outcomes, one per column pair, none of them
empty: the denial constraint that forbids the points in the box.

Readings taken where the definition leaves room:

- A box has no empty side. The empty constraint of contradicting predicates (`t.A < s.A and t.A > s.A`) is no
  DC.
- *Space order* is that of the definition: every column with itself, then the crossing pairs by left and by
  right column: (A,A) (B,B) (C,C) (A,B) (A,C) (B,C).
- The share of common values is the sum over all values of the smaller of the two counts, divided by the sum
  over all values of the larger of the two counts (a Jaccard index of bags), compared exactly with 3/10;
  numbers of different types are common when their exact values are equal.
- A cross pair is ordered when both its columns are. A listed pair needs the same group, but no common
  values.
- A plain identifier is an ASCII letter or underscore followed by such letters, digits or underscores. A
  backquote in a name is doubled.
- A functional dependency has nothing but its `=` predicates and its one `!=`.
- Whether a pair of rows can have a point is decided over a domain without an end: as many values as there are columns in
  two rows do, and null is the least of them.
- A bound comes before implication: among the constraints of at most `max_predicates` predicates those are reported that
  no other one *of these* implies. So whatever holds within the bound is implied by something that is reported.
- Of constraints that forbid the same pairs, the one of the smallest text among those that no wider box contains.
- The identifier's JSON is UTF-8 without escapes beyond those JSON demands, and without spaces.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from operator import or_ as operator_or
from typing import TYPE_CHECKING, TypeAlias

from tests.oracles.remembering import remembered
from tests.oracles.values import canonical, constraint_id, outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from tests.oracles.values import Column, Row, Value

OPERATORS: dict[str, frozenset[str]] = {
    "<": frozenset({"<"}),
    "<=": frozenset({"<", "="}),
    "=": frozenset({"="}),
    ">=": frozenset({">", "="}),
    ">": frozenset({">"}),
}
MIRRORED = {"<": ">", "=": "=", ">": "<", "!=": "!="}


@dataclass(frozen=True)
class ColumnPair:
    """Column `left` of row t beside column `right` of row s, by position, and whether their order counts."""

    left: int
    right: int
    ordered: bool

    @property
    def outcomes(self) -> frozenset[str]:
        """*Denial constraints*: `<`, `=`, `>` (ordered) or `=`, `!=`."""
        return frozenset({"<", "=", ">"}) if self.ordered else frozenset({"=", "!="})

    @property
    def crosses(self) -> bool:
        """Tell whether two different columns meet."""
        return self.left != self.right


Space: TypeAlias = tuple[ColumnPair, ...]
Point: TypeAlias = tuple[str, ...]
Box: TypeAlias = tuple[frozenset[str], ...]


# The predicate space


def own_space(columns: Sequence[Column]) -> Space:
    """Return the space of every column with itself: cross columns switched off (*Predicate space*)."""
    return tuple(ColumnPair(index, index, column.is_ordered) for index, column in enumerate(columns))


def listed_space(columns: Sequence[Column], crossing: Iterable[tuple[int, int]]) -> Space:
    """Every column with itself and the cross pairs listed by hand, the earlier column on the left."""
    pairs = list(own_space(columns))
    for first, second in sorted({(min(pair), max(pair)) for pair in crossing}):
        if columns[first].group != columns[second].group:
            raise ValueError(f"{columns[first].name} and {columns[second].name} are of different type groups")
        pairs.append(ColumnPair(first, second, columns[first].is_ordered and columns[second].is_ordered))
    return tuple(pairs)


def automatic_space(columns: Sequence[Column], seed: Sequence[Row]) -> Space:
    """Every column with itself, and cross pairs of one group with at least 30 % common values in the seed."""
    return listed_space(
        columns,
        [
            (first, second)
            for first, second in itertools.combinations(range(len(columns)), 2)
            if columns[first].group == columns[second].group
            and common_share([row[first] for row in seed], [row[second] for row in seed]) >= Fraction(3, 10)
        ],
    )


def common_share(left: Iterable[Value], right: Iterable[Value]) -> Fraction:
    """Return the exact share of common non-null values of two columns; 0/0 is 0 (*Predicate space*)."""
    left_counts = Counter(canonical(value) for value in left if value is not None)
    right_counts = Counter(canonical(value) for value in right if value is not None)
    values = set(left_counts) | set(right_counts)
    smaller = sum(min(left_counts[value], right_counts[value]) for value in values)
    larger = sum(max(left_counts[value], right_counts[value]) for value in values)
    return Fraction(smaller, larger) if larger else Fraction(0)


# Evidence and violation


def evidence(t: Row, s: Row, space: Space) -> Point:
    """Return the vector of outcomes of the ordered pair of rows, one per column pair."""
    return tuple(outcome(t[pair.left], s[pair.right], ordered=pair.ordered) for pair in space)


def evidences(rows: Sequence[Row], space: Space) -> Counter[Point]:
    """Return the evidences of all ordered pairs of distinct rows, with how many pairs have each."""
    return Counter(evidence(rows[t], rows[s], space) for t, s in itertools.permutations(range(len(rows)), 2))


def lies_in(point: Point, box: Box) -> bool:
    """Tell whether a point lies in a box."""
    return all(found in allowed for found, allowed in zip(point, box, strict=True))


def violates(t: Row, s: Row, box: Box, space: Space) -> bool:
    """`(t, s)` violates the DC when its point lies in the box."""
    return lies_in(evidence(t, s, space), box)


def violating_pairs(rows: Sequence[Row], box: Box, space: Space) -> list[tuple[int, int]]:
    """List the ordered pairs of positions of distinct rows that violate the DC."""
    return [(t, s) for t, s in itertools.permutations(range(len(rows)), 2) if violates(rows[t], rows[s], box, space)]


def holds(rows: Sequence[Row], box: Box, space: Space) -> bool:
    """A DC holds when no evidence of the table lies in its box."""
    return not any(violates(t, s, box, space) for t, s in itertools.permutations(rows, 2))


# Boxes


def everything(space: Space) -> Box:
    """Return the box of everything, `not()`."""
    return tuple(pair.outcomes for pair in space)


def implies(box: Box, other: Box) -> bool:
    """Tell whether one DC implies another: whatever the other forbids, the first forbids."""
    return all(inner <= outer for outer, inner in zip(box, other, strict=True))


def implies_up_to_mirror(box: Box, other: Box, space: Space) -> bool:
    """Implication between constraints of which only one of two mirror images is written down."""
    inner = meaning(other, space)
    images = [box] if has_cross(box, space) else [box, mirror(box)]
    return any(within(inner, meaning(image, space)) for image in images)


def all_boxes(space: Space) -> Iterator[Box]:
    """Yield every box of the space, the box of everything included."""
    sides = [
        [
            frozenset(chosen)
            for size in range(1, len(pair.outcomes) + 1)
            for chosen in itertools.combinations(sorted(pair.outcomes), size)
        ]
        for pair in space
    ]
    yield from itertools.product(*sides)


def maximal_boxes_by_search(points: Iterable[Point], space: Space) -> set[Box]:
    """Return the maximal boxes free of points, by trying every box against every larger one (tiny spaces)."""
    distinct = set(points)
    free = {box for box in all_boxes(space) if not any(lies_in(point, box) for point in distinct)}
    return {box for box in free if not any(other != box and implies(other, box) for other in free)}


def maximal_boxes(points: Iterable[Point], space: Space) -> set[Box]:
    """Return the maximal boxes free of points, by cutting the points one by one out of the box of everything.

    Berge's sequential multiplication, read in boxes. A free box that avoids one more point lies in a maximal
    box so far; if that one holds the point, the free box misses the point's outcome on some column pair, so
    it lies in the box with this outcome taken away. So the maximal ones among the untouched boxes and these
    pieces are the new maximal boxes. No untouched box lies in a piece (it would lie in the piece's box), and
    no piece lies in another: a piece of box b without outcome u keeps the point's other outcomes, so only
    another piece without u could hold it, and then b would lie in that piece's box. Hence pieces need
    comparison with untouched boxes only.
    """
    return set(_maximal_boxes(frozenset(points), space))


@functools.lru_cache(maxsize=1 << 12)
def _maximal_boxes(points: frozenset[Point], space: Space) -> frozenset[Box]:
    numbered = [(place, found) for place, pair in enumerate(space) for found in sorted(pair.outcomes)]
    bit = {outcome_at: 1 << number for number, outcome_at in enumerate(numbered)}
    sides = [sum(bit[place, found] for found in pair.outcomes) for place, pair in enumerate(space)]
    boxes = [sum(sides)]
    for point in sorted(points):
        bits = [bit[place, found] for place, found in enumerate(point)]
        whole = sum(bits)
        untouched = [box for box in boxes if box & whole != whole]
        pieces = [
            box & ~cut
            for box in boxes
            if box & whole == whole
            for cut, side in zip(bits, sides, strict=True)
            if box & side & ~cut
        ]
        kept = [piece for piece in pieces if all(piece & ~box for box in untouched)]
        boxes = untouched + kept
    return frozenset(
        tuple(
            frozenset(found for found in pair.outcomes if box & bit[place, found]) for place, pair in enumerate(space)
        )
        for box in boxes
    )


# What some pair of rows can have

Meaning: TypeAlias = tuple[int, ...]
"""The satisfiable points of a box as bits, for each part of the space whose columns are compared with each other."""


@functools.cache
def parts(space: Space) -> tuple[tuple[int, ...], ...]:
    """Return the places of the column pairs that share columns of t or of s, directly or through others."""
    found: list[set[int]] = []
    for place, pair in enumerate(space):
        touching = [
            part
            for part in found
            if any(space[other].left == pair.left or space[other].right == pair.right for other in part)
        ]
        found = [part for part in found if part not in touching] + [{place}.union(*touching)]
    return tuple(tuple(sorted(part)) for part in sorted(found, key=min))


@functools.cache
def satisfiable_points(pairs: Space) -> frozenset[Point]:
    """Return the points that two rows can have, by trying all ways to rank their values."""
    columns = sorted({("t", pair.left) for pair in pairs} | {("s", pair.right) for pair in pairs})
    places = [(columns.index(("t", pair.left)), columns.index(("s", pair.right)), pair.ordered) for pair in pairs]
    return frozenset(
        tuple(
            "=" if ranks[t] == ranks[s] else "!=" if not ordered else "<" if ranks[t] < ranks[s] else ">"
            for t, s, ordered in places
        )
        for ranks in weak_orders(len(columns))
    )


@functools.cache
def weak_orders(count: int) -> tuple[tuple[int, ...], ...]:
    """Return all ways to rank so many values, ties allowed; ranks begin at 0 and have no gaps."""
    if count == 0:
        return ((),)
    found = []
    for ranks in weak_orders(count - 1):
        for rank in range(max(ranks, default=-1) + 2):  # the last value moves those from its rank on up, or ties
            found.append((*(other + (other >= rank) for other in ranks), rank))
            if rank in ranks:
                found.append((*ranks, rank))
    return tuple(found)


@functools.cache
def satisfiable_by_outcome(pairs: Space) -> tuple[dict[str, int], ...]:
    """Number the points that two rows can have; return for each column pair which of them have an outcome, as bits."""
    found: tuple[dict[str, int], ...] = tuple(dict.fromkeys(pair.outcomes, 0) for pair in pairs)
    for number, point in enumerate(sorted(satisfiable_points(pairs))):
        for place, having in enumerate(point):
            found[place][having] |= 1 << number
    return found


@functools.lru_cache(maxsize=1 << 16)
def meaning(box: Box, space: Space) -> Meaning:
    """Return the points in a box that some two rows can have."""
    found = []
    for part in parts(space):
        points = -1
        for place, having in zip(part, satisfiable_by_outcome(tuple(space[p] for p in part)), strict=True):
            points &= functools.reduce(operator_or, (having[allowed] for allowed in box[place]))
        found.append(points)
    return tuple(found)


def is_vacuous(box: Box, space: Space) -> bool:
    """Tell whether no two rows of any table satisfy the predicates of a DC together."""
    return not all(meaning(box, space))


def within(inner: Meaning, outer: Meaning) -> bool:
    """Tell whether everything that one box forbids is forbidden by another; the inner one forbids something."""
    return all(one & ~other == 0 for one, other in zip(inner, outer, strict=True))


# What is reported


def mirror(box: Box) -> Box:
    """Swap t and s in a DC whose columns are compared with themselves only."""
    return tuple(frozenset(MIRRORED[found] for found in allowed) for allowed in box)


def size(box: Box, space: Space) -> int:
    """Count the constrained column pairs."""
    return sum(allowed != pair.outcomes for allowed, pair in zip(box, space, strict=True))


def has_cross(box: Box, space: Space) -> bool:
    """Tell whether the DC has a cross-column predicate."""
    return any(allowed != pair.outcomes and pair.crosses for allowed, pair in zip(box, space, strict=True))


def written(box: Box, space: Space, columns: Sequence[Column]) -> Box:
    """*Mirror images*: the image of smaller text; a DC with a cross-column predicate stays as it is."""
    if has_cross(box, space):
        return box
    return min(box, mirror(box), key=lambda image: text(image, space, columns))


@remembered
def reported(
    rows: Sequence[Row],
    space: Space,
    columns: Sequence[Column],
    max_predicates: int = 0,
    method: Callable[[Iterable[Point], Space], set[Box]] = maximal_boxes,
) -> dict[str, Box]:
    """Return the reported set, text to box: bounded, satisfiable, implied by no other one, one of two mirror images."""
    maximal = method(evidences(rows, space), space)
    bounded = {box: meaning(box, space) for box in maximal if max_predicates == 0 or size(box, space) <= max_predicates}
    meanings = {box: found for box, found in bounded.items() if all(found)}
    by_meaning: dict[Meaning, list[Box]] = {}
    for box, found in meanings.items():
        by_meaning.setdefault(found, []).append(box)
    largest = [
        boxes
        for found, boxes in by_meaning.items()
        if not any(other != found and within(found, other) for other in by_meaning)
    ]
    chosen = {
        min((written(box, space, columns) for box in boxes), key=lambda box: text(box, space, columns))
        for boxes in largest
    }
    return {text(box, space, columns): box for box in chosen if box != everything(space)}


# Names, texts, kinds


def predicates(box: Box, space: Space, columns: Sequence[Column]) -> list[tuple[str, str, str]]:
    """List the predicates of a DC in space order: left column, operator, right column."""
    return [
        (columns[pair.left].name, operator(allowed), columns[pair.right].name)
        for allowed, pair in zip(box, space, strict=True)
        if allowed != pair.outcomes
    ]


def operator(allowed: frozenset[str]) -> str:
    """Return the operator that allows these outcomes; `<` or `>` is `!=`."""
    if allowed in ({"<", ">"}, {"!="}):
        return "!="
    return next(name for name, outcomes in OPERATORS.items() if outcomes == allowed)


def box_of(listed: Iterable[tuple[str, str, str]], space: Space, columns: Sequence[Column]) -> Box:
    """Return the box of predicates given as (left column, operator, right column)."""
    positions = {column.name: index for index, column in enumerate(columns)}
    places = {(pair.left, pair.right): place for place, pair in enumerate(space)}
    box = list(everything(space))
    for left, name, right in listed:
        place = places[positions[left], positions[right]]
        pair = space[place]
        allowed = pair.outcomes - {"="} if name == "!=" else OPERATORS[name]
        if not allowed <= pair.outcomes:
            raise ValueError(f"{left} {name} {right}: these columns are not ordered")
        box[place] &= allowed
    if not all(box):
        raise ValueError("the predicates contradict each other")
    return tuple(box)


def quoted(name: str) -> str:
    """Return a name as texts write it: backquoted unless a plain identifier."""
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        return name
    return "`" + name.replace("`", "``") + "`"


def text(box: Box, space: Space, columns: Sequence[Column]) -> str:
    """Write a DC: `not(t.A = s.A and ...)`, predicates in space order."""
    return _text(box, space, tuple(columns))


@functools.lru_cache(maxsize=1 << 14)
def _text(box: Box, space: Space, columns: tuple[Column, ...]) -> str:
    listed = [f"t.{quoted(a)} {name} s.{quoted(b)}" for a, name, b in predicates(box, space, columns)]
    return f"not({' and '.join(listed)})"


def kind(box: Box, space: Space, columns: Sequence[Column]) -> str:
    """Return `key`, `constant`, `functional_dependency` or `other`."""
    names = [name for _, name, _ in predicates(box, space, columns)]
    if has_cross(box, space) or not set(names) <= {"=", "!="} or names.count("!=") > 1 or not names:
        return "other"
    if "!=" not in names:
        return "key"
    return "constant" if names == ["!="] else "functional_dependency"


def json_fields(box: Box, space: Space, columns: Sequence[Column], table: str) -> dict[str, object]:
    """Return the fields of the JSON line of a DC."""
    constraint = text(box, space, columns)
    return {
        "family": "dc",
        "table": table,
        "constraint": constraint,
        "id": constraint_id("dc", table, constraint),
        "kind": kind(box, space, columns),
        "predicates": [
            {"left": left, "op": name, "right": right} for left, name, right in predicates(box, space, columns)
        ],
        "size": size(box, space),
    }
