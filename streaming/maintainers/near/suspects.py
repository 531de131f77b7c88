"""Suspects of a live table: the cells that are probably wrong, searched again after several batches.

A search counts all rows, so it is due only now and then (`SuspectBatches`): after so many batches that it takes a
small part of their time. Between two searches a suspect only leaves, with a batch that changes or deletes its row.

Invariant: right after a search the suspects are the surest of those that a search of the same rows finds. Which batches
search depends on nothing but the batches since the last search, the rows that these changed, and the rows of the table;
so a batch that is applied again after a crash does the same.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import Any

import numpy as np

from holdfast.constraints import RowImage, json_value
from holdfast.display.suspects import Suspect
from holdfast.indexes.rows import RowDelta, RowSet
from holdfast.state import codecs
from holdfast.state.store import Reader, WriteBatch
from holdfast.streaming.maintainers.table.row_images import RowImages
from holdfast.tables.arrays import Slots

MOST_FOLLOWED = 1_000
"""The surest suspects of a table, which its outputs have."""

CHANGED, CLEARED = "changed", "cleared"
"""Why a suspect disappeared: its row was changed or deleted, or a search does not find it any more."""

_ROWS_A_BATCH, _MOST_BATCHES = 1_500, 100
_FAMILY = "near"
_HEAD, _CELL = b"suspects", b"suspect "

Place = tuple[int, int]
"""The slot of a row, and the number of a column."""


@dataclass(frozen=True)
class SuspectBatches:
    """How often suspects are searched.

    Parameters
    ----------
    every : the number of batches from one search to the next; None for a number by the size of the table: one for
        every 1,500 rows, at most 100, and fewer batches if they change half as many rows as the table has.
    """

    every: int | None = None

    def is_due(self, batches: int, changed: int, rows: int) -> bool:
        """Whether a search is due after some batches, which changed some rows of a table.

        >>> [SuspectBatches().is_due(10, 10, rows) for rows in (1_000, 15_000, 15_001)]
        [True, True, False]
        >>> SuspectBatches().is_due(1, 50_000, 100_000), SuspectBatches(5).is_due(1, 50_000, 100_000)
        (True, False)
        """
        if self.every is not None:
            return batches >= self.every
        return batches >= min(_MOST_BATCHES, -(-rows // _ROWS_A_BATCH)) or 2 * changed >= rows


@dataclass(frozen=True)
class FollowedSuspect:
    """A suspect that the outputs have.

    Parameters
    ----------
    row : its row.
    column : the name of its column.
    expected : the value that is expected in its place, as JSON; None where no certain value is expected.
    score : the probability that it is wrong.
    constraints : the near constraints that name the column and that the row violates.
    """

    row: RowImage
    column: str
    expected: str | None
    score: float
    constraints: tuple[str, ...]

    @cached_property
    def value(self) -> Any:
        """The value of the cell, as a JSON value."""
        return json_value(self.row.values[self.column])

    def __str__(self) -> str:
        named = self.row.key or self.row.values
        row = ", ".join(f"{name}={value}" for name, value in named.items())
        expected = "" if self.expected is None else f", expected {self.expected}"
        return f"{row}: {self.column} is {codecs.json_bytes(self.value).decode()}{expected} ({self.score:.3f})"

    def suspect_id(self, table: str) -> str:
        """Return an id of the suspect: the same cell of the same row has the same id in every state."""
        return sha256(codecs.json_bytes([table, self.row.to_json(), self.column])).hexdigest()


Found = Mapping[Place, FollowedSuspect]
Search = Callable[[int], tuple[int, list[tuple[Place, Suspect]]]]
"""Returns how many suspects there are, and at most so many of them, each with its place, the surest first."""


@dataclass(frozen=True)
class SuspectChanges:
    """What a batch changed about the suspects of a table.

    Parameters
    ----------
    appeared, disappeared : suspects that the outputs have since this batch, and suspects that they had before, each
        with the reason why it disappeared; None where suspects are not searched any more.
    confirmed : suspects that the outputs had before, as a search with this batch found them again.
    standing, found : how many suspects the outputs have, and how many the last search found, those beyond
        `MOST_FOLLOWED` too; None where none are searched.
    is_searched : whether the batch searched.
    """

    appeared: Sequence[FollowedSuspect] = ()
    disappeared: Sequence[tuple[FollowedSuspect, str | None]] = ()
    confirmed: Sequence[FollowedSuspect] = ()
    standing: int | None = None
    found: int | None = None
    is_searched: bool = False


@dataclass(frozen=True)
class _Since:
    """The batches and the changed rows since the last search, and how many suspects this found; None before any."""

    batches: int = 0
    changed: int = 0
    count: int | None = None


class FollowedSuspects:
    """The suspects of one table that its outputs have.

    Parameters
    ----------
    rows : the rows that have slots.
    search : returns how many suspects the current rows have, and the surest of them.

    Attributes
    ----------
    batches : how often suspects are searched; None for never.
    """

    def __init__(self, rows: RowSet, search: Search) -> None:
        self._rows = rows
        self._search = search
        self.batches: SuspectBatches | None = None
        self._since = _Since()
        self._found: Found = {}
        self._saved: tuple[_Since, Found] = self._since, self._found
        self.begin()

    @property
    def found(self) -> list[FollowedSuspect]:
        """The suspects."""
        return list(self._found.values())

    @property
    def held(self) -> Slots:
        """The slots of the rows with suspects."""
        return np.array(sorted({slot for slot, _ in self._found}), np.int64)

    @property
    def changes(self) -> SuspectChanges:
        """The changes since `begin`."""
        before = self._before[1]
        fresh = [one for place, one in self._found.items() if place not in before]
        gone = [(one, self._reason(place)) for place, one in before.items() if place not in self._found]
        again = [one for place, one in self._found.items() if place in before] if self.is_searched else []
        standing = None if self.count is None else len(self._found)
        return SuspectChanges(fresh, gone, again, standing, self.count, self.is_searched)

    @property
    def count(self) -> int | None:
        """How many suspects the last search found; None where none are searched."""
        return None if self.batches is None else self._since.count

    def begin(self) -> None:
        """Begin a batch: `undo` leads back to here."""
        self._before = self._since, self._found
        self.is_searched = False

    def undo(self) -> None:
        """Take a batch back."""
        self._since, self._found = self._before

    def seed(self) -> None:
        """Search, if no batch has searched yet; drop all suspects if they are not searched any more."""
        if self.batches is None:
            self._since, self._found = _Since(), {}
        elif self._since.count is None:
            self._searched()

    def follow(self, delta: RowDelta) -> None:
        """Search if that is due; else drop the suspects whose rows are gone. Called before slots are forgotten."""
        if self.batches is None:
            self._since, self._found = _Since(), {}
            return
        changed = self._since.changed + delta.copies_in + delta.copies_out
        self._since = replace(self._since, batches=self._since.batches + 1, changed=changed)
        if self._since.count is None or self.batches.is_due(self._since.batches, changed, len(self._rows)):
            self._searched()
        else:
            self._found = {place: one for place, one in self._found.items() if self._is_live(place)}

    def save(self, prefix: bytes, batch: WriteBatch, *, everything: bool) -> None:
        """Add to a batch what changed since the last save, or everything."""
        since, before = (_Since(), {}) if everything else self._saved
        for place in before.keys() - self._found.keys():
            batch.delete(_FAMILY, _key(prefix, place))
        for place, one in self._found.items():
            if before.get(place) != one:
                value = {"expected": one.expected, "score": one.score, "constraints": one.constraints}
                batch.put(_FAMILY, _key(prefix, place), codecs.json_bytes(value))
        if self._since != since:
            batch.put(_FAMILY, prefix + _HEAD, codecs.json_bytes(vars(self._since)))
        self._saved = self._since, self._found

    def restore(self, store: Reader, prefix: bytes) -> None:
        """Restore what was saved, for rows that were restored; a state of an earlier version has no suspects."""
        images, names = RowImages(self._rows), self._rows.space.schema.names
        found: dict[Place, FollowedSuspect] = {}
        for key, value in store.scan(_FAMILY, prefix + _CELL):
            slot, column = codecs.read_json(key[len(prefix + _CELL) :])
            stored = codecs.read_json(value)
            texts = tuple(stored["constraints"])
            one = FollowedSuspect(images(slot), names[column], stored["expected"], stored["score"], texts)
            found[slot, column] = one
        self._since = _Since(**codecs.read_json(store.get(_FAMILY, prefix + _HEAD) or b"{}"))
        self._found = dict(sorted(found.items(), key=lambda item: (-item[1].score, item[0])))
        self._saved = self._since, self._found
        self.begin()

    def _searched(self) -> None:
        count, surest = self._search(MOST_FOLLOWED)
        self.is_searched = True
        self._since = _Since(count=count)
        self._found = {place: _followed(one) for place, one in surest}

    def _is_live(self, place: Place) -> bool:
        return bool(self._rows.copies[place[0]] > 0)

    def _reason(self, place: Place) -> str | None:
        if self.batches is None:
            return None
        return CLEARED if self._is_live(place) else CHANGED


def _followed(one: Suspect) -> FollowedSuspect:
    assert one.image is not None
    expected = codecs.json_bytes(json_value(one.expected)).decode() if one.is_expected else None
    score = round(one.score, 4)
    return FollowedSuspect(one.image, one.column, expected, score, tuple(map(str, one.constraints)))


def _key(prefix: bytes, place: Place) -> bytes:
    return prefix + _CELL + codecs.json_bytes(place)
