"""Laws of inclusions whose values lie in files by hash: after any history they are those of values in one store.

Oracle and differential tests over tables of a few rows, in blocks of a few rows, with a store that holds so few values
that files are written, merged and halved all the time.
"""

import shutil
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from holdfast.constraints import ConstraintChange, ExternalError, InclusionDependency, Rule, StateRefused
from holdfast.discovery.blocks.executors import InProcess
from holdfast.discovery.blocks.storage.block import Rows, write_blocks
from holdfast.discovery.blocks.storage.hashing import hashed
from holdfast.discovery.blocks.storage.location import Kept, Storage
from holdfast.discovery.blocks.storage.table import BlockTable, Source
from holdfast.discovery.blocks.values import parts as value_parts
from holdfast.discovery.blocks.values import records as value_records
from holdfast.discovery.blocks.values.parts import ValueFiles, ValueParts
from holdfast.discovery.blocks.values.records import NOT_FOUND, ValueRecords
from holdfast.discovery.inclusion.clusters import Clusters
from holdfast.discovery.inclusion.seeding import column_values
from holdfast.state import codecs
from holdfast.state.memory import MemoryStore
from holdfast.streaming.maintainers.inclusion import held_values
from holdfast.streaming.maintainers.inclusion.column_values import ColumnChange
from holdfast.streaming.maintainers.inclusion.held_values import files_in_use
from holdfast.streaming.maintainers.inclusion.maintainer import InclusionMaintainer
from holdfast.streaming.maintainers.rules.maintainer import MonitoredRule
from holdfast.streaming.maintainers.rules.values import ValueRules
from holdfast.streaming.maintainers.rules.watches import MOST_EXAMPLES
from holdfast.tables import Table, from_arrow
from holdfast.tables.arrays import Hashes
from tests.invariants import check_invariants
from tests.oracles import inclusion as oracle
from tests.oracles.values import Row, same
from tests.properties.tables import DOMAINS
from tests.properties.test_inclusion_laws import NAMES, Law, One, rows_of


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    """Files are read anew by every test, so that none lives on what another one left."""
    with patch.object(value_parts, "KEPT", Kept(1 << 20)):
        yield


