"""Laws of the maintainer: after any history its constraints are those of the definition on the current rows.

Oracle tests, mostly as state machines over tiny tables, against `tests.oracles`: netting, counts, the reported set, each
change with its reason and its proof. A failure prints the steps that lead to it, and the line that repeats it.
"""

import itertools
import json
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from holdfast import Maintainer
from holdfast.constraints import ConstraintChange, InputError, PredicateSpace, RowImage
from holdfast.discovery.discover import discover
from holdfast.indexes.table_index import TableIndex
from holdfast.state import pieces
from holdfast.state.memory import MemoryStore
from holdfast.streaming.maintainers.maintainer import DELETE, INSERT, UPDATE, BatchResult, Records
from holdfast.tables import Table, from_arrow, space_of
from tests.invariants import check_invariants
from tests.oracles import changes, denial, order
from tests.oracles.changes import Counts, KeyedChange, KeylessChange
from tests.oracles.values import Column, Row, canonical, canonical_row, same_row
from tests.properties.tables import DOMAINS
from tests.taxes import tax_records

CODES = {"insert": INSERT, "update": UPDATE, "delete": DELETE}
MANY_ROWS = 9
BOUNDS = [*((n, None) for n in (0, 1, 2, 4)), *((None, n) for n in (0, 0, 1)), (0, 0), (2, 0), (1, 1)]
"""Of denial constraints and of order dependencies: each family alone, and both."""

Record = tuple[str, Row]
T = TypeVar("T")


