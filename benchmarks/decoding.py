"""What does it cost to decode records of JSON, as batches and records grow, against Python's `json`?

Records have twelve fields, about 150 bytes of row, and are read to Arrow arrays of texts (`fields`), to a draft of one
encoding, or by `json.loads` one by one into lists, which checks and keeps less (and by `orjson` where it is installed).
Times are those of the processor, so one core's, the best of five runs, kernels compiled before; the answer is asserted.
"""

import json
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from benchmarks.measuring import Point, measured

ROWS = (12_500, 50_000, 200_000)
_NAMES = ("id", "zip", "city", "state", "phone", "child", "exemp", "salary", "rate", "since", "seen", "note")
_KINDS = ("integer", "string", "string", "string", "string", "boolean", "integer", "decimal(12,2)", "float", "date")
_ENCODINGS = {"since": "io.debezium.time.Date", "seen": "io.debezium.time.MicroTimestamp"}


def points() -> Iterator[Point]:
    for rows in ROWS:
        batch = _batch("json", rows)
        mb = sum(len(value.as_py()) for value in batch["value"].chunk(0)) / 1e6
        peers = [_loads, *([_orjson] if _has_orjson() else [])]
        ours = measured(_fields, rows, prepare=_plain)
        peer = {work.__name__.strip("_"): measured(work, rows, prepare=_plain) for work in peers}
        for other in peer.values():
            assert other.answer[1] == ours.answer[1]
        yield {
            "reading": "fields",
            "rows": rows,
            "mb": round(mb, 1),
            "ms": round(ours.answer[0] * 1000, 1),
            "mb_per_second": round(mb / ours.answer[0]),
            "peak_mb": ours.peak_mb,
            **{f"times_{name}": round(other.answer[0] / ours.answer[0], 1) for name, other in peer.items()},
        }
    for encoding in ("json", "upsert", "debezium", "debezium schema", "debezium-unwrapped"):
        for rows in ROWS[:2]:
            found = measured(_draft, encoding, rows, prepare=_batched)
            seconds, (count, mb) = found.answer
            assert count == rows
            yield {
                "reading": encoding,
                "rows": rows,
                "mb": round(mb, 1),
                "ms": round(seconds * 1000, 1),
                "mb_per_second": round(mb / seconds),
                "peak_mb": found.peak_mb,
            }
    for size in (10_000, 100_000, 1_000_000):
        found = measured(_long, size, prepare=_long_records)
        yield {
            "reading": "long records",
            "bytes_each": size,
            "mb": 20,
            "ms": round(found.answer[0] * 1000, 1),
            "mb_per_second": round(20 / found.answer[0]),
        }


def _best(work: Callable[[], Any]) -> tuple[float, Any]:
    seconds, answer = [], None
    for _ in range(6):  # the first compiles
        start = time.process_time()
        answer = work()
        seconds.append(time.process_time() - start)
    return min(seconds[1:]), answer


def _row(i: int, drawn: random.Random) -> dict[str, Any]:
    return {
        "id": i,
        "zip": f"{drawn.randrange(100_000):05d}",
        "city": f"City{drawn.randrange(6_000)}",
        "state": "NY",
        "phone": str(drawn.randrange(10**7)),
        "child": drawn.random() < 0.5,
        "exemp": drawn.randrange(9),
        "salary": drawn.randrange(20) * 5000 + 0.5,
        "rate": drawn.randrange(80) / 8,
        "since": drawn.randrange(20_000),
        "seen": drawn.randrange(10**15),
        "note": None,
    }


def _plain(rows: int) -> pa.Array:
    return _batch("json", rows)["value"].chunk(0)


def _batched(encoding: str, rows: int) -> tuple[str, pa.Table]:
    return encoding, _batch(encoding, rows)


def _batch(encoding: str, rows: int) -> pa.Table:
    drawn = random.Random(1)
    values = [json.dumps(_made(encoding, _row(i, drawn)), separators=(",", ":")).encode() for i in range(rows)]
    return pa.table(
        {
            "key": pa.array([f'{{"id":{i}}}'.encode() for i in range(rows)], pa.binary()),
            "value": pa.array(values, pa.binary()),
            "partition": pa.array([0] * rows, pa.int32()),
            "offset": pa.array(range(rows), pa.int64()),
            "timestamp": pa.array([1_700_000_000_000] * rows, pa.timestamp("ms", "UTC")),
        }
    )