class Spread(Law):
    """The law, with values in files; beside it the same history with all values in a store."""

    def __init__(self, tables: list[One], files: ValueFiles, *, texts: bool) -> None:
        self.files = files
        self.block_rows = files.most
        self.beside = Law(tables, texts=texts)
        super().__init__(tables, texts=texts)

    def seed(self, tables: list[Table]) -> None:
        blocks = {table.schema.table: self.blocked(table) for table in tables}
        clusters, parts = ValueParts.seed(blocks, self.files, texts=self.texts)
        self.store.write(InclusionMaintainer.seed_files(clusters, parts, texts=self.texts))

    def blocked(self, table: Table) -> BlockTable:
        storage = self.files.storage
        numbers = np.arange(table.row_count)
        blocks = list(write_blocks(storage.open().at("blocks"), Rows(numbers, table), self.block_rows))
        source = Source(Storage.at(f"{storage.address}/blocks"), table.schema, self.block_rows)
        return BlockTable(source, blocks, self.files.executors)

    def restore(self) -> None:
        restored = InclusionMaintainer.restore(self.store, self.files)
        assert restored is not None
        self.inclusion = restored
        self.rules = self._watched()

    def _watched(self) -> ValueRules:
        refs = [column.ref for column in self.inclusion.clusters.columns if not column.dropped]
        pairs = [(a, b) for a in refs for b in refs if a != b][:12]
        rules = [Rule(f"{a} in {b}", a.table, InclusionDependency(a, b)) for a, b in pairs]
        found = ValueRules(self.inclusion, [MonitoredRule(rule) for rule in rules])
        found.restore(self.store)
        return found

    def compare(self) -> None:
        super().compare()
        mine, theirs = self.inclusion.clusters, self.beside.inclusion.clusters
        assert _counted(mine) == _counted(theirs)
        assert (mine.missing == theirs.missing).all()
        assert (mine.missing_occurrences == theirs.missing_occurrences).all()
        stored = self.store.get("meta", b"inclusion_parts")
        assert stored is not None
        for runs in ValueParts.read(codecs.read_json(stored)["parts"], self.files).parts:
            assert all(one.values > 2 * other.values for one, other in pairwise(runs))
        assert files_in_use(self.store) <= set(self.files.storage.open().names())
        self._check_rules()

    def _check_rules(self) -> None:
        models = [one.model for one in self.tables]
        seen = oracle.with_strings_everywhere(models) if self.texts else models
        places = {(table.name, column.name): (table, i) for table in seen for i, column in enumerate(table.columns)}
        for state in self.rules.states(lambda _: 0):
            body = state.rule.body
            assert isinstance(body, InclusionDependency)
            sides = [places[side.table, side.column] for side in (body.dependent, body.referenced)]
            missing = oracle.missing_values(*sides[0], *sides[1])
            assert state.missing_values == len(missing)
            assert bool(state.examples) == bool(missing)
            assert len(state.examples) <= MOST_EXAMPLES
            assert all(any(same(e.violation.value, value) for value in missing) for e in state.examples), state
            numbers = [self.inclusion.number_of(side) for side in (body.dependent, body.referenced)]
            assert numbers[0] is not None
            assert numbers[1] is not None
            found = self.inclusion.examples(numbers[0], numbers[1], most=2)
            assert len(found) == min(2, len(missing))
            assert all(any(same(value, other) for other in missing) for value in found)

    def follow(self, changes: tuple[ColumnChange, ...], emptied: tuple[str, ...] = ()) -> list[ConstraintChange]:
        """Apply a batch, and commit it."""
        found = self.inclusion.apply(changes, emptied)
        self.rules.follow()
        self.store.write(self.inclusion.save())
        for part in self.rules.save():
            self.store.write(part)
        self.rules.forget_changes()
        before = set(self.files.storage.open().names())
        self.inclusion.committed()
        assert not set(self.files.storage.open().names()) - before
        return found

    def step(self, table: int, inserts: list[Row], deletes: list[Row], *, is_emptied: bool = False) -> None:
        one, before = self.tables[table], [other.model for other in self.tables]
        changes = self.changed(table, inserts, list(one.rows) if is_emptied else deletes)
        found = self.follow(*self.emptied(table, inserts)) if is_emptied else self.follow(changes)
        theirs = self.beside.inclusion.apply(changes)
        self.beside.store.write(self.beside.inclusion.save())
        assert sorted(map(_said, found)) == sorted(map(_said, theirs))
        self.compare()
        self.check(before, found)

    def emptied(self, table: int, inserts: list[Row]) -> tuple[tuple[ColumnChange, ...], tuple[str, ...]]:
        """Return what a batch does that takes all rows of a table before it puts some in."""
        one = self.tables[table]
        values = column_values(one.table(inserts), texts=self.texts)
        came = tuple(ColumnChange(v.member.ref.table, v.member.ref.column, v.values, v.counts) for v in values)
        return came, (one.name,)

    def undone(self, table: int, inserts: list[Row], how: str) -> None:
        """Apply a batch that is never committed."""
        changes, emptied = self.emptied(table, inserts)
        before = _counted(self.inclusion.clusters)
        if how == "failed":
            with patch.object(InclusionMaintainer, "_applied", _failing), pytest.raises(MemoryError):
                self.inclusion.apply(changes, emptied)
        else:
            self.inclusion.apply(changes, emptied)
            if how == "undone":
                self.inclusion.undo()
            else:
                self.restore()
        assert _counted(self.inclusion.clusters) == before
        assert not len(self.inclusion.save())
        check_invariants(self.inclusion)


def _failing(inclusion: InclusionMaintainer, changes: list[ColumnChange]) -> None:
    _APPLIED(inclusion, changes)
    raise MemoryError


_APPLIED = InclusionMaintainer._applied


def _said(change: ConstraintChange) -> tuple[str, bool, str, bool]:
    return str(change.constraint), change.appeared, change.reason.value, change.witness is None


def _counted(clusters: Clusters) -> dict[bytes, tuple[int, list[int]]]:
    """Return how many values the sets of columns have that have any."""
    numbers = np.arange(clusters.count)
    each = np.split(clusters.occurrences, clusters.starts[1:-1])
    rows = zip(clusters.bits(numbers), clusters.values.tolist(), each, strict=False)
    return {bits.tobytes(): (values, occurrences.tolist()) for bits, values, occurrences in rows if values}


