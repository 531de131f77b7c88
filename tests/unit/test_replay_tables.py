"""holdfast replay: predicate spaces, several tables, files of changes, and what nearly holds."""

import json
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from holdfast.constraints import PredicateSpace, parse_denial
from holdfast.constraints.types import DATE, INTEGER
from holdfast.discovery.discover import discover
from holdfast.jobs.command_line import exit_code_of
from holdfast.jobs.files.changes import ChangeFile
from holdfast.streaming.maintainers.maintainer import DELETE, INSERT, UPDATE
from holdfast.tables import ReadOptions, from_arrow, read_table
from tests.unit.test_replay_command import JSON, KEYED, SHARED, Replayed, folder, run

__all__ = ["folder"]  # fixtures


@pytest.mark.usefixtures("folder")
class TestSpaces:
    def test_a_space_is_written_and_used_again(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert Replayed(capsys, "id\n4\n", "--write-space", "space.json", "--quiet").code == 0
        space = PredicateSpace.from_json(json.loads(Path("space.json").read_text()))
        assert [str(column) for column in space.schema] == ["id integer", "zip string", "city string"]
        Path("people.csv").write_text("id,zip,city\n1,2,3\n4,5,6\n")
        replayed = Replayed(capsys, "zip\n2\n", "--space", "space.json", *JSON)
        assert replayed.code == 0
        assert all("<" not in line.get("constraint", "") or "t.id <" in line["constraint"] for line in replayed.lines)

    def test_columns_that_the_space_leaves_out_are_not_read(self, capsys: pytest.CaptureFixture[str]) -> None:
        columns = [{"name": "id", "type": "integer"}, {"name": "city", "type": "string"}]
        space = {"format": 1, "table": "p", "columns": columns, "cross_columns": []}
        Path("space.json").write_text(json.dumps(space))
        replayed = Replayed(capsys, "city,id,zip\nLynn,5,x\n,5,y\n", *KEYED, "--space", "space.json", *JSON)
        assert replayed.code == 0
        assert {line["table"] for line in replayed.lines if "table" in line} <= {"p"}
        unknown = Replayed(capsys, "id,zpi\n5,y\n", *KEYED, "--space", "space.json", *JSON)
        assert unknown.code == 3
        assert "did you mean 'zip'?" in unknown.err

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--key", "ident"], "table people has no column 'ident'"),
            (["--key", "id,id"], "names a column of people twice"),
            (["--space", "people.csv"], "people.csv: "),
            (["--space", "other.json"], "no column 'age'"),
        ],
    )
    def test_usage(self, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
        columns = [{"name": name, "type": "integer"} for name in ("id", "age")]
        space = {"format": 1, "table": "p", "columns": columns, "cross_columns": []}
        Path("other.json").write_text(json.dumps(space))
        replayed = Replayed(capsys, "id\n4\n", *arguments)
        assert (replayed.code, replayed.out) == (2, "")
        assert message in replayed.err

    def test_a_base_without_rows_needs_types(self, capsys: pytest.CaptureFixture[str]) -> None:
        Path("people.csv").write_text("id,n\n")
        refused = Replayed(capsys, "id,n\na,1\n", *JSON)
        assert (refused.code, refused.out) == (2, "")
        assert "--typed-header" in refused.err
        assert Replayed(capsys, "id,n\na,1\n", *JSON, "--strings", "all").code == 0
        Path("people.csv").write_text("id(String),n(Integer)\n")
        replayed = Replayed(capsys, "id,n\na,1\na,1\n", "--typed-header", *JSON)
        assert (replayed.code, [line["constraints"] for line in replayed.batches]) == (0, [0, 2])

    @pytest.mark.parametrize("name", ["_op", "_seq"])
    def test_names_with_a_meaning_are_no_columns(self, capsys: pytest.CaptureFixture[str], name: str) -> None:
        Path("people.csv").write_text(f"id,{name}\n1,2\n")
        replayed = Replayed(capsys, "id\n4\n")
        assert replayed.code == 2
        assert f"has a column '{name}'" in replayed.err


class TestSeveralTables:
    ORDERS = "id,customer\n1,7\n2,7\n3,8\n"
    CUSTOMERS = "id,name\n7,Ann\n8,Bob\n"

    @pytest.fixture
    def tables(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.chdir(tmp_path)
        for name in ("base", "changes"):
            (tmp_path / name).mkdir()
        (tmp_path / "base/orders.csv").write_text(self.ORDERS)
        (tmp_path / "base/customers.csv").write_text(self.CUSTOMERS)
        (tmp_path / "changes/orders.csv").write_text("_seq,_op,id,customer\n1,insert,4,9\n4,update,4,7\n5,delete,1,\n")
        (tmp_path / "changes/customers.csv").write_text("_seq,id,name\n3,9,Ann\n2,8,Cid\n")
        (tmp_path / "base/.hidden").write_text("")
        return tmp_path

    @pytest.mark.usefixtures("tables")
    def test_changes_come_in_one_order(self, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, err = run(capsys, "base", "changes", *KEYED, *JSON, "--batch-size", "2")
        assert (code, err) == (0, "")
        lines = [json.loads(line) for line in out.splitlines()]
        batches = [line for line in lines if "change" not in line]
        assert [(b["batch"], b["rows_in"], b["rows_out"], b["rows"]) for b in batches] == [
            *((1, 2, 1, 6), (2, 2, 1, 7), (3, 0, 1, 6)),
        ]
        current = {
            "orders": pa.table({"id": [2, 3, 4], "customer": [7, 8, 7]}),
            "customers": pa.table({"id": [7, 8, 9], "name": ["Ann", "Cid", "Ann"]}),
        }
        holding = {(name, text) for name in current for text in _holding(current[name], Path(f"base/{name}.csv"))}
        assert batches[-1]["constraints"] == len(holding)
        found = {(name, text) for name in current for text in _seeded(Path(f"base/{name}.csv"))}
        for line in lines:
            if "change" in line:
                changed = {(line["table"], line["constraint"])}
                assert changed.isdisjoint(found) == (line["change"] == "appeared")
                found ^= changed
        assert found == holding

    @pytest.mark.usefixtures("tables")
    def test_text_names_the_table(self, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, err = run(capsys, "base", "changes", *KEYED)
        assert code == 0
        assert any(line.startswith("customers: - not(t.name = s.name)  (violated by") for line in out.splitlines())
        assert err.startswith("customers: 2 rows, 2 columns; ")

    @pytest.mark.usefixtures("tables")
    def test_tables_may_have_keys_of_their_own(self, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, _ = run(capsys, "base", "changes", "--key", "customers.id,orders.id,orders.customer", *JSON)
        assert (code, len([line for line in out.splitlines() if '"change"' not in line])) == (3, 4)
        code, out, err = run(capsys, "base", "changes", "--key", "customers.id", *JSON)
        assert (code, len([line for line in out.splitlines() if '"change"' not in line])) == (3, 3)
        assert err.startswith("changes/orders.csv, line 3: an update needs a key")

    def test_a_bad_record_stops_all_tables(self, tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (tables / "changes/customers.csv").write_text("_seq,id,name\n3,,Ann\n2,8,Cid\n")
        code, out, err = run(capsys, "base", "changes", *KEYED, *JSON, "--batch-size", "2")
        assert (code, len([line for line in out.splitlines() if '"change"' not in line])) == (3, 1)
        assert err.startswith("changes/customers.csv, line 2: key column id is null")

    def test_a_sequence_is_required(self, tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (tables / "changes/customers.csv").write_text("id,name\n")
        code, out, err = run(capsys, "base", "changes", *KEYED)
        assert (code, out) == (3, "")
        assert err.startswith("changes/customers.csv: its header lacks _seq")

    def test_folders_that_do_not_fit(self, tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, err = run(capsys, "base", "changes/orders.csv")
        assert (code, out) == (2, "")
        assert "two folders" in err
        assert run(capsys, "base", "changes", "--write-space", "s.json")[0] == 2
        (tables / "changes/items.csv").write_text("_seq,id\n")
        code, out, err = run(capsys, "base", "changes")
        assert (code, out) == (2, "")
        assert err.startswith("changes/items.csv has no counterpart: base has customers, orders.")
        (tables / "changes/items.csv").unlink()
        (tables / "changes/orders.parquet").write_text("")
        code, out, err = run(capsys, "base", "changes")
        assert (code, out) == (2, "")
        assert "both of table 'orders'" in err
        (tables / "empty").mkdir()
        assert "has no files" in run(capsys, "base", "empty")[2]
        assert not (tables / "s.json").exists()


def _holding(data: pa.Table, base: Path) -> set[str]:
    return {str(c) for c in discover(data, space=PredicateSpace(read_table(base).schema), max_predicates=4)}


def _seeded(base: Path) -> set[str]:
    table = read_table(base)
    return {str(c) for c in discover(table, space=PredicateSpace(table.schema), max_predicates=4)}


class TestChangeFiles:
    """The records of a batch as the maintainer gets them."""

    DATA = pa.table(
        {
            "a": pa.array([1, 2], pa.int64()),
            "s": ["x", "y"],
            "t": ["z", "x"],
            "d": pa.array([Decimal("1.5"), None], pa.decimal128(30, 1)),
            "f": [0.5, float("nan")],
            "day": pa.array([1, 2], pa.date32()),
        }
    )

    def _file(self, path: Path, data: pa.Table, *key: str) -> ChangeFile:
        parquet.write_table(data, path)
        schema = from_arrow(self.DATA, "r").schema
        return ChangeFile(path, ReadOptions(), schema, schema.names, key)

    def test_some_rows_have_their_own_small_dictionaries(self, tmp_path: Path) -> None:
        data = pa.table(
            {
                "_op": ["insert", "delete", "update", "insert"],
                "t": ["q", None, "w", "x"],
                "d": pa.array([Decimal(9), Decimal(2), None, Decimal("1.5")], pa.decimal128(30, 1)),
                "s": ["n", "w", "w", "m"],
                "f": [1.0, float("nan"), None, -0.0],
            }
        )
        file = self._file(tmp_path / "c.parquet", data)
        assert len(file) == 4
        assert file.bad.tolist() == [False, False, True, False]
        records = file.records(np.array([3, 1]))
        assert records.operations.tolist() == [INSERT, DELETE]
        table = records.table
        assert table.schema == file.schema
        assert [c.column for c in table.columns] == list(file.schema)
        assert table["s"].dictionary is table["t"].dictionary
        assert table["s"].dictionary is not None
        assert sorted(table["s"].dictionary.to_pylist()) == ["m", "w", "x"]
        assert table["d"].dictionary is not None
        assert len(table["d"].dictionary) == 2
        assert table.locate(0).endswith("c.parquet, row 4")
        first, second = table.rows([0, 1])
        assert first == {"a": None, "s": "m", "t": "x", "d": Decimal("1.5"), "f": 0.0, "day": None}
        assert (second["s"], second["t"], second["d"]) == ("w", None, Decimal("2.0"))
        assert str(second["f"]) == "nan"
        assert file.records(np.array([], np.int64)).table.row_count == 0

    def test_keyed_updates_are_good(self, tmp_path: Path) -> None:
        data = pa.table({"a": [1, None], "_op": ["update", "delete"], "_seq": [2, 1]})
        file = self._file(tmp_path / "c.parquet", data, "a")
        assert file.bad.tolist() == [False, True]
        assert file.sequence is not None
        assert file.sequence.tolist() == [2, 1]
        assert file.records(np.array([0])).operations.tolist() == [UPDATE]

    def test_types_of_another_kind(self, tmp_path: Path) -> None:
        data = pa.table({"a": ["1", "x", "3"], "day": ["2024-02-29", None, "2024-02-30"]})
        file = self._file(tmp_path / "c.parquet", data)
        assert file.bad.tolist() == [False, True, True]
        assert file.problem(2).endswith(
            "c.parquet, row 3, column day: '2024-02-30' is not a date such as 2024-02-29 (date)"
        )
        table = file.records(np.array([0])).table
        assert (table["a"].column.type, table["day"].column.type) == (INTEGER, DATE)
        assert table.row(0)["a"] == 1


@pytest.mark.parametrize("size", [3_000, 1_000])
def test_published_results(tmp_path: Path, capsys: pytest.CaptureFixture[str], size: int) -> None:
    """Known counts of airport; after each of the batches the sum of the changes is the set."""
    if not (SHARED / "airport_original.csv.gz").exists():
        pytest.skip("the real tables are not beside this checkout")
    out = tmp_path / "out.jsonl"
    base, changes = (SHARED / f"airport_{part}.csv.gz" for part in ("original", "incremental"))
    options = ["--typed-header", "--encoding", "latin-1", "--max-predicates", "0", "--quiet", "--format", "json"]
    space = tmp_path / "space.json"
    files = ["--output", str(out), "--write-space", str(space)]
    code, _, err = run(capsys, str(base), str(changes), *options, *files, "--batch-size", str(size))
    assert (code, err) == (0, "")
    read = PredicateSpace.from_json(json.loads(space.read_text()))
    published = (SHARED / "expected" / "airport_original.incdc.txt").read_text("utf-8").splitlines()
    found = {str(read.canonical(parse_denial(line))) for line in published if line.strip()}
    counts = {}
    for line in map(json.loads, out.read_text().splitlines()):
        if "change" in line:
            assert (line["constraint"] in found) == (line["change"] == "disappeared")
            found ^= {line["constraint"]}
        else:
            assert line["constraints"] == len(found)
            counts[line["batch"] * size] = len(found)
    last = counts.pop(max(counts))
    assert ([counts[rows] for rows in (3_000, 6_000, 9_000)], last) == ([26, 27, 28], 26)


@pytest.mark.usefixtures("folder")
class TestWhatNearlyHolds:
    """A wrong city of one of eight rows, its correction, and two wrong ones at once; a fourth of the rows may be wrong."""

    ROWS = "id,zip,city\n1,a,A\n2,a,A\n3,a,A\n4,a,A\n5,b,B\n6,b,B\n7,b,B\n8,b,B\n"
    CHANGES = "id,zip,city\n1,a,X\n1,a,A\n1,a,X\n2,a,Y\n5,b,Z\n5,b,B\n"
    NEAR = ("--near", "25%", "--max-context", "1", "--key", "id")
    ZIP_CITY = "{zip}: [] -> city"

    def test_json_lines(self, capsys: pytest.CaptureFixture[str], folder: Path) -> None:
        (folder / "people.csv").write_text(self.ROWS)
        replayed = Replayed(capsys, self.CHANGES, *self.NEAR, *JSON)
        assert (replayed.code, replayed.err) == (0, "")
        told = [line for line in replayed.lines if line.get("constraint") == self.ZIP_CITY]
        assert [(line["batch"], line["change"], line["before"], line["exceptions"]) for line in told] == [
            (1, "exceptions", 0, 1),
            (2, "exceptions", 1, 0),
            (3, "exceptions", 0, 1),
            (4, "exceptions", 1, 2),
            (5, "left", 2, 3),
            (6, "entered", None, 2),
        ]
        assert list(told[0]) == [
            *("batch", "change", "reason", "before", "family", "table", "constraint", "id"),
            *("shape", "context", "target", "exceptions", "rows", "share", "size"),
        ]
        assert (told[0]["family"], told[0]["shape"], told[0]["context"], told[0]["target"]) == (
            *("near", "constant", ["zip"], ["city"]),
        )
        assert [line["reason"] for line in told] == [None, None, None, None, "violated", None]
        assert (told[0]["rows"], told[0]["share"]) == (8, 0.125)

    def test_texts(self, capsys: pytest.CaptureFixture[str], folder: Path) -> None:
        (folder / "people.csv").write_text(self.ROWS)
        replayed = Replayed(capsys, self.CHANGES, *self.NEAR, "--sentences")
        lines = replayed.out.splitlines()
        assert lines[:2] == [
            f"~ {self.ZIP_CITY} (0 to 1 exception of 8 rows)",
            "    Rows with the same zip have the same city, but for 1 of 8 rows.",
        ]
        assert f"- {self.ZIP_CITY} (violated, 2 to 3 exceptions of 8 rows)" in lines
        assert f"+ {self.ZIP_CITY} (entered, 2 exceptions of 8 rows)" in lines
        assert "people: 8 rows, 3 columns; " in replayed.err
        assert " near constraints" in replayed.err

    def test_at_every_batch_it_is_what_discover_finds(self, capsys: pytest.CaptureFixture[str], folder: Path) -> None:
        (folder / "people.csv").write_text(self.ROWS)
        rows = dict(line.split(",", 1) for line in self.ROWS.splitlines()[1:])
        changes = self.CHANGES.splitlines()
        replayed = Replayed(capsys, self.CHANGES, *self.NEAR, *JSON)
        known = self._discovered(capsys)
        for batch, change in enumerate(changes[1:], 1):
            for line in replayed.lines:
                if line["batch"] == batch and "change" in line:
                    known.pop(line["constraint"], None)
                    if line["change"] != "left":
                        known[line["constraint"]] = line["exceptions"]
            number, rest = change.split(",", 1)
            rows[number] = rest
            now = "".join(f"{number},{rest}\n" for number, rest in rows.items())
            (folder / "people.csv").write_text("id,zip,city\n" + now)
            assert known == self._discovered(capsys)

    def test_without_orders(self, capsys: pytest.CaptureFixture[str], folder: Path) -> None:
        (folder / "people.csv").write_text(self.ROWS)
        without, every = (
            Replayed(capsys, self.CHANGES, *self.NEAR, "--family", family, *JSON) for family in ("key,fd", "key,fd,od")
        )
        told = [line for line in every.lines if line.get("shape", "") not in {"order", "order_desc"}]
        assert [line for line in without.lines if "change" in line] == [line for line in told if "change" in line]
        assert len(told) < len(every.lines)

    def test_what_is_refused(self, capsys: pytest.CaptureFixture[str]) -> None:
        code, _, err = run(capsys, "people.csv", "people.csv", "--near", "1%", "--family", "key")
        assert code == 2
        assert "replay --near maintains key,fd or key,fd,od" in err
        code, _, err = run(capsys, "people.csv", "people.csv", "--near", "1%", "--family", "dc")
        assert code == 2
        assert "'dc' is not one of key, fd, od, ind" in err
        code, _, err = run(capsys, "people.csv", "people.csv", "--near", "60%")
        assert code == 2
        assert "from 0% to 50%" in err

    def _discovered(self, capsys: pytest.CaptureFixture[str]) -> dict[str, int]:
        arguments = ["discover", "people.csv", "--near", "25%", "--max-context", "1", "--examples", "0", *JSON]
        assert exit_code_of(arguments) == 0
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        return {line["constraint"]: line["exceptions"] for line in lines}
