"""A large text file that is taken over in parts is maintained as it is when it was read whole: *differential*."""

import json
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from holdfast import Maintainer, ReadOptions, read_table
from holdfast.constraints import ColumnRef, InputError, UsageError, parse_type
from holdfast.discovery.inclusion.clusters import Member
from holdfast.discovery.inclusion.seeding import ColumnValues, column_values
from holdfast.indexes import table_index
from holdfast.indexes.row_hash import RowHash
from holdfast.jobs.application.first_rows import first_rows
from holdfast.jobs.application.seeding import TableSeeder
from holdfast.jobs.application.state_rows import FirstRows, RowsOfProcess
from holdfast.jobs.configuration.reading import read_configuration
from holdfast.jobs.configuration.settings import Settings
from holdfast.state.memory import MemoryStore
from holdfast.streaming.maintainers.holdings import in_file
from holdfast.streaming.maintainers.holdings.in_file import WholeInFile, whole_of_file
from holdfast.streaming.maintainers.holdings.in_memory import WholeInMemory
from holdfast.streaming.maintainers.table.bounds import Bounds
from holdfast.tables import Table, delimited
from holdfast.tables.file_rows import FileRows
from tests.invariants import check_invariants
from tests.unit.test_blocks_reading import TEXTS
from tests.unit.test_evolution_plan import Quiet

NONE = Bounds(None)


def _file(folder: Path, text: str) -> Path:
    path = folder / "t.csv"
    path.write_text(text, encoding="utf-8")
    return path


def _read(rows: FileRows) -> list[dict[str, Any]]:
    """Return the rows of the last attempt."""
    found: list[dict[str, Any]] = []
    for attempt in rows.attempts():
        found = [row for table in attempt for row in table.rows(range(table.row_count))]
    return found


def _same(path: Path, options: ReadOptions, most: int) -> None:
    rows, expected = FileRows.of(path, options, most=most), read_table(path, options)
    assert rows.schema == expected.schema
    assert (rows.row_count, rows.table.warnings) == (expected.row_count, expected.warnings)
    assert repr(_read(rows)) == repr(expected.rows(range(expected.row_count)))
    places = range(expected.row_count)
    assert [rows.table.locate(i) for i in places] == [expected.locate(i) for i in places]


@pytest.mark.parametrize("most", [1, 100])
@pytest.mark.parametrize("text", sorted(TEXTS))
def test_rows_are_those_of_the_whole_file(
    text: str, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delimited, "_BLOCK_SIZES", (32, 1 << 12))
    _same(_file(tmp_path, TEXTS[text]), ReadOptions(), most)


@pytest.mark.parametrize(
    "options",
    [
        ReadOptions(strings="all"),
        ReadOptions(strings={"a"}),
        ReadOptions(types={"a": parse_type("decimal(5,1)"), "b": parse_type("string")}, ordered={"b": True}),
        ReadOptions(include=["b"]),
        ReadOptions(exclude=["a"]),
        ReadOptions(null_tokens=("x", "")),
        ReadOptions(nulls_by_look=True),
        ReadOptions(nulls_by_look=True, types={"a": parse_type("decimal(5,1)"), "b": parse_type("date")}),
    ],
)
def test_options_say_how_rows_are_read(options: ReadOptions, tmp_path: Path) -> None:
    is_by_look = options.nulls_by_look
    text = "a,b\n1,-\n?,2024-02-29\nNA,null\n" if is_by_look else "a,b\n1,x\n2,y\n3,z\n"
    _same(_file(tmp_path, text), options, 1)


def test_an_attempt_that_failed_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delimited, "_BLOCK_SIZES", (64, 1 << 12))
    path = _file(tmp_path, "a,b\n" + "1,x\n" * 40 + f"2,{'y' * 500}\n" + "3,z\n" * 3)
    _same(path, ReadOptions(), 7)
    found = Maintainer.seed(WholeInFile(FileRows.of(path, ReadOptions(), most=7)), max_predicates=None)
    assert sorted(found.rows()[0].to_pylist(), key=str) == sorted(read_table(path).to_arrow().to_pylist(), key=str)


