"""Rows that are shown as exceptions of the constraints that nearly hold, a few of each.

Whether a row is an exception depends on the rows of its group alone: those that agree with it on the context. So what
is shown stays true where no row of its group changed. Where one did, the tables of followed members tell; the rows of
other members are dropped. A member of which nothing is left is searched, a few members with every batch.

Invariant: between batches every row that is shown is an exception of its constraint, and is marked undecided exactly
where some smallest removal leaves it in the table.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from holdfast.constraints import NearConstraint
from holdfast.discovery.near.counting import Candidate, Context
from holdfast.indexes.kernels.exceptions import NONE, UNDECIDED
from holdfast.indexes.rows import RowDelta, RowSet
from holdfast.state import codecs
from holdfast.state.store import WriteBatch
from holdfast.streaming.maintainers.near.changes import NearExample
from holdfast.streaming.maintainers.near.counts import Count, Followed, NearCounts
from holdfast.streaming.maintainers.table.row_images import RowImages
from holdfast.tables.arrays import Slots, Standing, as_slots

Found = Mapping[int, NearExample]
"""The rows that are shown of one constraint, by their slots."""

MOST_SHOWN, MOST_CONSTRAINTS = 10, 1_000
"""How many rows are shown of a constraint, and of how many constraints: the first ones of the set, with few columns."""

_ROWS_A_SEED = 1 << 25
"""How many rows are looked at for members at first."""


class ShownExceptions:
    """The rows that are shown.

    Parameters
    ----------
    rows : the table.
    counts : of its constraints.
    named : returns the constraint of a candidate, with its exceptions.

    Attributes
    ----------
    rows_a_batch : how many rows are looked at with a batch for members of which nothing is shown, one member at least.
    """

    rows_a_batch = 1 << 18

    def __init__(
        self,
        rows: RowSet,
        counts: NearCounts,
        named: Callable[[Candidate], NearConstraint],
    ) -> None:
        self._rows = rows
        self._counts = counts
        self._named = named
        self._images = RowImages(rows)
        self._searched: dict[Candidate, int] = {}
        self._batches = 0
        self.shown: Mapping[Candidate, Found] = {}
        self._saved: Mapping[Candidate, Found] = self.shown
        self.begin()

    @property
    def held(self) -> Slots:
        """The rows that are shown."""
        return np.array(sorted({slot for found in self.shown.values() for slot in found}), np.int64)

    @property
    def added(self) -> tuple[NearExample, ...]:
        """What is shown since `begin`, or is marked otherwise."""
        return tuple(
            example
            for one, found in self.shown.items()
            for slot, example in found.items()
            if self._before.get(one, {}).get(slot) is not example
        )

    @property
    def removed(self) -> tuple[NearExample, ...]:
        """What is not shown any more since `begin`."""
        return tuple(
            example
            for one, found in self._before.items()
            for slot, example in found.items()
            if slot not in self.shown.get(one, {})
        )

    def begin(self) -> None:
        """Begin a batch: `undo` leads back to here."""
        self._before = self.shown

    def undo(self) -> None:
        """Take a batch back."""
        self.shown = self._before

    def seed(self, members: Followed) -> None:
        """Show exceptions of members."""
        self._images = RowImages(self._rows)
        self.shown = self._with_searched({}, _first(members), _ROWS_A_SEED)
        self.begin()

    def follow(self, delta: RowDelta, members: Followed) -> None:
        """Follow a batch, before the slots of vanished rows are forgotten."""
        members = _first(members)
        self._batches += 1
        self._images = RowImages(self._rows)
        is_known = int(delta.copies.sum()) == delta.copies_in - delta.copies_out  # else rows went that are not here
        came = delta.changed[(self._rows.copies[delta.changed] > 0) & (delta.copies > 0)]
        shown: dict[Candidate, Found] = {}
        for one, member in members.items():
            kept = self._kept(one, member, delta) if is_known and one in self.shown else {}
            if len(came) and len(kept) < min(MOST_SHOWN, member.count):
                kept = self._with_rows(one, kept, came, self._counts.standing(member, came))
            if kept:
                shown[one] = kept
        self.shown = self._with_searched(shown, members, self.rows_a_batch)

    def save(self, family: str, prefix: bytes, batch: WriteBatch, *, everything: bool) -> None:
        """Add to a batch what changed since this was last saved, or everything: a record for each constraint."""
        before = {} if everything else self._saved
        for one in before.keys() - self.shown.keys():
            batch.delete(family, prefix + codecs.json_bytes(one))
        for one, found in self.shown.items():
            if before.get(one) != found:
                rows = [[slot, example.undecided] for slot, example in found.items()]
                batch.put(family, prefix + codecs.json_bytes(one), codecs.json_bytes(rows))
        self._saved = self.shown

    def restore(self, stored: Iterable[tuple[bytes, bytes]]) -> None:
        """Be what was stored, of rows that were; keys come without their prefix."""
        self._images = RowImages(self._rows)
        shown: dict[Candidate, Found] = {}
        for key, value in stored:
            context, number = codecs.read_json(key)
            one = tuple(context), number
            shown[one] = {slot: self._example(one, slot, undecided=u) for slot, u in codecs.read_json(value)}
        self.shown = self._saved = shown
        self.begin()

    def _kept(self, one: Candidate, member: Count, delta: RowDelta) -> Found:
        """Return what is shown of a member and still true."""
        found = {slot: example for slot, example in self.shown[one].items() if self._rows.copies[slot] > 0}
        slots = as_slots(np.array(list(found), np.int64))
        if not member.count or not len(slots):
            return {}
        standing = self._counts.standing(member, slots)
        if standing is None:
            touched = self._touched(slots, delta.changed, one[0])
            return {slot: found[slot] for slot in slots[~touched].tolist()}
        return self._with_rows(one, {}, slots, standing, found)

    def _touched(self, slots: Slots, changed: Slots, context: Context) -> NDArray[np.bool_]:
        """Return which rows have a changed row in their group."""
        columns = list(context)
        codes = self._rows.codes
        same = codes[slots][:, None, columns] == codes[changed][None, :, columns]
        touched: NDArray[np.bool_] = same.all(axis=2).any(axis=1)
        return touched

    def _with_rows(
        self, one: Candidate, kept: Found, slots: Slots, standing: Standing | None, before: Found | None = None
    ) -> Found:
        """Return what is shown with those of some rows that are exceptions, while there is room."""
        if standing is None:
            return kept
        found = dict(kept)
        for slot, state in zip(slots[standing > NONE].tolist(), standing[standing > NONE].tolist(), strict=True):
            if len(found) == MOST_SHOWN:
                break
            if slot not in found:
                old = None if before is None else before.get(slot)
                is_undecided = state == UNDECIDED
                is_old = old is not None and old.undecided == is_undecided
                found[slot] = old if is_old and old is not None else self._example(one, slot, undecided=is_undecided)
        return found

    def _with_searched(
        self, shown: Mapping[Candidate, Found], members: Followed, rows: int
    ) -> Mapping[Candidate, Found]:
        """Return what is shown with rows of members of which nothing is, as far as that may take."""
        empty = [one for one, member in members.items() if member.count and one not in shown]
        self._searched = {one: self._searched[one] for one in empty if one in self._searched}
        due = sorted(empty, key=lambda one: (self._searched.get(one, -1), one))
        found = dict(shown)
        for one in sorted(due[: max(1, rows // max(1, len(self._rows)))]):
            self._searched[one] = self._batches
            found[one] = self._with_rows(one, {}, *self._counts.exceptions(one, MOST_SHOWN))
        return found

    def _example(self, one: Candidate, slot: int, *, undecided: bool) -> NearExample:
        return NearExample(self._named(one), self._images.of(slot), undecided)


def _first(members: Followed) -> Followed:
    """Return the members of which rows are shown."""
    return dict(islice(members.items(), MOST_CONSTRAINTS))
