"""Targets in contexts that are not near, each with a lower bound of its exceptions, which proves that it is not.

An insert never lowers the exceptions of a constraint, and a delete lowers them by at most one. So a candidate that had
`x` exceptions when it was counted has at least `x` less the rows deleted since. Instead of lowering all counts with
every batch, each count is stored plus the rows deleted until then: its *floor*.

Invariant: a candidate's floor less all deleted rows is at most its exceptions; no context is larger than the bound.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from holdfast.discovery.near.counting import Context, CountedContext
from holdfast.tables.arrays import Ints


@dataclass(frozen=True, eq=False)
class Border:
    """The candidates of the border.

    Parameters
    ----------
    columns : how many columns the table has.
    contexts : the context of each candidate.
    numbers, floors : the target and the floor of each candidate.
    """

    columns: int
    contexts: tuple[Context, ...]
    numbers: Ints
    floors: Ints

    @classmethod
    def of(cls, columns: int, counted: Iterable[CountedContext], lost: int) -> "Border":
        """Return the counted candidates as a border; `lost` rows had been deleted when they were counted."""
        some = list(counted)
        sizes = [len(one.numbers) for one in some]
        contexts = tuple(one.context for one, size in zip(some, sizes, strict=True) for _ in range(size))
        none = np.zeros(0, np.int64)
        numbers = np.concatenate([none, *(one.numbers for one in some)])
        floors = np.concatenate([none, *(one.exceptions for one in some)]) + lost
        return cls(columns, contexts, numbers, floors)

    def __len__(self) -> int:
        return len(self.numbers)

    def tasks(self, which: Ints) -> list[tuple[Context, Ints]]:
        """Return the candidates at the given places, grouped by context, in ascending order."""
        by_context: dict[Context, list[int]] = {}
        for place in which.tolist():
            by_context.setdefault(self.contexts[place], []).append(int(self.numbers[place]))
        return [(context, np.array(sorted(numbers))) for context, numbers in sorted(by_context.items())]

    def with_counts(self, counts: Iterable[CountedContext], lost: int) -> "Border":
        """Return the border with new floors for its candidates among the counted ones. O(counts)."""
        new = {
            self._places[one.context, number]: exceptions + lost
            for one in counts
            for number, exceptions in zip(one.numbers.tolist(), one.exceptions.tolist(), strict=True)
            if (one.context, number) in self._places
        }
        if not new:
            return self
        floors = self.floors.copy()
        floors[list(new)] = list(new.values())
        found = replace(self, floors=floors)
        found.__dict__["_places"] = self._places  # the same candidates
        return found

    @cached_property
    def _places(self) -> dict[tuple[Context, int], int]:
        return {one: place for place, one in enumerate(zip(self.contexts, self.numbers.tolist(), strict=True))}

    def floors_in(self, targets: int) -> Callable[[Context], Ints]:
        """Return a function that gives, for a context, the floor of each target, -1 where none is known.

        A target that is not near in a larger context is not near in the context.
        """
        has = np.zeros((self.columns, len(self)), np.bool_)
        for place, context in enumerate(self.contexts):
            has[list(context), place] = True

        def floors(context: Context) -> Ints:
            found = np.full(targets, -1, np.int64)
            there = has[list(context)].all(axis=0)
            np.maximum.at(found, self.numbers[there], self.floors[there])
            return found

        return floors
