"""Values as bytes whose order is that of the values, so that values of every type are looked up and sorted as bytes.

    texts      UTF-8, whose order is that of code points

    numbers    the nearest double, 8 bytes: its key (`tables/keys.py`) with the sign bit turned, most significant first
               then one byte: 127 where the number is below that double, 128 where it is that double, 129 where above
               where it is not that double: its decimal exponent plus 2^14, 2 bytes, and its digits, a byte each,
               without zeros at the end; all of these inverted where it is negative, and 255 behind them

Rounding to the nearest double never turns the order of two numbers, so those with different doubles compare by these;
of two with the same double and on the same side of it the digits decide. Integers, floats and decimals that are equal
have equal bytes. Dates and times are their numbers; times count nanoseconds.

Invariant: two values have the same bytes exactly if they are equal. NaN has none.
"""

from collections.abc import Sequence
from decimal import Context, Decimal
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from holdfast.constraints import Column, Value
from holdfast.state import codecs
from holdfast.tables import EncodedColumn
from holdfast.tables.arrays import Codes, Flags, Floats
from holdfast.tables.canonical import binaries, choose
from holdfast.tables.keys import NARROW_DECIMAL, arrow_type_of, float_keys, floats, narrow_values

_WIDE = Context(prec=80)
_SIGN = np.uint64(1 << 63)
_BELOW, _EXACT, _ABOVE = b"\x7f", b"\x80", b"\x81"
_LEAST_POWER = 1 << 14
_INVERTED = bytes(range(255, -1, -1))
_WHOLE_LIMIT = 2.0**63
_THOUSAND = 1_000


class TextKeys:
    """Converts strings to bytes and back, and to what a state stores (`state/codecs.py`)."""

    def of(self, column: EncodedColumn, keys: Codes) -> pa.Array:
        """Return strings in UTF-8."""
        if column.dictionary is None or not len(column.dictionary):
            return pa.array([], pa.large_binary())
        return column.dictionary.take(pa.array(keys)).cast(pa.large_binary())

    def values(self, stored: pa.Array, column: Column) -> pa.Array:  # noqa: ARG002 (as of numbers)
        """Return the strings."""
        return stored.view(pa.large_string())

    def records(self, stored: pa.Array) -> list[bytes]:
        """Return what a state stores for strings."""
        return [b"s" + text for text in stored.to_pylist()]

    def read(self, records: Sequence[bytes]) -> pa.Array:
        """Return the inverse of `records`."""
        return pa.array([record[1:] for record in records], pa.large_binary())


