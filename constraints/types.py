"""Column types, and the groups within which values can be compared.

A group is what decides whether two columns can be compared at all; inside the numbers, values of different
types compare by exact mathematical value. Order per family: numbers, dates and timestamps are ordered
everywhere, strings (by code point) and booleans (false < true) in order dependencies only.

Invariant: `parse_type(str(t)) == t` for every type.
"""

import enum
import re
from dataclasses import dataclass

from holdfast.constraints.errors import UsageError

MAX_DECIMAL_PRECISION = 38


class TypeGroup(enum.Enum):
    """Groups of types whose values can be compared."""

    NUMBERS = "numbers"
    STRINGS = "strings"
    DATES = "dates"
    TIMESTAMPS = "timestamps"
    BOOLEANS = "booleans"


class Family(enum.Enum):
    """The families of constraints, by their short names in commands and output."""

    DENIAL = "dc"
    ORDER = "od"
    INCLUSION = "ind"
    NEAR = "near"

    @property
    def words(self) -> str:
        """The name of the family in messages."""
        return _FAMILY_WORDS[self]


_FAMILY_WORDS = {
    Family.DENIAL: "denial constraints",
    Family.ORDER: "order dependencies",
    Family.INCLUSION: "inclusion dependencies",
    Family.NEAR: "near constraints",
}


@dataclass(frozen=True, slots=True)
class ColumnType:
    """A type of columns.

    Parameters
    ----------
    name : `integer` (64 bits), `float` (64 bits), `decimal`, `string`, `date`, `timestamp` or `boolean`.
    precision : digits of a decimal; fractional digits (6 or 9) of a timestamp's seconds.
    scale : fractional digits of a decimal.

    Notes
    -----
    Timestamps are instants: one without an offset is taken as UTC. They keep microseconds, or nanoseconds
    where the source has them.

    Examples
    --------
    >>> str(ColumnType("decimal", 10, 2)), ColumnType("decimal", 10, 2).group.value
    ('decimal(10,2)', 'numbers')
    """

    name: str
    precision: int = 0
    scale: int = 0

    def __post_init__(self) -> None:
        if self.name not in _GROUPS:
            raise UsageError(f"unknown column type '{self.name}': expected one of {', '.join(_GROUPS)}")
        if self.name == "decimal":
            if not (1 <= self.precision <= MAX_DECIMAL_PRECISION and 0 <= self.scale <= self.precision):
                raise UsageError(
                    f"decimal({self.precision},{self.scale}): expected 1 to {MAX_DECIMAL_PRECISION} digits, "
                    "of which the second number are behind the point"
                )
        elif self.name == "timestamp":
            if self.precision not in {6, 9}:
                raise UsageError(f"timestamp({self.precision}): expected 6 (microseconds) or 9 (nanoseconds)")
        elif self.precision or self.scale:
            raise UsageError(f"{self.name} takes no precision")

    @property
    def group(self) -> TypeGroup:
        """The group of the type."""
        return _GROUPS[self.name]

    @property
    def has_steps(self) -> bool:
        """Whether the values between two values can be counted, and are few: whole numbers, short decimals, dates."""
        return self.name in {"integer", "decimal", "date"}

    def ordered_in(self, family: Family) -> bool:
        """Whether values of the type are ordered in constraints of `family`."""
        return family in {Family.ORDER, Family.NEAR} or self.group not in {TypeGroup.STRINGS, TypeGroup.BOOLEANS}

    def __str__(self) -> str:
        if self.name == "decimal":
            return f"decimal({self.precision},{self.scale})"
        return "timestamp(9)" if self.precision == 9 else self.name


_GROUPS = {
    "integer": TypeGroup.NUMBERS,
    "float": TypeGroup.NUMBERS,
    "decimal": TypeGroup.NUMBERS,
    "string": TypeGroup.STRINGS,
    "date": TypeGroup.DATES,
    "timestamp": TypeGroup.TIMESTAMPS,
    "boolean": TypeGroup.BOOLEANS,
}

INTEGER = ColumnType("integer")
FLOAT = ColumnType("float")
STRING = ColumnType("string")
DATE = ColumnType("date")
TIMESTAMP = ColumnType("timestamp", 6)
TIMESTAMP_NS = ColumnType("timestamp", 9)
BOOLEAN = ColumnType("boolean")
WIDE_INTEGER = ColumnType("decimal", MAX_DECIMAL_PRECISION, 0)

_NAMES = {
    **dict.fromkeys(("integer", "int", "long", "bigint", "smallint", "tinyint", "short", "byte", "int64"), INTEGER),
    **dict.fromkeys(("int8", "int16", "int32", "int4"), INTEGER),
    **dict.fromkeys(("float", "double", "real", "float32", "float64", "double precision"), FLOAT),
    **dict.fromkeys(("string", "str", "text", "varchar", "char"), STRING),
    **dict.fromkeys(("date", "date32"), DATE),
    **dict.fromkeys(("timestamp", "timestamp(6)", "datetime", "timestamp_ntz", "timestamptz"), TIMESTAMP),
    **dict.fromkeys(("timestamp(9)", "timestamp_ns"), TIMESTAMP_NS),
    **dict.fromkeys(("boolean", "bool"), BOOLEAN),
}
_DECIMAL = re.compile(r"(?:decimal|numeric|number)\s*(?:\(\s*(\d{1,3})\s*(?:,\s*(\d{1,3})\s*)?\))?")


def parse_type(text: str) -> ColumnType:
    """Read a type's name, in the spellings of SQL, Spark, pandas and the papers' typed headers.

    Examples
    --------
    >>> parse_type("Long"), parse_type("str").name, str(parse_type("DECIMAL(12, 2)"))
    (ColumnType(name='integer', precision=0, scale=0), 'string', 'decimal(12,2)')
    """
    given = text.strip().lower()
    if given in _NAMES:
        return _NAMES[given]
    decimal = _DECIMAL.fullmatch(given)
    if decimal:
        precision, scale = decimal.groups()
        return (
            ColumnType("decimal", int(precision or 10), int(scale or 0)) if precision else ColumnType("decimal", 38, 9)
        )
    raise UsageError(
        f"unknown column type '{text}': expected integer, float, decimal(p,s), string, date, timestamp or boolean"
    )


def is_type_name(text: str) -> bool:
    """Whether `parse_type` accepts the text."""
    return text.strip().lower() in _NAMES or _DECIMAL.fullmatch(text.strip().lower()) is not None
