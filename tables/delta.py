"""Delta tables without Spark, deletion vectors included.

delta-rs takes `%41` in a path for `A`, however the path is written: it would find no table, or another one. A table
that is only read is therefore opened through links in a temporary folder.
"""

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from holdfast.constraints import ExternalError, InputError

if TYPE_CHECKING:
    from deltalake import DeltaTable


_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")


def escape_in(place: str | Path) -> str | None:
    """Return the part of a path that delta-rs would take for another character.

    >>> escape_in("/data/100%/a%41b"), escape_in("/data/100%")
    ('%41', None)
    """
    found = _ESCAPE.search(os.path.realpath(place))
    return None if found is None else found[0]


def is_delta_table(path: Path) -> bool:
    """Whether a folder holds a Delta table."""
    return (path / "_delta_log").is_dir()


def read_delta(path: Path, version: int | None, limit: int | None) -> pa.Table:
    """Read one version of a Delta table (the latest by default).

    `QueryBuilder` reads tables with deletion vectors, which `DeltaTable.to_pyarrow_table` refuses.
    """
    from deltalake import DeltaTable

    with _found_by_delta_rs(path) as place:
        try:
            table = DeltaTable(str(place), version=version)
        except OSError as error:
            raise ExternalError(f"{path} cannot be read: {_problem(error)}") from error
        except Exception as error:  # raised by the engine where the log is damaged
            at = "" if version is None else f" at version {version}"
            raise InputError(f"{path} cannot be read as a Delta table{at}: {_problem(error)}") from error
        return read_opened(table, str(path), limit)


@contextmanager
def _found_by_delta_rs(path: Path) -> Iterator[Path]:
    """Give a path under which delta-rs finds a table: its own path, or a folder with links to its files."""
    if escape_in(path) is None:
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="holdfast-links-") as folder:
        for entry in path.resolve().iterdir():
            Path(folder, entry.name).symlink_to(entry)
        yield Path(folder)


def read_opened(table: "DeltaTable", place: str, limit: int | None) -> pa.Table:
    """Read the rows of an opened Delta table."""
    from deltalake import QueryBuilder

    try:
        clause = "" if limit is None else f" LIMIT {int(limit)}"
        batches = QueryBuilder().register("source", table).execute(f"SELECT * FROM source{clause}")  # noqa: S608
        return pa.table(batches.read_all())
    except OSError as error:
        raise ExternalError(f"{place} cannot be read: {_problem(error)}") from error
    except Exception as error:  # raised by the engine where a data file is damaged
        raise InputError(
            f"{place} cannot be read as a Delta table at version {table.version()}: {_problem(error)}"
        ) from error


def _problem(error: Exception) -> str:
    """Return the message of the engine without colours and stack."""
    lines = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).splitlines()
    return " ".join(line.strip() for line in lines if not re.match(r"\s*([0-9]+: |at /)", line))
