"""`holdfast replay`: what it prints batch by batch, in which order changes come, and what it refuses.

The expected constraints of small tables are worked out by hand; known counts are those of the papers' data.
"""

import gzip
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyarrow import parquet

from holdfast.constraints import PredicateSpace, parse_denial
from holdfast.constraints.types import DATE, INTEGER
from holdfast.discovery.discover import discover
from holdfast.jobs.command_line import exit_code_of
from holdfast.jobs.files.changes import ChangeFile
from holdfast.streaming.maintainers.maintainer import DELETE, INSERT, UPDATE, Maintainer
from holdfast.tables import ReadOptions, from_arrow, read_table
from tests.oracles.denial import constraint_id

SHARED = Path(__file__).parents[3] / "shared" / "data"
PEOPLE = "id,zip,city\n1,01907,Swampscott\n2,01907,Swampscott\n3,10001,New York\n"
ZIP_CITY = "not(t.zip = s.zip and t.city != s.city)"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text(PEOPLE)
    return tmp_path


class Replayed:
    """What `replay people.csv changes.csv --family dc` says of some changes."""

    def __init__(self, capsys: pytest.CaptureFixture[str], changes: str, *arguments: str) -> None:
        Path("changes.csv").write_text(changes)
        self.code, self.out, self.err = run(capsys, "people.csv", "changes.csv", *arguments)

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def batches(self) -> list[dict[str, Any]]:
        return [line for line in self.lines if "change" not in line]


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    if "--batch-size" not in arguments:
        arguments = (*arguments, "--batch-size", "1")
    if "--family" not in arguments and "--near" not in arguments:
        arguments = (*arguments, "--family", "dc")
    code = exit_code_of(["replay", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


JSON = ("--format", "json", "--quiet")
KEYED = ("--key", "id")


@pytest.mark.usefixtures("folder")
class TestWhatIsPrinted:
    CHANGES = "_op,id,zip,city\ninsert,4,01907,Lynn\ndelete,4,,\ndelete,9,,\n"

    def test_json_lines_of_each_batch(self, capsys: pytest.CaptureFixture[str]) -> None:
        replayed = Replayed(capsys, self.CHANGES, *KEYED, *JSON)
        assert (replayed.code, replayed.err) == (0, "")
        gone, first, back, second, third = replayed.lines
        assert list(gone) == [
            *("batch", "change", "reason", "by", "witness"),
            *("family", "table", "constraint", "id", "kind", "predicates", "size"),
        ]
        assert (gone["batch"], gone["change"], gone["reason"], gone["by"]) == (1, "disappeared", "violated", None)
        assert (gone["family"], gone["table"], gone["constraint"]) == ("dc", "people", ZIP_CITY)
        assert gone["id"] == constraint_id("dc", "people", ZIP_CITY)
        lynn = {"key": {"id": 4}, "row": {"id": 4, "zip": "01907", "city": "Lynn"}}
        assert lynn in gone["witness"]
        assert {row["row"]["zip"] for row in gone["witness"]} == {"01907"}
        assert len(gone["witness"]) == 2
        assert (back["batch"], back["change"], back["reason"]) == (2, "appeared", "released")
        assert back["witness"] in ([], [lynn])
        for line in (first, second, third):
            assert line.pop("seconds") > 0
        assert first == {"batch": 1, "rows_in": 1, "rows_out": 0, "ignored": 0, "rows": 4, "constraints": 2}
        assert second == {"batch": 2, "rows_in": 0, "rows_out": 1, "ignored": 0, "rows": 3, "constraints": 3}
        assert third == {"batch": 3, "rows_in": 0, "rows_out": 0, "ignored": 1, "rows": 3, "constraints": 3}

    def test_text_and_what_is_said_beside_it(self, capsys: pytest.CaptureFixture[str]) -> None:
        replayed = Replayed(capsys, self.CHANGES, *KEYED, "--explain")
        assert replayed.code == 0
        gone, first, back, _, third = replayed.out.splitlines()
        assert gone.startswith(f"- {ZIP_CITY}  (violated by (id=")
        assert '(id=4, zip="01907", city="Lynn")' in gone
        assert gone.count('zip="01907"') == 2
        assert first.startswith("batch 1: 1 record, 1 in, 0 out; 4 rows, 2 constraints; ")
        assert back.startswith(f"+ {ZIP_CITY}  (released")
        assert third.startswith("batch 3: 1 record, 0 in, 0 out, 1 ignored; 3 rows, 3 constraints; ")
        assert "people: 3 rows, 3 columns; 3 denial constraints of at most 4 predicates\n" in replayed.err
        assert "3 batches, 3 records: 1 appeared, 1 disappeared; now 3 rows, 3 constraints\n" in replayed.err
        assert "compared across: nothing; space " in replayed.err
        assert "s  the slowest one, batch " in replayed.err

    def test_order_dependencies(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Boston breaks the orders of zips, Lynn splits a zip and ends the order of cities, until it goes."""
        changes = "_op,id,zip,city\ninsert,4,02139,Boston\ninsert,5,01907,Lynn\ndelete,5,,\n"
        replayed = Replayed(capsys, changes, *KEYED, "--family", "od", "--max-context", "1")
        assert replayed.code == 0
        assert "people: 3 rows, 3 columns; 7 order dependencies with at most 1 column in the context\n" in replayed.err
        parts = replayed.out.split("batch ")
        assert '- {}: id ~ zip  (violated by (id=3, zip="10001") and (id=4, zip="02139"))' in parts[0]
        cases = [sorted(line.partition("  (")[0] for line in part.splitlines() if line[0] in "+-") for part in parts]
        assert cases == [
            ["- {}: id ~ zip", "- {}: zip ~ city desc"],
            ["+ {zip}: id ~ city desc", "- {zip}: [] -> city", "- {}: id ~ city desc"],
            ["+ {zip}: [] -> city", "+ {}: id ~ city desc", "- {zip}: id ~ city desc"],
            [],
        ]
        assert "+ {zip}: id ~ city desc  (weakened from {zip}: [] -> city)" in parts[1]
        assert "- {zip}: id ~ city desc  (implied by {zip}: [] -> city)" in parts[2]
        assert '+ {zip}: [] -> city  (released by the loss of (id=5, zip="01907", city="Lynn"))' in parts[2]

    def test_order_dependencies_as_json(self, capsys: pytest.CaptureFixture[str]) -> None:
        replayed = Replayed(capsys, "id,zip,city\n4,01907,Lynn\n", *KEYED, *JSON, "--family", "od")
        lines = {line["constraint"]: line for line in replayed.lines if "change" in line}
        gone = lines["{zip}: [] -> city"]
        assert list(gone) == [
            *("batch", "change", "reason", "by", "witness"),
            *("family", "table", "constraint", "id", "context", "kind", "target", "size"),
        ]
        assert (gone["change"], gone["reason"], gone["family"]) == ("disappeared", "violated", "od")
        assert (gone["context"], gone["kind"], gone["target"], gone["size"]) == (["zip"], "constant", ["city"], 2)
        assert gone["id"] == constraint_id("od", "people", "{zip}: [] -> city")
        assert replayed.batches[0]["constraints"] == 4

    def test_implied_and_weakened_constraints_name_another(self, capsys: pytest.CaptureFixture[str]) -> None:
        """A second row of one key breaks `not(t.id = s.id)`, and its extensions by the other columns appear."""
        replayed = Replayed(capsys, "_op,id,zip,city\ninsert,1,02139,Boston\ndelete,1,02139,Boston\n")
        lines = replayed.out.splitlines()
        assert "+ not(t.id = s.id and t.zip = s.zip)  (weakened from not(t.id = s.id))" in lines
        assert "- not(t.id = s.id and t.zip = s.zip)  (implied by not(t.id = s.id))" in lines

    @pytest.mark.parametrize(("size", "rows"), [(1, [4, 5, 6, 7, 8]), (2, [5, 7, 8]), (5, [8]), (99, [8])])
    def test_batches_are_numbered_and_the_last_may_be_shorter(
        self, capsys: pytest.CaptureFixture[str], size: int, rows: list[int]
    ) -> None:
        changes = "id,zip,city\n" + "".join(f"{i},01907,Swampscott\n" for i in range(4, 9))
        replayed = Replayed(capsys, changes, "--batch-size", str(size), *JSON)
        assert [(line["batch"], line["rows"]) for line in replayed.batches] == [*enumerate(rows, 1)]
        assert len(replayed.lines) == len(rows)

    def test_no_changes_at_all(self, capsys: pytest.CaptureFixture[str]) -> None:
        replayed = Replayed(capsys, "id,zip,city\n")
        assert (replayed.code, replayed.out) == (0, "")
        assert replayed.err.endswith("no batches: CHANGES has no records\n")

    def test_a_file_is_whole_or_not_there(self, capsys: pytest.CaptureFixture[str]) -> None:
        printed = Replayed(capsys, self.CHANGES, *KEYED, *JSON).lines
        replayed = Replayed(capsys, self.CHANGES, *KEYED, *JSON, "--output", "found.jsonl")
        assert (replayed.code, replayed.out) == (0, "")
        written = [json.loads(line) for line in Path("found.jsonl").read_text().splitlines()]
        for line in (*printed, *written):
            line.pop("seconds", None)
        assert written == printed
        before = Path("found.jsonl").read_text()
        bad = Replayed(capsys, self.CHANGES + "insert,,,\n", *KEYED, *JSON, "--output", "found.jsonl")
        assert (bad.code, Path("found.jsonl").read_text()) == (3, before)
        assert Replayed(capsys, self.CHANGES + "insert,,,\n", *KEYED, "--output", "new.txt").code == 3
        assert sorted(p.name for p in Path().iterdir()) == ["changes.csv", "found.jsonl", "people.csv"]

    def test_an_interrupt_leaves_whole_batches(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        apply_records = Maintainer.apply_records
        calls = []

        def interrupted(self: Maintainer, records: Any) -> Any:
            calls.append(records)
            if len(calls) % 2 == 0:
                raise KeyboardInterrupt
            return apply_records(self, records)

        monkeypatch.setattr(Maintainer, "apply_records", interrupted)
        replayed = Replayed(capsys, self.CHANGES, *KEYED, *JSON)
        assert (replayed.code, replayed.err) == (130, "Interrupted.\n")
        assert [line["batch"] for line in replayed.batches] == [1]
        assert Replayed(capsys, self.CHANGES, *KEYED, "--quiet", "--output", "new.txt").code == 130
        assert not Path("new.txt").exists()


@pytest.mark.usefixtures("folder")
class TestRecords:
    def test_without_operations_all_are_inserts(self, capsys: pytest.CaptureFixture[str]) -> None:
        replayed = Replayed(capsys, "city,id\nLynn,1\n,5\n", *KEYED, *JSON, "--batch-size", "9")
        assert replayed.code == 0
        batch = replayed.batches[0]
        assert (batch["rows_in"], batch["rows_out"], batch["rows"]) == (2, 1, 4)

    def test_a_keyed_delete_needs_its_key_alone(self, capsys: pytest.CaptureFixture[str]) -> None:
        replayed = Replayed(capsys, "id,_op\n1,delete\n2,delete\n", *KEYED, *JSON, "--batch-size", "2")
        assert [(line["rows_out"], line["rows"]) for line in replayed.batches] == [(2, 1)]

    def test_without_a_key_rows_are_owed(self, capsys: pytest.CaptureFixture[str]) -> None:
        changes = "_op,id,zip,city\ndelete,4,,\ninsert,4,,\ninsert,4,,\n"
        replayed = Replayed(capsys, changes, *JSON)
        assert [(line["rows_in"], line["rows_out"], line["rows"]) for line in replayed.batches] == [
            *((0, 0, 3), (0, 0, 3), (1, 0, 4)),
        ]
        text = Replayed(capsys, "_op,id,zip,city\ndelete,4,,\ndelete,4,,\n", "--batch-size", "2")
        assert text.out.startswith("batch 1: 2 records, 0 in, 0 out, 2 owed; 3 rows")
        assert "2 deletes of rows that were never there owed\n" in text.err

    def test_the_sequence_orders_records_before_they_are_cut_into_batches(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        changes = "_seq,_op,id,zip,city\n30,delete,7,,\n10,insert,7,10001,New York\n-20,insert,6,10001,New York\n"
        replayed = Replayed(capsys, changes, *KEYED, *JSON)
        assert [line["rows"] for line in replayed.batches] == [4, 5, 4]
        equal = Replayed(capsys, "_seq,_op,id\n5,insert,7\n5,delete,7\n4,delete,1\n", *KEYED, *JSON)
        assert [line["rows"] for line in equal.batches] == [2, 3, 2]

    def test_types_are_those_of_the_base(self, capsys: pytest.CaptureFixture[str]) -> None:
        """A zip code that looks like a number stays a text; an identifier with a zero in front is a number."""
        replayed = Replayed(capsys, "id,zip,city\n004,1907,Swampscott\n", *JSON)
        assert (replayed.code, replayed.batches[0]["rows"]) == (0, 4)
        assert replayed.lines[0]["constraint"] == "not(t.zip != s.zip and t.city = s.city)"
        assert {row["row"]["zip"] for row in replayed.lines[0]["witness"]} == {"01907", "1907"}
        assert 4 in {row["row"]["id"] for row in replayed.lines[0]["witness"]}

    def test_options_hold_for_both_files(self, capsys: pytest.CaptureFixture[str]) -> None:
        Path("people.csv").write_text("id(String)|n(Integer)\n1|NA\n2|5\n3|6\n", encoding="utf-16")
        Path("changes.csv").write_text("n(Integer)|id(String)\nNA|4\n7|5\n8|6\n", encoding="utf-16")
        options = ["--typed-header", "--null", "NA", "--encoding", "utf-16", "--delimiter", "|", "--limit", "2"]
        code, out, err = run(capsys, "people.csv", "changes.csv", *options, "--batch-size", "9", *JSON)
        assert (code, err) == (0, "")
        *changes, batch = map(json.loads, out.splitlines())
        assert (batch["rows_in"], batch["rows"]) == (2, 4)
        assert "not(t.n = s.n)" in {change["constraint"] for change in changes}
        assert None in {row["row"]["n"] for change in changes for row in change["witness"]}

    @pytest.mark.parametrize("suffix", ["csv.gz", "parquet", "delta"])
    def test_other_formats(self, folder: Path, capsys: pytest.CaptureFixture[str], suffix: str) -> None:
        changes = {"_op": ["insert", "delete"], "id": [4.0, 1.0], "city": ["Lynn", None], "zip": ["01907", None]}
        file = folder / f"changes.{suffix}"
        if suffix == "csv.gz":
            text = "".join(f"{o},{i},{c or ''},{z or ''}\n" for o, i, c, z in zip(*changes.values(), strict=True))
            file.write_bytes(gzip.compress(f"_op,id,city,zip\n{text}".encode()))
        elif suffix == "parquet":
            parquet.write_table(pa.table(changes), file)
        else:
            write_deltalake(str(file), pa.table(changes))
        code, out, err = run(capsys, "people.csv", file.name, *KEYED, *JSON)
        assert (code, err) == (0, "")
        batches = [json.loads(line) for line in out.splitlines() if "change" not in json.loads(line)]
        assert [batch["rows"] for batch in batches] == [4, 3]


BAD = [
    ("_op,id\ninsert,4\nupsert,5\n", "changes.csv, line 3: _op is 'upsert': expected insert, update or delete"),
    ("_op,id\ninsert,4\n,5\n", "changes.csv, line 3: _op is empty: expected insert, update or delete"),
    ("_op,id\ninsert,4\nInsert,5\n", "changes.csv, line 3: _op is 'Insert'"),
    ("id\n4\nfive\n", "changes.csv, line 3, column id: 'five' is not a whole number within 64 bits (integer)"),
    ("id,zip\n4,x\n,y\n", "changes.csv, line 3: key column id is null"),
    ("_op,id\ninsert,4\n\ndelete,\n", "changes.csv, line 4: key column id is null"),
]


@pytest.mark.usefixtures("folder")
class TestBadRecords:
    @pytest.mark.parametrize(("changes", "message"), BAD)
    def test_the_batches_before_are_printed_and_nothing_of_its_own(
        self, capsys: pytest.CaptureFixture[str], changes: str, message: str
    ) -> None:
        replayed = Replayed(capsys, changes, *KEYED, *JSON)
        assert (replayed.code, [line["rows"] for line in replayed.batches]) == (3, [4])
        assert replayed.err.startswith(message)
        assert replayed.err.count("\n") == 1
        together = Replayed(capsys, changes, *KEYED, *JSON, "--batch-size", "2")
        assert (together.code, together.out, together.err) == (3, "", replayed.err)

    def test_an_update_needs_a_key(self, capsys: pytest.CaptureFixture[str]) -> None:
        replayed = Replayed(capsys, "_op,id,zip,city\ninsert,4,a,b\nupdate,4,a,c\n", *JSON)
        assert (replayed.code, len(replayed.batches)) == (3, 1)
        assert replayed.err.startswith("changes.csv, line 3: an update needs a key")

    def test_the_first_in_the_order_of_arrival_is_named(self, capsys: pytest.CaptureFixture[str]) -> None:
        changes = "_seq,id,zip\n4,x,\n3,4,a\n2,,b\n1,5,c\n"
        replayed = Replayed(capsys, changes, *KEYED, *JSON)
        assert (replayed.code, len(replayed.batches)) == (3, 1)
        assert replayed.err.startswith("changes.csv, line 4: key column id")
        assert Replayed(capsys, changes, *KEYED, *JSON, "--batch-size", "4").err == replayed.err

    def test_a_misfit_spares_the_values_beside_it(self, capsys: pytest.CaptureFixture[str]) -> None:
        """The file is read in another way where a value does not fit; what fits has the same values."""
        good = "_op,id,zip,city\ninsert,7,01907,Lynn\ninsert,8,,Lynn\n"
        expected = Replayed(capsys, good, *KEYED, *JSON).lines
        replayed = Replayed(capsys, good + "insert,9.5,10001,Lynn\n", *KEYED, *JSON)
        assert replayed.code == 3
        assert "line 4, column id: '9.5' is not" in replayed.err
        for line in (*expected, *(found := replayed.lines)):
            line.pop("seconds", None)
        assert found == expected

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ("id,zip,town\n4,a,b\n", "changes.csv: its header has a column that the base does not have, 'town'"),
            ("zip,city\na,b\n", "changes.csv: its header lacks the key column 'id'"),
            ("_seq,id\n1,4\n,5\n", "changes.csv, line 3: _seq is null"),
            ("_seq,id\n1,4\n1.5,5\n", "changes.csv, line 3, column _seq: '1.5' is not a whole number"),
            ("id,zip\n4,a\n5,b,c\n", "changes.csv, line 3: 3 field(s) where the header has 2"),
            ("id,id\n4,4\n", "changes.csv, line 1: columns 1 and 2 are both named 'id'"),
            ("", "changes.csv is empty"),
        ],
    )
    def test_a_file_that_cannot_be_read_as_a_whole(
        self, capsys: pytest.CaptureFixture[str], changes: str, message: str
    ) -> None:
        replayed = Replayed(capsys, changes, *KEYED, *JSON)
        assert (replayed.code, replayed.out) == (3, "")
        assert replayed.err.startswith(message)

    def test_two_rows_of_the_base_with_one_key(self, capsys: pytest.CaptureFixture[str]) -> None:
        Path("people.csv").write_text(PEOPLE + "2,10001,New York\n")
        replayed = Replayed(capsys, "id\n4\n", *KEYED)
        assert (replayed.code, replayed.out) == (3, "")
        assert "people.csv, line 3" in replayed.err
        assert "people.csv, line 5" in replayed.err

    def test_a_row_of_the_base_without_a_key(self, capsys: pytest.CaptureFixture[str]) -> None:
        Path("people.csv").write_text(PEOPLE + ",10001,New York\n")
        replayed = Replayed(capsys, "id\n4\n", *KEYED)
        assert (replayed.code, replayed.out) == (3, "")
        assert "people.csv, line 5" in replayed.err


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
