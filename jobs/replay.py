"""`holdfast replay`: apply changes to a base batch by batch, and print how each batch changes the constraints.

    BASE, CHANGES     two files, or two folders with one file per table, named after the table
    one batch         N records of all files in the order of `_seq`, then of the files

Invariant: the changes of a batch are printed together, after the batch was applied; a bad record ends the run before
any record of its batch is applied.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, TextIO

import numpy as np

from holdfast.constraints import Family, InputError, PredicateSpace, UsageError
from holdfast.display.texts import counted, printable
from holdfast.jobs.files.changes import ChangeFile, column_names
from holdfast.jobs.files.spaces import read_space, reading_in, space_for, write_space
from holdfast.jobs.terminal.counts import compared_across, counted_constraints
from holdfast.jobs.terminal.options import Answering
from holdfast.jobs.terminal.output import results_to
from holdfast.jobs.terminal.progress import SilentProgress
from holdfast.jobs.terminal.replay_lines import ReplayedBatch, Totals, json_lines, text_lines
from holdfast.streaming.decoding.files import SEQUENCE
from holdfast.streaming.decoding.operations import OPERATION
from holdfast.streaming.maintainers.holdings.in_memory import WholeInMemory
from holdfast.streaming.maintainers.inclusion.across import InclusionsAcross
from holdfast.streaming.maintainers.maintainer import BatchResult, Bounds, Maintainer
from holdfast.tables import ReadOptions, Table, read_table, space_of, table_name
from holdfast.tables.arrays import Positions
from holdfast.tables.pipes import pipes_kept

if TYPE_CHECKING:
    from holdfast.jobs.terminal.progress import Progress


@dataclass(frozen=True, kw_only=True)
class ReplaySearch:
    """Which constraints are maintained, and in which predicate space.

    Parameters
    ----------
    bounds : which family, and the size of its largest constraints.
    inclusion : whether inclusions across all tables are maintained, in place of constraints of each table.
    cross_columns : which columns are compared with other columns: `auto`, `related` or `none`.
    threads : how many threads search the base; None for one per core.
    space : the file of the space to use, instead of a space measured on the base.
    write_space : the file to write the used space to.
    """

    bounds: Bounds
    cross_columns: str
    threads: int | None
    inclusion: bool = False
    space: Path | None = None
    write_space: Path | None = None


def replay_changes(
    base: Path,
    changes: Path,
    reading: ReadOptions,
    answering: Answering,
    search: ReplaySearch,
    *,
    batch_size: int,
    key: Sequence[str],
    explain: bool,
) -> None:
    """Apply the changes to the base, batch by batch."""
    files = _files_by_table(base, changes)
    if (search.space or search.write_space) and len(files) > 1:
        raise UsageError("--space and --write-space are for one table: leave them out, or replay one table")
    given = None if search.space is None else read_space(search.space)
    progress = answering.progress()
    keys = {name: _key_of(name, key, list(files)) for name in files}
    with pipes_kept():  # names of columns are read before rows
        tables = [_read((name, *pair), reading, given, keys[name], progress) for name, pair in files.items()]
    records = _ordered([table.changes for table in tables], sequenced=not _is_one_table(base))
    for table in tables:
        table.seed(search, given, progress)
    if search.write_space is not None:
        write_space(search.write_space, tables[0].maintainer.space)
    for note in (note for table in tables for note in table.notes(explain=explain)):
        progress.note(note)
    across = _across(tables, texts=reading.strings == "all", progress=progress) if search.inclusion else None
    with results_to(answering.output) as out:
        totals = _replay(tables, across, records, batch_size, out, answering, progress)
    progress.note(totals.summary())
    if explain:
        totals.explain(progress)


# Which tables


def _is_one_table(path: Path) -> bool:
    from holdfast.tables.delta import is_delta_table

    return not path.is_dir() or is_delta_table(path)


def _files_by_table(base: Path, changes: Path) -> dict[str, tuple[Path, Path]]:
    """Return the base and the changes of every table, by its name."""
    if _is_one_table(base) != _is_one_table(changes):
        raise UsageError("BASE and CHANGES are two files, or two folders with one file per table")
    if _is_one_table(base):
        return {table_name(base): (base, changes)}
    bases, changed = _tables_in(base), _tables_in(changes)
    for here, there, other in ((bases, changed, changes), (changed, bases, base)):
        missing = sorted(here.keys() - there.keys())
        if missing:
            raise UsageError(
                f"{here[missing[0]]} has no counterpart: {other} has {', '.join(sorted(there)) or 'no tables'}. "
                "Both folders need one file per table, of the table's name (for no changes, one with a header alone)"
            )
    return {name: (bases[name], changed[name]) for name in sorted(bases)}


def _tables_in(folder: Path) -> dict[str, Path]:
    try:
        paths = sorted(folder.iterdir())
    except OSError as error:
        raise InputError(f"{folder} cannot be read: {error}") from error
    found: dict[str, Path] = {}
    for path in paths:
        if path.name.startswith((".", "_")):
            continue
        name = table_name(path)
        if name in found:
            raise UsageError(f"{found[name]} and {path} are both of table '{name}': keep one of them")
        found[name] = path
    if not found:
        raise UsageError(f"{folder} has no files: expected one per table")
    return found


def _key_of(table: str, key: Sequence[str], tables: Sequence[str]) -> tuple[str, ...]:
    """Return the key of a table. With several tables, `orders.id` is a key column of `orders`, `id` of all tables."""
    prefixes = {f"{name}.": name for name in tables} if len(tables) > 1 else {}
    columns = []
    for given in key:
        owner = next((prefix for prefix in sorted(prefixes, key=len, reverse=True) if given.startswith(prefix)), "")
        if not owner or prefixes[owner] == table:
            columns.append(given.removeprefix(owner))
    if len(set(columns)) < len(columns):
        raise UsageError(f"--key {','.join(key)}: names a column of {table} twice")
    return tuple(columns)


# Reading and seeding


@dataclass(eq=False)
class _ReplayTable:
    """A table to which changes are applied.

    Parameters
    ----------
    table, key, changes : its base, its key, and the file of its changes.
    seconds : how long reading, and seeding, took.
    owed : the number of deletes of rows that were not there.
    """

    table: Table
    key: tuple[str, ...]
    changes: ChangeFile
    seconds: list[float]
    owed: int = 0
    maintainer: Maintainer = field(init=False)

    @property
    def name(self) -> str:
        return self.table.schema.table

    @property
    def rows(self) -> int:
        return self.maintainer.row_count

    @property
    def constraints(self) -> int:
        return self.maintainer.count + len(self.maintainer.near)

    def seed(self, search: ReplaySearch, given: PredicateSpace | None, progress: "Progress") -> None:
        """Search the base, in a given predicate space if there is one."""
        start = perf_counter()
        with progress.task(f"{self.name}: comparing columns") as task:
            family = Family.ORDER if search.bounds.max_predicates is None else Family.DENIAL
            measured = partial(space_of, self.table)
            space = space_for(given, self.table.schema, family, measured, cross_columns=search.cross_columns)
            self.maintainer = Maintainer.seeded(
                WholeInMemory(self.table),
                key=self.key,
                bounds=search.bounds,
                space=space,
                threads=search.threads,
                report=lambda text: task.describe(f"{self.name}: {text}"),
            )
        self.seconds.append(perf_counter() - start)

    def apply(self, rows: Positions) -> BatchResult:
        result = self.maintainer.apply_records(self.changes.records(rows))
        self.owed = result.owed
        return result

    def notes(self, *, explain: bool) -> Iterator[str]:
        """Yield the size of the table and its constraints; with `explain` also the seconds of each step."""
        maintainer = self.maintainer
        parts = [f"{self.name}: {counted(self.rows, 'row')}, {counted(len(self.table.schema), 'column')}"]
        for family, bound in maintainer.bounds.families.items():
            parts.append(counted_constraints(maintainer.counts[family], family, bound))
        if maintainer.bounds.near is not None:
            parts.append(counted(len(maintainer.near), "near constraint"))
        yield "; ".join(parts)
        if explain:
            yield f"  {self.seconds[0]:8.3f} s  reading it and its {counted(len(self.changes), 'change')}"
            yield f"  {self.seconds[1]:8.3f} s  seeding"
            if maintainer.bounds.max_predicates is not None:
                yield f"  {compared_across(maintainer.space)}"


def _read(
    files: tuple[str, Path, Path],
    reading: ReadOptions,
    given: PredicateSpace | None,
    key: tuple[str, ...],
    progress: "Progress",
) -> _ReplayTable:
    """Read a table: its name, its base and its changes."""
    start = perf_counter()
    name, base, changes = files
    with progress.task(f"reading {base.name}") as task:
        table = _read_base(base, name, reading, given)
        table.schema.require(key)
        task.describe(f"reading {changes.name}")
        records = ChangeFile(changes, reading, table.schema, column_names(base, reading), key)
        for warning in (*table.warnings, *records.warnings):
            progress.note(f"warning: {warning}")
    return _ReplayTable(table, key, records, [perf_counter() - start])


def _across(tables: Sequence[_ReplayTable], *, texts: bool, progress: "Progress") -> InclusionsAcross:
    """Find the inclusions across all tables, and maintain them from now on."""
    with progress.task("comparing columns across tables"):
        maintainers = {table.name: table.maintainer for table in tables}
        across = InclusionsAcross(maintainers, [table.table for table in tables], texts=texts)
    found = counted(len(across.inclusions), "inclusion dependency", "inclusion dependencies")
    progress.note(f"{counted(len(tables), 'table')}; {found}")
    return across


def _read_base(base: Path, name: str, reading: ReadOptions, given: PredicateSpace | None) -> Table:
    if given is not None:
        reading = reading_in(given, reading)
    table = read_table(base, reading, name if given is None else given.schema.table)
    for column in table.schema:
        if column.name in {OPERATION, SEQUENCE}:
            raise UsageError(
                f"{base} has a column '{column.name}', a name that CHANGES uses for its own columns: rename it, or "
                "leave it out by --space"
            )
        if column.assumed and not table.row_count:
            raise UsageError(
                f"{base} has no rows to infer the types of its columns from: name the types in its header "
                "(--typed-header), by --space, or read all columns as text (--strings all)"
            )
    return table


# Batches


@dataclass(frozen=True, eq=False)
class _Records:
    """Records of all tables in the order in which they are applied.

    Parameters
    ----------
    tables, rows : the number of each record's table, and its row in the file of that table.
    """

    tables: Positions
    rows: Positions

    def batches(self, size: int) -> Iterator["_Records"]:
        for start in range(0, len(self.rows), size):
            yield _Records(self.tables[start : start + size], self.rows[start : start + size])

    def rows_of(self, table: int) -> Positions:
        rows: Positions = self.rows[self.tables == table]
        return rows


def _ordered(files: Sequence[ChangeFile], *, sequenced: bool) -> _Records:
    """Order the records by `_seq`, which is required for several files, then by file and line."""
    sequences = [file.sequence for file in files if file.sequence is not None]
    if sequenced and len(sequences) < len(files):
        lacking = next(file.path for file in files if file.sequence is None)
        raise InputError(f"{lacking}: its header lacks {SEQUENCE}, a number that orders the changes of all tables")
    sizes = [len(file) for file in files]
    owners = np.repeat(np.arange(len(files)), sizes)
    rows = np.concatenate([np.arange(size) for size in sizes])
    if sequences:
        order = np.argsort(np.concatenate(sequences), kind="stable")
        owners, rows = owners[order], rows[order]
    return _Records(owners, rows)


def _replay(
    tables: Sequence[_ReplayTable],
    across: InclusionsAcross | None,
    records: _Records,
    size: int,
    out: TextIO,
    answering: Answering,
    progress: "Progress",
) -> Totals:
    totals = Totals()
    # A bar below results on the same terminal would be written into them.
    beside = SilentProgress(sys.stderr) if out is sys.stdout and out.isatty() else progress
    with beside.task("applying changes", total=len(records.rows)) as task:
        for number, batch in enumerate(records.batches(size), 1):
            applied = _applied(tables, across, batch, number)
            if answering.as_json:
                lines = json_lines(applied, answering)
            else:
                lines = text_lines(applied, answering, named=len(tables) > 1)
            out.write(printable("".join(lines)))
            out.flush()
            totals.add(applied)
            task.advance(len(batch.rows))
    return totals


def _applied(
    tables: Sequence[_ReplayTable], across: InclusionsAcross | None, batch: _Records, number: int
) -> ReplayedBatch:
    """Apply one batch to all tables; raise `InputError` for its first bad record before any table changes."""
    owners = np.unique(batch.tables).tolist()
    bad = np.zeros(len(batch.rows), np.bool_)
    for owner in owners:
        bad[batch.tables == owner] = tables[owner].changes.bad[batch.rows_of(owner)]
    if bad.any():
        first = int(np.argmax(bad))
        raise InputError(tables[batch.tables[first]].changes.problem(int(batch.rows[first])))
    results = [tables[owner].apply(batch.rows_of(owner)) for owner in owners]
    started = perf_counter()
    changes = [] if across is None else across.follow(results)
    seconds = perf_counter() - started
    return ReplayedBatch(
        number,
        len(batch.rows),
        [tables[owner].name for owner in owners],
        results,
        rows=sum(table.rows for table in tables),
        constraints=sum(table.constraints for table in tables) + (0 if across is None else len(across.inclusions)),
        owed=sum(table.owed for table in tables),
        across=changes,
        across_seconds=seconds,
    )