def _made(encoding: str, row: dict[str, Any]) -> dict[str, Any]:
    match encoding:
        case "debezium":
            return _enveloped(row)
        case "debezium schema":
            return {"schema": _SCHEMA, "payload": _enveloped(row)}
        case "debezium-unwrapped":
            return {**row, "__op": "c", "__deleted": "false"}
    return row


def _enveloped(row: dict[str, Any]) -> dict[str, Any]:
    source = {"version": "2.7.0.Final", "connector": "postgresql", "name": "tax", "ts_ms": row["id"], "lsn": row["id"]}
    return {"before": None, "after": row, "source": source, "op": "c", "ts_ms": 1_700_000_000_000}


def _field(name: str, column: int) -> dict[str, Any]:
    kinds = {"integer": "int64", "boolean": "boolean", "float": "double", "decimal(12,2)": "double", "date": "int32"}
    kind = kinds.get(_KINDS[column], "string") if column < len(_KINDS) else "int64"
    given = {"type": kind, "optional": True, "field": name}
    return {**given, "name": _ENCODINGS[name], "version": 1} if name in _ENCODINGS else given


_STRUCT = {"type": "struct", "fields": [_field(name, c) for c, name in enumerate(_NAMES)], "optional": True}
_SCHEMA = {
    "type": "struct",
    "fields": [{**_STRUCT, "field": "before"}, {**_STRUCT, "field": "after"}, {"type": "string", "field": "op"}],
    "name": "tax.public.tax.Envelope",
}


def _fields(values: pa.Array) -> tuple[float, str]:
    from holdfast.tables.json_records import fields_of, spans_of

    def read() -> dict[str, pa.Array]:
        found = fields_of(spans_of(values), _NAMES)
        assert found.good.all()
        return {name: found[name].texts() for name in _NAMES}

    seconds, columns = _best(read)
    return seconds, str(columns["city"][len(values) - 1])


def _loads(values: pa.Array) -> tuple[float, str]:
    return _one_by_one(json.loads, values)


def _orjson(values: pa.Array) -> tuple[float, str]:
    import orjson  # type: ignore[import-not-found,unused-ignore]

    return _one_by_one(orjson.loads, values)


def _one_by_one(loads: Callable[[bytes], Any], values: pa.Array) -> tuple[float, str]:
    def read() -> dict[str, pa.Array]:
        rows = [loads(value) for value in values.to_pylist()]
        return {name: [row.get(name) for row in rows] for name in _NAMES}

    seconds, columns = _best(read)
    return seconds, str(columns["city"][-1])


def _has_orjson() -> bool:
    from importlib.util import find_spec

    return find_spec("orjson") is not None


def _draft(given: tuple[str, pa.Table]) -> tuple[float, tuple[int, float]]:
    from holdfast.constraints import Column, Schema, parse_type
    from holdfast.streaming.decoding import decoder
    from holdfast.streaming.incoming.arrivals import Target

    encoding, batch = given
    kinds = (*_KINDS, "timestamp", "string")
    columns = tuple(Column(name, parse_type(kind)) for name, kind in zip(_NAMES, kinds, strict=True))
    target = Target(Schema("tax", columns), ("id",))
    decode = decoder(encoding.partition(" ")[0])
    encodings = {} if encoding == "json" else _ENCODINGS
    seconds, draft = _best(lambda: decode(batch, target, "topic", encodings))
    assert not draft.reasons
    return seconds, (len(draft), batch["value"].nbytes / 1e6)


def _long_records(size: int) -> pa.Array:
    body = ",".join(f'{{"n":{i},"text":"some words {i}","flags":[true,null]}}' for i in range(size // 55))
    record = f'{{"id":1,"items":[{body}],"zip":"{"x" * 100}"}}'.encode()
    return pa.array([record] * (20_000_000 // len(record)), pa.large_binary())


def _long(values: pa.Array) -> tuple[float, int]:
    from holdfast.tables.json_records import fields_of, spans_of

    seconds, count = _best(lambda: int(fields_of(spans_of(values), _NAMES).good.sum()))
    assert count == len(values)
    return seconds, count
