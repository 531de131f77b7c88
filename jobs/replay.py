"""`holdfast replay`: a base, changes to it, and what each batch of them does to the constraints that hold.

    BASE, CHANGES     two files, or two folders with one file per table, whose names are the tables'
    one batch         N records of all files in the order of `_seq`, then of the files

Invariant: what a batch changes is printed in one piece, after it was applied; a bad record ends the run before
anything of its batch is applied.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, TextIO

import numpy as np

from holdfast.constraints import Family, InputError, PredicateSpace, UsageError
from holdfast.jobs.files.changes import ChangeFile, column_names
from holdfast.jobs.files.spaces import read_space, reading_in, space_for
from holdfast.jobs.terminal.counts import compared_across, counted, counted_constraints
from holdfast.jobs.terminal.options import Answering
from holdfast.jobs.terminal.output import printable, results_to
from holdfast.jobs.terminal.progress import SilentProgress
from holdfast.jobs.terminal.replay_lines import AppliedBatch, Totals, json_lines, text_lines
from holdfast.streaming.decoding.files import SEQUENCE
from holdfast.streaming.decoding.operations import OPERATION
from holdfast.streaming.maintainers.inclusion.across import InclusionsAcross
from holdfast.streaming.maintainers.maintainer import BatchResult, Bounds, Maintainer
from holdfast.tables import ReadOptions, Table, read_table, space_of, table_name
from holdfast.tables.arrays import Positions
from holdfast.tables.pipes import pipes_kept

if TYPE_CHECKING:
    from holdfast.jobs.terminal.progress import Progress


@dataclass(frozen=True, kw_only=True)
class Searched:
    """What is looked for, and in which space.

    Parameters
    ----------
    bounds, threads : which family, and how large its constraints may be; as in `discover`.
    inclusion : whether inclusions across all tables are looked for, in place of constraints of each.
    cross_columns : whether columns are compared with others.
    space : the file of a space to use, instead of measuring one on the base.
    write_space : where to write the space that was used.
    """

    bounds: Bounds
    cross_columns: bool
    threads: int | None
    inclusion: bool = False
    space: Path | None = None
    write_space: Path | None = None


def replay_changes(
    base: Path,
    changes: Path,
    reading: ReadOptions,
    answering: Answering,
    searched: Searched,
    *,
    batch_size: int,
    key: Sequence[str],
    explain: bool,
) -> None:
    """Apply the changes to the base, batch by batch."""
    files = _files_by_table(base, changes)
    if (searched.space or searched.write_space) and len(files) > 1:
        raise UsageError("--space and --write-space are for one table: leave them out, or replay one table")
    given = None if searched.space is None else read_space(searched.space)
    progress = answering.progress()
    keys = {name: _key_of(name, key, list(files)) for name in files}
    with pipes_kept():  # names of columns are read before rows
        sources = [_read(name, *pair, reading, given, keys[name], progress) for name, pair in files.items()]
    order = _arrival([source.changes for source in sources], sequenced=not _is_one_table(base))
    tables = [_seeded(source, searched, given, progress) for source in sources]
    if searched.write_space is not None:
        with results_to(searched.write_space) as out:
            out.write(json.dumps(tables[0].maintainer.space.to_json(), ensure_ascii=False, indent=1) + "\n")
    for table in tables:
        progress.note(table.summary())
        if explain:
            table.explain(progress)
    across = _across(tables, texts=reading.strings == "all", progress=progress) if searched.inclusion else None
    with results_to(answering.output) as out:
        totals = _replay(tables, across, order, batch_size, out, answering, progress)
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
    """Return the columns of the key that are this table's: of several tables, `orders.id` is of one, `id` of all."""
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


@dataclass(frozen=True, eq=False)
class _Source:
    """What was read of one table: its base, its key and its changes, and how long that took."""

    table: Table
    key: tuple[str, ...]
    changes: ChangeFile
    seconds: float


@dataclass(eq=False)
class _Replayed:
    """One table under way.

    Parameters
    ----------
    source, maintainer, seconds : where it comes from, what keeps its constraints, how long seeding that took.
    rows, constraints, owed : how many there are now.
    """

    source: _Source
    maintainer: Maintainer
    seconds: float
    rows: int
    constraints: int
    owed: int = 0

    def apply(self, rows: Positions) -> BatchResult:
        result = self.maintainer.apply_records(self.source.changes.records(rows))
        self.rows, self.owed = result.rows, result.owed
        self.constraints = result.constraints + len(self.maintainer.near)
        return result

    def summary(self) -> str:
        schema = self.source.table.schema
        bounds = self.maintainer.bounds
        known = [
            f"; {counted_constraints(self.maintainer.counts[family], family, bound)}"
            for family, bound in bounds.families.items()
        ]
        if bounds.near is not None:
            known += f"; {counted(len(self.maintainer.near), 'near constraint')}"
        return f"{schema.table}: {counted(self.rows, 'row')}, {counted(len(schema), 'column')}{''.join(known)}"

    def explain(self, progress: "Progress") -> None:
        progress.note(
            f"  {self.source.seconds:8.3f} s  reading it and its {counted(len(self.source.changes), 'change')}"
        )
        progress.note(f"  {self.seconds:8.3f} s  seeding")
        space = self.maintainer.space
        if self.maintainer.bounds.max_predicates is None:
            return
        progress.note(f"  {compared_across(space)}")