@pytest.fixture(autouse=True, scope="module")
def tiny_pieces() -> Iterator[None]:
    """Save rows in pieces of two, so that every piece is cleaned sooner or later."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "PIECE", 2)
        patch.setattr(pieces, "_SLACK", 0)
        yield


@dataclass(frozen=True)
class Setting:
    """A table's columns, key, bounds and space, as the oracle and as the product see them.

    Parameters
    ----------
    bound, context : of denial constraints and of order dependencies; None where there are none.
    """

    kinds: tuple[str, ...]
    key: tuple[int, ...]
    bound: int | None
    context: int | None
    crossing: str

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(Column(f"{kind}{i}", DOMAINS[kind][1]) for i, kind in enumerate(self.kinds))

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    def arrow(self, rows: Sequence[Row], only: Sequence[int] | None = None) -> pa.Table:
        """Return rows as a frame, of all columns or some."""
        places = range(len(self.kinds)) if only is None else only
        arrays = {
            self.names[i]: pa.array([row[i] for row in rows], DOMAINS[self.kinds[i]][0], from_pandas=False)
            for i in places
        }
        return pa.table(arrays)

    def table(self, rows: Sequence[Row]) -> Table:
        return from_arrow(self.arrow(rows), "r")

    def records(self, batch: Sequence[Record]) -> Records:
        return Records(self.table([row for _, row in batch]), np.array([CODES[name] for name, _ in batch], np.int8))

    def expected_space(self, seed: Sequence[Row]) -> denial.Space:
        if self.crossing == "auto":
            return denial.automatic_space(self.columns, seed)
        return denial.listed_space(self.columns, self._pairs() if self.crossing == "all" else [])

    def maintainer(self, seed: Sequence[Row]) -> Maintainer:
        table = self.table(seed)
        return Maintainer.seed(table, **self.asked(table))

    def asked(self, table: Table) -> dict[str, Any]:
        """Return how a table is seeded."""
        pairs = tuple(self._pairs()) if self.crossing == "all" else ()
        space = space_of(table) if self.crossing == "auto" else PredicateSpace(table.schema, pairs)
        key = [self.names[i] for i in self.key]
        bounds = {"max_predicates": self.bound, "max_context": self.context}
        return {"key": key, **bounds, "space": space, "threads": 1}

    def reported(self, rows: Sequence[Row], space: denial.Space) -> set[str]:
        """Return the texts of all constraints of the families by the definition."""
        found: set[str] = set()
        if self.bound is not None:
            found |= denial.reported(rows, space, self.columns, self.bound).keys()
        if self.context is not None:
            dependencies = order.reported(rows, len(self.columns), self.context)
            found |= {order.text(dependency, self.columns) for dependency in dependencies}
        return found

    def changes(
        self, before: changes.Versions, after: changes.Versions, space: denial.Space
    ) -> dict[str, changes.Change]:
        """Return the change between two states by the definition, by the texts of the constraints."""
        found: set[changes.Change] = set()
        if self.bound is not None:
            found |= changes.denial_changes(before, after, space, self.columns, self.bound)
        if self.context is not None:
            found |= changes.order_changes(before, after, self.columns, self.context)
        return {change.constraint: change for change in found}

    def _pairs(self) -> list[tuple[int, int]]:
        groups = [column.group for column in self.columns]
        return [(a, b) for a, b in itertools.combinations(range(len(groups)), 2) if groups[a] == groups[b]]

    def key_of(self, row: Row) -> Hashable:
        return tuple(canonical(row[i]) for i in self.key)


@st.composite
def setting_and_seed(draw: st.DrawFn) -> tuple[Setting, list[Row]]:
    if draw(st.integers(0, 3)):
        kinds = tuple(draw(listed(st.sampled_from(sorted(DOMAINS)), 1, draw(st.sampled_from([3, 3, 4])))))
    else:  # three columns that are compared across: some constraints no table can break
        kinds = tuple(draw(listed(st.sampled_from(["boolean", "float", "integer"]), 3, 3)))
    keys = [()] * 3 + [c for n in (1, 2, 3) for c in itertools.permutations(range(len(kinds)), n)]
    bound, context = draw(st.sampled_from(BOUNDS))
    crossing = draw(st.sampled_from(["all", "auto", "none"]))
    setting = Setting(kinds, draw(st.sampled_from(keys)), bound, context, crossing)
    rows = draw(listed(rows_of(setting), 0, 6))
    return setting, list({setting.key_of(row): row for row in rows}.values()) if setting.key else rows


def listed(elements: st.SearchStrategy[T], least: int, most: int) -> st.SearchStrategy[list[T]]:
    """Draw lists whose lengths are equally likely; Hypothesis alone makes most of them empty."""
    return st.integers(least, most).flatmap(lambda size: st.lists(elements, min_size=size, max_size=size))


@cache
def rows_of(setting: Setting) -> st.SearchStrategy[Row]:
    """Draw rows with nulls outside of the key."""
    cells = [
        st.sampled_from(DOMAINS[kind][2] if i in setting.key else [None, *DOMAINS[kind][2]])
        for i, kind in enumerate(setting.kinds)
    ]
    return st.tuples(*cells)


@st.composite
def batches_of(draw: st.DrawFn, setting: Setting, live: Sequence[Row] = (), max_size: int = 5) -> list[Record]:
    """Draw batches whose rows, or keys, are often those of live rows; the more rows there are, the more go."""
    operations = ("insert", "delete", "update") if setting.key else ("insert", "delete")
    is_full = len(live) > MANY_ROWS
    batch = []
    for _ in range(draw(st.integers(0, max_size))):
        operation = "delete" if is_full else draw(st.sampled_from(operations))
        origin = "live" if is_full else draw(st.sampled_from(_ORIGINS if live else _ORIGINS[:1]))
        row = () if origin == "live" else draw(rows_of(setting))
        if origin != "new":
            known = live[draw(st.integers(0, len(live) - 1))]
            row = tuple((known if origin == "live" or i in setting.key else row)[i] for i in range(len(known)))
        batch.append((operation, row))
    return batch


_ORIGINS = ("new", "live", "rewritten")
"""Of a row in a batch: drawn, one that is live, or one that is live with other values beside the key."""


class Model:
    """The table by its definition."""

    def __init__(self, setting: Setting, seed: Sequence[Row]) -> None:
        self.setting = setting
        self.keyed = {setting.key_of(row): row for row in seed} if setting.key else {}
        inserts = [KeylessChange("insert", row) for row in seed]
        self.sums = [] if setting.key else changes.apply_keyless([], inserts)[0]

    def apply(self, batch: Sequence[Record]) -> Counts:
        if self.setting.key:
            key_of = self.setting.key_of
            keyed = [
                KeyedChange(name, key_of(row), None if name == "delete" else row, i)
                for i, (name, row) in enumerate(batch)
            ]
            self.keyed, _, counts = changes.apply_keyed(self.keyed, keyed)
        else:
            self.sums, counts = changes.apply_keyless(self.sums, [KeylessChange(name, row) for name, row in batch])
        return counts

    @property
    def versions(self) -> dict[Hashable, Row]:
        """The rows by name: their keys, or their values and which copy they are."""
        if self.setting.key:
            return dict(self.keyed)
        return {(canonical_row(row), copy): row for row, count in self.sums for copy in range(count)}

    @property
    def rows(self) -> list[Row]:
        return list(self.versions.values())


class Law:
    """A maintainer beside its model, and what must be true of every step."""

    def __init__(self, setting: Setting, seed: Sequence[Row]) -> None:
        self.setting = setting
        self.space = setting.expected_space(seed)
        self.model = Model(setting, seed)
        self.maintainer = self.seeded(seed)
        self.compare()

    def seeded(self, seed: Sequence[Row]) -> Maintainer:
        return self.setting.maintainer(seed)

    def restored(self, store: MemoryStore) -> Maintainer:
        return Maintainer.restore(store, threads=1)

    def reported(self) -> set[str]:
        return self.setting.reported(self.model.rows, self.space)

    def compare(self) -> None:
        """The set equals the oracle's on the current rows."""
        expected = self.reported()
        found = [str(constraint) for constraint in self.maintainer.constraints]
        note(f"rows: {self.model.rows}")
        assert len(found) == len(set(found)) == len(self.maintainer.constraints)
        assert set(found) == expected
        assert self.maintainer.count == len(found)
        assert self.maintainer.row_count == len(self.model.rows)
        check_invariants(self.maintainer)

    def apply(self, batch: Sequence[Record]) -> BatchResult:
        before = self.model.versions
        counts = self.model.apply(batch)
        result = self.maintainer.apply_records(self.setting.records(batch))
        self.compare()
        self.check_changes(before, result.changes)
        assert counted(result) == counted(counts)
        assert result.constraints == len(self.maintainer.constraints)
        assert result.seconds >= 0
        return result

    def start_anew(self, batch: Sequence[Record]) -> None:
        """Apply a batch to the table that was emptied before."""
        before = self.model.versions
        self.model = Model(self.setting, ())
        self.model.apply(batch)
        result = self.maintainer.apply_records(replace(self.setting.records(batch), truncated=True))
        self.compare()
        self.check_changes(before, result.changes)
        after = self.model.versions
        if self.setting.key:
            gone, come = before.keys() - after.keys(), after.keys() - before.keys()
            updated = sum(not same_row(before[key], after[key]) for key in before.keys() & after.keys())
            assert (result.deleted, result.inserted, result.updated) == (len(gone), len(come), updated)
        assert result.rows_in - result.rows_out == len(after) - len(before)

    def apply_frames(self, inserts: Sequence[Row], deletes: Sequence[Row]) -> list[ConstraintChange]:
        """Apply a netted step by frames, deletes by their keys alone where there are keys; None for no rows."""
        before = self.model.versions
        self.model.apply([*(("delete", row) for row in deletes), *(("insert", row) for row in inserts)])
        gone = self.setting.arrow(deletes, self.setting.key or None) if deletes else None
        found = self.maintainer.apply(self.setting.table(inserts) if inserts else None, gone)
        self.compare()
        self.check_changes(before, found)
        return found

    def check_changes(self, before: changes.Versions, found: Sequence[ConstraintChange]) -> None:
        """The changes are the difference of the sets, each with an admissible reason and a proof that checks."""
        after = self.model.versions
        expected = self.setting.changes(before, after, self.space)
        assert [change.appeared for change in found] == sorted(change.appeared for change in found)
        assert sorted(str(change.constraint) for change in found) == sorted(expected)
        for change in found:
            theirs = expected[str(change.constraint)]
            assert (change.appeared, change.reason.value) == (theirs.change == "appeared", theirs.reason), theirs
            assert change.table == "r"
            assert (change.by is not None) == bool(theirs.by)
            assert change.by is None or str(change.by) in theirs.by
            json.dumps(change.fields(), allow_nan=False)
            if change.reason.value == "violated":
                assert change.witness is not None
                t, s = (self.names_of(image, after) for image in change.witness.rows)
                assert not theirs.witnesses.isdisjoint(itertools.product(t, s)), "no live pair that violates it"
            elif change.reason.value == "released":
                for image in () if change.witness is None else change.witness.rows:
                    assert not theirs.witnesses.isdisjoint(self.names_of(image, before)), "did not hold it back"
            else:
                assert change.witness is None

    def names_of(self, image: RowImage, versions: changes.Versions) -> list[Hashable]:
        """Return the rows that an image shows."""
        assert list(image.values) == self.setting.names
        assert image.key == {name: image.values[name] for name in (self.setting.names[i] for i in self.setting.key)}
        return [name for name, row in versions.items() if same_row(row, tuple(image.values.values()))]

    def refuses(self, batch: Sequence[Record]) -> None:
        """A bad record changes nothing."""
        with pytest.raises(InputError):
            self.maintainer.apply_records(self.setting.records(batch))
        self.compare()


