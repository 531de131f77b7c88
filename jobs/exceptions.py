"""`holdfast exceptions`: all rows that are the exceptions of a constraint, as CSV or Parquet.

The first columns are `_row`, the number of the row from 1 on (a header is no row), and `_undecided`; then the columns
of the table. Rows of a state have no numbers, so that `_row` is left out. Values in which the exceptions are
concentrated are noted.

Invariant: the file is complete, or does not exist.
"""

import io
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from holdfast.constraints import UsageError, parse_near
from holdfast.display.texts import counted
from holdfast.jobs.configuration.reading import Configuration
from holdfast.jobs.files.addresses import FileOrAddress, paths_of
from holdfast.jobs.terminal.options import Answering
from holdfast.jobs.terminal.output import bytes_to, one_line, results_to
from holdfast.jobs.terminal.progress import Progress

if TYPE_CHECKING:
    import pyarrow as pa

    from holdfast.tables import ReadOptions, Table

ROW, UNDECIDED = "_row", "_undecided"
_FORMATS = (".csv", ".parquet")


def exceptions_of_file(
    file: FileOrAddress, text: str, reading: "ReadOptions", answering: Answering, *, threads: int | None = None
) -> None:
    """Write the exceptions of a constraint on a file."""
    from holdfast.tables import read_table

    _refuse_unknown_format(answering.output)
    parse_near(text)  # before anything is read
    progress = answering.progress()
    with progress.task(f"reading {file.name}"):
        table = read_table(paths_of([file])[0], reading)
        for warning in table.warnings:
            progress.note(f"warning: {warning}")
    _write_exceptions(table, text, answering.output, progress, threads=threads, numbered=True)


def exceptions_of_state(
    configuration: Configuration, text: str, answering: Answering, *, table: str | None, threads: int | None = None
) -> None:
    """Write the exceptions of a constraint on a table of a state, as of its last commit."""
    from holdfast.jobs.application.stored_rows import stored_table

    _refuse_unknown_format(answering.output)
    parse_near(text)
    name = _named(configuration, table)
    progress = answering.progress()
    with progress.task(f"reading table {name}") as task:
        stored = stored_table(configuration, name, "output table exceptions, which has some of them, or a file")
        task.describe(f"table {name}: {counted(stored.table.row_count, 'row')} as of commit {stored.commit:,}")
    progress.note(f"table {name} as of commit {stored.commit:,}")
    _write_exceptions(stored.table, text, answering.output, progress, threads=threads, numbered=False)


def _named(configuration: Configuration, table: str | None) -> str:
    """Return the named table, by default the only one."""
    from holdfast.jobs.application.stored_rows import named_tables

    names = named_tables(configuration, table)
    if len(names) > 1:
        raise UsageError(f"{configuration.file} has several tables: name one with --table: {', '.join(names)}")
    return names[0]


def _write_exceptions(
    table: "Table", text: str, output: Path | None, progress: Progress, *, threads: int | None, numbered: bool
) -> None:
    """Write the exceptions of a constraint; `numbered` adds the numbers of the rows."""
    import pyarrow as pa

    from holdfast.discovery.near.discover import exceptions_of
    from holdfast.discovery.near.where import concentrations_of

    constraint = parse_near(text)
    for name in (ROW, UNDECIDED) if numbered else (UNDECIDED,):
        if name in table.schema:
            raise UsageError(f"{table.schema.table} has a column {name}, as the list of exceptions has: rename it")
    with progress.task(f"counting exceptions of {constraint}"):
        found = exceptions_of(table, constraint, threads=threads or 1)
    with progress.task(f"searching where the exceptions of {constraint} are"):
        where = concentrations_of(table, constraint, found, threads=threads or 1)
    listed = pa.table({ROW: found.rows + 1, UNDECIDED: found.undecided} if numbered else {UNDECIDED: found.undecided})
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
    for line in (line for one in where for line in one.lines()):
        progress.note(one_line(line).rstrip("\n"))


def _refuse_unknown_format(output: Path | None) -> None:
    if output is not None and output.suffix.lower() not in _FORMATS:
        raise UsageError(f"--output {output}: the ending names the format: expected .csv or .parquet")


def _write(stream: BinaryIO, rows: "pa.Table", ending: str) -> None:
    """Write rows in the format of an ending."""
    if ending == ".csv":
        from pyarrow.csv import write_csv

        write_csv(rows, stream)
    else:
        from pyarrow.parquet import write_table

        write_table(rows, stream)
