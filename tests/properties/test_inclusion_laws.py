"""Laws of maintained inclusion dependencies: after any history they are those of the definition on the current rows.

Oracle tests over a few tiny tables, with and without keys: the set, each change with its reason and the value that
proves it, what is missing, and the state in the store.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import currently_in_test_context, given, note
from hypothesis import strategies as st

from holdfast import Maintainer
from holdfast.constraints import ConstraintChange, InclusionDependency
from holdfast.discovery.inclusion import seeding
from holdfast.discovery.inclusion.discover import discover_inclusions
from holdfast.discovery.inclusion.seeding import clustered
from holdfast.state.memory import MemoryStore
from holdfast.streaming.maintainers.inclusion import held_values
from holdfast.streaming.maintainers.inclusion.column_values import ColumnChange
from holdfast.streaming.maintainers.inclusion.maintainer import InclusionMaintainer
from holdfast.streaming.maintainers.maintainer import DELETE, INSERT, Records
from holdfast.tables import ReadOptions, Table, from_arrow
from tests.invariants import check_invariants
from tests.oracles import changes as changes_oracle
from tests.oracles import inclusion as oracle
from tests.oracles.values import Column, Row, Value, same, same_row
from tests.oracles.values import Table as OracleTable
from tests.properties.tables import DOMAINS

NAMES = ("r", "s t", "ü")


@dataclass
class One:
    """A table beside its model: a bag of rows."""

    name: str
    kinds: tuple[str, ...]
    rows: list[Row]

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(Column(f"c{i}", DOMAINS[kind][1]) for i, kind in enumerate(self.kinds))

    def table(self, rows: Sequence[Row]) -> Table:
        arrays = {
            f"c{i}": pa.array([row[i] for row in rows], DOMAINS[kind][0], from_pandas=False)
            for i, kind in enumerate(self.kinds)
        }
        return from_arrow(pa.table(arrays), self.name)

    @property
    def model(self) -> OracleTable:
        return OracleTable(self.name, self.columns, tuple(self.rows))


class Law:
    """The inclusions across some tables, and what must be true of every step."""

    def __init__(self, tables: list[One], *, texts: bool) -> None:
        self.tables = tables
        self.texts = texts
        seeds = [one.table(one.rows) for one in tables]
        self.maintainers = [Maintainer.seed(table, max_predicates=None, threads=1) for table in seeds]
        for maintainer in self.maintainers:
            maintainer.follow_values(texts=texts)
        self.store = MemoryStore()
        self.seed(seeds)
        self.restore()
        self.compare()

    def seed(self, tables: list[Table]) -> None:
        seeded = InclusionMaintainer.seed(*clustered(tables, texts=self.texts), self.store.load, texts=self.texts)
        self.store.write(seeded)

    def restore(self) -> None:
        restored = InclusionMaintainer.restore(self.store)
        assert restored is not None
        self.inclusion = restored

    def compare(self) -> None:
        models = [one.model for one in self.tables]
        if currently_in_test_context():
            note(f"rows: {[model.rows for model in models]}")
        expected = {oracle.text(*pair) for pair in oracle.reported(models, strings_all=self.texts)}
        assert {str(dependency) for dependency in self.inclusion.constraints} == expected
        check_invariants(self.inclusion)

    def apply(self, table: int, inserts: list[Row], deletes: list[Row]) -> None:
        before = [other.model for other in self.tables]
        found = self.inclusion.apply(self.changed(table, inserts, deletes))
        self.store.write(self.inclusion.save())
        self.compare()
        self.check(before, found)

    def changed(self, table: int, inserts: list[Row], deletes: list[Row]) -> tuple[ColumnChange, ...]:
        """Change a table; return what that does to its values."""
        one = self.tables[table]
        rows = [*deletes, *inserts]
        for gone in deletes:
            one.rows.pop(next(i for i, row in enumerate(one.rows) if same_row(row, gone)))
        one.rows += inserts
        operations = np.array([DELETE] * len(deletes) + [INSERT] * len(inserts), np.int8)
        return self.maintainers[table].apply_records(Records(one.table(rows), operations)).values

    def check(self, before: list[OracleTable], found: list[ConstraintChange]) -> None:
        """Compare changes with those of the definition."""
        after = [other.model for other in self.tables]
        expected = {
            change.constraint: change
            for change in changes_oracle.inclusion_changes(before, after, strings_all=self.texts)
        }
        assert sorted(str(change.constraint) for change in found) == sorted(expected)
        for change in found:
            theirs = expected[str(change.constraint)]
            assert (change.appeared, change.reason.value) == (theirs.change == "appeared", theirs.reason)
            assert isinstance(change.constraint, InclusionDependency)
            assert change.table == change.constraint.dependent.table
            if theirs.witnesses or not change.appeared:
                assert change.witness is not None
                assert any(same(change.witness.value, cast("Value", value)) for value in theirs.witnesses)


@st.composite
def laws(draw: st.DrawFn) -> Law:
    """Draw up to three tables with up to three columns, and their first rows."""
    tables = []
    for name in NAMES[: draw(st.integers(1, 3))]:
        kinds = tuple(draw(st.lists(st.sampled_from(sorted(DOMAINS)), min_size=1, max_size=3)))
        tables.append(One(name, kinds, draw(st.lists(rows_of(kinds), max_size=4))))
    return Law(tables, texts=draw(st.booleans()))


def rows_of(kinds: Sequence[str]) -> st.SearchStrategy[Row]:
    return st.tuples(*(st.sampled_from([None, *DOMAINS[kind][2]]) for kind in kinds))


@given(laws(), st.data(), st.sampled_from([1, 3, 1 << 20]))
def test_any_history(law: Law, data: st.DataObject, at_once: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(held_values, "_CELLS_AT_ONCE", at_once)
        patch.setattr(seeding, "_VALUES_AT_ONCE", at_once)
        law = Law(law.tables, texts=law.texts)
        for _ in range(data.draw(st.integers(1, 6), label="batches")):
            table = data.draw(st.integers(0, len(law.tables) - 1), label="table")
            one = law.tables[table]
            inserts = data.draw(st.lists(rows_of(one.kinds), max_size=3), label="inserts")
            going = data.draw(st.integers(0, len(one.rows)), label="how many go")
            deletes = data.draw(st.permutations(one.rows), label="order")[:going] if one.rows else []
            law.apply(table, inserts, deletes)
            if data.draw(st.booleans(), label="restored"):
                law.restore()
                law.compare()


@given(laws())
def test_examples_are_missing_values(law: Law) -> None:
    models = [one.model for one in law.tables]
    seen = oracle.with_strings_everywhere(models) if law.texts else models
    places = [(table, place) for table in seen for place in range(len(table.columns))]
    for a, left in enumerate(places):
        for b, right in enumerate(places):
            missing = oracle.missing_values(*left, *right) if a != b else []
            found = law.inclusion.examples(a, b, most=2)
            assert len(found) == min(2, len(missing))
            assert all(any(same(value, other) for other in missing) for value in found)


@pytest.mark.parametrize("keyed", [False, True])
def test_larger_tables_agree_with_discovery(keyed: bool) -> None:
    """Differential: hundreds of rows in and out of two tables, against `discover_inclusions` on what is there."""
    rng = np.random.default_rng(3)

    def frame(rows: int, first: int) -> pa.Table:
        return pa.table(
            {
                "id": np.arange(first, first + rows),
                "near": rng.integers(0, 60, rows).astype(float),
                "text": [f"t{i}" for i in rng.integers(0, 50, rows)],
                "flag": rng.integers(0, 2, rows).astype(bool),
            }
        )

    live = {"a": frame(300, 0), "b": frame(200, 0)}
    options = ReadOptions()
    seeds = {name: from_arrow(rows, name, options) for name, rows in live.items()}
    maintainers = {
        name: Maintainer.seed(table, key=["id"] if keyed else (), max_predicates=None) for name, table in seeds.items()
    }
    store = MemoryStore()
    store.write(InclusionMaintainer.seed(*clustered(list(seeds.values())), store.load))
    inclusion = InclusionMaintainer.restore(store)
    assert inclusion is not None
    for maintainer in maintainers.values():
        maintainer.follow_values(texts=False)
    changed = 0
    for step, size in enumerate((1, 40, 150, 3, 90, 120)):
        name = "ab"[step % 2]
        rows = live[name]
        gone = np.sort(rng.choice(len(rows), min(size, len(rows)), replace=False))
        born = frame(size, 1_000 * (step + 1))
        live[name] = pa.concat_tables([rows.take(np.setdiff1d(np.arange(len(rows)), gone)), born])
        both = pa.concat_tables([rows.take(gone), born])
        operations = np.array([DELETE] * len(gone) + [INSERT] * size, np.int8)
        result = maintainers[name].apply_records(Records(from_arrow(both, name), operations))
        changed += len(inclusion.apply(result.values))
        store.write(inclusion.save())
        expected = discover_inclusions(live)
        assert {str(c) for c in inclusion.constraints} == {str(c) for c in expected}
        assert (inclusion.clusters.missing == expected.constraints.clusters.missing).all()
        check_invariants(inclusion)
    assert changed