COUNTS = ("rows_in", "rows_out", "inserted", "deleted", "updated", "ignored", "newly_owed", "owed", "rows")


def counted(counts: BatchResult | Counts) -> dict[str, int]:
    return {name: getattr(counts, name) for name in COUNTS}


class Histories(RuleBasedStateMachine):
    """Any history of batches, good and bad."""

    law: Law
    law_of: Callable[[Setting, Sequence[Row]], Law] = Law
    undoing: Callable[[], None] | None = None
    store: MemoryStore | None = None

    @initialize(drawn=setting_and_seed())
    def seed(self, drawn: tuple[Setting, list[Row]]) -> None:
        self.law = type(self).law_of(*drawn)

    def drawn(self, data: st.DataObject, max_size: int = 5) -> list[Record]:
        return data.draw(batches_of(self.law.setting, self.law.model.rows, max_size), label="batch")

    @rule(data=st.data())
    def batch(self, data: st.DataObject) -> None:
        batch = self.drawn(data)
        before, standing = self.law.model.versions, self.law.reported()
        self.law.apply(batch)
        self.remember(batch, before, standing)

    @rule(data=st.data())
    def anew(self, data: st.DataObject) -> None:
        self.law.start_anew(self.drawn(data))
        self.undoing = None

    @rule(data=st.data())
    def frames(self, data: st.DataObject) -> None:
        batch = [(name, row) for name, row in self.drawn(data) if name != "update"]
        deletes = [row for name, row in batch if name == "delete"]
        inserts = [row for name, row in batch if name == "insert"]
        before, standing = self.law.model.versions, self.law.reported()
        self.law.apply_frames(inserts, deletes)
        self.remember(batch, before, standing)

    def remember(self, batch: list[Record], before: changes.Versions, standing: set[str]) -> None:
        """Keep how to undo a batch: with a key by its rows, without one by its records."""
        after = self.law.model.versions
        if self.law.setting.key:
            changed = [name for name in {**before, **after} if before.get(name) != after.get(name)]
            inserts = [before[name] for name in changed if name in before]
            deletes = [after[name] for name in changed if name in after]
        else:
            inserts = [row for name, row in batch if name == "delete"]
            deletes = [row for name, row in batch if name == "insert"]

        def undo() -> None:
            self.law.apply_frames(inserts, deletes)
            assert self.law.reported() == standing
            assert len(self.law.model.rows) == len(before)

        self.undoing = undo

    @precondition(lambda self: self.undoing is not None)
    @rule()
    def undo(self) -> None:
        """Apply then undo restores the set."""
        assert self.undoing is not None
        self.undoing()
        self.undoing = None

    @rule(data=st.data())
    def bad_record(self, data: st.DataObject) -> None:
        setting = self.law.setting
        batch = self.drawn(data, 3)
        row = data.draw(rows_of(setting), label="bad row")
        if setting.key:
            null = data.draw(st.sampled_from(setting.key), label="null key column")
            row = tuple(None if i == null else cell for i, cell in enumerate(row))
            bad = (data.draw(st.sampled_from(sorted(CODES)), label="operation"), row)
        else:
            bad = ("update", row)
        batch.insert(data.draw(st.integers(0, len(batch)), label="place"), bad)
        self.law.refuses(batch)

    @rule()
    def save_and_restore(self) -> None:
        """What changed since the last time is saved; what is restored goes on as if nothing had happened."""
        for written in self.law.maintainer.save(everything=self.store is None):
            self.store = self.store or MemoryStore()
            self.store.write(written)
        assert self.store is not None
        self.law.maintainer._rows.check_saved()
        self.law.maintainer = self.law.restored(self.store)
        self.law.compare()


