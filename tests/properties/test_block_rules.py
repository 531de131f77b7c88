"""Laws of monitored rules over blocks: what is asked of blocks is what the table in memory says.

Differential tests: partners and sizes of groups against the indexes of a table in memory, with rows that are marked as
gone; rule states against those of `Maintainer`, batch by batch, over a live table in blocks of a few rows.
"""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Maintainer
from holdfast.constraints import PredicateSpace
from holdfast.discovery.blocks.block import Rows, rows_of, write_blocks
from holdfast.discovery.blocks.executors import InProcess
from holdfast.discovery.blocks.live import LiveBlocks
from holdfast.discovery.blocks.partners import BlockPartners
from holdfast.discovery.blocks.storage import Storage
from holdfast.discovery.blocks.table import BlockTable, Source
from holdfast.discovery.detection.check import declared as declared_rule
from holdfast.discovery.detection.columns import RowColumns
from holdfast.discovery.detection.forms import PairForm, form_of, space_with
from holdfast.discovery.detection.partners import PartnerCounts
from holdfast.indexes.group_counts import GroupCounts
from holdfast.indexes.row_hash import first_equal
from holdfast.indexes.rows import RowDelta, RowSet, Slots
from holdfast.indexes.sorted_groups import SortedGroups
from holdfast.state.memory import MemoryStore
from holdfast.streaming.maintainers import counting_blocks, watches
from holdfast.streaming.maintainers.counting_blocks import InBlocks
from holdfast.streaming.maintainers.rule_state import RuleState
from holdfast.streaming.maintainers.rules import MonitoredRule, RuleMaintainer, coding_space
from holdfast.tables import Table, from_arrow
from tests.oracles.values import Row
from tests.oracles.values import Table as OracleTable
from tests.properties.monitored import Both, Shown, declared, interrupted, kinds, table_like
from tests.properties.tables import DOMAINS, tables


@contextmanager
def _storage() -> Iterator[Storage]:
    folder = Path(tempfile.mkdtemp(prefix="holdfast-blocks-"))
    storage = Storage.at(str(folder))
    storage.open().prepare()
    try:
        yield storage
    finally:
        shutil.rmtree(folder)


def _forms(drawn: Sequence[Both], table: Table) -> list[PairForm]:
    found = [form_of(rule, {"r": table.schema}) for _, rule in drawn]
    return [form for form in found if isinstance(form, PairForm)]


def _held(rows: RowSet, table: Table) -> np.ndarray:
    """Put all rows of a table into a row set, and return the slot of each."""
    codes, _ = rows.encode(table)
    first, copies = np.unique(first_equal(codes, range(codes.shape[1])), return_counts=True)
    rows.change(codes[first], copies)
    return rows.slots_of(codes)


@given(st.data(), tables(max_columns=4, max_rows=10), st.integers(1, 4))
def test_what_rows_have_to_do_with_a_table_in_blocks(
    data: st.DataObject, both: tuple[OracleTable, Table], most: int
) -> None:
    """Rows are marked as gone between two questions, or are there again, as after a batch that is undone."""
    like, table = both
    forms = _forms(data.draw(declared(like)), table)
    every = np.array(data.draw(st.permutations(range(table.row_count))), np.int64)
    left = np.ones(table.row_count, np.bool_)
    with _storage() as storage:
        live = _live(storage, Rows(every, table), most)
        known = [(live.manifest, left)]
        for _ in range(data.draw(st.integers(1, 3))):
            if data.draw(st.booleans()):
                live.manifest, left = data.draw(st.sampled_from(known))
            goes = left & np.array(data.draw(st.lists(st.booleans(), min_size=len(left), max_size=len(left))), np.bool_)
            live.leave(Rows(every[goes], table.taken(np.flatnonzero(goes))))
            left = left & ~goes
            known.append((live.manifest, left))
            some = data.draw(st.lists(st.integers(0, table.row_count - 1), max_size=5)) if len(left) else []
            batch, rows = table.taken(np.array(some, np.int64)), table.taken(np.flatnonzero(left))
            _check_followed(live.table(), rows, batch, forms)
            _check_partners(live.table(), rows, batch, forms, data)


