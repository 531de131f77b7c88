"""Constants in SQL: texts, numbers, times.

A number is compared by its exact value, as docs/semantics.md has it: the float column's 0.1 is above the number 0.1.
Engines convert the constant to a float first, which makes both equal. So a number that no float represents is compared
twice: the second comparison decides for floats, where it is with the nearest float, and says nothing for other types.

    x <= 0.1    ->    x <= 0.1 and x < 0.10000000000000001

Invariant: a text has no backslash, no `$` and no quote inside its quotes, as Spark reads these in its own way.
"""

import datetime
import math
import re
import struct
from collections.abc import Sequence
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction

from holdfast.constraints.conditions import Literal
from holdfast.constraints.operators import EQUAL, EVERY_OUTCOME, GREATER, LESS, Operator
from holdfast.constraints.queries.writer import Dialect, SqlWriter
from holdfast.constraints.types import ColumnType
from holdfast.constraints.values import DECLARED_TIMESTAMP, Value, read_value

_MOST_DIGITS = 38
_EXACT_DIGITS = 15
"""A number of so many digits is the same float in all engines, however they convert it."""
_MOST_POWER = 1_000
_LONG = 2**63 - 1
_ROOM = Context(prec=3 * _MOST_POWER)
_ODD = re.compile(r"(['\\$\x00-\x1f\x7f-\x9f])")
_SPECIAL = {"nan": "NaN", "inf": "Infinity", "infinity": "Infinity"}
_MANY_DIGITS = "The constant is exact for floats, and for decimal columns of up to 21 digits before the point."
_OTHER_PATTERNS = (
    "The pattern is of RE2, as DuckDB has it: PostgreSQL and Spark read some expressions otherwise; on PostgreSQL, a "
    "dot also stands for a line feed."
)
_IN_UTC = "A time without an offset is in UTC: set the time zone of the session to UTC."


def compared_with(writer: SqlWriter, cell: str, operator: Operator, literal: Literal, kind: ColumnType | None) -> str:
    """Return the comparison of a cell with a constant; a null never satisfies it.

    >>> from holdfast.constraints.queries.writer import Dialect
    >>> writer = SqlWriter(Dialect.STANDARD)
    >>> compared_with(writer, "t.rate", Operator.LESS_EQUAL, Literal("4.5", False), None)
    't.rate <= 4.5'
    >>> compared_with(writer, "t.rate", Operator.LESS_EQUAL, Literal("0.1", False), None)
    '(t.rate <= 0.1 and t.rate < 0.10000000000000001)'
    >>> compared_with(writer, "t.name", Operator.EQUAL, Literal("O'Hara", True), None)
    "t.name = 'O' || chr(39) || 'Hara'"
    """
    if not literal.is_text and literal.text not in {"true", "false"}:
        if kind is None and re.search(r"\.\d|e-", literal.text):
            writer.note(_MANY_DIGITS)
        return _number(cell, operator, literal.text, kind)
    return f"{cell} {sql_of(operator)} {_constant(writer, literal, kind)}"


def among(writer: SqlWriter, cell: str, literals: Sequence[Literal], kind: ColumnType | None) -> str:
    """Return the test that a cell has one of some constants that are texts or times.

    >>> from holdfast.constraints.queries.writer import Dialect
    >>> among(SqlWriter(Dialect.STANDARD), "t.state", [Literal("MA", True), Literal("NY", True)], None)
    "t.state in ('MA', 'NY')"
    """
    return f"{cell} in ({', '.join(_constant(writer, literal, kind) for literal in literals)})"