def test_a_file_that_changes_between_the_passes_is_refused(tmp_path: Path) -> None:
    path = _file(tmp_path, "a\n1\n2\n")
    rows = FileRows.of(path, ReadOptions())
    path.write_text("a\n1\n2\n3\n")
    with pytest.raises(InputError, match=r"changed while it was read: it had 2 rows, then 3"):
        _read(rows)
    path.write_text("a\n1\nx\n")
    with pytest.raises(InputError, match=r"line 3, column a: 'x' is not a whole number"):
        _read(rows)


TEXT = "id,b,c\n" + "".join(f"{i},{'xyz'[i % 3]},{'' if i % 4 == 0 else i / 2}\n" for i in range(40))


def _whole(path: Path, most: int = 7) -> WholeInFile:
    return WholeInFile(FileRows.of(path, ReadOptions(), most=most))


@pytest.mark.parametrize("text", [TEXT, TEXT + TEXT.partition("\n")[2]])
def test_rows_and_values_are_those_of_the_table(text: str, tmp_path: Path) -> None:
    path = _file(tmp_path, text)
    whole, table = _whole(path), read_table(path)
    key = ["id"] if text is TEXT else []
    found = Maintainer.seed(whole, key=key, max_predicates=None)
    expected = Maintainer.seed(table, key=key, max_predicates=None)
    refs = [ColumnRef("t", name) for name in ("id", "c", "b")]
    assert _counted(whole.values(refs, _refused)) == _counted(column_values(table))
    check_invariants(found)
    store = MemoryStore()
    for written in found.save(everything=True):
        store.write(written)
    for maintainer in (found, expected):
        maintainer.follow_values(texts=False)
        maintainer.apply(deletes=pa.table({"id": [3], "b": ["x"], "c": [1.5]}))
        maintainer.apply(inserts=pa.table({"id": [3, 90], "b": ["new", None], "c": [None, -1.0]}))
    for written in found.save():
        store.write(written)
    for maintainer in (found, Maintainer.restore(store)):
        assert maintainer.row_count == expected.row_count
        rows, others = (sorted(m.rows()[0].to_pylist(), key=str) for m in (maintainer, expected))
        assert rows == others


@pytest.mark.parametrize("text", ["a,b\n1,x\n2,y\n1,z\n", "a,b\n1,x\n2,y\n1,x\n", "a,b\n1,x\n,y\n2,z\n"])
def test_a_key_that_is_there_twice_or_null_is_refused_alike(text: str, tmp_path: Path) -> None:
    path = _file(tmp_path, text)
    said = []
    for whole in (WholeInMemory(read_table(path)), _whole(path, 1)):
        with pytest.raises(InputError) as refused:
            Maintainer.seed(whole, key="a", max_predicates=None)
        said.append(str(refused.value))
    assert said[0] == said[1]


def test_only_large_text_that_no_family_searches_is_read_in_parts(tmp_path: Path) -> None:
    path = _file(tmp_path, TEXT)

    def is_in_file(bounds: Bounds, options: ReadOptions | None = None, large: int = 1) -> bool:
        return isinstance(whole_of_file(path, bounds, options, large=large), WholeInFile)

    assert is_in_file(NONE)
    assert not is_in_file(NONE, large=len(TEXT) + 1)
    assert not is_in_file(NONE, ReadOptions(limit=2))
    assert not is_in_file(Bounds(2))
    assert not is_in_file(Bounds(None, 1))
    with pytest.raises(UsageError, match="does not exist"):
        whole_of_file(tmp_path / "none.csv", NONE, large=1)


