"""Inference of the types of text columns, and conversion of texts to typed columns.

A text column is read by its distinct values: each is matched and parsed once, however often it occurs, and
the typed values are then spread over the rows. What a text fits is defined in `constraints/values.py`; here
the same patterns run in Arrow's kernels over whole columns.

Inference takes the first type that fits all values: integer, decimal(38,0) for whole numbers beyond 64 bits,
float, date, timestamp, boolean, string. Whole numbers of more than 38 digits stay strings, since as floats
two different ones could become equal, and so do numbers beyond the largest float, which would be infinite; so do
times of which only some have an offset, as they have no order.

Texts that look like missing values (`missing.py`) are null on request, in columns whose other texts fit another type
than string; else a column that would have another type without them is told (`Inferred.missing`).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.constraints import Column, ColumnType, InputError, read_value
from holdfast.constraints import values as forms
from holdfast.constraints.types import (
    BOOLEAN,
    DATE,
    FLOAT,
    INTEGER,
    MAX_DECIMAL_PRECISION,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NS,
    WIDE_INTEGER,
)
from holdfast.display.texts import counted
from holdfast.tables.keys import arrow_type_of, beyond_calendar, with_dictionary
from holdfast.tables.missing import missing_counts, without_missing

_SAMPLE = 64


def typed(
    texts: pa.ChunkedArray,
    name: str,
    declared: ColumnType | None,
    locate: Callable[[int], str],
    *,
    ordered: bool | None,
    nulls_by_look: bool = False,
) -> tuple[Column, pa.ChunkedArray]:
    """Return a text column with its type, declared or inferred, and its typed values. O(n).

    Parameters
    ----------
    locate : returns where a row is, for errors.
    nulls_by_look : whether texts that look like missing values are null, unless the column is of texts.
    """
    encoded = with_dictionary(texts)
    if nulls_by_look and declared != STRING:
        present = without_missing(encoded)
        if declared is not None or infer(present.dictionary)[0] != STRING:
            encoded = present
    distinct = encoded.dictionary
    if declared is None:
        column_type, parsed = infer(distinct)
    else:
        column_type = declared
        try:
            parsed = parse(distinct, declared)
        except (pa.ArrowInvalid, _Misfit):
            raise InputError(_misfit(encoded, name, declared, locate)) from None
    column = Column(name, column_type, ordered, assumed=declared is None and not len(distinct))
    values = encoded if column_type.name == "string" else parsed.take(encoded.indices)
    return column, pa.chunked_array([values])


def infer(distinct: pa.Array) -> tuple[ColumnType, pa.Array]:
    """Return the first type that fits all of `distinct`, and its values.

    Examples
    --------
    >>> [str(infer(pa.array(v))[0]) for v in (["1", "+2"], ["1", "01907"], ["1", "9223372036854775808"], [".5", "nan"])]
    ['integer', 'string', 'decimal(38,0)', 'float']
    """
    if not len(distinct):
        return STRING, distinct
    for pattern, types in _CANDIDATES:
        if _fits(distinct, pattern):
            for column_type in types:
                try:
                    return column_type, parse(distinct, column_type)
                except (pa.ArrowInvalid, _Misfit):
                    continue
            break
    return STRING, distinct


_Forms = Mapping[str, frozenset[ColumnType]] | None
"""For each form that all texts have, the types that can hold them; None without texts."""


class Fitting(NamedTuple):
    """The types that the texts of a part of a column fit.

    Parameters
    ----------
    every, present : of all texts, and of those that do not look like missing values.
    missing : how often each text occurs that looks like a missing value.
    """

    every: _Forms
    present: _Forms
    missing: Mapping[str, int]


class Inferred(NamedTuple):
    """The type of a column.

    Parameters
    ----------
    type : None without texts.
    missing : how often each text occurs that looks like a missing value and keeps the column from its type.
    type_without : the type without these texts; None if there are none.
    """

    type: ColumnType | None
    missing: Mapping[str, int]
    type_without: ColumnType | None


def fitting(texts: pa.ChunkedArray) -> Fitting:
    """Return the types that some texts of a column fit, as a part for `inferred`. O(n)."""
    encoded = with_dictionary(texts.cast(pa.string()))
    every, missing = _forms(encoded.dictionary), missing_counts(encoded)
    return Fitting(every, _forms(without_missing(encoded).dictionary) if missing else every, missing)


def inferred(parts: Sequence[Fitting], *, nulls_by_look: bool = False) -> Inferred:
    """Return the type that `typed` infers for all parts together.

    >>> str(inferred([fitting(pa.chunked_array([[text]])) for text in ("1", "9223372036854775808")]).type)
    'decimal(38,0)'
    """
    found, without = _common(part.every for part in parts), _common(part.present for part in parts)
    if found != STRING or without in {STRING, None}:
        return Inferred(found, {}, None)
    missing = sum((Counter(part.missing) for part in parts), Counter())
    return Inferred(without if nulls_by_look else found, missing, without)


def kept_as_texts(column: Column, values: pa.ChunkedArray) -> Inferred:
    """Return what keeps a column of texts, as `typed` returns it, from another type. O(n)."""
    if column.type != STRING or not (missing := missing_counts(with_dictionary(values))):
        return Inferred(column.type, {}, None)
    without = infer(without_missing(with_dictionary(values)).dictionary)[0]
    return Inferred(column.type, {} if without == STRING else missing, None if without == STRING else without)


def missing_warnings(path: Path, column: Column, found: Inferred) -> list[str]:
    """Return a warning if texts that look like missing values keep a column from its type."""
    if not found.missing:
        return []
    texts = " and ".join(f"'{text}' in {counted(rows, 'row')}" for text, rows in sorted(found.missing.items()))
    meant = "this means a missing value" if len(found.missing) == 1 else "these mean missing values"
    problem = f"{path}, column {column.name}: read as text because of {texts}"
    advice = f"If {meant}, set --null auto (in a configuration, auto for null_tokens)"
    return [f"{problem}; all other values fit the type {found.type_without}. {advice}"]


def _common(parts: Iterable[_Forms]) -> ColumnType | None:
    """Return the first type that fits all parts; None without texts."""
    present = [part for part in parts if part is not None]
    if not present:
        return None
    for pattern, types in _CANDIDATES:
        if all(pattern in part for part in present):
            return next((one for one in types if all(one in part[pattern] for part in present)), STRING)
    return STRING


def _forms(distinct: pa.Array) -> _Forms:
    if not len(distinct):
        return None
    return {
        pattern: frozenset(one for one in types if _parses(distinct, one))
        for pattern, types in _CANDIDATES
        if _fits(distinct, pattern)
    }


def _parses(distinct: pa.Array, column_type: ColumnType) -> bool:
    try:
        parse(distinct, column_type)
    except (pa.ArrowInvalid, _Misfit):
        return False
    return True


_CANDIDATES: tuple[tuple[str, tuple[ColumnType, ...]], ...] = (
    (forms.INTEGER, (INTEGER, WIDE_INTEGER)),
    (forms.FLOAT, (FLOAT,)),
    (forms.DATE, (DATE,)),
    (forms.TIMESTAMP_WITHOUT_OFFSET, (TIMESTAMP, TIMESTAMP_NS)),
    (forms.TIMESTAMP_WITH_OFFSET, (TIMESTAMP, TIMESTAMP_NS)),
    (forms.BOOLEAN, (BOOLEAN,)),
)


class _Misfit(ValueError):
    """A text does not fit the type; the text is searched only for the message."""


def parse(distinct: pa.Array, column_type: ColumnType) -> pa.Array:
    """Read texts as values of a declared type; `ArrowInvalid` or `ValueError` where one does not fit."""
    if column_type.name == "string" or not len(distinct):
        return distinct.cast(arrow_type_of(column_type))
    pattern = _DECLARED[column_type.name]
    if not _fits(distinct, pattern):
        raise _Misfit
    match column_type.name:
        case "integer":
            return _integers(distinct)
        case "float":
            return _floats(distinct)
        case "decimal":
            return _decimals(distinct, column_type)
        case "boolean":
            return pc.equal(pc.utf8_lower(distinct), "true")
        case "date":
            return distinct.cast(pa.date32())
    return _instants(distinct, column_type)


_DECLARED = {
    "integer": forms.DECLARED_NUMBER,
    "float": forms.DECLARED_FLOAT,
    "decimal": forms.DECLARED_NUMBER,
    "boolean": forms.DECLARED_BOOLEAN,
    "date": forms.DATE,
    "timestamp": forms.DECLARED_TIMESTAMP,
}


def _fits(distinct: pa.Array, pattern: str) -> bool:
    """Whether every text matches the whole pattern; a few texts are tried first."""
    anchored = f"^(?:{pattern})$"
    if not pc.all(pc.match_substring_regex(distinct.slice(0, _SAMPLE), anchored)).as_py():
        return False
    return bool(pc.all(pc.match_substring_regex(distinct, anchored)).as_py())


def _unsigned(texts: pa.Array) -> pa.Array:
    """Remove leading plus signs, which Arrow's parsers refuse."""
    if not pc.any(pc.starts_with(texts, "+")).as_py():
        return texts
    return pc.replace_substring_regex(texts, r"^\+", "")


