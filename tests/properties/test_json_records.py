"""Fields of JSON records are what Python's reader finds, whatever the bytes.

*Oracle*: `tests/oracles/json_text.py`.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.tables.json_records import fields_of, spans_of
from holdfast.tables.kernels.json import ABSENT, ARRAY, ESCAPED, FALSE, NULL, NUMBER, OBJECT, STRING, TRUE
from tests.oracles import json_text as oracle

NAMES = ["a", "b", "ab", "", "ключ", "long name of a column", "_op"]
SPACE = st.text(" \n\r\t", max_size=2)
DIGITS = st.text("0123456789", max_size=30)
NUMBERS = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "-"]),
    st.sampled_from(["0", "1", "907", "12345678901234567890123"]),
    st.sampled_from(["", ".0", ".10"]) | DIGITS.map(lambda d: f".{d}1"),
    st.sampled_from(["", "e5", "E-300", "e+07", "e99999"]),
)
CHARACTERS = st.characters(exclude_categories=["Cs"])
TEXTS = st.text(CHARACTERS, max_size=8)


@st.composite
def strings(draw: st.DrawFn, texts: st.SearchStrategy[str] = TEXTS) -> str:
    """A text in quotes, each character as it is or escaped in one of the ways that there are."""
    parts = []
    for character in draw(texts):
        way = draw(st.integers(0, 3))
        point = ord(character)
        units = character.encode("utf-16-be")
        if way == 0:
            pairs = [units[i : i + 2].hex() for i in range(0, len(units), 2)]
            parts.append("".join(rf"\u{pair.upper() if point % 2 else pair}" for pair in pairs))
        elif way == 1 and character in '"\\/\b\f\n\r\t':
            parts.append(
                {"\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t"}.get(character, f"\\{character}")
            )
        else:
            parts.append(json.dumps(character, ensure_ascii=False)[1:-1])
    return '"' + "".join(parts) + '"'


SCALARS = NUMBERS | strings() | st.sampled_from(["null", "true", "false"])


def spaced(parts: st.SearchStrategy[list[str]], ends: str) -> st.SearchStrategy[str]:
    return st.builds(lambda items, a, b: ends[0] + a + f"{b},{a}".join(items) + b + ends[1], parts, SPACE, SPACE)


def members(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    names = strings(st.sampled_from(NAMES) | st.text(CHARACTERS, max_size=3))
    pair = st.builds("{}{}:{}{}".format, names, SPACE, SPACE, values)
    return spaced(st.lists(pair, max_size=8), "{}")


VALUES = st.recursive(SCALARS, lambda inner: members(inner) | spaced(st.lists(inner, max_size=4), "[]"), max_leaves=12)
RECORDS = st.builds("{}{}{}".format, SPACE, members(VALUES), SPACE).map(str.encode)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A record that something went wrong with."""
    record = bytearray(draw(RECORDS))
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, max(len(record) - 1, 0)))
        match draw(st.integers(0, 4)):
            case 0:
                del record[place:]
            case 1 if record:
                record[place] ^= draw(st.integers(1, 255))
            case 2:
                record[place:place] = draw(st.binary(max_size=4) | st.sampled_from(ODD))
            case 3:
                del record[place : place + draw(st.integers(1, 3))]
            case _:
                record += record[place:]
    return bytes(record)


ODD = [
    b"NaN", b"-Infinity", b"nul", b"01907", b"1.", b".5", b"1e", b"-", b"+1", b"0x1", b'"\x00"', b'"\\ud800"', b'"\\udc00"',
    b'"\\ud83d\\ude00"', b'"\\ud83dx"', b'"\\x"', b'"\\u12"', b'"\xed\xa0\x80"', b'"\xc0\x80"', b'"\xf4\x90\x80\x80"',
    b'"\xff"', b'"\xe2\x82"', b"\xef\xbb\xbf", b"{}", b"[]", b"[}", b"{]", b",", b",,", b":", b'"', b"\\", b"/**/", b"'a'",
    b"[" * 300 + b"]" * 300, b"[1,]", b'{"a":1,}', b"{,}", b"\x00", b"\x0b", b"\xc2\xa0", b"\x7f", b"null", b"true",
]  # fmt: skip


