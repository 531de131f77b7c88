"""Names and notes of one query.

A plain name in lower case (`[a-z_][a-z0-9_]*`) stands without quotes, which all engines read alike. Every other name is
quoted: by double quotes (SQL standard, DuckDB, PostgreSQL) or by backquotes (Spark). No quotes are common to all three.

Invariant: a control character never reaches a comment, as a line feed would end the comment.
"""

import enum
import re
from collections.abc import Iterable

from holdfast.constraints.columns import Schema
from holdfast.constraints.errors import UsageError
from holdfast.constraints.types import ColumnType

_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")
_PART = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")
_RESERVED = frozenset(
    """all analyse analyze and anti any array as asc asof asymmetric at authorization binary both by case cast check
    collate collation column columns concurrently constraint create cross current_catalog current_date current_role
    current_schema current_time current_timestamp current_user default deferrable desc describe distinct do else end
    except false fetch filter for foreign freeze from full generated glob grant group having ilike in initially inner
    intersect into is isnull join lambda lateral leading left like limit localtime localtimestamp map minus natural not
    notnull null offset on only or order outer overlaps pivot pivot_longer pivot_wider placing positional primary
    qualify references returning right select semi session_user show similar some struct summarize symmetric table
    tablesample then to trailing true try_cast tuple union unique unpack unpivot user using values variadic verbose when
    where window with""".split()
)
"""Words that some engine does not take for the name of a table."""


class Dialect(enum.Enum):
    """The engine whose quotes names have, where they need quotes."""

    STANDARD = "standard"
    DUCKDB = "duckdb"
    SPARK = "spark"
    POSTGRESQL = "postgresql"


def dialect_of(given: Dialect | str) -> Dialect:
    """Return a dialect by its name.

    >>> dialect_of("spark")
    <Dialect.SPARK: 'spark'>
    """
    try:
        return Dialect(given)
    except ValueError:
        known = ", ".join(dialect.value for dialect in Dialect)
        raise UsageError(f"there is no dialect '{given}': expected one of {known}") from None


class SqlWriter:
    """Writes the names of one query, and collects the notes for people that come before it.

    Parameters
    ----------
    dialect : decides the quotes.
    schema : the types of the columns, where they are known.

    Examples
    --------
    >>> writer = SqlWriter(Dialect.SPARK)
    >>> writer.cell("t", "zip"), writer.cell("s", "Zip code"), writer.table("lake.`a.b`")
    ('t.zip', 's.`Zip code`', 'lake.`a.b`')
    >>> writer.fresh("row_count", ["Row_Count"])
    'row_count_'
    """

    def __init__(self, dialect: Dialect, schema: Schema | None = None) -> None:
        self.dialect = dialect
        self.notes: dict[str, None] = {}
        self._schema = schema

    def cell(self, row: str, column: str) -> str:
        """Return a column of a row; raise an error for a column that the schema does not have."""
        self.type_of(column)
        return f"{row}.{self.name(column)}"

    def cells(self, row: str, columns: Iterable[str]) -> list[str]:
        """Return some columns of a row."""
        return [self.cell(row, column) for column in columns]

    def ordered(self, row: str, column: str) -> str:
        """Return a column of a row where its order counts: texts are ordered by code point."""
        kind, cell = self.type_of(column), self.cell(row, column)
        if self.dialect is Dialect.POSTGRESQL and kind is not None and kind.name == "string":
            return f'{cell} collate "C"'
        if self.dialect in {Dialect.STANDARD, Dialect.POSTGRESQL} and (kind is None or kind.name == "string"):
            self.note('Texts are ordered by code point: on PostgreSQL, a text column needs the collation "C" for this.')
        return cell

    def name(self, name: str) -> str:
        """Return the name of a column or of a part of a table's name, in quotes where it is not plain."""
        if "\0" in name or not name:
            raise UsageError(f"the name '{name}' is empty or has a NUL character: no engine has such a name")
        return name if _PLAIN.fullmatch(name) else self._quoted(name)

    def table(self, text: str) -> str:
        """Return a table's name: parts with dots between them, in backquotes where a part has a dot."""
        parts = list(_PART.finditer(text))
        if not parts or ".".join(match[0] for match in parts) != text:
            raise UsageError(f"'{text}' is no name of a table: expected orders, sales.orders or `a.name with dots`")
        names = [match[2] if match[1] is None else match[1].replace("``", "`") for match in parts]
        return ".".join(map(self.table_named, names))

    def table_named(self, name: str) -> str:
        """Return a table's name as it is, dots included."""
        return self._quoted(name) if name in _RESERVED else self.name(name)

    def type_of(self, column: str) -> ColumnType | None:
        """Return the type of a column; None where there is no schema."""
        return None if self._schema is None else self._schema[column].type

    def note(self, text: str) -> None:
        """Add a note, once."""
        self.notes[text] = None

    @staticmethod
    def fresh(name: str, used: Iterable[str]) -> str:
        """Return a name that is none of the used ones, with quotes or without, in upper or lower case."""
        taken = {one.strip('"`').lower() for one in used}
        while name in taken:
            name += "_"
        return name

    def _quoted(self, name: str) -> str:
        if self.dialect is Dialect.SPARK:
            return "`" + name.replace("`", "``") + "`"
        if self.dialect is Dialect.STANDARD:
            self.note("Some names are in double quotes: for Spark, ask for the dialect spark.")
        return '"' + name.replace('"', '""') + '"'


def commented(lines: Iterable[str]) -> list[str]:
    r"""Return lines as comments, in which characters that are not printable are escaped.

    >>> commented(["not(t.`a\nb` = 1)"])
    ['-- not(t.`a\\u000ab` = 1)']
    """
    return ["-- " + "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in line) for line in lines]
