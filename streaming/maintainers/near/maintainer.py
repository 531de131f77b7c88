"""The constraints that nearly hold on one table, kept exact from batch to batch.

They depend on nothing but the rows, the share of exceptions and the bound of contexts.

    members   the constraints that nearly hold; their exceptions are counted with every batch
    others    former members, which are counted for several batches more: constraints near the limit alternate
    border    the largest contexts that are not near; a candidate is counted anew when its floor does not prove that
    search    needed where a member is not near any more, or a candidate of the border is near: level by level from
              the empty context, as on a new table, but known counts are not counted again

Invariant: between batches all members are near, and no candidate of the border is. For each target that no other target
hides, every context within the bound contains a member's context, or is contained in a context of the border.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.constraints import NearConstraint, NearShape, RowImage
from holdfast.discovery.near.counting import Candidate, Context, CountedContext, by_candidate, by_context, visible
from holdfast.discovery.near.lattice import NearMember, Tasks, allowed, near_set
from holdfast.discovery.near.ranking import NearScores, needed
from holdfast.discovery.near.suspects import LEAST_SCORE
from holdfast.discovery.near.targets import KEY
from holdfast.discovery.near.where import ConcentrationNames
from holdfast.display.concentrations import Concentrations
from holdfast.display.suspects import Suspect
from holdfast.indexes.encoding import NULL
from holdfast.indexes.rows import RowDelta, RowSet
from holdfast.state import codecs
from holdfast.state.store import Reader, WriteBatch
from holdfast.streaming.maintainers.near.border import Border
from holdfast.streaming.maintainers.near.changes import (
    ENTERED,
    EXCEPTIONS,
    IMPLIED,
    LEFT,
    VIOLATED,
    NearChange,
)
from holdfast.streaming.maintainers.near.concentrations import FollowedConcentrations
from holdfast.streaming.maintainers.near.counting import together
from holdfast.streaming.maintainers.near.counts import ExceptionCount, Followed, NearCounts
from holdfast.streaming.maintainers.near.shown import ShownExceptions
from holdfast.streaming.maintainers.near.suspects import FollowedSuspects, Place
from holdfast.streaming.maintainers.part import TablePart
from holdfast.streaming.maintainers.table.bounds import NearBounds
from holdfast.tables import Table
from holdfast.tables.arrays import Ints, Slots, as_slots

FAMILY = "near"
"""The family of near constraints in a store."""

_SHOWN = b"shown "
"""The prefix of the keys of rows that are shown."""

_BATCHES_FOLLOWED = 16
"""A former member is followed for so many batches more."""

_SLACK_PART = 8
"""A candidate that is not near is counted up to this part of the rows beyond the limit: its slack in the border."""


@dataclass(frozen=True)
class NearEffort:
    """The costs of batches.

    Parameters
    ----------
    border : how many candidates are in the border.
    counted_anew, searches : how many candidates of the border were counted anew, and searches made, since the start.
    """

    border: int
    counted_anew: int
    searches: int


@dataclass(frozen=True)
class _Other:
    """The count of a former member, and the number of the last batch in which it was a member."""

    count: ExceptionCount
    last: int


class NearMaintainer(TablePart):
    """The constraints that nearly hold on one table.

    Parameters
    ----------
    rows : the rows that have slots; their codes have the order of columns with an order.
    bounds : the share of exceptions, and the largest context.
    counts : counts exceptions on the rows.

    Attributes
    ----------
    shown : the rows that are shown as exceptions.
    suspects : the cells that are probably wrong.
    concentrations : where the exceptions of members are.
    """

    def __init__(self, rows: RowSet, bounds: NearBounds, counts: NearCounts) -> None:
        self.bounds = bounds
        self._counted_anew = self._searches = 0
        self._rows = rows
        self._counts = counts
        self._members: Followed = {}
        self._others: Mapping[Candidate, _Other] = {}
        self._batches = 0
        self._border = Border.of(counts.targets.columns, [], 0)
        self._lost = 0
        self._saved: Border | None = None
        self.shown = ShownExceptions(rows, counts, self._named)
        self.suspects = FollowedSuspects(rows, self._surest)
        self.concentrations = FollowedConcentrations(self._concentrations, self._named, self._is_order)
        self.begin()

    def seed(self) -> None:
        """Search for the constraints that nearly hold. At most O(n log n) a candidate."""
        self._search()
        self._members = self._counts.first({one: count.count for one, count in self._members.items()})
        self.shown.seed(self._members)
        self.begin()

    @property
    def constraints(self) -> list[NearConstraint]:
        """The constraints that nearly hold now, in the order in which `near_set` finds them."""
        return [self._with_count(candidate, count) for candidate, count in self._members.items()]

    @property
    def counts(self) -> tuple[int, int]:
        """How many constraints nearly hold, and how many of these have exceptions."""
        return len(self._members), sum(member.count > 0 for member in self._members.values())

    @property
    def held(self) -> Slots:
        """The slots of the rows that are shown as exceptions, or have suspects."""
        return np.concatenate([self.shown.held, self.suspects.held])

    def strengths(self, some: Sequence[NearConstraint]) -> list[float | None]:
        """Return the strength of members (`discovery/near/ranking.py`); None of what is no candidate any more.

        O(n log n) for each context, each part of it and each dependent; of order compatibilities on a sample.
        """
        asked = [self._candidate(one) for one in some]
        members = [
            None if candidate is None else NearMember(*candidate, one.exceptions)
            for one, candidate in zip(some, asked, strict=True)
        ]
        targets, known = self._counts.targets, list(filter(None, members))
        counts = self._counts.exactly(needed(known, targets))
        ranking = NearScores(len(self._rows), targets, counts, self._counts.swaps(known))
        return [None if member is None else ranking.strength(member) for member in members]

    def find_suspects(self, least: float, most: int | None = None) -> tuple[int, list[tuple[Place, Suspect]]]:
        """Return how many cells of the current rows are suspects, and the surest of them, each with its place.

        O(n) a functional dependency that nearly holds.
        """
        found = self._counts.suspects({one: count.count for one, count in self._members.items()}, least)
        cells, schema = found[:most], self._rows.space.schema
        key = [schema.names[column] for column in self._rows.key]
        like = [cell.slot if cell.expected is None else cell.expected for cell in cells]
        images = self._rows.values(as_slots(np.array([*(cell.slot for cell in cells), *like], np.int64)))
        surest: list[tuple[Place, Suspect]] = []
        for cell, values, expected in zip(cells, images, images[len(cells) :], strict=False):
            name, is_expected = schema.names[cell.column], cell.expected is not None
            row = RowImage({column: values[column] for column in key}, values)
            violated = tuple(self._with_count(one, self._members[one]) for one in cell.violated)
            value = expected[name] if is_expected else None
            one = Suspect(None, name, values[name], is_expected, value, cell.score, violated, row)
            surest.append(((cell.slot, cell.column), one))
        return len(found), surest

    def _surest(self, most: int) -> tuple[int, list[tuple[Place, Suspect]]]:
        return self.find_suspects(LEAST_SCORE, most)

    def seed_searches(self) -> None:
        """Search for suspects, and where exceptions are, if no batch has searched yet and batches search."""
        self.suspects.seed()
        if self.suspects.batches is None:
            self.concentrations.clear()
        elif self.suspects.is_searched:
            self.concentrations.seed(self._members)

    def _concentrations(self, some: Sequence[Candidate]) -> list[Concentrations]:
        """Return the values in which the exceptions of members are concentrated."""
        searched = self._counts.concentrating(some)
        names = ConcentrationNames(searched.rows, self._rows.space.schema, self._table, self._nulls)
        pairs = zip(some, searched.found, strict=True)
        return names.named([(self._named(one), exceptions, values) for one, (exceptions, values) in pairs])

    def _table(self, slots: Ints) -> Table:
        return self._rows.table(as_slots(slots))

    def _nulls(self, column: int) -> int:
        """Return how many rows have a null in a column. O(n)."""
        live = self._rows.live()
        return int(self._rows.copies[live][self._rows.codes[live, column] == NULL].sum())

    def _is_order(self, candidate: Candidate) -> bool:
        return candidate[1] > self._counts.targets.constants

    def exceptions_of(self, some: Sequence[NearConstraint]) -> list[int | None]:
        """Return the exceptions of each constraint, None if it does not nearly hold. O(n log n) for each."""
        if not some:
            return []
        most, followed = self._most, self._followed
        floors = self._border.floors_in(len(self._counts.targets))
        candidates = [self._candidate(one) for one in some]
        distinct = {candidate for candidate in candidates if candidate is not None}
        known = {candidate: followed[candidate].count for candidate in distinct if candidate in followed}
        doubtful = [one for one in distinct - known.keys() if floors(one[0])[one[1]] - self._lost <= most]
        known |= by_candidate(self._counts.counted(by_context(doubtful), -1, most))
        return [None if one is None or known.get(one, most + 1) > most else known[one] for one in candidates]

    def reasons_left(self, some: Sequence[NearConstraint]) -> list[str | None]:
        """Return why each constraint is not a member: `violated` or `implied`; None if it is out of bounds.

        O(members + constraints * members with the same targets).
        """
        contexts: dict[int, list[frozenset[int]]] = defaultdict(list)
        for context, number in self._members:
            contexts[number].append(frozenset(context))
        return [self._reason_left(one, contexts) for one in some]

    def _reason_left(self, one: NearConstraint, contexts: Mapping[int, Sequence[frozenset[int]]]) -> str | None:
        if not one.columns <= frozenset(self._rows.space.schema.names):
            return None
        candidate = self._candidate(one)
        if candidate is None:
            return None
        context, number = candidate
        targets = self._counts.targets
        constants = (targets.number(NearShape.CONSTANT, (column,)) for column in targets.form(number)[1])
        hiding = {KEY, number, *constants}
        if any(other <= frozenset(context) for each in hiding if each is not None for other in contexts.get(each, ())):
            return IMPLIED
        return VIOLATED if len(context) <= (self.bounds.max_context or len(context)) else None

    def begin(self) -> None:
        """Begin a batch: `undo` leads back to here."""
        self._before = self._members, self._others, self._border, self._lost
        self.shown.begin()
        self.suspects.begin()
        self.concentrations.begin()
        self._had = {candidate: count.count for candidate, count in self._members.items()}

    @property
    def effort(self) -> NearEffort:
        """The costs of batches."""
        return NearEffort(len(self._border), self._counted_anew, self._searches)

    @property
    def changes(self) -> tuple[NearChange, ...]:
        """The changes since `begin`: constraints that left, that entered, and that have other exceptions."""
        had, has, most = self._had, self._members, self._most
        gone = {one: self._others[one].count for one in had if one not in has}
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
        """Take a batch back, after the rows are as they were before it. O(n log n) a member."""
        self._members, self._others, self._border, self._lost = self._before
        self.shown.undo()
        self.suspects.undo()
        self.concentrations.undo()
        self.rebuild()

    def rebuild(self) -> None:
        """Derive everything anew from the codes of the rows, which were relabelled. O(n log n) a member."""
        self._counts.rebuild(self._followed)

    def follow(self, delta: RowDelta) -> None:
        """Apply a batch, before the slots of deleted rows are forgotten."""
        self._lost += delta.copies_out
        self._batches += 1
        last = self._batches - _BATCHES_FOLLOWED
        kept = {one: o for one, o in self._others.items() if o.last >= last and self._counts.outlasts(o.count)}
        self._others = kept
        followed = self._counts.follow(delta, self._followed)
        self._members = {one: followed[one] for one in self._members}
        self._others = {one: _Other(followed[one], other.last) for one, other in kept.items()}
        most = self._most
        others = {one: followed[one] for one in kept}
        self._border = self._border.with_counts(_exact(others), self._lost)
        doubtful = np.flatnonzero(self._border.floors - self._lost <= most)
        self._counted_anew += len(doubtful)
        anew = list(self._counts.counted(self._border.tasks(doubtful), most, self._enough))
        self._border = self._border.with_counts(anew, self._lost)
        is_near = any((one.exceptions <= most).any() for one in anew)
        if is_near or any(member.count > most for member in self._members.values()):
            self._search()
        self.shown.follow(delta, self._members)
        self.suspects.follow(delta)
        if self.suspects.batches is None:
            self.concentrations.clear()
        else:
            self.concentrations.follow(self._members, len(self._rows), is_due=self.suspects.is_searched)

    def save(self, prefix: bytes, *, everything: bool = False) -> Iterator[WriteBatch]:
        """Yield what changed since the last save, or everything."""
        batch, border, before = WriteBatch(), self._border, None if everything else self._saved
        members = [[list(context), number] for context, number in self._members]
        counts = [count.count for count in self._members.values()]
        head = {"lost": self._lost, "members": members, "counts": counts}
        batch.put(FAMILY, prefix, codecs.json_bytes(head))
        if before is None or before.contexts is not border.contexts:
            contexts = [list(context) for context in border.contexts]
            batch.put(FAMILY, prefix + b"contexts", codecs.json_bytes(contexts))
            batch.put(FAMILY, prefix + b"numbers", codecs.codes(border.numbers))
        if before is None or before.floors is not border.floors:
            batch.put(FAMILY, prefix + b"floors", codecs.codes(border.floors))
        self.shown.save(FAMILY, prefix + _SHOWN, batch, everything=everything)
        self.suspects.save(prefix, batch, everything=everything)
        self.concentrations.save(prefix, batch, everything=everything)
        self._saved = border
        yield batch

    def restore(self, store: Reader, prefix: bytes) -> None:
        """Restore what was saved, for rows that were restored. O(n) a member."""
        head = codecs.read_json(store.get(FAMILY, prefix) or b"{}")
        contexts = codecs.read_json(store.get(FAMILY, prefix + b"contexts") or b"[]")
        numbers, floors = (
            codecs.read_codes(store.get(FAMILY, prefix + part) or b"") for part in (b"numbers", b"floors")
        )
        self._lost = head["lost"]
        self._border = Border(self._border.columns, tuple(map(tuple, contexts)), numbers, floors)
        members = [(tuple(context), number) for context, number in head["members"]]
        self._members = self._counts.first(dict(zip(members, head["counts"], strict=True)))
        shown = prefix + _SHOWN
        self.shown.restore((key[len(shown) :], value) for key, value in store.scan(FAMILY, shown))
        self.suspects.restore(store, prefix)
        self.concentrations.restore(store, prefix)
        self._saved = self._border
        self.begin()

    def check_invariants(self) -> None:
        """Assert the invariants, by counting everything anew. O(n log n) a candidate."""
        self._counts.check_invariants(self._followed)
        exact = self._counts.exactly(self._followed)
        assert exact == {candidate: count.count for candidate, count in self._followed.items()}
        most = self._most
        assert all(member.count <= most for member in self._members.values())
        assert (self._border.floors - self._lost > most).all()
        border = list(zip(self._border.contexts, self._border.numbers.tolist(), strict=True))
        exact = self._counts.exactly(border)
        for candidate, floor in zip(border, self._border.floors.tolist(), strict=True):
            assert exact[candidate] >= floor - self._lost, candidate
        anew = NearMaintainer(self._rows, self.bounds, self._counts.anew())
        anew.seed()
        assert anew.constraints == self.constraints

    @property
    def _most(self) -> int:
        return allowed(self.bounds.share, len(self._rows))

    @property
    def _enough(self) -> int:
        return self._most + len(self._rows) // _SLACK_PART

    def _search(self) -> None:
        """Search for all members and the border; known counts are not counted again."""
        self._searches += 1
        targets = self._counts.targets
        found = near_set(targets, self._most, self.bounds.max_context, self._known_or_counted)
        wanted = {(member.context, member.number): member.exceptions for member in found.members}
        kept = self._followed
        before = {one: _Other(count, self._batches) for one, count in self._members.items()}
        new = self._counts.entered({one: count for one, count in wanted.items() if one not in kept})
        self._members = {one: new[one] if one in new else kept[one] for one in wanted}
        self._others = {one: other for one, other in {**self._others, **before}.items() if one not in self._members}
        self._border = Border.of(targets.columns, found.border, self._lost)

    @property
    def _followed(self) -> Followed:
        return {**{one: other.count for one, other in self._others.items()}, **self._members}

    def _known_or_counted(self, tasks: Tasks, most: int) -> Iterator[CountedContext]:
        """Return the exceptions of candidates, or a lower bound of them."""
        targets = self._counts.targets
        floors = self._border.floors_in(len(targets))
        followed = self._followed
        known: dict[Context, CountedContext] = {}
        open_ = []
        for context, numbers in tasks:
            lower = floors(context)[numbers]
            lower = np.where(lower < 0, 0, lower - self._lost)
            exact = np.array([(context, number) in followed for number in numbers.tolist()], np.bool_)
            lower[exact] = [followed[context, number].count for number in numbers[exact].tolist()]
            if not context:
                lower[numbers == KEY] = most + 1  # there is no key without columns
            sure = exact | (lower > most)
            seen = visible(CountedContext(context, numbers, np.where(sure, lower, most + 1)), targets, most)
            is_known = sure[np.searchsorted(numbers, seen.numbers)]
            known[context] = CountedContext(context, seen.numbers[is_known], seen.exceptions[is_known])
            if not is_known.all():
                open_.append((context, seen.numbers[~is_known]))
        counted = {one.context: one for one in self._counts.counted(open_, most, self._enough)}
        self._counted_anew += sum(len(numbers) for _, numbers in open_)
        for context, _ in tasks:
            one = known[context]
            if context in counted:
                one = visible(together(one, counted[context]), targets, most)
            yield one

    def _candidate(self, one: NearConstraint) -> Candidate | None:
        """Return the constraint as a candidate; None if this table has no such candidate."""
        index = self._rows.space.schema.index
        context, target = (tuple(sorted(map(index, names))) for names in (one.context, one.target))
        number = self._counts.targets.number(one.shape, target)
        return None if number is None else (context, number)

    def _named(self, candidate: Candidate) -> NearConstraint:
        context, number = candidate
        shape, target = self._counts.targets.form(number)
        context_names, target_names = ([self._rows.space.schema.names[c] for c in some] for some in (context, target))
        return NearConstraint(shape, context_names, target_names)

    def _with_count(self, candidate: Candidate, count: ExceptionCount) -> NearConstraint:
        return self._named(candidate).counted(count.count, len(self._rows))


def _exact(followed: Followed) -> Iterator[CountedContext]:
    for (context, number), one in followed.items():
        yield CountedContext(context, np.array([number]), np.array([one.count]))