def _across(tables: Sequence[_Replayed], *, texts: bool, progress: "Progress") -> InclusionsAcross:
    """Find the inclusions across all tables."""
    with progress.task("comparing columns across tables"):
        maintainers = {table.maintainer.name: table.maintainer for table in tables}
        across = InclusionsAcross(maintainers, [table.source.table for table in tables], texts=texts)
    found = counted(len(across.inclusions), "inclusion dependency", "inclusion dependencies")
    progress.note(f"{counted(len(tables), 'table')}; {found}")
    return across


def _read(
    name: str,
    base: Path,
    changes: Path,
    reading: ReadOptions,
    given: PredicateSpace | None,
    key: tuple[str, ...],
    progress: "Progress",
) -> _Source:
    start = perf_counter()
    with progress.task(f"reading {base.name}") as task:
        table = _read_base(base, name, reading, given)
        table.schema.require(key)
        task.describe(f"reading {changes.name}")
        records = ChangeFile(changes, reading, table.schema, column_names(base, reading), key)
        for warning in (*table.warnings, *records.warnings):
            progress.note(f"warning: {warning}")
    return _Source(table, key, records, perf_counter() - start)


def _seeded(source: _Source, searched: Searched, given: PredicateSpace | None, progress: "Progress") -> _Replayed:
    start = perf_counter()
    name = source.table.schema.table
    with progress.task(f"{name}: comparing columns") as task:
        family = Family.ORDER if searched.bounds.max_predicates is None else Family.DENIAL
        measured = partial(space_of, source.table)
        space = space_for(given, source.table.schema, family, measured, cross_columns=searched.cross_columns)
        maintainer = Maintainer.seed(
            source.table,
            key=source.key,
            max_predicates=searched.bounds.max_predicates,
            max_context=searched.bounds.max_context,
            near=None if searched.bounds.near is None else searched.bounds.near.share,
            near_context=0 if searched.bounds.near is None else searched.bounds.near.max_context,
            near_orders=searched.bounds.near is not None and searched.bounds.near.orders,
            space=space,
            threads=searched.threads,
            report=lambda doing: task.describe(f"{name}: {doing}"),
        )
    seconds = perf_counter() - start
    count = maintainer.count + len(maintainer.near)
    return _Replayed(source, maintainer, seconds, maintainer.row_count, count)


def _read_base(base: Path, name: str, reading: ReadOptions, given: PredicateSpace | None) -> Table:
    if given is not None:
        reading = reading_in(given, reading)
    table = read_table(base, reading, name if given is None else given.schema.table)
    for column in table.schema:
        if column.name in {OPERATION, SEQUENCE}:
            raise UsageError(
                f"{base} has a column '{column.name}', which in CHANGES says what to do: rename it, or leave it out by "
                "--space"
            )
        if column.assumed and not table.row_count:
            raise UsageError(
                f"{base} has no rows that would tell the types of its columns: name them in its header "
                "(--typed-header), by --space, or read all as text (--strings all)"
            )
    return table


# Batches


@dataclass(frozen=True, eq=False)
class _Arrival:
    """All records in the order in which they arrive: which table's each is, and its row in that table's file."""

    tables: Positions
    rows: Positions

    def batches(self, size: int) -> Iterator["_Arrival"]:
        for start in range(0, len(self.rows), size):
            yield _Arrival(self.tables[start : start + size], self.rows[start : start + size])

    def rows_of(self, table: int) -> Positions:
        rows: Positions = self.rows[self.tables == table]
        return rows


def _arrival(files: Sequence[ChangeFile], *, sequenced: bool) -> _Arrival:
    """Order the records by `_seq`, which several files need, then by file and line."""
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
    return _Arrival(owners, rows)


def _replay(
    tables: Sequence[_Replayed],
    across: InclusionsAcross | None,
    order: _Arrival,
    size: int,
    out: TextIO,
    answering: Answering,
    progress: "Progress",
) -> Totals:
    totals = Totals()
    # A bar below results on the same terminal would be written into them.
    beside = SilentProgress() if out is sys.stdout and out.isatty() else progress
    with beside.task("applying changes", total=len(order.rows)) as task:
        for number, batch in enumerate(order.batches(size), 1):
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
    tables: Sequence[_Replayed], across: InclusionsAcross | None, batch: _Arrival, number: int
) -> AppliedBatch:
    """Apply one batch to all tables, or raise `InputError` for its first bad record before any is touched."""
    owners = np.unique(batch.tables).tolist()
    bad = np.zeros(len(batch.rows), np.bool_)
    for owner in owners:
        bad[batch.tables == owner] = tables[owner].source.changes.bad[batch.rows_of(owner)]
    if bad.any():
        first = int(np.argmax(bad))
        raise InputError(tables[batch.tables[first]].source.changes.problem(int(batch.rows[first])))
    results = [tables[owner].apply(batch.rows_of(owner)) for owner in owners]
    started = perf_counter()
    changes = [] if across is None else across.follow(results)
    seconds = perf_counter() - started
    return AppliedBatch(
        number,
        len(batch.rows),
        [tables[owner].maintainer.name for owner in owners],
        results,
        rows=sum(table.rows for table in tables),
        constraints=sum(table.constraints for table in tables) + (0 if across is None else len(across.inclusions)),
        owed=sum(table.owed for table in tables),
        across=changes,
        across_seconds=seconds,
    )