def _integers(distinct: pa.Array) -> pa.Array:
    """Read whole numbers; numbers with an exponent in Python."""
    if not _fits(distinct, forms.PLAIN_INTEGER):
        return _one_by_one(distinct, INTEGER)
    return pc.replace_substring_regex(_unsigned(distinct), r"\.0*$", "").cast(pa.int64())


def _floats(distinct: pa.Array) -> pa.Array:
    """Read numbers; finite numbers that would become infinite are refused."""
    numbers = _unsigned(distinct).cast(pa.float64())
    infinite = pc.is_inf(numbers)
    if pc.any(infinite).as_py() and not _fits(distinct.filter(infinite), r".*[a-zA-Z]"):
        raise _Misfit
    return numbers


def _one_by_one(distinct: pa.Array, column_type: ColumnType) -> pa.Array:
    try:
        return pa.array([read_value(text, column_type) for text in distinct.to_pylist()], arrow_type_of(column_type))
    except ValueError as error:
        raise _Misfit from error


def _decimals(distinct: pa.Array, column_type: ColumnType) -> pa.Array:
    """Read numbers; numbers with too many digits, at which Arrow overflows, are refused before."""
    target = arrow_type_of(column_type)
    if not pc.any(pc.match_substring_regex(distinct, "[eE]")).as_py():
        whole, fraction = column_type.precision - column_type.scale, column_type.scale
        if not _fits(distinct, rf"[+-]?0*[0-9]{{0,{whole}}}(?:\.[0-9]{{0,{fraction}}}0*)?"):
            raise _Misfit
        if pc.max(pc.utf8_length(distinct)).as_py() <= MAX_DECIMAL_PRECISION + len("-."):
            return distinct.cast(target)
    return _one_by_one(distinct, column_type)