Histories.TestCase.settings = settings(max_examples=4 * settings().max_examples, stateful_step_count=15)
TestHistories = Histories.TestCase


@given(setting_and_seed(), st.data())
def test_one_batch_equals_many(drawn: tuple[Setting, list[Row]], data: st.DataObject) -> None:
    setting, seed = drawn
    batch = data.draw(batches_of(setting, seed, max_size=8), label="batch")
    cuts = sorted(data.draw(st.sets(st.integers(0, len(batch))), label="cuts") | {0, len(batch)})
    one, many = Law(setting, seed), Law(setting, seed)
    result = one.apply(batch)
    parts = [many.apply(batch[start:end]) for start, end in itertools.pairwise(cuts)]
    assert standing(one) == standing(many)
    net: dict[str, int] = {}
    for change in (change for part in parts for change in part.changes):
        net[str(change.constraint)] = net.get(str(change.constraint), 0) + (1 if change.appeared else -1)
    assert {c: sign for c, sign in net.items() if sign} == {
        str(change.constraint): 1 if change.appeared else -1 for change in result.changes
    }
    if parts:
        assert (parts[-1].rows, parts[-1].owed) == (result.rows, result.owed)


@given(setting_and_seed(), st.data())
def test_the_order_of_changes_to_different_rows_does_not_matter(
    drawn: tuple[Setting, list[Row]], data: st.DataObject
) -> None:
    setting, seed = drawn
    batch = data.draw(batches_of(setting, seed, max_size=6), label="batch")
    name = setting.key_of if setting.key else canonical_row
    turns = data.draw(st.permutations([name(row) for _, row in batch]), label="turns")
    waiting = {turn: iter([record for record in batch if name(record[1]) == turn]) for turn in turns}
    other = [next(waiting[turn]) for turn in turns]
    one, two = Law(setting, seed), Law(setting, seed)
    first, second = one.apply(batch), two.apply(other)
    assert counted(first) == counted(second)
    assert {(str(c.constraint), c.reason) for c in first.changes} == {
        (str(c.constraint), c.reason) for c in second.changes
    }
    assert standing(one) == standing(two)


