"""Values in which the exceptions of a near constraint are concentrated, recomputed from their definition.

Readings taken where the definition leaves room:

- The exceptions are given, with whether each is undecided: `tests.oracles.near` recomputes these.
- Undecided rows count in proportion: with c certain and u undecided rows of a constraint with e exceptions, a set with
  a certain and b undecided rows has a + floor(b (e - c) / u) exceptions.
- Probabilities are sums of whole numbers, divided once.
- Rows that could be exceptions are those that agree with another row on the context; for a key, all rows.
- The lift is required among all rows, and among those that are compared.
- A value of a target is compared on the rows without the target's most frequent other value; of several such values,
  one that fewest rows among the exceptions have; of several again, the least.
- Values that are equally significant: greater lift first, then a column that the constraint does not name, then the
  column, then the value whose first row among the exceptions comes first.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from fractions import Fraction
from functools import cmp_to_key
from math import comb
from typing import TYPE_CHECKING

from tests.oracles import near as exceptions
from tests.oracles.values import compare

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tests.oracles.near import Near
    from tests.oracles.values import Row


@dataclass(frozen=True)
class Limits:
    """The least number and the least part of the exceptions, the least lift, the greatest probability, how many."""

    fewest: int
    part: int
    lift: Fraction
    significant: Fraction
    most: int


@dataclass(frozen=True)
class Found:
    """A value, by column and its first row, with its counts."""

    column: int
    first: int
    exceptions: int
    rows: int
    significance: Fraction
    holds_elsewhere: bool


def tail(rows: int, valued: int, drawn: int, found: int) -> Fraction:
    """Return the probability that at least `found` of the drawn rows are among the valued ones."""
    ways = sum(comb(valued, i) * comb(rows - valued, drawn - i) for i in range(found, min(valued, drawn) + 1))
    return Fraction(ways, comb(rows, drawn))


class Search:
    """Searches the exceptions of one constraint: `excepted` says of each whether it is undecided."""

    def __init__(
        self, rows: Sequence[Row], near: Near, excepted: Mapping[int, bool], count: int, limits: Limits
    ) -> None:
        self.rows = rows
        self.near = near
        self.excepted = excepted
        self.count = count
        self.limits = limits
        every = range(len(rows))
        self.values = [
            (column, first)
            for column in range(len(rows[0]) if rows else 0)
            for first in every
            if not any(self.same(column, first, row) for row in range(first))
        ]
        self._having = {
            (column, first): {row for row in every if self.same(column, first, row)} for column, first in self.values
        }
        self.tests = sum(len(self.having(*value)) >= limits.fewest for value in self.values)

    def same(self, column: int, t: int, s: int) -> bool:
        return compare(self.rows[t][column], self.rows[s][column]) == 0

    def having(self, column: int, first: int) -> set[int]:
        """Return the rows that have a value."""
        return self._having[column, first]

    def exceptions(self, some: set[int]) -> int:
        certain = [row for row, undecided in self.excepted.items() if not undecided]
        undecided = len(self.excepted) - len(certain)
        a = len(some & set(certain))
        b = len(some & set(self.excepted)) - a
        return a + (b * (self.count - len(certain)) // undecided if undecided else 0)

    def has_partner(self, row: int) -> bool:
        """Tell whether another row agrees with a row on the context."""
        others = (other for other in range(len(self.rows)) if other != row)
        return any(all(self.same(place, row, other) for place in self.near.context) for other in others)

    def compared(self, column: int, first: int) -> set[int]:
        """Return the rows on which a value is compared."""
        every = {row for row in range(len(self.rows)) if self.near.shape == "key" or self.has_partner(row)}
        if column not in self.near.target:
            return every
        others = [value for value in self.values if value[0] == column and value[1] != first]
        if not others:
            return set()

        def order(one: tuple[int, int], other: tuple[int, int]) -> int:
            a, b = self.having(*one), self.having(*other)
            among = len(a & set(self.excepted)) - len(b & set(self.excepted))
            return len(b) - len(a) or among or compare(self.rows[one[1]][column], self.rows[other[1]][column])

        return every - self.having(*min(others, key=cmp_to_key(order)))

    def significance(self, column: int, first: int, left_out: set[int]) -> Fraction | None:
        compared = self.compared(column, first) - left_out
        having = self.having(column, first) & compared
        drawn, found = self.exceptions(compared), self.exceptions(having)
        if found < self.limits.fewest or found * len(compared) < self.limits.lift * drawn * len(having):
            return None
        significance = self.tests * tail(len(compared), len(having), drawn, found)
        return min(Fraction(1), significance) if significance <= self.limits.significant else None

    def found(self) -> list[Found]:
        """Return all values, the most significant first."""
        if self.count < self.limits.fewest:
            return []
        scored = sorted(self._significant(), key=self._order)
        chosen: list[tuple[tuple[int, int], Fraction]] = []
        for value, significance in scored:
            covered = set().union(*(self.having(*one) for one, _ in chosen))
            if len(chosen) < self.limits.most and (not chosen or self.significance(*value, covered) is not None):
                chosen.append((value, significance))
        found = [self._described(*one) for one in chosen]
        if not any(one.holds_elsewhere for one in found):
            rest = [one for one in scored if one not in chosen and set(self.excepted) <= self.having(*one[0])]
            found += [one for one in itertools.starmap(self._described, rest) if one.holds_elsewhere][:1]
        return found

    def _significant(self) -> Iterator[tuple[tuple[int, int], Fraction]]:
        for value in self.values:
            having = self.having(*value)
            part = self.exceptions(having)
            significance = self.significance(*value, set())
            if (
                part >= self.limits.fewest
                and part * self.limits.part >= self.count
                and part * len(self.rows) >= self.limits.lift * self.count * len(having)
                and significance is not None
            ):
                yield value, significance

    def _order(self, scored: tuple[tuple[int, int], Fraction]) -> tuple[object, ...]:
        (column, first), significance = scored
        having = self.having(column, first)
        lift = Fraction(self.exceptions(having), len(having))
        is_named = column in (*self.near.context, *self.near.target)
        return significance, -lift, is_named, column, min(having & set(self.excepted))

    def _described(self, value: tuple[int, int], significance: Fraction) -> Found:
        having = self.having(*value)
        rest = [row for i, row in enumerate(self.rows) if i not in having]
        return Found(value[0], value[1], self.exceptions(having), len(having), significance, self._holds(rest))

    def _holds(self, rest: Sequence[Row]) -> bool:
        """Tell whether the constraint holds on some rows; and, but for a key, whether enough of them could break it."""
        if any(exceptions.violates(t, s, self.near) for t, s in itertools.combinations(rest, 2)):
            return False
        alike = sum(
            any(
                j != i and all(compare(t[place], s[place]) == 0 for place in self.near.context)
                for j, s in enumerate(rest)
            )
            for i, t in enumerate(rest)
        )
        return self.near.shape == "key" or alike >= self.limits.fewest
