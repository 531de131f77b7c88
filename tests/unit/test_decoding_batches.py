"""Whatever comes together in a batch is decoded as it would be alone, and as plain Python reads it.

*Oracle*: the rules of `docs/semantics.md` for Debezium's records, over `json.loads`, here.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.streaming.decoding import decoder
from holdfast.streaming.incoming.arrivals import arrivals
from tests.unit.decoding_batches import WORDS, arrived, batch, target, written

UNAVAILABLE = "__debezium_unavailable_value"
KEYED, KEYLESS = target("id integer; name string", "id"), target("id integer; name string")
FIELDS = [{"type": "int32", "field": "id"}, {"type": "string", "field": "name"}]
OTHER_FIELDS = [*FIELDS, {"type": "string", "field": "more"}]

IDS = st.sampled_from([1, 2, 2, None, "x"])
NAMES = st.sampled_from(["a", "b", "", None, UNAVAILABLE])
ROWS = st.fixed_dictionaries({"id": IDS}, optional={"name": NAMES, "more": st.just([{"id": 5}])})
FULL_ROWS = st.fixed_dictionaries({"id": st.sampled_from([1, 2]), "name": st.sampled_from(["a", "b", None])})
CHANGES = st.fixed_dictionaries(
    {"op": st.sampled_from([*"cruuuddtm", "x", None])},
    optional={
        "before": FULL_ROWS | FULL_ROWS | ROWS | st.none() | st.just(7),
        "after": FULL_ROWS | FULL_ROWS | ROWS | st.none(),
        "source": st.just({"op": "d", "before": {"id": 2}}),
    },
)
SILENT = st.sampled_from([{"ts_ms": 1}, {"status": "END", "id": "1", "event_count": 2, "x": []}, None])


def wrap(payload: Any, fields: list[dict[str, str]] | None) -> Any:
    if fields is None:
        return payload
    struct = {"type": "struct", "fields": fields}
    return {
        "schema": {"type": "struct", "fields": [{**struct, "field": "before"}, {**struct, "field": "after"}]},
        "payload": payload,
    }


VALUES = st.builds(wrap, CHANGES | CHANGES | SILENT, st.sampled_from([None, FIELDS, FIELDS, OTHER_FIELDS]))
KEYS = st.sampled_from(
    [
        None,
        {"id": 1},
        {"id": 2},
        b"2",
        b"\xff",
        {"schema": {"type": "struct", "fields": FIELDS[:1]}, "payload": {"id": 1}},
    ]
)
BROKEN = st.sampled_from([b"", b"{", b"[]", b"\x00\x01", b'{"op":"c","after":{"id":1}} x', b"\xef\xbb\xbf{}"])
MESSAGES = st.tuples(KEYS, VALUES | VALUES | VALUES | BROKEN | st.none())
ENCODINGS = ["json", "upsert", "debezium", "debezium-unwrapped"]


def outcome(encoding: str, wanted: Any, given: pa.Table) -> tuple[list[tuple[Any, ...]], dict[str, str], int]:
    """Return the drafted rows and why others are bad, by record id, and how many were skipped."""
    draft = decoder(encoding)(given, wanted, "t", {})
    rows = []
    for i in range(len(draft)):
        cells = [draft.cells[name][i].as_py() for name in ("id", "name")]
        kept = [] if draft.kept is None else draft.kept[i].tolist()
        rows.append((draft.record_id(i), WORDS[int(draft.operations[i])], *map(_shown, cells), any(kept)))
    found = arrivals(draft, wanted)
    return rows, {bad.record_id: bad.reason for bad in found.bad}, draft.skipped


def _shown(value: Any) -> str | None:
    return None if value is None else str(value)


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(st.lists(MESSAGES, max_size=8))
@example([({"id": 1}, wrap({"op": "u", "before": {"id": 1, "name": "a"}, "after": {"id": "x"}}, None))] * 2)
def test_a_batch_is_its_records(encoding: str, messages: list[Any]) -> None:
    for wanted in (KEYED, KEYLESS) if encoding in {"json", "debezium"} else (KEYED,):
        together = batch(*messages)
        rows, bad, skipped = outcome(encoding, wanted, together)
        alone = [outcome(encoding, wanted, together.slice(i, 1)) for i in range(len(messages))]
        only = {row[0] for row in rows if row[1] == "unreadable"}
        assert [row for row in rows if row[0] not in only] == [
            row for one in alone for row in one[0] if row[0] not in only
        ]
        assert bad == {name: reason for one in alone for name, reason in one[1].items()}
        assert skipped == sum(one[2] for one in alone)
        chunks = pa.concat_tables([together.slice(i, 1) for i in reversed(range(len(messages)))] or [together])
        assert outcome(encoding, wanted, chunks) == (rows, bad, skipped)


@given(st.lists(MESSAGES, max_size=6))
@example([(None, wrap({"op": "u", "before": {"id": 1, "name": UNAVAILABLE}, "after": {"id": 2, "name": "a"}}, None))])
@example([(None, {"op": "d", "before": {"id": 1, "name": UNAVAILABLE}})])
def test_debezium_is_read_as_the_oracle_reads_it(messages: list[Any]) -> None:
    for wanted in (KEYED, KEYLESS):
        expected = [_expected(written(key), written(value), bool(wanted.key)) for key, value in messages]
        if any(("truncate",) in rows for rows in expected if rows is not None):
            continue  # takes away what came before
        rows, bad = arrived("debezium", wanted, *messages)
        assert sorted(bad) == [str(i) for i, one in enumerate(expected) if one is None]
        assert rows == [row for one in expected if one is not None for row in one]


def _expected(key: bytes | None, value: bytes | None, keyed: bool) -> list[tuple[Any, ...]] | None:
    """Return the rows of one record, None where it is bad."""
    try:
        payload = _payload(value)
    except ValueError:
        return None
    if payload is None or payload.keys() == {"ts_ms"}:
        return []
    if payload.get("op") is None:
        return [] if {"status", "id", "event_count"} <= payload.keys() else None
    op, before, after = payload["op"], payload.get("before"), payload.get("after")
    before = before if isinstance(before, dict) else None
    if op in "tm":
        return [("truncate",)] if op == "t" else []
    if op not in "crud" or (op != "d" and not isinstance(after, dict)):
        return None
    if keyed:
        return _expected_keyed(op, before, after, key)
    rows = []
    if op in "ud":
        if before is None or not {"id", "name"} <= before.keys():
            return None
        in_key = {"id"} & _key(key).keys() if key is not None and key.startswith(b"{") else set()
        if in_key and all(before[name] is None for name in {"id", "name"} - in_key):
            return None
        rows.append(("delete", before["id"], before["name"]))
    if op in "cru":
        rows.append(("insert", after.get("id"), after.get("name")))
    return None if any(number == "x" or name == UNAVAILABLE for _, number, name in rows) else rows


def _expected_keyed(op: str, before: Any, after: Any, key: bytes | None) -> list[tuple[Any, ...]] | None:
    if op == "d":
        number = (before or {}).get("id")
        number = _key(key).get("id") if number is None else number
        return None if number in {None, "x"} else [("delete", number, None)]
    old = None if before is None or op != "u" else before.get("id")
    moved = old is not None and old != after.get("id")
    name = after.get("name")
    if after.get("id") in {None, "x"} or (moved and (name == UNAVAILABLE or old == "x")):
        return None
    row = (after["id"], "kept" if name == UNAVAILABLE else name)
    if op != "u":
        return [("insert", *row)]
    return [*([("delete", old, None)] if moved else []), ("update", *row)]


def _payload(value: bytes | None) -> Any:
    if value is None:
        return None
    read = json.loads(value.decode())
    read = read["payload"] if isinstance(read, dict) and read.keys() == {"schema", "payload"} else read
    if read is not None and not isinstance(read, dict):
        raise ValueError("no object")
    return read


def _key(key: bytes | None) -> dict[str, Any]:
    try:
        read = json.loads(key.decode()) if key is not None else {}
    except ValueError:
        return {}
    if not isinstance(read, dict):
        return {"id": read}
    found = read.get("payload", read)
    return found if isinstance(found, dict) else {}