class NumberKeys:
    """Converts numbers, dates and times in the same way; NaN has no bytes."""

    def of(self, column: EncodedColumn, keys: Codes) -> pa.Array:
        """Return the bytes of numbers. O(keys), Python for each number that is no double."""
        kind = column.column.type
        if kind.name == "float":
            return _doubles(floats(keys))
        if kind.name == "decimal" and kind.precision > NARROW_DECIMAL:
            assert column.dictionary is not None
            return _others(column.dictionary.take(pa.array(keys)).to_pylist())
        if kind.name == "decimal":
            unit = 10**kind.scale
            fractions = keys % unit != 0
            return choose(
                fractions,
                lambda at: _others([Decimal(key).scaleb(-kind.scale, _WIDE) for key in keys[at].tolist()]),
                lambda at: _integers(keys[at] // unit),
            )
        if kind.name == "timestamp" and kind.precision != 9:
            most = np.iinfo(np.int64).max // _THOUSAND
            return choose(
                (keys >= -most) & (keys <= most),
                lambda at: _integers(keys[at] * _THOUSAND),
                lambda at: _others([Decimal(key * _THOUSAND) for key in keys[at].tolist()]),
            )
        return _integers(keys)

    def values(self, stored: pa.Array, column: Column) -> pa.Array:
        """Return the numbers, dates or times. O(values), Python for each."""
        kind, numbers = column.type, [_number(one) for one in stored.to_pylist()]
        made: list[Value]
        match kind.name:
            case "float":
                made = [float(number) for number in numbers]
            case "decimal":
                unit = Decimal(1).scaleb(-kind.scale)
                made = [Decimal(number).quantize(unit, context=_WIDE) for number in numbers]
            case _:
                whole = [int(number) for number in numbers]
                if kind.name == "timestamp" and kind.precision != 9:
                    whole = [number // _THOUSAND for number in whole]
                return narrow_values(np.array(whole, np.int64), None, kind)
        return pa.array(made, arrow_type_of(kind), from_pandas=False)

    def records(self, stored: pa.Array) -> list[bytes]:
        """Return what a state stores for numbers: integers as digits, others as floats or decimals."""
        return [codecs.value(_number(one)) for one in stored.to_pylist()]

    def read(self, records: Sequence[bytes]) -> pa.Array:
        """Return the inverse of `records`. O(records), Python for each."""
        numbers = [codecs.read_value(record) for record in records]
        is_double = np.array([isinstance(number, float) for number in numbers], np.bool_)
        is_small = np.array([isinstance(n, int) and abs(n) < _WHOLE_LIMIT for n in numbers], np.bool_)

        def some(which: Flags) -> list[Any]:
            return [numbers[i] for i in np.flatnonzero(which).tolist()]

        parts = [
            _doubles(np.array(some(is_double), np.float64)),
            _integers(np.array(some(is_small), np.int64)),
            _others([Decimal(number) for number in some(~is_double & ~is_small)]),
        ]
        place = np.empty(len(numbers), np.int64)
        order = [np.flatnonzero(is_double), np.flatnonzero(is_small), np.flatnonzero(~is_double & ~is_small)]
        place[np.concatenate(order)] = np.arange(len(numbers))
        return pa.concat_arrays(parts).take(pa.array(place))


OrderKeys: TypeAlias = TextKeys | NumberKeys


def _doubles(numbers: Floats) -> pa.Array:
    """Return the bytes of numbers that are doubles."""
    rows = np.empty((len(numbers), 9), np.uint8)
    heads = (float_keys(numbers).view(np.uint64) ^ _SIGN).astype(">u8")
    rows[:, :8], rows[:, 8] = heads.view(np.uint8).reshape(-1, 8), _EXACT[0]
    return binaries(rows)


def _integers(numbers: Codes) -> pa.Array:
    doubles = numbers.astype(np.float64)
    within = np.abs(doubles) < _WHOLE_LIMIT
    exact = within & (np.where(within, doubles, 0.0).astype(np.int64) == numbers)
    return choose(
        exact,
        lambda at: _doubles(doubles[at]),
        lambda at: _others([Decimal(number) for number in numbers[at].tolist()]),
    )


def _others(numbers: Sequence[Decimal]) -> pa.Array:
    """Return the bytes of numbers that may lie between doubles."""
    return pa.array([_other(number) for number in numbers], pa.large_binary())


def _other(number: Decimal) -> bytes:
    nearest = float(number)
    head = _head(nearest)
    double = Decimal(nearest)
    if number == double:
        return head + _EXACT
    number = number.normalize(_WIDE)
    sign, digits, _ = number.as_tuple()
    rest = (number.adjusted() + _LEAST_POWER).to_bytes(2, "big") + bytes(digits)
    side = _ABOVE if number > double else _BELOW
    return head + side + (rest.translate(_INVERTED) + b"\xff" if sign else rest)


def _head(double: float) -> bytes:
    key = int(float_keys(np.array([double]))[0])
    return (key + (1 << 63)).to_bytes(8, "big")


def _number(stored: bytes) -> int | float | Decimal:
    """Decode a number from its stored bytes: whole numbers to integers, others to floats or decimals."""
    double = float(floats(np.array([int.from_bytes(stored[:8], "big") - (1 << 63)], np.int64))[0])
    if stored[8:9] == _EXACT:
        return int(double) if abs(double) < _WHOLE_LIMIT and double.is_integer() else double
    rest = stored[9:-1].translate(_INVERTED) if double < 0 else stored[9:]
    power = int.from_bytes(rest[:2], "big") - _LEAST_POWER
    digits = tuple(rest[2:])
    number = Decimal((int(double < 0), digits, power - len(digits) + 1))
    return int(number) if power - len(digits) + 1 >= 0 else number
