"""Keeps the constraints that nearly hold on one table: a function of its rows, the share and the bound alone.

    members   followed row by row, or counted anew with every batch: their exceptions are always exact
    others    what was a member lately is followed as well: what is at the limit comes and goes
    border    certain while floors say so; what is in doubt is counted anew
    search    where a member is near no more, or a candidate of the border has become near: level by level from the
              empty context, as on a table that is seen for the first time, but only what nobody knows is counted

Invariant: between batches all members are near, no candidate of the border is, and every context within the bound
contains a member's, or is contained in one of the border, for each target that no other one hides.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from holdfast.constraints import Family, NearConstraint, NearShape
from holdfast.discovery.near.counting import Context, Counted, visible
from holdfast.discovery.near.lattice import Tasks, allowed, near_set
from holdfast.discovery.near.targets import KEY
from holdfast.indexes.exceptions import ClassExceptions, KeyExceptions, Standing
from holdfast.indexes.kernels.exceptions import UNDECIDED
from holdfast.indexes.rows import RowDelta, RowSet, Slots
from holdfast.state import codecs
from holdfast.state.store import Reader, WriteBatch
from holdfast.streaming.maintainers.bounds import NearBounds
from holdfast.streaming.maintainers.near.border import Border
from holdfast.streaming.maintainers.near.changes import (
    ENTERED,
    EXCEPTIONS,
    IMPLIED,
    LEFT,
    VIOLATED,
    NearChange,
    NearExample,
)
from holdfast.streaming.maintainers.near.counting import LiveCounts, together
from holdfast.streaming.maintainers.near.shown import Candidate, ShownExceptions

FAMILY = "near"
"""What a state has of near constraints."""

_BATCHES_FOLLOWED = 16
"""A constraint that was a member is followed for so many batches more."""

_ROWS_A_GROUP = 8
"""A context has so many rows in a group, or its constants are counted anew."""

_BATCHES_YOUNG = 8
"""A member is counted anew with each of so many batches before it is followed, which costs as much as some counts."""

_SLACK_PART = 8
"""What is not near is counted until it has so many exceptions more than it may: this part of the rows."""


@dataclass(frozen=True)
class NearEffort:
    """What batches cost, for people.

    Parameters
    ----------
    border, followed : how many candidates are kept as not near, and how many are counted with every batch.
    counted_anew, searches : candidates that were counted out of turn, and searches, since the start.
    """

    border: int
    followed: int
    counted_anew: int
    searches: int


class _Count(Protocol):
    """The exceptions of one constraint: followed (`indexes/exceptions.py`), or counted anew with every batch."""

    @property
    def count(self) -> int:
        """How many rows have to go."""

    def follow(self, delta: RowDelta) -> None:
        """Count what changed."""

    def rebuild(self) -> None:
        """Count all live rows anew."""

    def standing(self, slots: Slots) -> Standing | None:
        """Return whether some live rows are exceptions; None where only a search tells."""

    def check_invariants(self) -> None:
        """Assert that all is as counted anew."""


@dataclass
class _Recounted:
    """What is counted anew with every batch, since the batch with which it came."""

    count: int
    since: int

    def follow(self, delta: RowDelta) -> None:
        pass

    def rebuild(self) -> None:
        pass

    def standing(self, slots: Slots) -> None:
        pass

    def check_invariants(self) -> None:
        pass


@dataclass(frozen=True)
class _Other:
    """A constraint that was a member, and the last batch with which it was."""

    count: _Count
    last: int


@dataclass(frozen=True)
class _Memo:
    members: Mapping[Candidate, _Count]
    others: Mapping[Candidate, _Other]
    border: Border
    lost: int


class NearMaintainer:
    """The near constraints of one table.

    Parameters
    ----------
    rows : the table; codes of columns that have an order in near constraints are in it.
    bounds : what is maintained.
    threads : how many to use.
    """

    def __init__(self, rows: RowSet, bounds: NearBounds, threads: int = 1) -> None:
        ordered = [bounds.orders and column.ordered_in(Family.NEAR) for column in rows.space.schema.columns]
        self.bounds = bounds
        self._counted_anew = self._searches = 0
        self._rows = rows
        self._counts = LiveCounts(rows, ordered, threads)
        self._threads = threads
        self._members: Mapping[Candidate, _Count] = {}
        self._others: Mapping[Candidate, _Other] = {}
        self._batches = 0
        self._border = Border.of(len(ordered), [], 0)
        self._lost = 0
        self._saved: Border | None = None
        self._shown = ShownExceptions(rows, lambda one: self._counts.exceptions(*one), self._named)
        self._saved_shown = self._shown.shown
        self.begin()

    def seed(self) -> None:
        """Find what nearly holds on the rows. O(n log n) a candidate at most."""
        self._search()
        self._grow_up(set(self._members))
        self._shown.seed(self._members)
        self.begin()

    @property
    def constraints(self) -> list[NearConstraint]:
        """What nearly holds now, in the order in which `near_set` finds it."""
        return [self._with_count(candidate, count) for candidate, count in self._members.items()]

    @property
    def counts(self) -> tuple[int, int]:
        """How many nearly hold, and how many of them have exceptions."""
        return len(self._members), sum(member.count > 0 for member in self._members.values())

    @property
    def shown(self) -> list[NearExample]:
        """The rows that are shown as exceptions."""
        return [example for found in self._shown.shown.values() for example in found.values()]

    @property
    def shown_now(self) -> tuple[NearExample, ...]:
        """The rows that are shown since `begin`, or are marked otherwise."""
        return self._shown.added

    @property
    def shown_no_more(self) -> tuple[NearExample, ...]:
        """The rows that are not shown any more since `begin`."""
        return self._shown.removed

    @property
    def held(self) -> Slots:
        """The slots of the rows that are shown."""
        return self._shown.held

    def strengths(self, some: Sequence[NearConstraint]) -> list[float | None]:
        """Return for some members which part of the exceptions that there could be is not there (`near/ranking.py`).

        None for an order compatibility. O(n log n) for each context that is new to it.
        """
        asked = [self._candidate(one) for one in some]
        rows = len(self._rows)
        above = {one for one in asked if one is not None and one[0] and self._is_constant(one[1])}
        needed = {part for context, number in above for part in ((context, KEY), ((), number))}
        counts = self._counted_exactly(needed, rows)
        found: list[float | None] = []
        for one, candidate in zip(some, asked, strict=True):
            if candidate is None or one.shape.targets == 2:
                found.append(None)
                continue
            context, number = candidate
            possible = max(rows - 1, 0)
            if candidate in above:
                possible = min(possible, counts[context, KEY], counts[(), number])
            found.append(1.0 - one.exceptions / possible if possible else 0.0)
        return found

    def exceptions_of(self, some: Sequence[NearConstraint]) -> list[int | None]:
        """Return the exceptions of some constraints, None of those that do not nearly hold. O(n log n) for each."""
        most, followed = self._most, self._followed
        floors = self._border.floors_in(len(self._counts.targets))
        asked = [self._candidate(one) for one in some]
        candidates = {one for one in asked if one is not None}
        known = {one: followed[one].count for one in candidates if one in followed}
        doubtful = [one for one in candidates if one not in known and floors(one[0])[one[1]] - self._lost <= most]
        known |= self._counted_exactly(doubtful, most)
        return [None if one is None or known.get(one, most + 1) > most else known[one] for one in asked]

    def begin(self) -> None:
        """Begin a batch: `undo` leads back to here."""
        self._before = self._memo()
        self._shown.begin()
        self._had = {candidate: count.count for candidate, count in self._members.items()}

    @property
    def effort(self) -> NearEffort:
        """What batches cost."""
        return NearEffort(len(self._border), len(self._followed), self._counted_anew, self._searches)

    @property
    def changes(self) -> tuple[NearChange, ...]:
        """What became of the constraints since `begin`: what left, what entered, and what has other exceptions."""
        had, has = self._had, self._members
        gone = {one: self._others[one].count for one in had if one not in has}
        most = self._most
        left = [
            NearChange(self._with_count(one, count), LEFT, had[one], IMPLIED if count.count <= most else VIOLATED)
            for one, count in gone.items()
        ]
        entered = [NearChange(self._with_count(one, has[one]), ENTERED, None) for one in has if one not in had]
        other = [
            NearChange(self._with_count(one, count), EXCEPTIONS, had[one])
            for one, count in has.items()
            if one in had and had[one] != count.count
        ]
        return (*left, *entered, *other)

    def undo(self) -> None:
        """Take a batch back, after the rows are as they were. O(n log n) a member."""
        before = self._before
        self._members, self._others = before.members, before.others
        self._border, self._lost = before.border, before.lost
        self._shown.undo()
        self.rebuild()

    def rebuild(self) -> None:
        """Follow rows whose values have other codes, before they change. O(n log n) a member."""
        self._counts.rebuild()
        for one in self._followed.values():
            one.rebuild()
        self._recount()

    def follow(self, delta: RowDelta) -> None:
        """Follow a batch, before the slots of vanished rows are forgotten."""
        self._lost += delta.copies_out
        self._batches += 1
        last = self._batches - _BATCHES_FOLLOWED
        young = self._young
        self._others = {one: other for one, other in self._others.items() if other.last >= last and one not in young}
        self._counts.follow(delta.appeared)
        followed = self._followed
        for one in followed.values():
            one.follow(delta)
        self._recount()
        most = self._most
        others = {one: followed[one] for one in self._others}
        self._border = self._border.with_counts(_exact(others), self._lost)
        doubtful = np.flatnonzero(self._border.floors - self._lost <= most)
        self._counted_anew += len(doubtful)
        anew = list(self._counts.counted(self._border.tasks(doubtful), most, self._enough))
        self._border = self._border.with_counts(anew, self._lost)
        is_near = any((one.exceptions <= most).any() for one in anew)
        if is_near or any(member.count > most for member in self._members.values()):
            self._search()
        self._shown.follow(delta, self._members)

    def save(self, prefix: bytes, *, everything: bool = False) -> Iterator[WriteBatch]:
        """Yield what changed since it was last saved, or everything."""
        batch, border, before = WriteBatch(), self._border, None if everything else self._saved
        members = [[list(context), number] for context, number in self._members]
        head = {"lost": self._lost, "members": members}
        batch.put(FAMILY, prefix, codecs.json_bytes(head))
        if before is None or before.contexts is not border.contexts:
            contexts = [list(context) for context in border.contexts]
            batch.put(FAMILY, prefix + b"contexts", codecs.json_bytes(contexts))
            batch.put(FAMILY, prefix + b"numbers", codecs.codes(border.numbers))
        if before is None or before.floors is not border.floors:
            batch.put(FAMILY, prefix + b"floors", codecs.codes(border.floors))
        if everything or self._saved_shown is not self._shown.shown:
            batch.put(FAMILY, prefix + b"shown", codecs.json_bytes(self._shown.fields()))
        self._saved, self._saved_shown = border, self._shown.shown
        yield batch

    def restore(self, store: Reader, prefix: bytes) -> None:
        """Take over what was saved, with rows that were. O(n) a member."""
        head = codecs.read_json(store.get(FAMILY, prefix) or b"{}")
        contexts = codecs.read_json(store.get(FAMILY, prefix + b"contexts") or b"[]")
        numbers, floors = (
            codecs.read_codes(store.get(FAMILY, prefix + part) or b"") for part in (b"numbers", b"floors")
        )
        self._lost = head["lost"]
        self._border = Border(self._border.columns, tuple(map(tuple, contexts)), numbers, floors)
        self._members = {(tuple(context), number): _Recounted(0, 0) for context, number in head["members"]}
        self._recount()
        self._grow_up(set(self._members))
        self._shown.restore(codecs.read_json(store.get(FAMILY, prefix + b"shown") or b"[]"))
        self._saved, self._saved_shown = self._border, self._shown.shown
        self.begin()

    def check_invariants(self) -> None:
        """Assert what the class promises, by counting everything anew. O(n log n) a candidate."""
        self._counts.check_invariants()
        for candidate, member in self._members.items():
            member.check_invariants()
            assert member.count == self._exactly(*candidate), candidate
        most = self._most
        assert all(member.count <= most for member in self._members.values())
        assert (self._border.floors - self._lost > most).all()
        for place, context in enumerate(self._border.contexts):
            exact = self._exactly(context, int(self._border.numbers[place]))
            assert exact >= self._border.floors[place] - self._lost, (context, exact)
        for candidate, found in self._shown.shown.items():
            slots, standing = self._counts.exceptions(*candidate)
            known = dict(zip(slots.tolist(), standing.tolist(), strict=True))
            assert found, candidate
            assert all(example.undecided == (known[slot] == UNDECIDED) for slot, example in found.items()), candidate
        anew = NearMaintainer(self._rows, self.bounds, self._threads)
        anew.seed()
        assert anew.constraints == self.constraints

    @property
    def _most(self) -> int:
        return allowed(self.bounds.share, len(self._rows))

    @property
    def _enough(self) -> int:
        return self._most + len(self._rows) // _SLACK_PART

    def _memo(self) -> _Memo:
        return _Memo(self._members, self._others, self._border, self._lost)

    def _search(self) -> None:
        """Find all members, and the border; only what nobody knows is counted."""
        self._searches += 1
        targets = self._counts.targets
        found = near_set(targets, self._most, self.bounds.max_context, self._known_or_counted)
        wanted = {(member.context, member.number): member.exceptions for member in found.members}
        kept = self._followed
        before = {one: _Other(count, self._batches) for one, count in self._members.items()}
        young = {one: _Recounted(count, self._batches) for one, count in wanted.items() if one not in kept}
        self._members = {one: young[one] if one in young else kept[one] for one in wanted}
        self._others = {one: other for one, other in {**self._others, **before}.items() if one not in self._members}
        self._border = Border.of(targets.columns, found.border, self._lost)

    @property
    def _young(self) -> dict[Candidate, "_Recounted"]:
        return {one: count for one, count in self._followed.items() if isinstance(count, _Recounted)}

    def _recount(self) -> None:
        """Count young members anew; those that have stayed for some batches are followed from now on."""
        young = self._young
        if not young:
            return
        for one, exceptions in self._counted_exactly(young, len(self._rows)).items():
            young[one].count = exceptions
        last = self._batches - _BATCHES_YOUNG
        self._grow_up({one for one in young if one in self._members and young[one].since == last})

    def _grow_up(self, some: Collection[Candidate]) -> None:
        """Follow keys and constants from now on, but for constants whose context has many groups.

        A table of all groups would be larger than the rows, and a count anew is quick where groups are small. Orders
        are quicker counted anew than followed, whatever the groups.
        """
        asked = sorted({context for context, number in some if context and self._is_constant(number)})
        rows = len(self._rows)
        alone = {
            one.context
            for one in self._counts.counted([(context, np.array([KEY])) for context in asked], -1, rows)
            if (rows - int(one.exceptions[0])) * _ROWS_A_GROUP > rows
        }
        grown = {one for one in some if one[1] == KEY or (self._is_constant(one[1]) and one[0] not in alone)}
        self._members = {one: self._follower(*one) if one in grown else c for one, c in self._members.items()}

    def _is_constant(self, number: int) -> bool:
        return self._counts.targets.form(number)[0] is NearShape.CONSTANT

    @property
    def _followed(self) -> Mapping[Candidate, _Count]:
        return {**{one: other.count for one, other in self._others.items()}, **self._members}

    def _known_or_counted(self, tasks: Tasks, most: int) -> Iterator[Counted]:
        """Return the exceptions of candidates, or how many they have at least."""
        targets = self._counts.targets
        floors = self._border.floors_in(len(targets))
        followed = self._followed
        known: dict[Context, Counted] = {}
        open_ = []
        for context, numbers in tasks:
            lower = floors(context)[numbers]
            lower = np.where(lower < 0, 0, lower - self._lost)
            exact = np.array([(context, number) in followed for number in numbers.tolist()], np.bool_)
            lower[exact] = [followed[context, number].count for number in numbers[exact].tolist()]
            if not context:
                lower[numbers == KEY] = most + 1  # there is no key without columns
            sure = exact | (lower > most)
            seen = visible(Counted(context, numbers, np.where(sure, lower, most + 1)), targets, most)
            is_known = sure[np.searchsorted(numbers, seen.numbers)]
            known[context] = Counted(context, seen.numbers[is_known], seen.exceptions[is_known])
            if not is_known.all():
                open_.append((context, seen.numbers[~is_known]))
        counted = {one.context: one for one in self._counts.counted(open_, most, self._enough)}
        self._counted_anew += sum(len(numbers) for _, numbers in open_)
        for context, _ in tasks:
            one = known[context]
            if context in counted:
                one = visible(together(one, counted[context]), targets, most)
            yield one

    def _counted_exactly(self, some: Collection[Candidate], enough: int) -> dict[Candidate, int]:
        """Return the exceptions of candidates; of those with more than `enough` a number that is larger than that."""
        found = self._counts.counted(_by_contexts(some), -1, enough)
        return {
            (one.context, number): exceptions
            for one in found
            for number, exceptions in zip(one.numbers.tolist(), one.exceptions.tolist(), strict=True)
        }

    def _candidate(self, one: NearConstraint) -> Candidate | None:
        """Return the candidate that a constraint is; None where it is none of this table."""
        index = self._rows.space.schema.index
        context, target = (tuple(sorted(map(index, names))) for names in (one.context, one.target))
        number = self._counts.targets.number(one.shape, target)
        return None if number is None else (context, number)

    def _named(self, candidate: Candidate) -> NearConstraint:
        context, number = candidate
        shape, target = self._counts.targets.form(number)
        context_names, target_names = ([self._rows.space.schema.names[c] for c in some] for some in (context, target))
        return NearConstraint(shape, context_names, target_names)

    def _with_count(self, candidate: Candidate, count: _Count) -> NearConstraint:
        return self._named(candidate).counted(count.count, len(self._rows))

    def _follower(self, context: Context, number: int) -> _Count:
        if number == KEY:
            return KeyExceptions(self._rows, context)
        _, (dependent, *_) = self._counts.targets.form(number)
        return ClassExceptions(self._rows, context, dependent)

    def _exactly(self, context: Context, number: int) -> int:
        (one,) = self._counts.counted([(context, np.array([number]))], -1, len(self._rows))
        return int(one.exceptions[0])


def _exact(followed: Mapping[Candidate, _Count]) -> Iterator[Counted]:
    for (context, number), one in followed.items():
        yield Counted(context, np.array([number]), np.array([one.count]))


def _by_contexts(some: Collection[Candidate]) -> list[tuple[Context, NDArray[np.int64]]]:
    """Return candidates by contexts, both in ascending order."""
    by_context: dict[Context, list[int]] = {}
    for context, number in sorted(some):
        by_context.setdefault(context, []).append(number)
    return [(context, np.array(numbers)) for context, numbers in by_context.items()]