def _instants(distinct: pa.Array, column_type: ColumnType) -> pa.Array:
    """Read ISO times, dates as midnight, times without an offset as UTC."""
    if column_type == TIMESTAMP and pc.any(pc.match_substring_regex(distinct, forms.NANOSECONDS)).as_py():
        raise _Misfit
    with_time = pc.replace_substring_regex(distinct, r"^([0-9-]{10})$", r"\1T00:00Z")
    with_offset = pc.replace_substring_regex(with_time, r"([T ][0-9:.]+)$", r"\1Z")
    with_minutes = pc.replace_substring_regex(with_offset, r"([+-][0-9]{2})$", r"\1:00")
    instants = with_minutes.cast(arrow_type_of(column_type))
    if beyond_calendar(instants):
        raise _Misfit
    return instants


def _misfit(encoded: pa.DictionaryArray, name: str, declared: ColumnType, locate: Callable[[int], str]) -> str:
    """Return a message about the first row whose text does not fit the declared type."""
    wrong = {i for i, text in enumerate(encoded.dictionary.to_pylist()) if not reads(text, declared)}
    rows: Iterable[int] = (i for i, code in enumerate(encoded.indices.to_pylist()) if code in wrong)
    row = next(iter(rows), None)
    if row is None:
        return f"column {name}: a value does not fit {declared}"
    text = encoded.dictionary[encoded.indices[row].as_py()].as_py()
    hint = " (spaces count)" if text != text.strip() else ""
    do, them = ("does", "it") if len(wrong) == 1 else ("do", "them")
    return (
        f"{locate(row)}, column {name}: '{shortened(text)}' is not {forms.EXPECTED[declared.name]}{hint}; "
        f"{counted(len(wrong), 'distinct value')} of the column {do} not fit {declared}. Correct {them}, or read the "
        "column as strings (--strings)"
    )


def reads(text: str, declared: ColumnType) -> bool:
    """Whether a text fits a type."""
    try:
        read_value(text, declared)
    except ValueError:
        return False
    return True


def shortened(text: str) -> str:
    """Return a text as messages show it."""
    return text if len(text) <= 80 else text[:77] + "..."
