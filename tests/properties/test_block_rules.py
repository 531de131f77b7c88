"""Laws of monitored rules over blocks: what is asked of blocks is what the table in memory says.

Differential tests: partners and sizes of groups against the indexes of a table in memory, with rows that are marked as
gone; rule states against those of `Maintainer`, batch by batch, over a live table in blocks of a few rows.
"""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Maintainer
from holdfast.constraints import PredicateSpace, Rule, StateRefused, parse_rule_body
from holdfast.discovery.blocks.counting.partners import BlockPartners
from holdfast.discovery.blocks.storage import live
from holdfast.discovery.blocks.storage.block import Rows, rows_of, write_blocks
from holdfast.discovery.blocks.storage.live import LiveBlocks
from holdfast.discovery.blocks.storage.location import Storage
from holdfast.discovery.blocks.storage.table import BlockTable, Source
from holdfast.discovery.detection.check import check_tables
from holdfast.discovery.detection.columns import RowColumns
from holdfast.discovery.detection.forms import PairForm, form_of, space_with
from holdfast.discovery.detection.partners import PartnerCounts
from holdfast.indexes.encoding import NULL
from holdfast.indexes.group_counts import GroupCounts
from holdfast.indexes.row_hash import first_equal
from holdfast.indexes.rows import RowSet
from holdfast.indexes.sorted_groups import SortedGroups
from holdfast.state.memory import MemoryStore
from holdfast.streaming.maintainers.holdings import residents
from holdfast.streaming.maintainers.holdings.in_blocks import BlockPlace, WholeInBlocks
from holdfast.streaming.maintainers.maintainer import DELETE, INSERT, Records
from holdfast.streaming.maintainers.rules import counting_blocks, watches
from holdfast.streaming.maintainers.rules.maintainer import MonitoredRule
from holdfast.tables import Table, from_arrow
from tests.executors import Apart
from tests.invariants import check_invariants
from tests.oracles.values import Row
from tests.oracles.values import Table as OracleTable
from tests.properties.monitored import Both, Interrupted, Shown, declared, interrupted, kinds, table_like
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
        kept = LiveBlocks.of(_blocks(storage, Rows(every, table), most))
        known = [(kept.manifest, left)]
        for _ in range(data.draw(st.integers(1, 3))):
            if data.draw(st.booleans()):
                kept.manifest, left = data.draw(st.sampled_from(known))
            goes = left & np.array(data.draw(st.lists(st.booleans(), min_size=len(left), max_size=len(left))), np.bool_)
            kept.leave(Rows(every[goes], table.taken(np.flatnonzero(goes))))
            left = left & ~goes
            known.append((kept.manifest, left))
            some = data.draw(st.lists(st.integers(0, table.row_count - 1), max_size=5)) if len(left) else []
            batch, rows = table.taken(np.array(some, np.int64)), table.taken(np.flatnonzero(left))
            _check_followed(kept.table(), rows, batch, forms)
            _check_partners(kept.table(), rows, batch, forms, data)


def _blocks(storage: Storage, rows: Rows, most: int) -> BlockTable:
    source = Source(storage, rows.table.schema, most)
    return BlockTable(source, list(write_blocks(storage.open(), rows, most)), Apart(2))


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
        counts = (rows.codes[:, list(groups.present)] != NULL).all(axis=1)
        live = rows.live()[counts[rows.live()]]
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