def standing(law: Law) -> list[str]:
    return [str(constraint) for constraint in law.maintainer.constraints]


def test_pandas_frames_and_what_may_be_left_out() -> None:
    people = pd.DataFrame({"id": [1, 2, 3], "zip": ["01907", "01907", "10001"], "city": ["Lynn", "Lynn", "New York"]})
    maintainer = Maintainer.seed(people, name="people", key=["id"])
    fd = "not(t.zip = s.zip and t.city != s.city)"
    assert fd in {str(c) for c in maintainer.constraints}
    (gone,) = [
        c for c in maintainer.apply(inserts=pd.DataFrame({"zip": ["01907"], "id": [4]})) if str(c.constraint) == fd
    ]
    assert gone.witness is not None
    assert {image.values["city"] for image in gone.witness.rows} == {"Lynn", None}
    assert fd in {str(c.constraint) for c in maintainer.apply(deletes=pd.DataFrame({"id": [4]})) if c.appeared}
    assert maintainer.apply() == []
    assert maintainer.apply(people.head(0), people.head(0)) == []
    assert maintainer.row_count == 3
    for bad in (pd.DataFrame({"zip": ["x"]}), pd.DataFrame({"id": [4], "town": ["x"]}), pd.DataFrame({"id": ["x"]})):
        with pytest.raises(ValueError, match=r"id|town"):
            maintainer.apply(inserts=bad)
    assert maintainer.row_count == 3