@st.composite
def drawn_tables(draw: st.DrawFn) -> list[One]:
    """Draw up to three tables with up to three columns, and their first rows."""
    tables = []
    for name in NAMES[: draw(st.integers(1, 3))]:
        kinds = tuple(draw(st.lists(st.sampled_from(sorted(DOMAINS)), min_size=1, max_size=3)))
        tables.append(One(name, kinds, draw(st.lists(rows_of(kinds), max_size=5))))
    return tables


# without shrinking, which would take minutes: the notes say where it failed
@settings(phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(drawn_tables(), st.booleans(), st.integers(1, 4), st.integers(0, 6), st.integers(1, 3), st.data())
def test_any_history(tables: list[One], texts: bool, most: int, changed: int, cores: int, data: st.DataObject) -> None:
    folder = Path(tempfile.mkdtemp(prefix="holdfast-values-"))
    try:
        with patch.object(held_values, "_CELLS_AT_ONCE", data.draw(st.sampled_from([1, 1 << 20]), label="at once")):
            files = ValueFiles(InProcess(cores), Storage.at(str(folder)), most, changed)
            law = Spread(tables, files, texts=texts)
            for _ in range(data.draw(st.integers(1, 6), label="batches")):
                place = data.draw(st.integers(0, len(tables) - 1), label="table")
                one = tables[place]
                inserts = data.draw(st.lists(rows_of(one.kinds), max_size=3), label="inserts")
                going = data.draw(st.integers(0, len(one.rows)), label="how many go")
                deletes = data.draw(st.permutations(one.rows), label="order")[:going] if one.rows else []
                is_emptied = data.draw(st.booleans(), label="emptied")
                if how := data.draw(st.sampled_from(["", "undone", "failed", "crashed"]), label="another one first"):
                    law.undone(place, data.draw(st.lists(rows_of(one.kinds), max_size=3), label="its inserts"), how)
                law.step(place, inserts, deletes, is_emptied=is_emptied)
                if data.draw(st.booleans(), label="restored"):
                    law.restore()
                    law.compare()
    finally:
        shutil.rmtree(folder)


TINY = st.sampled_from([b"", b"a", b"b", b"ab", b"\0", b"nf\x7f\xf8"])
SPOKEN = st.dictionaries(TINY, st.dictionaries(st.integers(0, 3), st.integers(1, 5)), max_size=6)
Spoken = dict[bytes, dict[int, int]]


def records_of(spoken: Spoken) -> ValueRecords:
    entries = [(i, column, count) for i, of in enumerate(spoken.values()) for column, count in of.items()]
    places, columns, counts = np.array(entries, np.int64).reshape(-1, 3).T
    return ValueRecords.of(pa.array(spoken, pa.large_binary()), places, columns, counts)


def spoken_by(records: ValueRecords) -> Spoken:
    found: Spoken = {value: {} for value in records.values.to_pylist()}
    keys = list(found)
    for place, column, count in zip(records.places, records.columns, records.counts, strict=True):
        found[keys[place]][int(column)] = int(count)
    return found


@given(
    st.lists(SPOKEN, min_size=1, max_size=4),
    st.lists(TINY, unique=True),
    st.integers(0, 3),
    st.sampled_from([1, 2, 1 << 63]),
)
def test_records(several: list[Spoken], asked: list[bytes], column: int, hashes: int) -> None:
    """Whatever the hashes are, the same ones for many values included."""

    def colliding(values: pa.Array) -> Hashes:
        return hashed(values) % np.uint64(hashes)

    with patch.object(value_records, "hashed", colliding):
        runs = [ValueRecords.read(records_of(spoken).written()) for spoken in several]
        merged = ValueRecords.merged(runs)
        expected = {value: of for spoken in several for value, of in spoken.items()}
        assert spoken_by(merged) == expected
        assert (np.diff(merged.hashes.astype(object)) >= 0).all()
        values = pa.array(asked, pa.large_binary())
        rows = merged.rows_of(values, colliding(values))
        known = [value for value in asked if value in expected]
        assert [merged.values[row].as_py() for row in rows[rows != NOT_FOUND].tolist()] == known
        assert spoken_by(merged.occurring) == {value: of for value, of in expected.items() if of}
        assert merged.has(column).tolist() == [column in expected[value] for value in merged.values.to_pylist()]
        without = {value: {c: n for c, n in of.items() if c != column} for value, of in expected.items()}
        assert spoken_by(merged.without(np.array([column]))) == without


def followed(folder: Path, cores: int = 1, most: int = 1_000) -> tuple[ValueFiles, Clusters, ValueParts]:
    """Return two columns of which the second one lacks every third value of the first one, in files."""
    storage = Storage.at(str(folder))
    table = from_arrow(pa.table({"a": range(900), "b": [n if n % 3 else n + 1 for n in range(900)]}), "t")
    blocks = list(write_blocks(storage.open().at("blocks"), Rows(np.arange(900), table), 100))
    source = Source(Storage.at(str(folder / "blocks")), table.schema, 100)
    files = ValueFiles(InProcess(cores), storage, most)
    return files, *ValueParts.seed({"t": BlockTable(source, blocks, files.executors)}, files)


def test_lacking_values_are_listed_to_the_end(tmp_path: Path) -> None:
    """However few a task answers at a time; and who stops early asks few parts."""
    files, clusters, parts = followed(tmp_path, cores=3)
    store = MemoryStore()
    store.write(InclusionMaintainer.seed_files(clusters, parts))
    inclusion = InclusionMaintainer.restore(store, files)
    assert inclusion is not None
    every = set(range(0, 900, 3))
    assert len(parts.parts) == 6
    assert len(inclusion.examples(0, 1, 10_000)) == len(every)
    assert set(inclusion.examples(0, 1, 10_000)) == every
    first = inclusion.lacking(0, 1, 5)
    assert set(inclusion.examples(0, 1, 10)) <= every
    assert not set(inclusion.lacking(0, 1, 10_000, but=first)) & set(first)
    with patch.object(InProcess, "run", autospec=True, side_effect=InProcess.run) as run:
        assert len(inclusion.examples(0, 1, 2)) == 2
        assert [len(call.args[2]) for call in run.call_args_list] == [3]
        assert inclusion.examples(1, 1, 2) == []  # nothing is missing: nobody is asked
        assert run.call_count == 1


def test_the_store_outweighs_files(tmp_path: Path) -> None:
    """Values of the files that are not missing any more are no examples, nor those that are gone."""
    files, clusters, parts = followed(tmp_path)
    store = MemoryStore()
    store.write(InclusionMaintainer.seed_files(clusters, parts))
    inclusion = InclusionMaintainer.restore(store, files)
    assert inclusion is not None
    found, gone = (
        pa.array([b"ni" + n.to_bytes(8, "big") for n in range(start, 900, 9)], pa.large_binary()) for start in (0, 3)
    )
    changes = [("b", found, np.ones(100, np.int64)), ("a", gone, np.full(100, -1))]
    inclusion.apply([ColumnChange("t", *change) for change in changes])
    store.write(inclusion.save())
    assert sorted(inclusion.examples(0, 1, 1_000), key=int) == list(range(6, 900, 9))
    check_invariants(inclusion)


def test_parts_that_grow_are_halved(tmp_path: Path) -> None:
    files, _, parts = followed(tmp_path, most=100)
    before = len(parts.parts)
    numbers = pa.array([f"s{n}".encode() for n in range(3_000)], pa.large_binary())
    ones = np.ones(3_000, np.int64)
    parts = parts.with_more(ValueRecords.of(numbers, np.arange(3_000), 0 * ones, ones))
    parts = parts.with_more(ValueRecords.of(numbers.slice(0, 1), np.arange(1), ones[:1], ones[:1]))
    assert len(parts.parts) == 2 * before
    found = parts.counts(numbers, 2)
    assert found[0].tolist() == [0, 1]
    assert (found[1:] == [1, 0]).all()
    assert [len(runs) for runs in parts.parts] == [1] * len(parts.parts)
    assert ValueParts.read(parts.described, files).names == parts.names


def test_files_that_are_gone_are_told(tmp_path: Path) -> None:
    files, clusters, parts = followed(tmp_path)
    store = MemoryStore()
    store.write(InclusionMaintainer.seed_files(clusters, parts))
    with pytest.raises(StateRefused, match="it was seeded with `engine: spark`"):
        InclusionMaintainer.restore(store)
    restored = InclusionMaintainer.restore(store, files)
    assert restored is not None
    assert files_in_use(store) == parts.names == set(files.storage.open().names()) - {"blocks"}
    files.storage.open().remove(parts.names)
    values = pa.array([f"s{n}".encode() for n in range(100)], pa.large_binary())
    with pytest.raises(ExternalError, match=r"the file of values \w+ is gone from"):
        restored.apply([ColumnChange("t", "a", values, np.ones(100, np.int64))])
    assert (restored.clusters.missing == clusters.missing).all()
