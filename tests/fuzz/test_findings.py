"""What was found, each as small as it gets: inputs that ended a run, hung it, or were answered wrongly."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from holdfast.constraints import Column, InputError, PredicateSpace, Schema, StateRefused, UsageError, parse_type
from holdfast.constraints.columns import unknown_name
from holdfast.constraints.parsing import parse_condition, parse_rule_body
from holdfast.constraints.rules import Threshold
from holdfast.display.secrets import masked
from holdfast.state.log import logged_after, owner
from holdfast.state.snapshots import Snapshots
from holdfast.streaming.decoding import files
from holdfast.streaming.decoding.files import ChangedFile, draft_of
from holdfast.streaming.incoming.arrivals import Target, arrivals
from holdfast.tables import ReadOptions, read_table
from tests.fuzz.readers import READERS, outcome
from tests.fuzz.seeds import MANIFEST, whole_manifest
from tests.fuzz.test_readers import deadline
from tests.unit.decoding_batches import arrived, drafted, target

DECIMAL, VARIABLE = "org.apache.kafka.connect.data.Decimal", "io.debezium.data.VariableScaleDecimal"
TIMES = "io.debezium.time.MicroTimestamp"


def wrapped(name: str, kind: str, value: Any, **more: Any) -> dict[str, Any]:
    fields = [{"field": "k", "type": "int64"}, {"field": "v", "type": kind, "name": name, **more}]
    return {"schema": {"type": "struct", "fields": fields}, "payload": {"k": 1, "v": value}}


def test_records_with_a_schema_and_without_in_one_batch() -> None:
    values = [wrapped(TIMES, "int64", 0), {"k": 2, "v": "2024-02-29T00:00:00Z"}]
    rows, bad = arrived("upsert", target("k integer; v timestamp", "k"), *((None, value) for value in values))
    assert [(row[0], row[1], row[2].isoformat()) for row in rows] == [
        ("insert", 1, "1970-01-01T00:00:00+00:00"),
        ("insert", 2, "2024-02-29T00:00:00+00:00"),
    ]
    assert not bad


def test_a_delete_keeps_the_column_that_orders_it() -> None:
    schema = target("k integer; v string", "k").schema
    ordered = Target(schema, ("k",), Column("lsn", parse_type("integer")))
    found = arrivals(drafted("json", ordered, {"k": 1, "v": "x", "lsn": 7, "_op": "delete"}), ordered)
    assert not found.bad
    assert found.records.sequence is not None
    assert found.records.sequence.tolist() == [7]


@pytest.mark.parametrize(
    "scale", [float("inf"), 1e308, 10**30, "9" * 5_000, 10**9, -(10**9), 1_001, [], {}, None, True]
)
def test_scales_of_any_size(scale: Any) -> None:
    record = wrapped(DECIMAL, "bytes", "AQ==", parameters={"scale": scale})
    text = json.dumps(record).replace("Infinity", "1e999")
    with deadline():
        rows, bad = arrived("upsert", target("k integer; v string", "k"), (None, text.encode()))
    assert len(rows) + len(bad) == 1


@pytest.mark.parametrize("scale", [-(2**63), 2**63 - 1, 1_001, -1_001])
def test_scales_that_values_bring(scale: int) -> None:
    record = wrapped(VARIABLE, "struct", {"scale": scale, "value": "AQ=="})
    with deadline():
        rows, bad = arrived("upsert", target("k integer; v string", "k"), (None, record))
    assert (rows, list(bad)) == ([], ["0"])


def test_a_text_in_utf_16_without_its_mark(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"A,B\n1,2\n")
    with pytest.raises(InputError, match="is not utf-16"):
        read_table(tmp_path / "a.csv", ReadOptions(encoding="utf-16"))


@pytest.mark.parametrize("family", [[], {}, 1, None, "x"])
def test_a_space_of_no_family(family: Any) -> None:
    with pytest.raises(UsageError, match="not a predicate space"):
        PredicateSpace.from_json({"format": 1, "table": "t", "columns": [], "cross_columns": [], "family": family})


def test_a_negation_whose_alternatives_come_to_few() -> None:
    orders = itertools.permutations(["t.A = 1", "t.B = 2", "t.C = 3", "t.D = 4"])
    with deadline():
        found = parse_rule_body("not(" + " or ".join(" and ".join(order) for order in orders) + ")")
        assert str(parse_condition(f"not({found})"))


def test_a_condition_of_many_comparisons_is_refused() -> None:
    with deadline(), pytest.raises(UsageError, match="more than 1000 comparisons"):
        parse_condition(" and ".join(f"t.A{i} = 1" for i in range(20_000)))


@pytest.mark.parametrize("text", ["9" * 5_000, "9" * 5_000 + "%", "²", "٣٣", "1" * 400 + ".5%", "1e5"])
def test_thresholds_that_are_none(text: str) -> None:
    with pytest.raises(UsageError, match="threshold"):
        Threshold.parse(text)


def test_names_of_any_length_are_told() -> None:
    with deadline(10):
        said = unknown_name("no column", "x" * 10**6, ["y" * 10**6, *map(str, range(10**5))])
    assert len(said) < 2_000


def test_headers_of_spaces(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"x{' ' * 10**6}y,b(int)\n1,2\n")
    with deadline(20):
        found = read_table(tmp_path / "a.csv", ReadOptions(typed_header=True))
    assert [str(column.type) for column in found.schema] == ["integer", "integer"]
    assert found.schema.names[1] == "b"


class TestBackups:
    def test_names_in_a_manifest_lead_nowhere(self, tmp_path: Path) -> None:
        folder = tmp_path / "snapshots"
        folder.mkdir()
        for number, name in enumerate(["../x", "/etc/x", "..", ".", "", "a\0b", "a/b", "x" * 300, "ok"]):
            about = {**MANIFEST, "files": {name: [1, "0" * 64]}}
            (folder / f"{number:020d}.{0:010d}.json").write_bytes(whole_manifest(about))
        (folder / f"{99:020d}.{0:010d}.json").write_bytes(whole_manifest({**MANIFEST, "files": {"a": [1, "../../x"]}}))
        assert [name[18:20] for name, snapshot in Snapshots(tmp_path).all() if snapshot is not None] == ["08"]

    @pytest.mark.parametrize(
        "content", [b"", b"[]", b"{}", b'{"epoch": "1"}', b"\xff", b"[" * 100_000, b'{"epoch": true}']
    )
    def test_a_damaged_note_of_the_owner(self, tmp_path: Path, content: bytes) -> None:
        (tmp_path / "OWNER").write_bytes(content)
        with pytest.raises(StateRefused, match="OWNER is damaged"):
            owner(tmp_path)

    def test_no_note_at_all(self, tmp_path: Path) -> None:
        assert owner(tmp_path) == {}

    @pytest.mark.parametrize("content", [b"", b"x", b"-1", b"1 ", b"9" * 5_000, b"\xff"])
    def test_a_damaged_beginning_of_an_epoch(self, tmp_path: Path, content: bytes) -> None:
        folder = tmp_path / "log" / f"{1:010d}"
        folder.mkdir(parents=True)
        (folder / "first").write_bytes(content)
        with pytest.raises(StateRefused, match="damaged"):
            list(logged_after(tmp_path, 0))


class TestSizes:
    TARGET = Target(Schema("t", (Column("k", parse_type("integer")),)), ("k",))

    @pytest.mark.parametrize("kind", ["json", "csv"])
    @pytest.mark.parametrize("codec", ["gzip", "bz2", "zstd", "lz4"])
    def test_what_a_few_bytes_become(self, kind: Any, codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(files, "_LARGEST", 1 << 22)
        out = pa.BufferOutputStream()
        with pa.CompressedOutputStream(out, codec) as stream:
            for _ in range(64):
                stream.write(b" " * (1 << 20))
        name = f"a.{kind}.{ {'gzip': 'gz', 'zstd': 'zst'}.get(codec, codec) }"
        (bad,) = arrivals(
            draft_of([ChangedFile(name, out.getvalue().to_pybytes(), 0)], self.TARGET, kind, ReadOptions()), self.TARGET
        ).bad
        assert bad.reason == f"{name} has more than 4 MiB, decompressed: write it as several files"

    def test_rows_that_a_few_bytes_say_there_are(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import io

        import pyarrow.parquet as pq

        monkeypatch.setattr(files, "_LARGEST", 1_000)
        out = io.BytesIO()
        pq.write_table(pa.table({"k": pa.array([1] * 5_000)}), out)
        (bad,) = arrivals(
            draft_of([ChangedFile("a.parquet", out.getvalue(), 0)], self.TARGET, "parquet", ReadOptions()), self.TARGET
        ).bad
        assert "says that it has 5,000 rows" in bad.reason

    def test_one_long_line(self) -> None:
        line = b'{"k": 1, "s": "' + b"x" * (10 << 20) + b'"}'
        with deadline():
            found = arrivals(draft_of([ChangedFile("a", line, 0)], self.TARGET, "json", ReadOptions()), self.TARGET)
        assert len(found.records) == 1


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3://AKIA:a/b/c@bucket/x", "s3://***@bucket/x"),
        ("t.password = s.password", "t.password = s.password"),
        ("t.token = s.ton?sig=f00", "t.token = ***"),
        ("password='a'password='b'", "password=***'b'"),
    ],
)
def test_masks(text: str, shown: str) -> None:
    assert masked(text) == shown
    assert masked(shown) == shown


def test_a_damaged_parquet_file_has_no_values_beyond_its_types(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    path = tmp_path / "a.parquet"
    texts = pa.array([b"\xff\xfe", b"a"], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"a": texts}), path)
    with pytest.raises(InputError, match="column a"):
        read_table(path)


@pytest.mark.parametrize("name", ["configuration", "rules-file"])
def test_as_many_problems_as_lines(name: str) -> None:
    with deadline():
        came = outcome(READERS[name], b"y" * (name == "rules-file") + b"".join(b"key%d: 1\n" % i for i in range(9_000)))
    assert came[0] in {"ConfigurationError", "UsageError"}
    assert "1000 errors" in came[1]


FOUND = sorted(path for path in (Path(__file__).parent / "found").iterdir() if path.is_file())


@pytest.mark.parametrize("file", FOUND, ids=lambda file: file.name)
def test_files_that_were_found(file: Path) -> None:
    name = file.name.rpartition("-")[0]
    assert isinstance(outcome(READERS[name], file.read_bytes()), tuple)
