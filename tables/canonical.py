"""Values as bytes that are equal exactly if the values are, within a type group and across its types.

A group's byte comes first, so that groups never meet:

    number      n i <8>     a whole number within 64 bits, big end first
                n f <8>     else, if a double is exactly it: its bits, NaN in one form
                n d <1> <8> else, if it is k / 10^s with k within 64 bits and no trailing zero: s, k
                n D <1> <16>  the same with 128 bits
    string      s <UTF-8>
    date        d <8>       days since 1970-01-01
    timestamp   t u <8>     microseconds since 1970-01-01 UTC, where that is exact
                t n <8>     else nanoseconds
    boolean     b <1>

So 2^53 + 1 is not 9007199254740992.0, decimal 0.1 is not float 0.1, and decimal 0.5 is. With `texts` every value is the
text that it has in a source: the shortest one that reads back, as a string.
"""

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.constraints import Value
from holdfast.tables.arrays import Bytes, Flags, Floats, Keys
from holdfast.tables.columnar import EncodedColumn
from holdfast.tables.keys import NARROW_DECIMAL, floats

_WHOLE_LIMIT = 2.0**63
_EXACT = 1 << 53
_THOUSAND = 1_000
_WIDE = Context(prec=80)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def canonical(column: EncodedColumn, keys: Keys, *, texts: bool = False) -> pa.Array:
    """Return the bytes of values of a column, given by their keys, as an Arrow array of large binaries. O(keys).

    >>> from holdfast.tables import from_arrow
    >>> halves = pa.array(["2", "0.5"]).cast(pa.decimal128(4, 1))
    >>> t = from_arrow(pa.table({"a": [2, 3], "b": [2.0, 0.5], "c": halves}), "t")
    >>> a, b, c = (canonical(column, column.counts[0]).to_pylist() for column in t.columns)
    >>> a[0] in b, a[0] in c, sorted(b) == sorted(c)
    (True, True, True)
    """
    kind = column.column.type
    if texts and kind.name != "string":
        return _strings(pa.array([source_text(v) for v in _python_values(column, keys)], pa.large_string()))
    match kind.name:
        case "string":
            assert column.dictionary is not None
            return _strings(column.dictionary.take(pa.array(keys)))
        case "float":
            return _floats(floats(keys))
        case "decimal":
            if kind.precision > NARROW_DECIMAL:
                return pa.array([_decimal(value) for value in _python_values(column, keys)], pa.large_binary())
            return _narrow_decimals(keys, kind.scale)
        case "timestamp":
            if kind.precision == 6:
                return _fixed(b"tu", keys)
            whole = keys % _THOUSAND == 0
            return choose(whole, lambda at: _fixed(b"tu", keys[at] // _THOUSAND), lambda at: _fixed(b"tn", keys[at]))
        case "date":
            return _fixed(b"d", keys)
        case "boolean":
            return _fixed(b"b", keys, width=1)
    return _fixed(b"ni", keys)


def shown(stored: bytes) -> Value:
    """Return the value of canonical bytes for display."""
    tag, payload = stored[:1], stored[1:]
    match tag:
        case b"s":
            return payload.decode()
        case b"d":
            return _EPOCH.date() + timedelta(days=int.from_bytes(payload, "big", signed=True))
        case b"b":
            return payload != b"\0"
        case b"t":
            since = int.from_bytes(payload[1:], "big", signed=True)
            if payload[:1] == b"n":
                import pandas as pd

                return pd.Timestamp(since, unit="ns", tz="UTC")  # Python's own times end before nanoseconds
            return _EPOCH + timedelta(microseconds=since)
    form, number = payload[:1], payload[1:]
    if form == b"i":
        return int.from_bytes(number, "big", signed=True)
    if form == b"f":
        return float(np.frombuffer(number, ">f8")[0])
    return Decimal(int.from_bytes(number[1:], "big", signed=True)).scaleb(-number[0], _WIDE)


def source_text(value: Value) -> str | None:
    """Return the shortest text that reads back as a value.

    >>> noon = datetime(2024, 2, 29, 12, tzinfo=UTC)
    >>> [source_text(v) for v in (1.10, 1e16, Decimal("1.10"), Decimal("1E+2"), True, noon)]
    ['1.1', '1e+16', '1.1', '100', 'true', '2024-02-29T12:00:00']
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return "nan" if math.isnan(value) else repr(value + 0.0)
    if isinstance(value, Decimal):
        plain = format(value, "f")
        plain = plain.rstrip("0").rstrip(".") if "." in plain else plain
        return "0" if plain in {"-0", ""} else plain
    if isinstance(value, datetime):
        moment = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
        text = moment.replace(tzinfo=None).isoformat(timespec="microseconds")
        return text.rstrip("0").rstrip(".")
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _python_values(column: EncodedColumn, keys: Keys) -> list[Value]:
    made = EncodedColumn(column.column, keys, None, column.dictionary)
    values: list[Value] = made.values().to_pylist()
    return values


def _strings(texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(
        pa.scalar(b"s", pa.large_binary()), texts.cast(pa.large_binary()), pa.scalar(b"", pa.large_binary())
    )


def _fixed(tag: bytes, numbers: Keys, width: int = 8, scales: Keys | None = None) -> pa.Array:
    """Return a tag, optionally a byte for each number, and the lower bytes of each number, big end first."""
    parts = [np.broadcast_to(np.frombuffer(tag, np.uint8), (len(numbers), len(tag)))]
    if scales is not None:
        parts.append(scales.astype(np.uint8)[:, None])
    parts.append(numbers.astype(">i8").view(np.uint8).reshape(-1, 8)[:, 8 - width :])
    return binaries(np.hstack(parts))


def binaries(rows: Bytes) -> pa.Array:
    """Return (n, w) bytes as an Arrow array of n large binaries. O(n)."""
    bounds = np.arange(len(rows) + 1, dtype=np.int64) * rows.shape[1]
    data = pa.py_buffer(np.ascontiguousarray(rows))
    return pa.Array.from_buffers(pa.large_binary(), len(rows), [None, pa.py_buffer(bounds), data])


def choose(which: Flags, one: Callable[[Any], pa.Array], other: Callable[[Any], pa.Array]) -> pa.Array:
    """Return the values of `one` where `which` is true, else of `other`; both receive the positions to compute."""
    if which.all():
        return one(slice(None))
    if not which.any():
        return other(slice(None))
    made = pa.concat_arrays([one(which), other(~which)])
    place = np.empty(len(which), np.int64)
    place[which], place[~which] = np.arange(np.count_nonzero(which)), np.arange(np.count_nonzero(which), len(which))
    return made.take(pa.array(place))


def _floats(values: Floats) -> pa.Array:
    whole = (np.floor(values) == values) & (np.abs(values) < _WHOLE_LIMIT)
    exact = np.where(np.isnan(values), np.nan, values + 0.0)
    return choose(
        whole, lambda at: _fixed(b"ni", values[at].astype(np.int64)), lambda at: _fixed(b"nf", exact[at].view(np.int64))
    )


def _narrow_decimals(keys: Keys, scale: int) -> pa.Array:
    whole = keys % 10**scale == 0
    return choose(whole, lambda at: _fixed(b"ni", keys[at] // 10**scale), lambda at: _fractions(keys[at], scale))


def _fractions(keys: Keys, scale: int) -> pa.Array:
    """Return bytes of decimals that are no whole numbers."""
    keys, scales = keys.copy(), np.full(len(keys), scale, np.int64)
    while (shorter := keys % 10 == 0).any():
        keys[shorter] //= 10
        scales[shorter] -= 1
    fives = 5**scales
    binary = (keys % fives == 0) & (np.abs(keys // fives) < _EXACT)
    return choose(
        binary,
        lambda at: _fixed(b"nf", ((keys[at] // fives[at]) / 2.0 ** scales[at]).view(np.int64)),
        lambda at: _fixed(b"nd", keys[at], scales=scales[at]),
    )


def _decimal(value: Any) -> bytes:
    """Return the bytes of one decimal of any width."""
    sign, digits, exponent = value.as_tuple()
    number = int("".join(map(str, digits))) * (-1 if sign else 1)
    scale = -exponent
    while scale > 0 and number % 10 == 0:
        number, scale = number // 10, scale - 1
    if scale <= 0:
        number, scale = number * 10**-scale, 0
    if scale == 0 and -(1 << 63) <= number < 1 << 63:
        return b"ni" + number.to_bytes(8, "big", signed=True)
    nearest = float(value)
    if math.isfinite(nearest) and Decimal(nearest) == Decimal(number).scaleb(-scale, _WIDE):
        return b"nf" + np.array(nearest, ">f8").tobytes()
    if -(1 << 63) <= number < 1 << 63:
        return b"nd" + bytes([scale]) + number.to_bytes(8, "big", signed=True)
    return b"nD" + bytes([scale]) + number.to_bytes(16, "big", signed=True)