def _live(storage: Storage, rows: Rows, most: int) -> LiveBlocks:
    source = Source(storage, rows.table.schema, most)
    return LiveBlocks.of(BlockTable(source, list(write_blocks(storage.open(), rows, most)), InProcess(2)))


def _check_followed(whole: BlockTable, left: Table, batch: Table, forms: list[PairForm]) -> None:
    found = BlockPartners(whole, forms).follow(batch)
    rows = RowSet(space_with(PredicateSpace(left.schema), forms))
    _held(rows, left)
    codes, _ = rows.encode(batch)
    others = [i for i, form in enumerate(forms) if form.groups is None]
    expected = PartnerCounts(rows, [forms[i] for i in others])
    assert set(found.partners) == set(others)
    with rows.beside(codes) as slots:
        counts, _ = expected.count(slots, RowColumns(rows, slots), range(len(others)))
        for number, i in enumerate(others):
            assert found.partners[i].tolist() == counts[number].tolist()
    live = rows.live()
    for i, sizes in found.groups.items():
        groups = forms[i].groups
        assert groups is not None
        parts = [*groups.columns, *([] if groups.dependent is None else [groups.dependent])]
        for row, code in enumerate(codes):
            same = (rows.codes[live][:, list(groups.columns)] == code[list(groups.columns)]).all(axis=1)
            part = (rows.codes[live][:, parts] == code[parts]).all(axis=1)
            assert sizes.groups[sizes.asked.group[row]] == rows.copies[live[same]].sum()
            assert sizes.parts[sizes.asked.part[row]] == rows.copies[live[part]].sum()
            if groups.dependent is not None:
                batch_has = {
                    int(c[groups.dependent])
                    for c in codes
                    if (c[list(groups.columns)] == code[list(groups.columns)]).all()
                }
                others_there = set(rows.codes[live[same], groups.dependent].tolist()) - batch_has
                assert sizes.others[sizes.asked.group[row]] == min(2, len(others_there))


def _check_partners(whole: BlockTable, left: Table, batch: Table, forms: list[PairForm], data: st.DataObject) -> None:
    if not forms or not batch.row_count:
        return
    one = st.tuples(st.integers(0, len(forms) - 1), st.integers(0, batch.row_count - 1))
    wanted = data.draw(st.lists(one, max_size=4))
    for (form, row), partner in zip(wanted, BlockPartners(whole, forms).partners(batch, wanted), strict=True):
        rows = RowSet(space_with(PredicateSpace(left.schema), forms))
        _held(rows, left)
        codes, _ = rows.encode(batch.taken(np.array([row])))
        own = rows.slots_of(codes)[0]
        if own >= 0:
            rows.change(codes, -rows.copies[[own]])
        counts = PartnerCounts(rows, forms)
        with rows.beside(codes) as slots:
            there = counts.count(slots, RowColumns(rows, slots), [form])[0][form][0]
        if partner is None:
            assert not there
            continue
        found = rows_of(partner.row, left.schema).table
        assert repr(found.row(0)) in {repr(r) for r in left.rows(range(left.row_count))}
        alone = RowSet(space_with(PredicateSpace(left.schema), forms))
        _held(alone, found)
        codes, _ = alone.encode(batch.taken(np.array([row])))
        as_one = PartnerCounts(alone, [forms[form]])
        with alone.beside(codes) as slots:
            assert as_one.count(slots, RowColumns(alone, slots), [0])[0][0][0]


