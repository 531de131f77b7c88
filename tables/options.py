"""How to read a source: options that its bytes do not determine."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

from holdfast.constraints import ColumnType, UsageError


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """Options for reading one table.

    Parameters
    ----------
    delimiter, encoding : of a text file.
    null_tokens : texts that mean null; the empty field by default, quoted or not.
    nulls_by_look : whether texts that look like missing values (`missing.LOOKS`) mean null too, except in columns of
        texts.
    typed_header : a text file's header names types, as in `age(Integer)` or `age int`.
    strings : columns to read as strings, or `all`.
    types, ordered : declared types, and whether `<` applies, by column name.
    include, exclude : columns to keep, or to leave out; at most one of the two.
    limit : only the first rows.
    version : of a Delta table.
    """

    delimiter: str = ","
    encoding: str = "utf-8"
    null_tokens: tuple[str, ...] = ("",)
    nulls_by_look: bool = False
    typed_header: bool = False
    strings: Collection[str] | Literal["all"] = frozenset()
    types: Mapping[str, ColumnType] = field(default_factory=dict)
    ordered: Mapping[str, bool] = field(default_factory=dict)
    include: Collection[str] | None = None
    exclude: Collection[str] = ()
    limit: int | None = None
    version: int | None = None

    def __post_init__(self) -> None:
        if len(self.delimiter.encode()) != 1 or self.delimiter in {'"', "\n", "\r"}:
            raise UsageError(
                f"delimiter {self.delimiter!r}: expected one ASCII character other than a quote or newline"
            )
        _check_encoding(self.encoding)
        for option in ("strings", "include", "exclude", "null_tokens"):
            given = getattr(self, option)
            if isinstance(given, str) and (option, given) != ("strings", "all"):
                raise UsageError(f"{option} {given!r}: expected a list, as in [{given!r}]")
        if self.include is not None and self.exclude:
            raise UsageError("give columns to include or columns to exclude, not both")
        if self.limit is not None and self.limit < 0:
            raise UsageError(f"limit {self.limit}: expected a number of rows")
        if self.version is not None and self.version < 0:
            raise UsageError(f"version {self.version}: expected a version of the Delta table, from 0")


def _check_encoding(name: str) -> None:
    try:
        "".encode(name)  # refuses what is no encoding of texts, too
    except (LookupError, ValueError) as error:
        raise UsageError(f"unknown encoding '{name}': {error}. Try utf-8, utf-16, cp1252 or latin-1") from error
