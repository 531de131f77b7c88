"""Inputs that get somewhere: what the search for others begins with, and the words that it puts together."""

from __future__ import annotations

import hashlib
import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import feather

if TYPE_CHECKING:
    from collections.abc import Sequence

COLUMNS = ("k", "f", "d", "w", "s", "t", "n", "a", "b")

SCALARS = [
    b"1",
    b"-0",
    b"1.10",
    b"1e1000000",
    b"1E-400",
    b"9223372036854775807",
    b"9223372036854775808",
    b"-9223372036854775808",
    b"99999999.99",
    b"123456789012345678901234567890123.45678",
    b"0.000001",
    b"01907",
    b"nan",
    b"-Infinity",
    b".5",
    b"5.",
    b"+7",
    b"true",
    b"FALSE",
    b"null",
    b"2024-02-29",
    b"2023-02-29",
    b"0001-01-01",
    b"9999-12-31",
    b"2024-02-29T12:30:00",
    b"2024-02-29 12:30:05.123456789+02:00",
    b"9999-12-31T23:59:59.999999Z",
    b"0001-01-01T00:00:00+14:00",
    b"1677-09-21T00:12:43",
    b"2262-04-11T23:47:16.854775807Z",
    b"12:30",
    b"\xc3\xa9",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"a,b",
    b'"q""q"',
    b" 1 ",
    b"",
]
NUMBERS = SCALARS[:11]


def record(kind: bytes = b"") -> bytes:
    return (
        b'{"k":7,"f":1.5,"d":1.10,"w":123.45,"s":"x\\u00e9","t":"2024-02-29T12:30:00Z","n":"2024-02-29T12:30:00.123456789Z",'
        b'"a":"2024-02-29","b":true,"lsn":3%s}' % kind
    )


def _connect(*fields: tuple[str, str, str | None], **more: Any) -> dict[str, Any]:
    listed = [
        {"field": name, "type": kind, "optional": True, **({"name": alias} if alias else {}), **more}
        for name, kind, alias in fields
    ]
    return {"type": "struct", "optional": False, "fields": listed}


_CONNECT_FIELDS = [
    ("k", "int64", None),
    ("f", "double", None),
    ("d", "bytes", "org.apache.kafka.connect.data.Decimal"),
    ("w", "struct", "io.debezium.data.VariableScaleDecimal"),
    ("s", "int64", "io.debezium.time.MicroTime"),
    ("t", "int64", "io.debezium.time.MicroTimestamp"),
    ("n", "int64", "io.debezium.time.NanoTimestamp"),
    ("a", "int32", "io.debezium.time.Date"),
    ("b", "boolean", None),
]
_CONNECT_ROW = {
    "k": 7,
    "f": 1.5,
    "d": "AN4=",
    "w": {"scale": 3, "value": "AN4="},
    "s": 45_000_000_000,
    "t": 1_700_000_000_000_000,
    "n": 1_700_000_000_000_000_000,
    "a": 19_700,
    "b": True,
}