@given(st.data(), tables(max_columns=3, max_rows=8), st.booleans())
def test_sorted_groups(data: st.DataObject, both: tuple[OracleTable, Table], is_key: bool) -> None:
    """The sizes in rows that are sorted once are those that are kept as rows come and go."""
    _, table = both
    rows = RowSet(PredicateSpace(table.schema))
    _held(rows, table)
    order = data.draw(st.permutations(range(len(table.schema))))
    columns, dependent = (order, None) if is_key else (order[1:], order[0])
    found = SortedGroups(rows, columns, dependent)
    live = rows.live()
    for _ in range(2):
        kept = GroupCounts(rows, columns, dependent)
        distinct = np.unique(rows.codes[live][:, order], axis=0)
        groups, group = np.unique(rows.codes[live][:, list(columns)], axis=0, return_inverse=True)
        sizes = found.sizes(live, group.ravel())
        assert len(sizes.groups) == len(groups) <= len(distinct)
        assert not sizes.others.any()  # all are asked for
        if dependent is None:
            assert kept.pairs == sizes.groups @ (sizes.groups - 1)
        else:
            part = [np.flatnonzero((distinct == c).all(axis=1))[0] for c in rows.codes[live][:, order]]
            _, first = np.unique(part, return_index=True)
            assert kept.pairs == sizes.groups @ sizes.groups - sizes.parts[first] @ sizes.parts[first]
        lost = np.array(data.draw(st.lists(st.sampled_from(live.tolist()), unique=True)) if len(live) else [], int)
        rows.change(rows.codes[lost], -np.minimum(rows.copies[lost], 1))
        found.weigh()


class _Residents(RowSet):
    """Rows that changed or are shown, of a table whose rows are in blocks."""

    def __init__(self, space: PredicateSpace, key: Sequence[str], coding: PredicateSpace, live: LiveBlocks) -> None:
        super().__init__(space, key, coding)
        self.live_blocks = live
        self.brought = 0

    def __len__(self) -> int:
        return self.live_blocks.row_count

    def bring(self, arrays: pa.Table) -> Slots:
        rows = rows_of(arrays, self.space.schema)
        assert len(np.unique(rows.numbers)) == len(rows.numbers)
        self.brought += len(rows.numbers)
        codes, _ = self.encode(rows.table)
        first, of_row = np.unique(first_equal(codes, range(codes.shape[1])), return_inverse=True)
        slots, met = self.slots_of(codes[first]), np.bincount(of_row)
        known = np.where(slots >= 0, self.copies[slots], 0)
        found: Slots = self.hold(codes[first], np.maximum(known, met))[of_row]
        return found


class _Spread:
    """A table in blocks with its monitored rules: rows that are not asked about are nowhere else."""

    def __init__(
        self, storage: Storage, table: Table, key: Sequence[str], rules: Sequence[MonitoredRule], most: int
    ) -> None:
        self.live = _live(storage, Rows(np.arange(table.row_count), table), most)
        self.space = PredicateSpace(table.schema)
        self.key = key
        self.declared = rules
        self.rows, self.rules = self._made()
        self.rules.seed()
        self.store = MemoryStore()
        self.save(everything=True)

    def _made(self) -> tuple[_Residents, RuleMaintainer]:
        rows = _Residents(self.space, self.key, coding_space(self.space, self.declared), self.live)
        counting = partial(InBlocks, whole=self.live.table, bring=rows.bring)
        return rows, RuleMaintainer(rows, self.declared, counting=counting)

    def apply(self, deleted: Table, inserted: Table) -> None:
        """Let rows go and come."""
        manifest = self.live.manifest
        self.rows.begin()
        self.rules.begin()
        try:
            self.rules.apply(self._changed(deleted, inserted))
            self.rows.forget()
        except BaseException:
            self.rows.undo()
            self.rules.undo()
            self.live.manifest = manifest
            raise
        self._let_go()
        self.save()

    def restore(self) -> None:
        """Begin anew with what was saved."""
        self.rows, self.rules = self._made()
        self.rows.restore(self.store, b"")
        self.rules.restore(self.store, b"")

    def _changed(self, deleted: Table, inserted: Table) -> RowDelta:
        whole = self.live.table()
        stored = rows_of(whole.source.read_all(whole.base.blocks), whole.schema)
        for table in (stored.table, deleted, inserted):
            self.rows.encode(table)
        were, gone, new = (self.rows.encode(table)[0] for table in (stored.table, deleted, inserted))
        distinct, of_row = np.unique(np.concatenate([gone, new]), axis=0, return_inverse=True)
        like = [np.flatnonzero((were == one).all(axis=1)) for one in distinct]
        copies = np.array(list(map(len, like)), np.int64)
        self.rows.hold(distinct[copies > 0], copies[copies > 0])
        signs = np.zeros(len(distinct), np.int64)
        np.add.at(signs, of_row.ravel(), np.repeat([-1, 1], [len(gone), len(new)]))
        delta = self.rows.change(distinct, signs)
        going = [i for some, sign in zip(like, signs.tolist(), strict=True) for i in some[: max(-sign, 0)].tolist()]
        self.live.leave(Rows(stored.numbers[going], stored.table.taken(np.array(going, np.int64))))
        first = [np.flatnonzero((new == one).all(axis=1)) for one in distinct]
        coming = [i for some, sign in zip(first, signs.tolist(), strict=True) for i in some[: max(sign, 0)].tolist()]
        self.live.enter(inserted.taken(np.array(coming, np.int64)))
        self.live.settle()
        return delta

    def _let_go(self) -> None:
        unheld = np.setdiff1d(self.rows.live(), self.rules.held)
        self.rows.hold(self.rows.codes[unheld], np.zeros(len(unheld), np.int64))
        self.rows.forget()

    def save(self, *, everything: bool = False) -> None:
        """Store what changed."""
        for written in (*self.rows.save(b"", everything=everything), *self.rules.save(b"", everything=everything)):
            self.store.write(written)