@pytest.fixture(scope="module")
def tiny_blocks() -> Iterator[None]:
    """Fold after two batches, and let no resident stay that is not needed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live, "_MOST_YOUNG", 2)
        patch.setattr(live, "_MOST_MARKED", 2)
        patch.setattr(live, "_SORTED_BY_ONE", 1)
        patch.setattr(residents, "_FEW_RESIDENTS", 0)
        patch.setattr(watches.PartnersWatch, "seconds_anew", 1e9)
        yield


@pytest.mark.usefixtures("tiny_blocks")
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
    asked: dict[str, Any] = {
        "key": key,
        "max_predicates": 1,
        "space": PredicateSpace(seed.schema),
        "rules": rules,
        "threads": 1,
    }
    with _storage() as storage:
        expected = Maintainer.seed(seed, **asked)
        ours = Maintainer.seed(WholeInBlocks(_blocks(storage, Rows(np.arange(seed.row_count), seed), most)), **asked)
        pair = _Pair(ours, expected, BlockPlace(Apart(2), storage), rules)
        shown = Shown(ours.rules)
        for _ in range(data.draw(st.integers(1, 5))):
            inserted = _one_each(data.draw(st.lists(row, max_size=5)), keyed=keyed)
            goes = data.draw(st.sets(st.integers(0, 6), max_size=4))
            anew = data.draw(st.sampled_from([False, False, False, True]))
            deleted = [] if anew else [one for i, one in enumerate(current) if i in goes]
            operations = np.repeat(np.array([DELETE, INSERT], np.int8), [len(deleted), len(inserted)])
            records = Records(table_like(like, [*deleted, *inserted]), operations, truncated=anew)
            new = {_cell(one[0]) for one in inserted} if keyed else set()  # a row with a key takes its place
            left = [one for i, one in enumerate(current) if i not in goes and _cell(one[0]) not in new]
            current = inserted if anew else left + inserted
            pair.apply(records, fails_first=data.draw(st.booleans()))
            shown.follow(pair.ours.rules)
            shown.are_violations(drawn, like, current, key)
            if data.draw(st.booleans()):
                pair.recount()
            if data.draw(st.booleans()):
                pair.begin_anew()
            check_invariants(pair.ours)


class _Pair:
    """A table in blocks, and the same one in memory."""

    def __init__(self, ours: Maintainer, theirs: Maintainer, place: BlockPlace, rules: Sequence[MonitoredRule]) -> None:
        self.ours, self.theirs = ours, theirs
        self._place, self._declared = place, rules
        self._has_emptied = False
        self._compare()

    def apply(self, records: Records, *, fails_first: bool) -> None:
        """Apply a batch to both; where it fails before, at its end, nothing is left of it."""
        if fails_first:
            before = self._known()
            with pytest.MonkeyPatch.context() as failing:
                failing.setattr(Maintainer, "_remember", interrupted)
                with pytest.raises(Interrupted):
                    self.ours.apply_records(records)
            assert before == self._known()
            assert not any(state.added or state.removed for state in self.ours.rules)
        self.ours.apply_records(records)
        self.theirs.apply_records(records)
        self._has_emptied |= records.truncated
        self._compare()

    def recount(self) -> None:
        """Count the rows of all rules."""
        self.ours.rule_maintainer.recount()
        self.theirs.rule_maintainer.recount()
        self._compare()

    def begin_anew(self) -> None:
        """Go on with what was saved."""
        before = self._known()
        ours, theirs = MemoryStore(), MemoryStore()
        for maintainer, store in ((self.ours, ours), (self.theirs, theirs)):
            for written in maintainer.save(everything=True):
                store.write(written)
        self.ours = Maintainer.restore(ours, 0, 1, self._declared, self._place.restored)
        self.theirs = Maintainer.restore(theirs, threads=1, rules=self._declared)
        assert before == self._known()
        assert not any(state.added or state.removed for state in self.ours.rules)
        assert not self.ours.rule_maintainer.gone

    def _known(self) -> list[tuple[object, ...]]:
        """Return what is known of each rule, but for what the last batch did."""
        return [
            (state.violating_pairs, state.violating_rows, state.is_recent, [e.example_id for e in state.examples])
            for state in self.ours.rules
        ]

    def _compare(self) -> None:
        """Assert that both say the same; which examples are shown may differ.

        Of a table that was emptied, blocks count the rows of all rules anew, so that other rules are due from then on.
        """
        for our, their in zip(self.ours.rules, self.theirs.rules, strict=True):
            assert (our.rule, our.rows, our.violating_pairs) == (their.rule, their.rows, their.violating_pairs)
            assert our.is_recent == their.is_recent or self._has_emptied
            assert our.violating_rows == their.violating_rows or not (our.is_recent and their.is_recent)
            assert (our.holds, our.broken) == (their.holds, their.broken)
            assert bool(our.examples) == (not our.holds)


def _cell(value: object) -> str:
    """Return a key as values are equal."""
    return "0.0" if value == 0 and isinstance(value, float) else repr(value)


def _one_each(rows: Sequence[Row], *, keyed: bool) -> list[Row]:
    """Return rows, of a keyed table the last one of each key."""
    return list({_cell(one[0]): one for one in rows}.values()) if keyed else list(rows)


@given(st.data(), tables(max_columns=3, max_rows=6), st.integers(1, 3))
def test_rules_may_be_reworded_between_two_starts(
    data: st.DataObject, both: tuple[OracleTable, Table], most: int
) -> None:
    like, table = both
    first, second = ([MonitoredRule(rule) for _, rule in data.draw(declared(like))] for _ in range(2))
    with _storage() as storage:
        blocks = _blocks(storage, Rows(np.arange(table.row_count), table), most)
        ours = Maintainer.seed(WholeInBlocks(blocks), max_predicates=1, rules=first)
        shown = {state.rule.name: [e.example_id for e in state.examples] for state in ours.rules}
        store = MemoryStore()
        for written in ours.save(everything=True):
            store.write(written)
        try:
            restored = Maintainer.restore(store, 0, 1, second, BlockPlace(Apart(2), storage).restored)
        except StateRefused as error:
            assert "which the state was not seeded to compare" in str(error)
            return
    worded = {(one.rule.name, one.rule.text) for one in second}
    kept = {one.rule.name for one in first if (one.rule.name, one.rule.text) in worded}
    assert sorted(example.example_id for _, example in restored.rule_maintainer.gone) == sorted(
        example for name, examples in shown.items() if name not in kept for example in examples
    )
    for state, checked in zip(restored.rules, check_tables({"r": table}, [one.rule for one in second]), strict=True):
        assert (state.violating_pairs, state.violating_rows) == (checked.violating_pairs, checked.violating_rows)
        assert bool(state.examples) == (not state.holds)


def test_what_examples_show_is_saved_with_rules() -> None:
    """A rule that is new at a start brings its examples; the next start finds them, whether a batch came or not."""
    table = from_arrow(pa.table({"a": [1, 1, 2], "b": ["x", "y", "z"]}), "r")
    rules = [MonitoredRule(Rule("r", "r", parse_rule_body("a -> b")))]
    store = MemoryStore()
    with _storage() as storage:
        first = Maintainer.seed(WholeInBlocks(_blocks(storage, Rows(np.arange(3), table), 2)), max_predicates=None)
        for written in first.save(everything=True):
            store.write(written)
        second = Maintainer.restore(store, 0, 1, rules, BlockPlace(Apart(2), storage).restored)
        for written in second.save_rules():
            store.write(written)
        third = Maintainer.restore(store, 0, 1, rules, BlockPlace(Apart(2), storage).restored)
        (before,), (after,) = second.rules, third.rules
        assert before.examples
        assert after.examples == before.examples
        check_invariants(third)


def test_rows_that_nobody_knew_are_gone() -> None:
    """A table that is emptied, and gets back the rows that examples show: none of those that are here has changed."""
    table = from_arrow(pa.table({"a": [1] * 30, "b": list(range(30))}), "r")
    with _storage() as storage:
        blocks = _blocks(storage, Rows(np.arange(30), table), 9)
        ours = Maintainer.seed(WholeInBlocks(blocks), key=["b"], max_predicates=None, rules=["not(t.a = 1)", "key(a)"])
        assert _counts(ours) == [(None, 30), (30 * 29, 30)]
        shown = {
            int(str(row.key["b"]))
            for state in ours.rules
            for example in state.examples
            for row in example.violation.rows
        }
        back = table.taken(np.array(sorted(map(int, shown))))
        ours.apply_records(Records(back, np.full(len(shown), INSERT, np.int8), truncated=True))
        assert _counts(ours) == [(None, len(shown)), (len(shown) * (len(shown) - 1), len(shown))]
        check_invariants(ours)


def test_large_batches_are_counted_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    table = from_arrow(pa.table({"a": [1, 1, 2], "b": [1, 2, 2]}), "r")
    texts = ["a -> b", "not(t.a < s.a and t.b > s.b)", "not(t.a > 1)"]
    with _storage() as storage:
        ours = Maintainer.seed(
            WholeInBlocks(_blocks(storage, Rows(np.arange(3), table), 2)), max_predicates=None, rules=texts
        )
        assert _counts(ours) == [(2, 2), (0, 0), (None, 1)]
        monkeypatch.setattr(counting_blocks, "_MANY_CHANGED", 0)
        monkeypatch.setattr(watches.PartnersWatch, "follow", interrupted)
        ours.apply(inserts=pa.table({"a": [1, 2, 3, 3], "b": [7, 1, 0, 9]}))
        assert _counts(ours) == [(10, 7), (8, 6), (None, 4)]
        check_invariants(ours)


def _counts(maintainer: Maintainer) -> list[tuple[int | None, int]]:
    return [(state.violating_pairs, state.violating_rows) for state in maintainer.rules]
