"""Delta tables without Spark, deletion vectors included."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from holdfast.constraints import ExternalError, InputError

if TYPE_CHECKING:
    from deltalake import DeltaTable


def is_delta_table(path: Path) -> bool:
    """Whether a folder holds a Delta table."""
    return (path / "_delta_log").is_dir()


def read_delta(path: Path, version: int | None, limit: int | None) -> pa.Table:
    """Read one version of a Delta table (the latest by default).

    `QueryBuilder` reads tables with deletion vectors, which `DeltaTable.to_pyarrow_table` refuses.
    """
    from deltalake import DeltaTable

    try:
        table = DeltaTable(str(path), version=version)
    except OSError as error:
        raise ExternalError(f"{path} cannot be read: {_problem(error)}") from error
    except Exception as error:  # what the engine raises where its log is damaged
        at = "" if version is None else f" at version {version}"
        raise InputError(f"{path} cannot be read as a Delta table{at}: {_problem(error)}") from error
    return read_opened(table, str(path), limit)


def read_opened(table: "DeltaTable", place: str, limit: int | None) -> pa.Table:
    """Read the rows of an opened Delta table."""
    from deltalake import QueryBuilder

    try:
        clause = "" if limit is None else f" LIMIT {int(limit)}"
        batches = QueryBuilder().register("source", table).execute(f"SELECT * FROM source{clause}")  # noqa: S608
        return pa.table(batches.read_all())
    except OSError as error:
        raise ExternalError(f"{place} cannot be read: {_problem(error)}") from error
    except Exception as error:  # what the engine raises where a data file is damaged
        raise InputError(
            f"{place} cannot be read as a Delta table at version {table.version()}: {_problem(error)}"
        ) from error


def _problem(error: Exception) -> str:
    """Return what the engine says without its colours and its stack."""
    lines = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).splitlines()
    return " ".join(line.strip() for line in lines if not re.match(r"\s*([0-9]+: |at /)", line))
