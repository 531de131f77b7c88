"""`holdfast exceptions`: all rows that are the exceptions of a constraint, as CSV or Parquet.

The first columns are `_row`, the row's number from 1 on (a header is no row), and `_undecided`; the table's follow.
Invariant: the file is whole or not there.
"""

import io
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from holdfast.constraints import UsageError, parse_near
from holdfast.display.texts import counted
from holdfast.jobs.addresses import Place, paths_of
from holdfast.jobs.options import Answering
from holdfast.jobs.output import bytes_to, results_to

if TYPE_CHECKING:
    import pyarrow as pa

    from holdfast.tables import ReadOptions

ROW, UNDECIDED = "_row", "_undecided"
_FORMATS = (".csv", ".parquet")


def list_exceptions(
    file: Place, text: str, reading: "ReadOptions", answering: Answering, *, threads: int | None = None
) -> None:
    """Write the exceptions of a constraint on a file."""
    import pyarrow as pa

    from holdfast.discovery.near.discover import exceptions_of
    from holdfast.tables import read_table

    constraint = parse_near(text)
    output = answering.output
    if output is not None and output.suffix.lower() not in _FORMATS:
        raise UsageError(f"--output {output}: the ending tells the format: expected .csv or .parquet")
    progress = answering.progress()
    with progress.task(f"reading {file.name}") as task:
        table = read_table(paths_of([file])[0], reading)
        for warning in table.warnings:
            progress.note(f"warning: {warning}")
        for name in (ROW, UNDECIDED):
            if name in table.schema:
                raise UsageError(f"{file} has a column {name}, as the list of exceptions has: rename it")
        task.describe(f"counting exceptions of {constraint}")
        found = exceptions_of(table, constraint, threads=threads or 1)
    listed = pa.table({ROW: found.rows + 1, UNDECIDED: found.undecided})
    rows = table.taken(found.rows).to_arrow()
    for name in rows.column_names:
        listed = listed.append_column(name, rows.column(name))
    if output is None:
        written = io.BytesIO()
        _write(written, listed, ".csv")
        with results_to(None) as out:
            out.write(written.getvalue().decode())
    else:
        with bytes_to(output) as stream:
            _write(stream, listed, output.suffix.lower())
    undecided = int(np.count_nonzero(found.undecided))
    certain = len(found.rows) - undecided
    progress.note(
        f"{table.schema.table}: {constraint}: {counted(found.exceptions, 'exception')} of "
        f"{counted(table.row_count, 'row')}; {certain:,} certain, {undecided:,} undecided"
    )


def _write(stream: BinaryIO, rows: "pa.Table", ending: str) -> None:
    """Write rows in the format of an ending."""
    if ending == ".csv":
        from pyarrow.csv import write_csv

        write_csv(rows, stream)
    else:
        from pyarrow.parquet import write_table

        write_table(rows, stream)
