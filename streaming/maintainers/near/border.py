"""Targets in contexts that are not near, each with a lower bound of its exceptions, which proves that it is not.

An insert never lowers the exceptions of a constraint, and a delete lowers them by one at most. So a candidate that had
`x` exceptions when it was counted has at least `x` less the rows that left since. Instead of lowering all counts with
every batch, each is kept with the rows that had left by then added: its *floor*.

Invariant: a candidate's floor less the rows that left is at most its exceptions; none is larger than the bound.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from holdfast.discovery.near.counting import Context, CountedContext
from holdfast.tables.arrays import Ints


@dataclass(frozen=True, eq=False)
class Border:
    """The largest contexts in which targets are not near.

    Parameters
    ----------
    columns : how many columns the table has.
    contexts : one for each candidate.
    numbers, floors : the target of each, and its floor.
    """

    columns: int
    contexts: tuple[Context, ...]
    numbers: Ints
    floors: Ints

    @classmethod
    def of(cls, columns: int, counted: Iterable[CountedContext], lost: int) -> "Border":
        """Return the candidates of some contexts, counted when so many rows had left."""
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
        """Return some candidates by contexts, in ascending order."""
        by_context: dict[Context, list[int]] = {}
        for place in which.tolist():
            by_context.setdefault(self.contexts[place], []).append(int(self.numbers[place]))
        return [(context, np.array(sorted(numbers))) for context, numbers in sorted(by_context.items())]

    def with_counts(self, counts: Iterable[CountedContext], lost: int) -> "Border":
        """Return the border with the floors of candidates that were counted anew; others are ignored. O(counts)."""
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

    def floors_in(self, targets: int) -> "FloorsIn":
        """Return what is known of any context, by those that contain it."""
        return FloorsIn(self, targets)


class FloorsIn:
    """Answers for any context which targets are not near in it, as they are not in a larger one.

    Parameters
    ----------
    border : what is known.
    targets : how many there are.
    """

    def __init__(self, border: Border, targets: int) -> None:
        self._numbers, self._floors, self._targets = border.numbers, border.floors, targets
        self._has = np.zeros((border.columns, len(border)), np.bool_)
        for place, context in enumerate(border.contexts):
            self._has[list(context), place] = True

    def __call__(self, context: Context) -> Ints:
        """Return the floor of each target, -1 where nothing is known."""
        found = np.full(self._targets, -1, np.int64)
        there = self._has[list(context)].all(axis=0)
        np.maximum.at(found, self._numbers[there], self._floors[there])
        return found
