"""Typed values from dates, times and decimals as Kafka Connect and Debezium write them.

A value that cannot be read, or lies outside of the years 1 to 9999, is null with a reason. A time of day becomes a
text, `12:30:00` or `12:30:00.25`. Python code runs for each distinct time of day, and each distinct decimal with a
scale of its own; everything else is done in arrays.
"""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.constraints import Column
from holdfast.constraints.types import MAX_DECIMAL_PRECISION
from holdfast.tables.arrays import Flags
from holdfast.tables.fitting import misfit
from holdfast.tables.frames import texts_of
from holdfast.tables.inference import shortened
from holdfast.tables.json_records import Cells, Spans, fields_of
from holdfast.tables.kernels.base64 import READ, WIDE, beyond_kernel, decimals_kernel
from holdfast.tables.kernels.json import ESCAPED, NULL, NUMBER
from holdfast.tables.kernels.json_cells import integers_kernel

DECIMAL = "org.apache.kafka.connect.data.Decimal"
VARIABLE_DECIMAL = "io.debezium.data.VariableScaleDecimal"

_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896  # 0001-01-01 and 9999-12-31, in days since 1970-01-01
_SECONDS = 86_400
_LARGEST_SCALE = 1_000  # a few bytes could make texts of any length otherwise
Reasons = dict[int, str]
Read = tuple[pa.Array, Reasons]


@dataclass(frozen=True)
class Written:
    """How the values of a column are written.

    Parameters
    ----------
    name : the name of the type in a schema; empty for plain values.
    scale : the scale of a decimal; None for the scale of the column.
    """

    name: str = ""
    scale: int | None = None


PLAIN = Written()


def read(cells: Cells, way: Written, column: Column) -> Read:
    """Return the values of a column, and the reasons of cells that cannot be read."""
    reader = READERS.get(way.name)
    return (cells.texts(), {}) if reader is None else reader(cells, way, column)


def either(first: pa.Array, second: pa.Array) -> pa.Array:
    """Return, per row, the first value, or the second if the first is null."""
    first, second = alike(first, second)
    return pc.coalesce(first, second)


