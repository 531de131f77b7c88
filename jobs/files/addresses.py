"""The inputs of commands: paths of this machine, and addresses that Spark reads.

Invariant: an address is never used as a path.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote, urlsplit

import click


@dataclass(frozen=True)
class Address:
    """An address of a file, a folder of Parquet or a Delta table, such as `s3a://bucket/orders.parquet`.

    Parameters
    ----------
    url : the address for Spark.

    Examples
    --------
    >>> Address("s3a://bucket/day%201/orders.parquet").name
    'orders.parquet'
    """

    url: str

    @property
    def path(self) -> Path:
        """The path in the address."""
        return Path(unquote(urlsplit(self.url).path).rstrip("/") or urlsplit(self.url).netloc)

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.name

    def __str__(self) -> str:
        return self.url


FileOrAddress: TypeAlias = Path | Address


class ReadableFile(click.ParamType[FileOrAddress]):
    """An argument that is a path of an existing file, or an address."""

    name = "file"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> FileOrAddress:
        """Return the path or the address."""
        if isinstance(value, Address):
            return value
        if "://" in str(value):
            return Address(str(value))
        found: Path = click.Path(exists=True, path_type=Path).convert(value, parameter, context)
        return found


def paths_of(places: Iterable[FileOrAddress]) -> list[Path]:
    """Return the paths that tables are named after."""
    return [place.path if isinstance(place, Address) else place for place in places]


def refuse_addresses(places: Iterable[FileOrAddress]) -> None:
    """Raise if an input is an address; for runs that do not use Spark."""
    for place in places:
        if isinstance(place, Address):
            reads = any(option.name == "spark" for option in click.get_current_context().command.params)
            advice = "add --spark, or name a path" if reads else "name a path"
            raise click.UsageError(f"{place} is an address, which Spark reads: {advice}.")