def matching(writer: SqlWriter, cell: str, pattern: str) -> str:
    r"""Return the test that the whole text of a cell matches a regular expression.

    >>> from holdfast.constraints.queries.writer import Dialect
    >>> for dialect in Dialect:
    ...     print(matching(SqlWriter(dialect), "t.zip", "[0-9]{5}"))
    t.zip ~ ('^(?:[0-9]{5})' || chr(36))
    regexp_full_match(t.zip, '[0-9]{5}')
    t.zip rlike ('(?d)' || chr(92) || 'A(?:[0-9]{5})' || chr(92) || 'z')
    t.zip ~ ('^(?:[0-9]{5})' || chr(36))
    """
    if writer.dialect is Dialect.DUCKDB:
        return f"regexp_full_match({cell}, {text_constant(pattern)})"
    writer.note(_OTHER_PATTERNS)
    if writer.dialect is Dialect.SPARK:
        whole = rf"(?d)\A(?:{pattern})\z"
        return f"{cell} rlike ({text_constant(whole)})"
    if writer.dialect is Dialect.STANDARD:
        writer.note("Patterns are compared by ~ of DuckDB and PostgreSQL: for Spark, ask for the dialect spark.")
    return f"{cell} ~ ({text_constant(f'^(?:{pattern})$')})"


def equal_to(cell: str, value: Value) -> str:
    """Return the test that a cell has a value, which may be null.

    >>> equal_to("t.zip", None), equal_to("t.rate", 0.1), equal_to("t.rate", float("nan"))
    ('t.zip is null', 't.rate = 0.1e0', "t.rate = cast('NaN' as real)")
    """
    return f"{cell} is null" if value is None else f"{cell} = {_value(value)}"


def sql_of(operator: Operator) -> str:
    """Return an operator as SQL has it."""
    return "<>" if operator is Operator.UNEQUAL else str(operator)


def text_constant(text: str) -> str:
    r"""Return a text as a constant that all engines read alike.

    >>> print(text_constant("New York"), text_constant(""), text_constant("a\\$"))
    'New York' '' 'a' || chr(92) || chr(36)
    """
    parts = _ODD.split(text)  # texts and odd characters in turn
    written = [f"chr({ord(part)})" if i % 2 else f"'{part}'" for i, part in enumerate(parts) if part]
    return " || ".join(written) or "''"


def _constant(writer: SqlWriter, literal: Literal, kind: ColumnType | None) -> str:
    """Return a text, a time, or true or false."""
    if not literal.is_text:
        return literal.text
    if kind is not None and kind.name == "timestamp":
        beyond = re.search(r"\.[0-9]{6}([0-9]{1,3})", literal.text)
        moment = read_value(literal.text, kind)
        assert isinstance(moment, datetime.datetime)
        return text_constant(_time(moment, beyond[1] if beyond else ""))
    if kind is None and re.fullmatch(DECLARED_TIMESTAMP, literal.text):
        writer.note(_IN_UTC)
    return text_constant(literal.text)


def _time(moment: datetime.datetime, beyond: str = "") -> str:
    """Return a time in UTC, with the digits beyond microseconds."""
    moment = moment.replace(tzinfo=moment.tzinfo or datetime.UTC).astimezone(datetime.UTC)
    text = moment.isoformat(" ", "microseconds" if beyond or moment.microsecond else "seconds")
    return text.replace("+00:00", f"{beyond}+00:00")


def _number(cell: str, operator: Operator, text: str, kind: ColumnType | None) -> str:
    """Return the comparison of a cell with a number."""
    special = _SPECIAL.get(text.lstrip("+-"))
    if special is not None:
        sign = "-" if text.startswith("-") and special != "NaN" else ""
        return f"{cell} {sql_of(operator)} cast('{sign}{special}' as real)"
    number = Decimal(text)
    if number and abs(number.adjusted()) > _MOST_POWER:  # beyond all values, or nearer to 0 than all others
        power = _MOST_POWER if number.adjusted() > 0 else -_MOST_POWER
        number = Decimal((number.as_tuple().sign, (1,), power))
    if kind is None:
        found = _of_any_type(cell, operator, number)
        # Spark takes `bigint < a number beyond 64 bits` for true where the bigint is null, too
        return f"({cell} is not null and {found})" if abs(number) >= _LONG and operator.needs_order else found
    return _with_float(cell, operator, number) if kind.name == "float" else _with_digits(cell, operator, number, kind)