def _like(ours: Sequence[RuleState], theirs: Sequence[RuleState]) -> None:
    """Assert that states say the same; which examples are shown may differ."""
    assert len(ours) == len(theirs)
    for our, their in zip(ours, theirs, strict=True):
        assert (our.rule, our.rows, our.violating_pairs) == (their.rule, their.rows, their.violating_pairs)
        assert (our.violating_rows, our.is_recent) == (their.violating_rows, their.is_recent)
        assert (our.holds, our.broken) == (their.holds, their.broken)
        assert bool(our.examples) == (not our.holds)
        assert {e.example_id for e in our.added} <= {e.example_id for e in our.examples}


def _known(state: RuleState) -> tuple[object, ...]:
    """Return what is known of a rule, but for what the last batch did."""
    examples = tuple(example.example_id for example in state.examples)
    return state.rule, state.rows, state.violating_pairs, state.violating_rows, state.is_recent, examples


def _cell(value: object) -> str:
    """Return a key as values are equal."""
    return "0.0" if value == 0 and isinstance(value, float) else repr(value)


def _one_each(rows: Sequence[Row], *, keyed: bool) -> list[Row]:
    """Return rows, of a keyed table the last one of each key."""
    return list({_cell(one[0]): one for one in rows}.values()) if keyed else list(rows)


@given(st.data(), tables(max_columns=4, max_rows=7), st.integers(1, 4), st.sampled_from([0.0, 1e9]), st.booleans())
def test_rules_over_blocks_are_those_of_one_machine(
    data: st.DataObject, both: tuple[OracleTable, Table], most: int, recount: float, keyed: bool
) -> None:
    like, _ = both
    drawn = data.draw(declared(like))
    domains = [st.sampled_from([None, *DOMAINS[kind][2]]) for kind in kinds(like)]
    if keyed:
        domains[0] = st.sampled_from(DOMAINS[kinds(like)[0]][2])
    row = st.tuples(*domains)
    key = [like.columns[0].name] if keyed else []
    current = _one_each(data.draw(st.lists(row, max_size=6)), keyed=keyed)
    rules = [MonitoredRule(rule, recount) for _, rule in drawn]
    seed = table_like(like, current)
    with pytest.MonkeyPatch.context() as patch, _storage() as storage:
        patch.setattr(watches.PartnersWatch, "seconds_anew", 1e9)
        expected = Maintainer.seed(
            seed, key=key, max_predicates=None, space=PredicateSpace(seed.schema), rules=rules, threads=1
        )
        spread = _Spread(storage, seed, key, rules, most)
        _like(spread.rules.states, expected.rules)
        shown = Shown(spread.rules.states)
        for _ in range(data.draw(st.integers(1, 5))):
            inserted = _one_each(data.draw(st.lists(row, max_size=5)), keyed=keyed)
            goes = data.draw(st.sets(st.integers(0, 6), max_size=4))
            if keyed:  # a row with a key that is there takes its place
                new = {_cell(one[0]) for one in inserted}
                goes |= {i for i, one in enumerate(current) if _cell(one[0]) in new}
            gone, here = (
                table_like(like, [one for i, one in enumerate(current) if i in goes]),
                table_like(like, inserted),
            )
            if data.draw(st.booleans()):
                _fails(spread, gone, here)
            spread.apply(gone, here)
            result = expected.step(inserts=here.to_arrow(), deletes=gone.to_arrow())
            current = [one for i, one in enumerate(current) if i not in goes] + inserted
            _like(spread.rules.states, result.rules)
            shown.follow(spread.rules.states)
            shown.are_violations(drawn, like, current, key)
            if data.draw(st.booleans()):
                spread.rules.recount()
                expected.recount_rules()
                _like(spread.rules.states, expected.rules)
            if data.draw(st.booleans()):
                _begins_anew(spread)
                expected = _again(expected, rules)
            spread.rules.check_invariants()


