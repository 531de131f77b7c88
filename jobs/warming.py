"""Compiles all loops in advance: `python -m holdfast.jobs.warming`, once after an installation.

numba stores compiled loops beside the modules; otherwise the first command that needs a loop compiles it.
"""

import pyarrow as pa


def warm() -> None:
    """Run every compiled loop once on a few rows."""
    from holdfast.constraints import Column, Schema, parse_near, parse_type
    from holdfast.discovery.discover import discover
    from holdfast.streaming.decoding import decoder
    from holdfast.streaming.incoming.arrivals import Target, arrivals
    from holdfast.streaming.maintainers.maintainer import Maintainer

    rows = pa.table({"a": [1, 2, 3], "b": ["x", "y", "y"], "c": [0.5, None, 2.5]})
    Maintainer.seed(rows, name="rows", near=0.5, rules="b -> a")
    discover(rows, name="rows")
    near = discover(rows, name="rows", near=0.5)
    near.removals([*near, *map(parse_near, ("a -> b", "{}: a ~ c"))])
    wrong = pa.table({"b": ["x"] * 9 + ["y"] * 5, "c": [1] * 9 + [2] * 5})
    discover(wrong, name="rows", near=0.5).concentrations([parse_near("{}: [] -> b")])
    target = Target(Schema("rows", (Column("a", parse_type("integer")), Column("b", parse_type("string")))), ("a",))
    values = {
        "json": b'{"_op": "insert", "a": 1, "b": "x\\n"}',
        "upsert": b'{"a": 1, "b": "x"}',
        "debezium": b'{"op": "c", "before": null, "after": {"a": 1, "b": "x"}, "ts_ms": 1}',
        "debezium-unwrapped": b'{"__op": "c", "__deleted": "false", "a": 1, "b": "x"}',
    }
    for encoding, value in values.items():
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