UTF8_EDGES = [
    bytes([*lead, *tail])
    for leads, width in (((0xC0, 0xC1, 0xC2, 0xDF), 1), ((0xE0, 0xE1, 0xED, 0xEF), 2), ((0xF0, 0xF1, 0xF4, 0xF5), 3))
    for lead in ([first, second] for first in leads for second in (0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0))
    for tail in ([0x80] * (width - 1), [0xBF] * (width - 1), [0xBF] * width, ([0xC0] * (width - 1)))
]


@given(st.lists(RECORDS | RECORDS | mutated() | st.sampled_from(ODD) | st.none() | st.binary(max_size=12), max_size=12))
@example([b'{"a": %s}' % odd for odd in ODD])
@example([b'{"a"%s: 1}' % odd for odd in ODD])
@example([b'{"a":"%s"}' % edge for edge in UTF8_EDGES])
@example([b'{"a": 1}%s' % odd for odd in ODD])
@example([b'{"a": %s1%s}' % (b"[" * n, b"]" * n) for n in (254, 255, 256, 257)])
@example([b'{"x": %s1%s}' % (b'{"a":' * n, b"}" * n) for n in (254, 255, 256, 257)])
@example([b'{"a":1,"b":2}', b'{"ab":1,"b":2}', b'{"a":3,"b":4}', b'{"b":1,"a":2}', b'{"a', b'{"a":1', b'{"a":1,"b"'])
@example([b'{"a":1,"a":null}', b'{"\\u0061":1,"a":2}', b'{"a":2,"\\u0061":"x"}', b'{"a":1', b"", b" ", b'{"a":1,"b":}'])
def test_fields_are_those_of_the_oracle(records: list[bytes | None]) -> None:
    found = fields_of(spans_of(pa.array(records, pa.binary())), NAMES)
    texts = {name: found[name].texts() for name in NAMES}
    for array in texts.values():
        array.validate(full=True)
    for row, record in enumerate(records):
        expected = None if record is None else oracle.fields(record)
        assert bool(found.good[row]) == (expected is not None), (record, found.reason(row))
        if expected is None:
            assert found.reason(row)
            assert all(found[name].kinds[row] == ABSENT for name in NAMES)
            continue
        for name in NAMES:
            _compare(found[name].kinds[row], texts[name][row].as_py(), name in expected, expected.get(name))


@given(st.lists(RECORDS, max_size=6), st.sampled_from(NAMES))
def test_repeating_objects_change_nothing(records: list[bytes], name: str) -> None:
    spans = spans_of(pa.array([r for record in records for r in (record, record)], pa.binary()))
    plain, compared = fields_of(spans, NAMES), fields_of(spans, NAMES, {name})
    assert np.array_equal(plain.kinds, compared.kinds)
    there = plain.kinds > NULL
    assert np.array_equal(plain.begins[there], compared.begins[there])
    assert np.array_equal(plain.stops[there], compared.stops[there])


@given(VALUES.map(str.encode))
def test_a_value_alone_is_found_but_no_record(value: bytes) -> None:
    found = fields_of(spans_of(pa.array([value], pa.large_binary())), [])
    _compare(found.whole.kinds[0], found.whole.texts()[0].as_py(), True, oracle.read(value))
    assert bool(found.good[0]) == value.startswith(b"{")


def _compare(kind: int, text: str | None, there: bool, value: Any) -> None:
    kinds = {
        bool: {TRUE if value is True else FALSE},
        type(None): {NULL if there else ABSENT},
        str: {STRING, ESCAPED},
        oracle.Number: {NUMBER},
        oracle.Members: {OBJECT},
        list: {ARRAY},
    }
    assert kind in kinds[type(value)]
    if isinstance(value, (oracle.Members, list)):
        assert text is not None
        assert oracle.plain(oracle.read(text.encode())) == oracle.plain(value)
        assert text[0] + text[-1] in {"{}", "[]"}
    else:
        assert text == oracle.text(value)