def _fails(spread: _Spread, gone: Table, here: Table) -> None:
    """Assert that a batch that fails at its end leaves nothing behind."""
    before = list(map(_known, spread.rules.states))
    with pytest.MonkeyPatch.context() as failing:
        failing.setattr(_Residents, "forget", interrupted)
        with pytest.raises(InterruptedError):
            spread.apply(gone, here)
    assert before == list(map(_known, spread.rules.states))
    assert not any(state.added or state.removed for state in spread.rules.states)


def _begins_anew(spread: _Spread) -> None:
    """Assert that what was saved is all there is."""
    before = list(map(_known, spread.rules.states))
    spread.save()
    spread.restore()
    assert before == list(map(_known, spread.rules.states))
    assert not any(state.added or state.removed for state in spread.rules.states)
    assert not spread.rules.gone


def _again(maintainer: Maintainer, rules: Sequence[MonitoredRule]) -> Maintainer:
    store = MemoryStore()
    for written in maintainer.save(everything=True):
        store.write(written)
    return Maintainer.restore(store, threads=1, rules=rules)


def test_large_batches_are_counted_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """So is what is left where rows went that are not resident: a batch that began with nothing."""
    table = from_arrow(pa.table({"a": [1, 1, 2], "b": [1, 2, 2]}), "r")
    texts = ["a -> b", "not(t.a < s.a and t.b > s.b)", "not(t.a > 1)"]
    with _storage() as storage:
        spread = _Spread(
            storage, table, [], [MonitoredRule(declared_rule(t, t, {"r": table.schema})) for t in texts], 2
        )
        assert _counts(spread) == [(2, 2), (0, 0), (None, 1)]
        monkeypatch.setattr(counting_blocks, "_MANY_CHANGED", 0)
        monkeypatch.setattr(watches.PartnersWatch, "follow", interrupted)
        spread.apply(
            table.taken(np.array([], np.int64)), from_arrow(pa.table({"a": [1, 2, 3, 3], "b": [7, 1, 0, 9]}), "r")
        )
        assert _counts(spread) == [(10, 7), (8, 6), (None, 4)]
        spread.rules.check_invariants()
        spread.rows.begin()
        spread.rules.begin()
        spread.live.empty()
        nothing = np.zeros(0, np.int64)
        spread.rules.apply(RowDelta(nothing, nothing, nothing, nothing, 0, 7, 0, *_emptied(spread.rows)))
        assert _counts(spread) == [(0, 0), (0, 0), (None, 0)]
        assert not any(state.examples for state in spread.rules.states)


def _emptied(rows: RowSet) -> tuple[Slots, Slots]:
    """Let all residents go; return them and how many copies of each."""
    live = rows.live()
    copies = rows.copies[live]
    rows.hold(rows.codes[live], np.zeros(len(live), np.int64))
    return live, -copies


def _counts(spread: _Spread) -> list[tuple[int | None, int]]:
    return [(state.violating_pairs, state.violating_rows) for state in spread.rules.states]