def json_bytes(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def topic_seeds() -> list[bytes]:
    """Messages of every encoding, alone and together."""
    struct = _connect(*_CONNECT_FIELDS, parameters={"scale": "2", "connect.decimal.precision": "10"})
    envelope = _connect(("op", "string", None))
    envelope["fields"] += [{**struct, "field": "before"}, {**struct, "field": "after"}]
    row = json.loads(record())
    bodies = [
        record(),
        record(b',"_op":"delete"'),
        record(b',"__op":"u","__deleted":"false"'),
        json_bytes({"schema": struct, "payload": _CONNECT_ROW}),
        json_bytes({"schema": struct, "payload": {**_CONNECT_ROW, "__deleted": "true"}}),
        *(json_bytes({"before": row, "after": {**row, "k": 8}, "op": op, "ts_ms": 1}) for op in "crudtm"),
        json_bytes({"schema": envelope, "payload": {"before": _CONNECT_ROW, "after": _CONNECT_ROW, "op": "u"}}),
        json_bytes({"before": None, "after": {**row, "s": "__debezium_unavailable_value"}, "op": "u"}),
        json_bytes({"status": "BEGIN", "id": "1", "event_count": 2}),
        b'{"ts_ms":1}',
        b"\x02",
        b"null",
    ]
    keyed = [b'{"k":7,"a":"2024-02-29"}', b"7", b'"x"', json_bytes({"schema": struct, "payload": {"k": 7, "a": 3}})]
    lines = [*bodies, *(key + b"\x01" + body for key in keyed for body in bodies[:8])]
    lines += [record().replace(b"7", scalar, 1) for scalar in NUMBERS]
    odd = (b'"%s"' % scalar for scalar in SCALARS)
    lines += [b'{"k":1,%s}' % b",".join(b'"%s":%s' % (name.encode(), text) for name in COLUMNS) for text in odd]
    return [bytes([mode]) + line for i, line in enumerate(lines) for mode in (i % 32, (i * 7 + 1) % 32)] + [
        bytes([mode]) + b"\n".join(lines[mode::5]) for mode in range(32)
    ]


def csv_text(delimiter: bytes = b",", names: Sequence[str] = COLUMNS) -> bytes:
    """Return a table of odd values."""
    fields = [scalar if not set(scalar) & set(b',;"') else b'"a%sb"' % delimiter for scalar in SCALARS]
    lines = [delimiter.join(name.encode() for name in names)]
    lines += [delimiter.join([b"%d" % i, *(fields[i + j :: 9][0] for j in range(len(names) - 1))]) for i in range(20)]
    return b"\n".join(lines)


def arrow_table() -> pa.Table:
    """Return one row of every type that a file may have."""
    return pa.table(
        {
            "k": pa.array([1, None, 3]),
            "f": pa.array([1.5, float("nan"), None]),
            "d": pa.array([Decimal("1.10"), None, Decimal("-1.00")], pa.decimal128(10, 2)),
            "w": pa.array([Decimal(10**30), None, Decimal(1)], pa.decimal128(38, 5)),
            "s": pa.array(["a", "é", None]).dictionary_encode(),
            "t": pa.array([datetime(2024, 2, 29, tzinfo=UTC)] * 3, pa.timestamp("us", "UTC")),
            "a": pa.array([date(2024, 2, 29), None, date(1, 1, 1)]),
            "b": pa.array([True, False, None]),
            "x": pa.array([[1], [2, 3], None]),
        }
    )


def parquet(**options: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(arrow_table(), out, **options)
    return out.getvalue()


def feather_file(compression: str) -> bytes:
    out = io.BytesIO()
    feather.write_feather(arrow_table(), out, compression=compression)
    return out.getvalue()


def compressed(content: bytes) -> list[bytes]:
    made = []
    for name in ("gzip", "bz2", "zstd", "lz4"):
        out = pa.BufferOutputStream()
        with pa.CompressedOutputStream(out, name) as stream:
            stream.write(content)
        made.append(out.getvalue().to_pybytes())
    return made


CSVS = [
    csv_text(),
    b"A,B\n1,2\n",
    b"\xef\xbb\xbfA\n\n1\n",
    b'A,B\n"x\ny",2\n"un',
    b"A(Integer),B(String)\n1,2",
    b"a decimal(10,2),b date\r\n1.5,2024-02-29\r\n",
    b"A\n",
    b"A,A\n",
    b'"A"x,B\n',
    b"A;B\n1;2\n",
    "Ä;B\n1;€\n".encode("cp1252"),
    "A,B\n1,2\n".encode("utf-16"),
    "A,B\n1,2\n".encode("utf-32"),
    b"A,B\n1\n1,2,3\n",
    b"A\n\x00\n",
    b"PAR1",
    b"\x1f\x8b",
]
CONSTRAINTS = [
    b"not(t.Zip = s.Zip and t.City != s.City)",
    "¬(t0.State(String) == t1.State(String)^t0.Rate(Double) <> t1.Rate(Double))".encode(),
    "∀ t, s: not{t1.A < t2.A ∧ t1.`a b` ≥ t2.B}".encode(),
    b"[DC: t0.a-b(String) == t1.a-b(String)  t0.c(Integer) > t1.d(Integer)  ]",
    b"{X, Y}: [] -> A",
    b"{`a``b`}: A ~ B desc",
    b"orders.o_custkey in customer.`c custkey`",
    b"not()",
    b"\\neg(t.A \\leq s.A \\wedge t.B \\neq s.B)",
]
RULES = [
    *CONSTRAINTS,
    b"key(A, B)",
    b"unique(Phone)",
    b"Zip, Street -> City",
    b"not(t.Salary <= 0 or t.State is not null and t.Name = 'it''s')",
    b"t.A = s.A and t.B > 5 and not (t.C is null or s.D >= -1.5e3)",
    b"not not not (t.A = true and 'x' < t.B)",
    b"not(" + b" or ".join(b"t.A%d = 1 and t.B%d = 2" % (i, i) for i in range(7)) + b")",
    b"(" * 50 + b"t.A = 1" + b")" * 50,
]
CONFIGURATIONS = [
    b"""name: app
state: ./state
backup: ./backup
output: ./out
checkpoint: ./checkpoint
trigger: {interval: 500 ms, max_records: 10, max_bytes: 64 MB}
storage_options: {aws_secret_access_key: "${SECRET_TOKEN}"}
tables:
  - name: tax
    key: [id]
    columns: {id: integer, name: {type: string, ordered: true}}
    source: {format: kafka, servers: "localhost:9092", topic: t, encoding: json, start: {0: 5}, options: {kafka.x: 1}}
  - name: zip
    seed: {path: ./zip.csv, delimiter: tab, null_tokens: ['NA']}
    source: {format: files, path: ./in, encoding: csv}
    settle: 3
constraints: {denial: {max_predicates: 3, cross_columns: [[a, b]]}, order: , inclusion: {}}
rules:
  - {name: r, table: tax, forbid: t.id = s.id and t.name != s.name, max_violating_rows: 0.1%}
  - {name: q, table: zip, key: [a, b], severity: warning}
  - {name: p, table: zip, values: {a: [1, x, .nan]}, nulls: break}
  - {name: o, table: zip, range: {a: [0.1, 1e3], b: {min: 2024-01-01}}}
  - {name: n, table: zip, matches: {a: "[0-9]{5}|(?i)x"}, not_null: a}
alerts:
  - {on: [broken], webhook: 'https://hooks.example/x?token=${SECRET_TOKEN}', rule: r}
spark: {spark.driver.memory: 1g}
retention: {metrics: forever, delta_log: 2 days}
quarantine: {max_share: 50%, window: 100}
""",
    b"name: a\nstate: s\nbackup: b\noutput: o\ncheckpoint: c\ntables:\n- {name: t, source: {format: delta, path: 's3://b/t'}}\n",
    b"&a [*a, &b {x: *b}]",
    b"a: &x [1,1,1,1,1,1,1,1]\nb: &y [*x,*x,*x,*x,*x,*x,*x,*x]\nc: &z [*y,*y,*y,*y,*y,*y,*y,*y]\nd: [*z,*z,*z,*z,*z,*z,*z]\n",
    b"? [a, b]\n: c\n",
    b"x: !!python/object/apply:os.system [id]\n",
    b"--- |\n text\n--- >-\n more\n...\n",
    b"x: 0o17\ny: 0xFF\nz: 1e999\nv: .inf\nw: 1" + b"0" * 400,
    b"x: ${NONE} ${BAD} ${N} $${X} ${",
    b"%YAML 1.1\n---\na: b\n",
    b"\t- a",
    b"[" * 60,
    b'{a: \'b\n c\', "d": "\\u0041\\x41\\ud800"}',
]
ARGUMENTS = [
    b"discover\0a.csv",
    b"check\0a.csv\0--rule\0A -> B\0--format\0json",
    b"check\0a.csv\0--rules\0rules.txt\0--pairs\0p.csv",
    b"check\0a.csv\0--rule\0r: not(t.A < s.A)\0--output\0../x\0--quiet",
    b"validate\0c.yaml\0--format\0json",
    b"replay\0a.csv\0a.csv\0--batch-size\0" + b"1",
    b"discover\0a.csv\0--delimiter\0;\0--encoding\0utf-16\0--null\0NA\0--limit\0-1",
    b"discover\0a.csv\0--space\0c.yaml\0--top\x0099999999999999999999",
    b"init\0--help",
]

WORDS = [
    b"and",
    b"not(",
    b"t.",
    b"s.",
    b" in ",
    b"->",
    b"`",
    b"''",
    b"is null",
    b"[] ->",
    b"desc",
    b"key(",
    b"matches '",
    b" in (1, 'x')",
    b"nulls apart",
    b"nulls break",
    b"{",
    b"}: ",
]
JSON_WORDS = [
    b'"k":',
    b'"op":"u"',
    b'"schema":',
    b'"payload":',
    b'"before":',
    b'"after":',
    b'"scale":',
    b"1e999",
    b'"_op":',
]
JSON_WORDS += [
    b"\\ud83d\\ude00",
    b"\\u0000",
    b'"fields":[',
    b'"parameters":{',
    b"\xef\xbb\xbf",
    b"null",
    b'"value":"AN4="',
]
YAML_WORDS = [
    b": ",
    b"- ",
    b"&a ",
    b"*a",
    b"!!",
    b"|\n",
    b">-\n",
    b"? ",
    b"---\n",
    b"${N}",
    b"tables:",
    b"source:",
    b"rules:",
]


def behind(contents: Sequence[bytes], prefixes: Sequence[bytes]) -> list[bytes]:
    return [prefix + content for content in contents for prefix in prefixes]


def modes(*modes: int) -> list[bytes]:
    return [mode.to_bytes(2, "big") for mode in modes]


MANIFEST = {
    "identity": {"state_id": "0" * 32, "epoch": 0, "application": "app", "status": "ready"},
    "commit": 7,
    "files": {"CURRENT": [16, "0" * 64], "000001.sst": [100, "1" * 64]},
}


def whole_manifest(about: Any) -> bytes:
    """Return a manifest with its own checksum."""
    content = json.dumps(about, sort_keys=True)
    return json.dumps({"content": content, "sha256": hashlib.sha256(content.encode()).hexdigest()}).encode()
