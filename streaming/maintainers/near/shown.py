"""Rows that are shown as exceptions of the constraints that nearly hold, a few for each constraint.

Whether a row is an exception depends only on its group: the rows with the same values in the context. So an example
stays right as long as no row of its group changes. Where a row of the group changed, members that are followed row by
row know whether the example is still right; the examples of other members are removed. Members that could show more are
searched, a few with every batch: those without an example first, then those with few columns.

Invariant: between batches every row that is shown is an exception of its constraint, and it is marked undecided exactly
if a smallest set of rows to remove exists that does not contain it.
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
from holdfast.streaming.maintainers.near.counts import ExceptionCount, Followed, NearCounts
from holdfast.streaming.maintainers.table.row_images import RowImages
from holdfast.tables.arrays import Slots, Standing, as_slots

Found = Mapping[int, NearExample]
"""The examples of one constraint, by slot."""

MOST_SHOWN, MOST_CONSTRAINTS = 10, 1_000
"""The most examples of one constraint, and the most constraints with examples: the first ones, with few columns."""

_ROWS_A_SEED = 1 << 25
"""How many rows the seed reads to find examples."""


class ShownExceptions:
    """The rows that are shown as exceptions.

    Parameters
    ----------
    rows : the rows that have slots.
    counts : the counter of exceptions.
    named : returns the constraint of a candidate.

    Attributes
    ----------
    shown : the examples of each member, by slot.
    rows_a_batch : how many rows a batch reads to find examples; at least one member without any is searched.
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
    def examples(self) -> list[NearExample]:
        """The rows that are shown, each with its constraint."""
        return [example for found in self.shown.values() for example in found.values()]

    @property
    def held(self) -> Slots:
        """The slots of the rows that are shown."""
        return np.array(sorted({slot for found in self.shown.values() for slot in found}), np.int64)

    @property
    def added(self) -> tuple[NearExample, ...]:
        """The examples that were added since `begin`, or whose mark changed."""
        return tuple(
            example
            for one, found in self.shown.items()
            for slot, example in found.items()
            if self._before.get(one, {}).get(slot) is not example
        )

    @property
    def removed(self) -> tuple[NearExample, ...]:
        """The examples that were removed since `begin`."""
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
        """Search for examples of members."""
        self._images = RowImages(self._rows)
        self.shown = self._with_searched({}, _first(members), _ROWS_A_SEED)
        self.begin()

    def follow(self, delta: RowDelta, members: Followed) -> None:
        """Update the shown rows after a batch: drop wrong ones, add inserted ones, search where few are left.

        Called before the slots of deleted rows are forgotten.
        """
        members = _first(members)
        self._batches += 1
        self._images = RowImages(self._rows)
        is_known = int(delta.copies.sum()) == delta.copies_in - delta.copies_out  # else rows without slots were deleted
        inserted = delta.changed[(self._rows.copies[delta.changed] > 0) & (delta.copies > 0)]
        shown: dict[Candidate, Found] = {}
        for one, member in members.items():
            kept = self._kept(one, member, delta) if is_known and one in self.shown else {}
            if len(inserted) and self._is_short(kept, member):
                kept = self._with_rows(one, kept, inserted, self._counts.standing(member, inserted))
            if kept:
                shown[one] = kept
        self.shown = self._with_searched(shown, members, self.rows_a_batch)

    def save(self, family: str, prefix: bytes, batch: WriteBatch, *, everything: bool) -> None:
        """Add to a batch what changed since the last save, or everything: one record for each constraint."""
        before = {} if everything else self._saved
        for one in before.keys() - self.shown.keys():
            batch.delete(family, prefix + codecs.json_bytes(one))
        for one, found in self.shown.items():
            if before.get(one) != found:
                rows = [[slot, example.undecided] for slot, example in found.items()]
                batch.put(family, prefix + codecs.json_bytes(one), codecs.json_bytes(rows))
        self._saved = self.shown

    def restore(self, stored: Iterable[tuple[bytes, bytes]]) -> None:
        """Restore what was saved, for rows that were restored; the keys are without their prefix."""
        self._images = RowImages(self._rows)
        shown: dict[Candidate, Found] = {}
        for key, value in stored:
            context, number = codecs.read_json(key)
            one = tuple(context), number
            shown[one] = {slot: self._example(one, slot, undecided=u) for slot, u in codecs.read_json(value)}
        self.shown = self._saved = shown
        self.begin()

    def _kept(self, one: Candidate, member: ExceptionCount, delta: RowDelta) -> Found:
        """Return the examples of a member that are still right."""
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
        """Return, per row, whether its group has a changed row."""
        columns = list(context)
        codes = self._rows.codes
        same = codes[slots][:, None, columns] == codes[changed][None, :, columns]
        touched: NDArray[np.bool_] = same.all(axis=2).any(axis=1)
        return touched

    def _with_rows(
        self, one: Candidate, kept: Found, slots: Slots, standing: Standing | None, before: Found | None = None
    ) -> Found:
        """Return the examples `kept` with the given rows that are exceptions, as long as there is room."""
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
        """Return all examples, with new ones of members that could show more, those without any first.

        Reads at most `rows` rows, or one member without examples.
        """
        short = [one for one, of in members.items() if self._is_short(shown.get(one, {}), of)]
        self._searched = {one: self._searched[one] for one in short if one in self._searched}
        due = sorted(short, key=lambda one: (one in shown, self._searched.get(one, -1), len(one[0]), one))
        most = rows // max(1, len(self._rows))
        found = dict(shown)
        for one in sorted(due[: max(most, 0 if not due or due[0] in shown else 1)]):
            self._searched[one] = self._batches
            found[one] = self._with_rows(one, found.get(one, {}), *self._counts.exceptions(one, MOST_SHOWN))
        return found

    def _is_short(self, found: Found, member: ExceptionCount) -> bool:
        """Return whether fewer exceptions are shown, with all copies of their rows, than could be."""
        return len(found) < MOST_SHOWN and sum(self._rows.copies[list(found)].tolist()) < member.count

    def _example(self, one: Candidate, slot: int, *, undecided: bool) -> NearExample:
        return NearExample(self._named(one), self._images(slot), undecided)


def _first(members: Followed) -> Followed:
    """Return the members that may have examples."""
    return dict(islice(members.items(), MOST_CONSTRAINTS))
