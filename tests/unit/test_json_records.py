"""Records of JSON in all the layouts that Arrow has for bytes, of any size, compiled or not."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.tables.json_records import Spans, fields_of, spans_of
from holdfast.tables.kernels.base64 import NO_BASE64, READ, WIDE, beyond_kernel, decimals_kernel
from holdfast.tables.kernels.json import ESCAPED, NUMBER
from holdfast.tables.kernels.json_cells import integers_kernel

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[2]
RECORDS = [b'{"a": 1}', None, b'{"a": "x\\u00e9"}', b"", b'{"b": 2, "a": [1, "]"]}', b'{"a": null}']
EXPECTED = ["1", None, "xé", None, '[1, "]"]', None]
LAYOUTS: list[Callable[[list[Any]], Any]] = [
    lambda records: pa.array(records, pa.binary()),
    lambda records: pa.array(records, pa.large_binary()),
    lambda records: pa.array(records, pa.binary_view()),
    lambda records: pa.array(records, pa.binary()).cast(pa.string()),
    lambda records: pa.array(records, pa.binary()).cast(pa.large_string()),
    lambda records: pa.array(records, pa.binary()).dictionary_encode(),
    lambda records: pa.array([b"before", None, *records, b"after"], pa.binary()).slice(2, len(records)),
    lambda records: pa.chunked_array([pa.array(records, pa.binary())]),
    lambda records: pa.chunked_array([records[:1], [], records[1:4], records[4:]], pa.binary()),
    lambda records: pa.chunked_array([pa.array([None, *records], pa.large_binary()).slice(1), []], pa.large_binary()),
]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout: Callable[[list[Any]], Any]) -> None:
    spans = spans_of(layout(RECORDS))
    assert [spans[i] for i in range(len(spans))] == RECORDS
    found = fields_of(spans, ["a"])
    assert found["a"].texts().to_pylist() == EXPECTED
    assert found.good.tolist() == [True, False, True, False, True, True]
    assert found.reasons == {1: "a record without a value", 3: "not JSON: it is empty"}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_records(layout: Callable[[list[Any]], Any]) -> None:
    for array in (layout(RECORDS).slice(2, 0), layout([])):
        found = fields_of(spans_of(array), ["a", "b"])
        assert len(found) == len(found["a"].texts()) == 0
        assert found["a"].texts().type == pa.large_string()


def test_all_null_and_no_names() -> None:
    found = fields_of(spans_of(pa.nulls(3, pa.binary())), [])
    assert found.status.tolist() == [1, 1, 1]
    assert fields_of(spans_of(pa.nulls(9).cast(pa.binary())), ["a"])["a"].texts().to_pylist() == [None] * 9


def test_long_records() -> None:
    long = "é" * 500_000 + '\\"'
    record = {"items": [{"n": i, "text": "some words"} for i in range(30_000)], "text": long, "deep": [[[[]]]]}
    encoded = json.dumps(record, ensure_ascii=False).encode()
    escaped = json.dumps(record).encode()
    found = fields_of(spans_of(pa.array([encoded, escaped, encoded[:-1]])), ["text", "items", "deep"])
    assert found.good.tolist() == [True, True, False]
    assert found.reason(2) == f"not JSON: it ends at byte {len(encoded) - 1}, before it is whole"
    assert found["text"].texts().to_pylist() == [long, long, None]
    assert json.loads(found["items"].texts()[1].as_py()) == record["items"]


def test_many_fields_and_names() -> None:
    names = [f"column {i}" for i in range(2_000)]
    rows = [{name: i + j for j, name in enumerate(names)} for i in range(3)]
    rows.append({name: i for i, name in enumerate(reversed(names))})
    found = fields_of(spans_of(pa.array([json.dumps(row).encode() for row in rows])), names)
    for name in names[::37]:
        assert found[name].texts().to_pylist() == [str(row[name]) for row in rows]
    assert found.counts.tolist() == [2_000] * 4


def test_cells_taken_and_merged() -> None:
    found = fields_of(spans_of(pa.array([b'{"a": 1, "b": {"a": 2}}', b'{"b": {"a": "\\n"}}', b"{}"])), ["a", "b"])
    inner = fields_of(found["b"].spans(), ["a"])
    assert inner.spans.present.tolist() == [True, True, False]
    assert inner["a"].texts().to_pylist() == ["2", "\n", None]
    assert inner["a"].kinds.tolist()[:2] == [NUMBER, ESCAPED]
    assert found["a"].merged(inner["a"]).texts().to_pylist() == ["1", "\n", None]
    assert inner["a"].take(np.array([1, -1, 0])).texts().to_pylist() == ["\n", None, "2"]
    assert inner["a"].where(np.array([False, True, True])).texts().to_pylist() == [None, "\n", None]
    nothing = Spans(inner.spans.buffer, np.empty(0, np.int64), np.empty(0, np.int64))
    assert nothing.take(np.array([-1, -1])).present.tolist() == [False, False]


@given(
    st.lists(st.integers(-(2**65), 2**65) | st.sampled_from([2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 0]), max_size=20)
)
def test_whole_numbers(numbers: list[int]) -> None:
    records = [f'{{"a":{number}}}'.encode() for number in numbers] + [
        b'{"a":1.0}',
        b'{"a":1e2}',
        b'{"a":"1"}',
        b'{"a":-0}',
    ]
    cells = fields_of(spans_of(pa.array(records)), ["a"])["a"]
    out, good = np.empty(len(records), np.int64), np.empty(len(records), np.bool_)
    integers_kernel(cells.buffer, cells.kinds, cells.begins, cells.stops, out, good)
    assert good.tolist() == [-(2**63) <= number < 2**63 for number in numbers] + [False, False, False, True]
    assert [int(n) for n, g in zip(out, good, strict=True) if g] == [n for n in numbers if -(2**63) <= n < 2**63] + [0]


@given(
    st.lists(st.integers(1, 19).flatmap(lambda n: st.binary(min_size=n, max_size=n)), max_size=20), st.integers(0, 38)
)
@example(
    [bytes([first, *[second] * (n - 1)]) for first in (0, 127, 128, 255) for second in (0, 255) for n in range(1, 18)],
    38,
)
def test_numbers_in_base64(numbers: list[bytes], precision: int) -> None:
    texts = [base64.b64encode(number) for number in numbers] + [
        number.rstrip(b"=") for number in map(base64.b64encode, numbers)
    ]
    spans = spans_of(pa.array(texts, pa.binary()))
    words, status = np.empty((len(texts), 2), np.int64), np.empty(len(texts), np.uint8)
    decimals_kernel(spans.buffer, np.ones(len(texts), np.bool_), spans.starts, spans.ends, words, status)
    limit, beyond = 10**precision - 1, np.empty(len(texts), np.bool_)
    beyond_kernel(words, np.uint64(limit & (2**64 - 1)), np.uint64(limit >> 64), beyond)
    for i, number in enumerate([*numbers, *numbers]):
        expected = int.from_bytes(number, "big", signed=True)
        if len(number) > 16:
            assert status[i] == WIDE
            continue
        assert status[i] == READ
        assert (int(words[i, 1]) << 64) + (int(words[i, 0]) & (2**64 - 1)) == expected
        assert bool(beyond[i]) == (abs(expected) > limit)


@given(st.lists(st.text("AQgw/+=-_ \n", max_size=9), max_size=20))
def test_what_is_no_base64(texts: list[str]) -> None:
    spans = spans_of(pa.array([text.encode() for text in texts], pa.binary()))
    words, status = np.empty((len(texts), 2), np.int64), np.empty(len(texts), np.uint8)
    decimals_kernel(spans.buffer, np.ones(len(texts), np.bool_), spans.starts, spans.ends, words, status)
    for text, found in zip(texts, status.tolist(), strict=True):
        whole = text + "=" * (-len(text) % 4) if "=" not in text else text
        try:
            number = base64.b64decode(whole, validate=True)
            expected = READ if number and base64.b64encode(number).decode() == whole else NO_BASE64
        except ValueError:
            expected = NO_BASE64
        assert found == expected, text


@pytest.mark.slow
def test_without_compiling() -> None:
    if os.environ.get("NUMBA_DISABLE_JIT") == "1":
        pytest.skip("this run compiles nothing")
    command = [sys.executable, "-W", "error::RuntimeWarning", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    chosen = ["tests/properties/test_json_records.py", "tests/unit/test_json_records.py"]
    named = ["-k", "oracle or layouts or whole_numbers or base64"]
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*command, *chosen, *named], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:]
