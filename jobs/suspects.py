"""`holdfast suspects`: the cells of each file that are probably wrong, with the values that are expected instead.

    0.998  row 17  Zip  "01907"  expected "02139"  {Zip}: [] -> City; {Zip}: [] -> State

Invariant: results are written when all files are done with, so an error or an interrupt leaves no half answer.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
    from holdfast.tables import ReadOptions

_NAMED = 2
"""So many violated constraints of a suspect are named for people."""


@dataclass(frozen=True, kw_only=True)
class SuspectsRequest:
    """What `holdfast suspects` is asked for.

    Parameters
    ----------
    share, max_context : which functional dependencies nearly hold.
    min_score : the least score of a suspect.
    top : how many suspects of each file are written; None for all.
    threads : how many threads work; None for one per core.
    """

    share: Fraction
    max_context: int
    min_score: float
    top: int | None
    threads: int | None


def suspects_of_files(
    files: tuple[FileOrAddress, ...], reading: "ReadOptions", answering: Answering, request: SuspectsRequest
) -> None:
    """Write the suspects of each file."""
    from holdfast.discovery.near.discover import discover_near
    from holdfast.tables import read_table, table_names

    progress = answering.progress()
    found: list[Suspects] = []
    notes: list[str] = []
    paths = paths_of(list(files))
    names = table_names(paths) if len(paths) > 1 else [None]
    for path, name in zip(paths, names, strict=True):
        with progress.task(f"reading {path.name}") as task:
            table = read_table(path, reading, name)
            note_warnings(table.warnings, progress)
            called = table.schema.table
            task.describe(f"{called}: searching for functional dependencies that nearly hold")
            near = discover_near(
                table,
                request.share,
                request.max_context,
                families=["fd"],
                threads=request.threads or os.cpu_count() or 1,
            )
            task.describe(f"{called}: searching for suspects")
            suspects = near.suspects(request.min_score)
        found.append(suspects[: request.top] if request.top is not None else suspects)
        size = f"{counted(table.row_count, 'row')}, {counted(len(table.schema), 'column')}"
        dependencies = counted(len(near), "functional dependency", "functional dependencies")
        cells = f"{counted(len(suspects), 'suspect cell')} with a score of at least {request.min_score:g}"
        notes.append(f"{called}: {size}; {dependencies} with at most {counted(near.found.most, 'exception')}; {cells}")
    with results_to(answering.output) as out:
        for suspects in found:
            out.writelines(map(one_line, _json_lines(suspects) if answering.as_json else _text_lines(suspects)))
    for note in notes:
        progress.note(note)


def _named(constraints: "Sequence[NearConstraint]") -> str:
    """Return the first constraints, and how many there are besides."""
    more = len(constraints) - _NAMED
    return "; ".join(map(str, constraints[:_NAMED])) + (f"; {more} more" if more > 0 else "")


def _json_lines(suspects: "Suspects") -> Iterator[str]:
    for suspect in suspects:
        yield json_line(suspect.fields(suspects.table))


def _text_lines(suspects: "Suspects") -> Iterator[str]:
    lines = [
        [
            f"{suspect.score:.3f}",
            f"row {suspect.row + 1}",
            suspect.column,
            shown_value(suspect.value),
            f"expected {shown_value(suspect.expected)}" if suspect.is_expected else "",
            _named(suspect.constraints),
        ]
        for suspect in suspects
    ]
    yield from (f"{line}\n" for line in columns(lines)) if lines else ()
