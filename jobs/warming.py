"""Compiles loops in advance: `python -m holdfast.jobs.warming`, once after an installation.

numba stores compiled loops beside the modules. A loop that is not compiled here, because only large tables or rows in
blocks need the loop, is compiled by the first command that needs it.
"""

import json

import pyarrow as pa

from holdfast.tables import from_arrow

_RULES = ["b -> c", "key(b)", "not(t.b = s.b and t.a < s.a and t.c > s.c)"]


def warm() -> None:
    """Run the loops of searches, histories and decoding on a few rows."""
    rows = pa.table({"a": [1, 2, 3], "b": ["x", "y", "y"], "c": [0.5, None, 2.5]})
    _search(rows)
    _follow(rows)
    _decode()


def _search(rows: pa.Table) -> None:
    """Discover constraints of all families, and check rules."""
    from holdfast.constraints import parse_near
    from holdfast.discovery.discover import discover
    from holdfast.discovery.inclusion.discover import discover_inclusions
    from holdfast.jobs.frames import check, suspects

    discover(rows, name="rows").top(1)
    near = discover(rows, name="rows", near=0.5)
    near.removals([*near, *map(parse_near, ("a -> b", "{}: a ~ c"))])
    wrong = pa.table({"b": ["x"] * 9 + ["y"] * 5, "c": [1] * 9 + [2] * 5})
    discover(wrong, name="rows", near=0.5).concentrations([parse_near("{}: [] -> b")])
    suspects(wrong, name="rows")
    discover_inclusions([from_arrow(rows, "rows"), from_arrow(wrong, "wrong")])
    check(_many(), _RULES)


def _many() -> pa.Table:
    """Return enough rows for what pays only beside larger tables."""
    columns = {"a": range(60), "b": [str(n // 3) for n in range(60)], "c": [n % 7 / 2 for n in range(60)]}
    return pa.table({**columns, "d": [n // 2 for n in range(60)]})


def _follow(rows: pa.Table) -> None:
    """Maintain the constraints of a table."""
    from holdfast.streaming.maintainers.maintainer import Maintainer

    Maintainer.seed(rows, name="rows")
    more = _many()
    followed = Maintainer.seed(more, name="more", near=0.5, rules=_RULES)
    for n in range(3):
        new = pa.table({"a": [100 + n], "b": ["1"], "c": [0.25 * n], "d": [n]})
        followed.apply(inserts=new, deletes=more.slice(n, 1))


def _decode() -> None:
    """Decode records of each encoding."""
    from holdfast.constraints import Column, Schema, parse_type
    from holdfast.streaming.decoding import decoder
    from holdfast.streaming.incoming.arrivals import Target, arrivals

    types = {"a": "integer", "b": "string", "c": "decimal(9, 2)"}
    target = Target(Schema("rows", tuple(Column(name, parse_type(kind)) for name, kind in types.items())), ("a",))
    values = {
        "json": b'{"_op": "insert", "a": 1, "b": "x\\n"}',
        "upsert": b'{"a": 1, "b": "x"}',
        "debezium": b'{"op": "c", "before": null, "after": {"a": 1, "b": "x"}, "ts_ms": 1}',
        "debezium-unwrapped": b'{"__op": "c", "__deleted": "false", "a": 1, "b": "x"}',
    }
    fields = [
        {"field": "a", "type": "int64"},
        {"field": "c", "type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}},
    ]
    envelope = [{"field": name, "type": "struct", "optional": True, "fields": fields} for name in ("before", "after")]
    payload = {"op": "u", "before": {"a": 1, "c": "Zg=="}, "after": {"a": 1, "c": "ZA=="}, "ts_ms": 1}
    wrapped = json.dumps({"schema": {"type": "struct", "fields": envelope}, "payload": payload}).encode()
    for encoding, value in [*values.items(), ("debezium", wrapped)]:
        batch = pa.table(
            {
                "key": pa.array([b'{"a": 1}'], pa.binary()),
                "value": pa.array([value], pa.binary()),
                "partition": pa.array([0], pa.int32()),
                "offset": pa.array([0], pa.int64()),
                "timestamp": pa.array([0], pa.timestamp("ms")),
            }
        )
        assert len(arrivals(decoder(encoding)(batch, target, "rows", {}), target).records) == 1


if __name__ == "__main__":
    warm()