def alike(first: pa.Array, second: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return two arrays with one type: their own if it is the same, else as texts."""
    return (first, second) if first.type == second.type else (as_texts(first), as_texts(second))


def as_texts(array: pa.Array) -> pa.Array:
    """Return values as texts."""
    made = texts_of(pa.chunked_array([array])).cast(pa.large_string()).combine_chunks()
    return made if isinstance(made, pa.Array) else pa.array([], pa.large_string())


def _texts(cells: Cells, way: Written, column: Column) -> Read:  # noqa: ARG001
    return cells.texts(), {}


def _days(cells: Cells, way: Written, column: Column) -> Read:
    days, there, reasons = _numbers(cells, way, column, "days since 1970-01-01", (_FIRST_DAY, _LAST_DAY))
    return pa.array(days.astype(np.int32), pa.int32(), mask=~there).view(pa.date32()), reasons


def _instants(unit: str) -> Callable[[Cells, Written, Column], Read]:
    per_second = {"ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    ends = (_FIRST_DAY * _SECONDS * per_second, (_LAST_DAY + 1) * _SECONDS * per_second - 1)
    kept = "ns" if unit == "ns" else "us"

    def instants(cells: Cells, way: Written, column: Column) -> Read:
        numbers, there, reasons = _numbers(cells, way, column, f"{unit} since 1970-01-01", ends)
        numbers = numbers * 1000 if unit == "ms" else numbers
        return pa.array(numbers, pa.int64(), mask=~there).view(pa.timestamp(kept, "UTC")), reasons

    return instants


def _times(unit: str) -> Callable[[Cells, Written, Column], Read]:
    per_second = {"ms": 10**3, "us": 10**6, "ns": 10**9}[unit]

    def times(cells: Cells, way: Written, column: Column) -> Read:
        numbers, there, reasons = _numbers(cells, way, column, f"{unit} since midnight")
        distinct, places = np.unique(numbers, return_inverse=True)
        texts = pa.array([_time_of_day(number, per_second) for number in distinct.tolist()], pa.large_string())
        return texts.take(pa.array(places, mask=~there)), reasons

    return times


def _time_of_day(number: int, per_second: int) -> str:
    """Return a time of day, or a duration, in the form that databases write.

    >>> _time_of_day(45_000_250, 1000), _time_of_day(86_400_000_000, 10**6), _time_of_day(-3_600, 1)
    ('12:30:00.25', '24:00:00', '-01:00:00')
    """
    seconds, rest = divmod(abs(number), per_second)
    fraction = f".{rest:0{len(str(per_second)) - 1}d}".rstrip("0") if rest else ""
    sign = "-" if number < 0 else ""
    return f"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{fraction}"


def _numbers(
    cells: Cells, way: Written, column: Column, meaning: str, ends: tuple[int, int] = (-(2**63), 2**63 - 1)
) -> tuple[NDArray[np.int64], Flags, Reasons]:
    """Return whole numbers, which cells have one in range, and the reasons of the others."""
    numbers, whole = np.empty(len(cells), np.int64), np.empty(len(cells), np.bool_)
    integers_kernel(cells.buffer, cells.kinds, cells.begins, cells.stops, numbers, whole)
    low, high = max(ends[0], -(2**63)), min(ends[1], 2**63 - 1)
    there = whole & (numbers >= low) & (numbers <= high)
    reasons = {}
    for row, text in _shown(cells, ~there):
        problem = "lies outside the years 1 to 9999" if whole[row] else f"is no whole number of {meaning}"
        reasons[row] = f"column {column.name}: '{text}' {problem} ({way.name})"
    return np.where(there, numbers, 0), there, reasons


def _shown(cells: Cells, chosen: Flags) -> list[tuple[int, str]]:
    """Return the chosen rows that have a value, each with its shortened text."""
    rows = np.flatnonzero(chosen & (cells.kinds > NULL))
    texts = cells.take(rows).texts().to_pylist()
    return [(row, shortened(text)) for row, text in zip(rows.tolist(), texts, strict=True)]


def _decimals(cells: Cells, way: Written, column: Column) -> Read:
    numbers = cells.kinds == NUMBER  # decimal.format=NUMERIC
    if numbers.any():
        array, reasons = _decimals(cells.where(~numbers), way, column)
        return either(cells.where(numbers).texts(), as_texts(array)), reasons
    scale = _scale(way, column)
    if scale is None or abs(scale) > _LARGEST_SCALE:
        problem = f"has a scale of {scale}: at most {_LARGEST_SCALE:,} digits are read behind a point, or before it"
        if scale is None:
            problem = f"takes its scale from the column's type, which is {column.type}: declare it decimal(p,s)"
        rows = np.flatnonzero(cells.kinds > NULL).tolist()
        return pa.nulls(len(cells), pa.large_string()), dict.fromkeys(
            rows, f"column {column.name}: {way.name} {problem}"
        )
    words, status = _decoded_base64(cells)
    there = cells.strings & (status == READ)
    reasons = {}
    for row, text in _shown(cells, ~there):
        problem = "a number of more than 16 bytes" if status[row] == WIDE else "no base64 of a whole number"
        reasons[row] = f"column {column.name}: '{text}' is {problem} ({way.name})"
    if not 0 <= scale <= MAX_DECIMAL_PRECISION:
        return _spelled(words, there, scale), reasons
    own = column.type.name == "decimal" and column.type.scale == scale
    precision = column.type.precision if own else MAX_DECIMAL_PRECISION
    beyond = np.empty(len(cells), np.bool_)
    largest = 10**precision - 1
    beyond_kernel(words, np.uint64(largest & (2**64 - 1)), np.uint64(largest >> 64), beyond)
    for row in np.flatnonzero(beyond & there).tolist():
        reasons[row] = misfit(_decimal_text(_integer(words[row]), scale), column)
    there &= ~beyond
    valid = pa.array(there).buffers()[1]
    return pa.Array.from_buffers(pa.decimal128(precision, scale), len(cells), [valid, pa.py_buffer(words)]), reasons


def _scale(way: Written, column: Column) -> int | None:
    if way.scale is not None:
        return way.scale
    return {"decimal": column.type.scale, "integer": 0}.get(column.type.name)


def _variable_decimals(cells: Cells, way: Written, column: Column) -> Read:
    parts = fields_of(cells.spans(), ["scale", "value"])
    scales, whole = np.empty(len(cells), np.int64), np.empty(len(cells), np.bool_)
    given = parts["scale"]
    integers_kernel(given.buffer, given.kinds, given.begins, given.stops, scales, whole)
    words, status = _decoded_base64(parts["value"])
    there = (status == READ) & parts["value"].strings & whole & (scales >= -_LARGEST_SCALE) & (scales <= _LARGEST_SCALE)
    plain = cells.kinds == NUMBER
    problem = f"is no object with a scale and at most 16 bytes ({way.name})"
    reasons = {row: f"column {column.name}: '{text}' {problem}" for row, text in _shown(cells, ~there & ~plain)}
    array = _spelled(words, there, np.where(there, scales, 0))
    return (either(cells.where(plain).texts(), array) if plain.any() else array), reasons


def _decoded_base64(cells: Cells) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Decode base64 texts to 128-bit numbers, as two 64-bit words each, with a status."""
    if (cells.kinds == ESCAPED).any():
        cells = _without_escapes(cells)
    words, status = np.empty((len(cells), 2), np.int64), np.empty(len(cells), np.uint8)
    decimals_kernel(cells.buffer, cells.strings, cells.begins, cells.stops, words, status)
    return words, status


def _without_escapes(cells: Cells) -> Cells:
    texts = cells.texts()
    offsets = np.frombuffer(texts.buffers()[1], np.int64)[: len(cells) + 1]
    buffer = Spans(np.frombuffer(texts.buffers()[2], np.uint8), offsets[:-1], offsets[1:]).buffer
    return Cells(buffer, np.minimum(cells.kinds, ESCAPED), offsets[:-1].copy(), offsets[1:].copy())


def _spelled(words: NDArray[np.int64], there: Flags, scale: int | NDArray[np.int64]) -> pa.Array:
    """Return decimals as texts. O(n), and O(distinct decimals) in Python."""
    scales = np.broadcast_to(np.asarray(scale, np.int64), len(words))
    triples = np.column_stack([words, scales])
    distinct, places = np.unique(triples, axis=0, return_inverse=True)
    texts = [_decimal_text(_integer(row), int(row[2])) for row in distinct]
    return pa.array(texts, pa.large_string()).take(pa.array(places.reshape(-1), mask=~there))


def _integer(words: NDArray[np.int64]) -> int:
    return (int(words[1]) << 64) | (int(words[0]) & (2**64 - 1))


def _decimal_text(number: int, scale: int) -> str:
    """Return a decimal as a text.

    >>> _decimal_text(-12345, 2), _decimal_text(5, 3), _decimal_text(12, -2)
    ('-123.45', '0.005', '1200')
    """
    return format(Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale)), "f")


READERS: dict[str, Callable[[Cells, Written, Column], Read]] = {
    "io.debezium.time.Date": _days,
    "io.debezium.time.Time": _times("ms"),
    "io.debezium.time.MicroTime": _times("us"),
    "io.debezium.time.NanoTime": _times("ns"),
    "io.debezium.time.ZonedTime": _texts,
    "io.debezium.time.Year": _texts,
    "io.debezium.time.Timestamp": _instants("ms"),
    "io.debezium.time.MicroTimestamp": _instants("us"),
    "io.debezium.time.NanoTimestamp": _instants("ns"),
    "io.debezium.time.ZonedTimestamp": _texts,
    "org.apache.kafka.connect.data.Date": _days,
    "org.apache.kafka.connect.data.Time": _times("ms"),
    "org.apache.kafka.connect.data.Timestamp": _instants("ms"),
    DECIMAL: _decimals,
    VARIABLE_DECIMAL: _variable_decimals,
}