@pytest.mark.parametrize(
    ("asked", "is_in_file"),
    [
        ({"inclusion": {}}, True),
        ({"denial": {"max_predicates": 2}, "inclusion": {}}, False),
        ({"order": {"max_context": 1}}, False),
    ],
)
def test_an_application_takes_the_same_table_over(
    asked: dict[str, Any], is_in_file: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _file(tmp_path, TEXT)
    settings = _settings(tmp_path, asked)
    made = []
    for large in (1 << 27, 1):
        monkeypatch.setattr(in_file, "_LARGE", large)
        seeder = TableSeeder(settings, [], _refused, RowsOfProcess(_refused), Quiet())  # type: ignore[arg-type]
        seeded = seeder.seeded(settings.tables[0])
        values = [] if seeded.values is None else list(seeded.values)
        rows = sorted(seeded.maintainer.rows()[0].to_pylist(), key=str)
        made.append((seeded.record, rows, _counted(values), set(map(str, seeded.maintainer.constraints))))
    assert made[0] == made[1]
    assert isinstance(_first(settings).rows, WholeInFile) is is_in_file


def test_an_application_reads_a_table_whole_whose_records_have_a_sequence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _file(tmp_path, "id,b,at\n1,x,5\n2,y,6\n")
    monkeypatch.setattr(in_file, "_LARGE", 1)
    first = _first(_settings(tmp_path, {"inclusion": {}}, sequence="at"))
    assert not isinstance(first.rows, WholeInFile)
    assert first.sequence is not None


def _settings(folder: Path, asked: dict[str, Any], **table: Any) -> Settings:
    places = {name: f"./{name}" for name in ("state", "output", "checkpoint", "backup")}
    source = {"format": "files", "path": "./changes", "encoding": "json"}
    whole = {"name": "t", "seed": {"path": "./t.csv"}, "key": ["id"], "source": source, **table}
    text = {"name": "app", **places, "tables": [whole], "constraints": asked}
    return read_configuration(json.dumps(text).encode(), "c.yaml", str(folder)).settings


def _first(settings: Settings) -> FirstRows:
    return first_rows(settings.tables[0], settings, _refused, RowsOfProcess(_refused))


def test_near_constraints_and_rules_need_no_table(tmp_path: Path) -> None:
    path = _file(tmp_path, TEXT)
    wanted: dict[str, Any] = {"key": "id", "max_predicates": None, "near": "40%", "rules": ["b -> c"]}
    found, expected = (Maintainer.seed(data, **wanted) for data in (_whole(path), read_table(path)))
    assert set(map(str, found.near)) == set(map(str, expected.near))
    assert len(found.near)
    assert [str(verdict) for verdict in found.rules] == [str(verdict) for verdict in expected.rules]


def test_a_search_reads_the_table_whole(tmp_path: Path) -> None:
    path = _file(tmp_path, TEXT)
    found, expected = (Maintainer.seed(data, key="id", max_predicates=2) for data in (_whole(path), read_table(path)))
    assert set(map(str, found.constraints)) == set(map(str, expected.constraints))


def test_a_path_is_taken_over_in_parts_each_of_which_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _file(tmp_path, TEXT)
    monkeypatch.setattr(in_file, "_LARGE", 1)
    seen: list[weakref.ref[Table]] = []
    most = [0]
    typed = FileRows._typed

    def watched(rows: FileRows, texts: pa.Table, first: int) -> Table:
        table = typed(rows, texts, first)
        seen.append(weakref.ref(table))
        most[0] = max(most[0], sum(one() is not None for one in seen))
        return table

    monkeypatch.setattr(FileRows, "_typed", watched)
    monkeypatch.setattr(delimited, "_BLOCK_SIZES", (64, 1 << 12))
    of = FileRows.of
    monkeypatch.setattr(FileRows, "of", staticmethod(lambda path, options, name=None: of(path, options, name, 4)))
    assert Maintainer.seed(path, key="id", max_predicates=None).row_count == 40
    assert len(seen) > 5
    assert most[0] <= 2


def test_rows_that_nobody_searches_are_not_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    table = read_table(_file(tmp_path, TEXT))
    measured: list[int] = []
    monkeypatch.setattr(table_index.TableIndex, "measure", lambda _: measured.append(1))
    maintainer = Maintainer.taken_over(WholeInMemory(table), bounds=NONE)
    maintainer.apply(inserts=pa.table({"id": range(100, 3_000), "b": ["x"] * 2_900, "c": [0.5] * 2_900}))
    assert not measured


def test_a_hash_of_rows_has_at_most_five_places_a_row() -> None:
    codes = np.arange(9_000).reshape(-1, 1)
    rows = RowHash([0])
    for start in range(0, 9_000, 100):
        rows.insert(codes, np.arange(start, start + 100))
    assert rows._table.nbytes <= 4 * 5 * 9_000
    rows.rebuild(codes, np.arange(8_000))
    assert rows._table.nbytes <= 4 * 5 * 8_000
    assert np.array_equal(rows.find(codes, codes[:8_000]), np.arange(8_000))


def _counted(columns: list[ColumnValues]) -> dict[Member, dict[bytes, int]]:
    return {c.member: dict(zip(c.values.to_pylist(), c.counts.tolist(), strict=True)) for c in columns}


def _refused(*_: object) -> Any:
    raise AssertionError