def _of_any_type(cell: str, operator: Operator, number: Decimal) -> str:
    """Return the comparison of a column whose type is not known: it is exact for floats and for other numbers."""
    nearest, plain = float(number), format(number, "f")
    compared, side = f"{cell} {sql_of(operator)} {plain}", _side(nearest, number)
    fits = _digits(plain) <= _MOST_DIGITS
    if fits and side == EQUAL:
        return compared
    beside = _beside(nearest, number, side) if fits else None
    if beside is None:
        return _with_float(cell, operator, number)
    of_constant, of_nearest = operator.outcomes & EQUAL != 0, operator.outcomes & side != 0
    if of_constant == of_nearest:
        return compared
    less, more = ("<", ">=") if side == GREATER else (">", "<=")
    return f"({compared} {f'and {cell} {less}' if of_constant else f'or {cell} {more}'} {beside})"


def _with_float(cell: str, operator: Operator, number: Decimal) -> str:
    """Return the comparison of a float column with a number, by the nearest float."""
    nearest = float(number)
    return _with_nearest(cell, operator, _value(nearest), _side(nearest, number))


def _with_digits(cell: str, operator: Operator, number: Decimal, kind: ColumnType) -> str:
    """Return the comparison of an integer or decimal column with a number, by a number that the column can have."""
    least, greatest = -_LONG - 1, _LONG
    if kind.name == "decimal":
        greatest = 10 ** (kind.precision - kind.scale) - 1
        least = -greatest
    if not least - 1 < number < greatest + 1:
        outcome = LESS if number > 0 else GREATER  # of every value
        return f"{cell} is not null" if operator.outcomes & outcome else "1 = 0"
    below = number.quantize(Decimal(1).scaleb(-kind.scale), ROUND_FLOOR, _ROOM)
    return _with_nearest(cell, operator, format(below, "f"), EQUAL if below == number else LESS)


def _with_nearest(cell: str, operator: Operator, nearest: str, side: int) -> str:
    """Return a comparison by a value that is nearest to the constant: `side` is its outcome against the constant."""
    outcomes = operator.outcomes & ~EQUAL | (EQUAL if operator.outcomes & side else 0)
    if outcomes in {0, EVERY_OUTCOME}:
        return f"{cell} is not null" if outcomes else "1 = 0"
    return f"{cell} {sql_of(Operator(outcomes))} {nearest}"


def _side(nearest: float, number: Decimal) -> int:
    """Return where the nearest float is, seen from the number."""
    if math.isinf(nearest):
        return GREATER if nearest > 0 else LESS
    exact = Fraction(nearest)
    return EQUAL if exact == number else GREATER if exact > number else LESS


def _beside(nearest: float, number: Decimal, side: int) -> str | None:
    """Return a number that has the same nearest float, on the other side; None where it has too many digits."""
    if math.isinf(nearest):
        return None
    for digits in range(_EXACT_DIGITS + 2, _MOST_DIGITS + 1):
        found = Decimal(f"{Decimal(nearest):.{digits - 1}e}")
        if float(found) == nearest and (found > number if side == GREATER else found < number):
            plain = format(found, "f")
            return plain if _digits(plain) <= _MOST_DIGITS else None
    return None


def _has_32_bits(value: float) -> bool:
    """Whether a float of 32 bits has the value: DuckDB compares such a column with a decimal in 32 bits."""
    try:
        return bool(struct.unpack("f", struct.pack("f", value))[0] == value)
    except OverflowError:
        return False


def _digits(plain: str) -> int:
    return sum(c.isdigit() for c in plain)


def _value(value: Value) -> str:
    """Return a cell's value, not null, as a constant."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if not math.isfinite(value):
            return f"cast('{'NaN' if math.isnan(value) else 'Infinity' if value > 0 else '-Infinity'}' as real)"
        text = repr(value)
        is_plain = "e" in text or (_digits(text) <= _EXACT_DIGITS and _has_32_bits(value))
        return text if is_plain else f"{text}e0"  # with an exponent it is a float of 64 bits
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime.datetime):
        return text_constant(_time(value))
    if isinstance(value, datetime.date):
        return text_constant(value.isoformat())
    return str(value) if isinstance(value, int) else text_constant(str(value))