@pytest.mark.parametrize(("seed", "trees"), [(0, False), (1, False), (2, False), (3, True)])
@pytest.mark.parametrize(
    ("bound", "context", "keyed"), [(0, None, False), (4, None, True), (None, 0, False), (None, 2, True), (2, 0, True)]
)
def test_larger_tables_agree_with_discovery(
    seed: int, trees: bool, bound: int | None, context: int | None, keyed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Differential: hundreds of rows in and out, at several sizes of batches, against `discover` on what is there.

    Trees are searched where they are wanted, although tables of this size are compared faster without.
    """
    if trees:
        monkeypatch.setattr(TableIndex, "_pays", lambda *_: True)
    rng = np.random.default_rng(seed)
    names = ["AreaCode", "Phone", "State", "Zip", "HasChild", "Salary", "Rate"]
    everything = tax_records(900, seed=seed, error_rate=0.02).select(names)
    everything = everything.append_column("id", pa.array(range(len(everything))))
    table = from_arrow(everything.slice(0, 400), "tax")
    space = PredicateSpace(table.schema, ((names.index("Salary"), names.index("Rate")),))
    maintainer = Maintainer.seed(
        table, key=["id"] if keyed else (), max_predicates=bound, max_context=context, space=space, threads=2
    )
    live = set(range(400))
    for size in (1, 7, 60, 200, 1, 150):
        dead = rng.choice(sorted(live), size // 2, replace=False)
        born = rng.choice(sorted(set(range(900)) - live), size - size // 2, replace=False)
        found = {str(c) for c in maintainer.constraints}
        for change in maintainer.apply(inserts=everything.take(born), deletes=everything.take(dead)):
            assert (str(change.constraint) in found) != change.appeared
            found ^= {str(change.constraint)}
        live = live - set(dead.tolist()) | set(born.tolist())
        current = from_arrow(everything.take(sorted(live)), "tax")
        expected: set[str] = set()
        if bound is not None:
            expected |= {str(c) for c in discover(current, max_predicates=bound, space=space)}
        if context is not None:
            expected |= {str(c) for c in discover(current, family="od", max_context=context)}
        assert {str(c) for c in maintainer.constraints} == expected == found, f"seed {seed}, batch of {size}"
        assert maintainer.row_count == len(live)


@pytest.mark.parametrize("row", [(100, -1), (-1, 100)])
@pytest.mark.parametrize("trees", [False, True])
def test_a_row_breaks_an_order_from_either_end(
    row: tuple[int, int], trees: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TableIndex, "_pays", lambda *_: trees)
    rows = pd.DataFrame({"a": range(50), "b": range(50)})
    maintainer = Maintainer.seed(rows, name="r", max_predicates=None, max_context=0, threads=1)
    assert "{}: a ~ b" in {str(c) for c in maintainer.constraints}
    broken = maintainer.apply(inserts=pd.DataFrame({"a": [row[0]], "b": [row[1]]}))
    assert "{}: a ~ b" in {str(change.constraint) for change in broken if not change.appeared}
