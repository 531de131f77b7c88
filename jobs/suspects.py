"""`holdfast suspects`: the cells of files or live tables that are probably wrong, with the values that are expected.

    0.998  row 17  Zip  "01907"  expected "02139"  {Zip}: [] -> City; {Zip}: [] -> State

A row of a live table has the values of its key in place of a number; without a key all its values.

Invariant: results are written when all files are done with, so an error or an interrupt leaves no half answer.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from holdfast.display.texts import columns, counted, shown_value
from holdfast.jobs.files.addresses import FileOrAddress, paths_of
from holdfast.jobs.searches.contract import note_warnings
from holdfast.jobs.terminal.options import Answering
from holdfast.jobs.terminal.output import json_line, one_line, results_to

if TYPE_CHECKING:
    from holdfast.constraints import NearConstraint
    from holdfast.display.suspects import Suspects
    from holdfast.jobs.application.stored_rows import StoredTable
    from holdfast.jobs.configuration.reading import Configuration
    from holdfast.jobs.terminal.progress import Progress
    from holdfast.tables import ReadOptions, Table

_SHARE = Fraction(1, 100)
_NAMED = 2
"""So many violated constraints of a suspect are named for people."""


@dataclass(frozen=True, kw_only=True)
class SuspectsRequest:
    """What `holdfast suspects` is asked for.

    Parameters
    ----------
    share, max_context : which functional dependencies nearly hold; None for the bounds of the live table, or the
        defaults: contexts of three columns, or of as many as are feasible.
    min_score : the least score of a suspect.
    top : how many suspects of each file are written; None for all.
    threads : how many threads work; None for one per core.
    """

    share: Fraction | None
    max_context: int | None
    min_score: float
    top: int | None
    threads: int | None


def suspects_of_files(
    files: tuple[FileOrAddress, ...], reading: "ReadOptions", answering: Answering, request: SuspectsRequest
) -> None:
    """Write the suspects of each file."""
    from holdfast.tables import read_table, table_names

    progress = answering.progress()
    answers = _Answers(answering, request)
    paths = paths_of(list(files))
    names = table_names(paths) if len(paths) > 1 else [None]
    for path, name in zip(paths, names, strict=True):
        with progress.task(f"reading {path.name}") as task:
            table = read_table(path, reading, name)
            note_warnings(table.warnings, progress)
            answers.add(table, None, task.describe)
    answers.write(progress)


def suspects_of_state(
    configuration: "Configuration", answering: Answering, request: SuspectsRequest, table: str | None
) -> None:
    """Write the suspects of the tables of a state, as of its last commit; of one table, if it is named."""
    from holdfast.jobs.application.stored_rows import named_tables, stored_table

    progress = answering.progress()
    answers = _Answers(answering, request)
    for name in named_tables(configuration, table):
        with progress.task(f"reading table {name}") as task:
            stored = stored_table(configuration, name, "file that it was seeded with")
            answers.add(stored.table, stored, task.describe)
        progress.note(f"table {name} as of commit {stored.commit:,}")
    answers.write(progress)


class _Answers:
    """The suspects of several tables, written once all of them are searched."""

    def __init__(self, answering: Answering, request: SuspectsRequest) -> None:
        self._answering = answering
        self._request = request
        self._found: list[Suspects] = []
        self._notes: list[str] = []

    def add(self, table: "Table", stored: "StoredTable | None", report: Callable[[str], object]) -> None:
        """Search a table; `stored` says where its rows come from, if it is a live table."""
        from holdfast.discovery.near.discover import discover_near

        request, name = self._request, table.schema.table
        bounds = None if stored is None else stored.near
        share, max_context = (_SHARE, None) if bounds is None else (bounds.share, bounds.max_context)
        share = share if request.share is None else request.share
        max_context = max_context if request.max_context is None else request.max_context
        threads = request.threads or os.cpu_count() or 1
        report(f"{name}: searching for functional dependencies that nearly hold")
        near = discover_near(table, share, max_context, families=["fd"], threads=threads)
        report(f"{name}: searching for suspects")
        suspects = near.suspects(request.min_score)
        shown = suspects[: request.top] if request.top is not None else suspects
        self._found.append(shown if stored is None else _live(shown, stored))
        size = f"{counted(table.row_count, 'row')}, {counted(len(table.schema), 'column')}"
        dependencies = counted(len(near), "functional dependency", "functional dependencies")
        cells = f"{counted(len(suspects), 'suspect cell')} with a score of at least {request.min_score:g}"
        most = counted(near.found.most, "exception")
        self._notes += [f"{name}: {near.left_out}"] if near.left_out else []
        self._notes.append(f"{name}: {size}; {dependencies} with at most {most}; {cells}")

    def write(self, progress: "Progress") -> None:
        """Write the suspects, and note the figures of each table."""
        with results_to(self._answering.output) as out:
            if self._answering.as_json:
                every = (json_line(suspect.fields(found.table)) for found in self._found for suspect in found)
                out.writelines(map(one_line, self._answering.lines(every)))
            else:
                out.writelines(one_line(line) for found in self._found for line in _text_lines(found))
        for note in self._notes:
            progress.note(note)


def _live(suspects: "Suspects", stored: "StoredTable") -> "Suspects":
    """Return suspects with the keys and values of their rows in place of numbers, which rows of a state do not have."""
    from holdfast.constraints import RowImage
    from holdfast.display.suspects import LiveSuspects

    images = stored.table.rows([one.row for one in suspects if one.row is not None])
    rows = [RowImage({name: values[name] for name in stored.key}, values) for values in images]
    found = [replace(one, row=None, image=row) for one, row in zip(suspects, rows, strict=True)]
    return LiveSuspects(found, suspects.table)


def _named(constraints: "Sequence[NearConstraint]") -> str:
    """Return the first constraints, and how many there are besides."""
    more = len(constraints) - _NAMED
    return "; ".join(map(str, constraints[:_NAMED])) + (f"; {more} more" if more > 0 else "")


def _text_lines(suspects: "Suspects") -> Iterator[str]:
    lines = [
        [
            f"{suspect.score:.3f}",
            suspect.where,
            suspect.column,
            shown_value(suspect.value),
            f"expected {shown_value(suspect.expected)}" if suspect.is_expected else "",
            _named(suspect.constraints),
        ]
        for suspect in suspects
    ]
    yield from (f"{line}\n" for line in columns(lines)) if lines else ()
