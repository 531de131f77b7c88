"""`holdfast discover`: read files, find what holds on each, write it out.

Invariant: results are written when all files are done with, so an error or an interrupt leaves no half answer.
"""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.constraints import Family, UsageError, constraint_fields
from holdfast.jobs.files.addresses import Place, paths_of
from holdfast.jobs.files.engines import Engine, Spread, engine
from holdfast.jobs.files.spaces import read_space, reading_in, space_for
from holdfast.jobs.terminal.counts import compared_across, counted_constraints
from holdfast.jobs.terminal.options import Answering
from holdfast.jobs.terminal.output import json_line, one_line, results_to
from holdfast.jobs.terminal.sentences import said_fields, said_lines

if TYPE_CHECKING:
    from holdfast.discovery.discover import Discovered
    from holdfast.jobs.terminal.progress import Progress, Task
    from holdfast.tables import ReadOptions

_KIND_WIDTH = len("functional_dependency")


def discover_files(
    files: Iterable[Place],
    reading: "ReadOptions",
    answering: Answering,
    *,
    family: Family,
    max_predicates: int,
    max_context: int,
    cross_columns: bool,
    space_file: Path | None,
    write_space: Path | None,
    threads: int | None,
    explain: bool,
    top: int | None,
    as_rules: bool,
    spread: Spread | None = None,
) -> None:
    """Discover the constraints of one family on each file."""
    from holdfast.tables import table_names

    files = list(files)
    if as_rules:
        table_names(paths_of(files))
    if (space_file or write_space) and len(files) > 1:
        raise UsageError("--space and --write-space are for one file: name one, or leave them out")
    given_space = None if space_file is None else read_space(space_file)
    if given_space is not None:
        reading = reading_in(given_space, reading)
    progress = answering.progress()
    bound = max_context if family is Family.ORDER else max_predicates

    def find(way: Engine[Any], file: Place, task: "Task") -> "Discovered":
        name = None if given_space is None else given_space.schema.table
        table = way.read(file, reading, name, task.describe)
        for warning in way.warnings(table):
            progress.note(f"warning: {warning}")
        schema = way.schema(table)
        task.describe(f"{schema.table}: comparing columns")
        space = space_for(given_space, schema, family, partial(way.measured, table), cross_columns=cross_columns)
        return way.discover(table, space, bound, threads or os.cpu_count() or 1, _Reporter(schema.table, task))

    with engine(spread, progress) as way:
        found = []
        for file in files:
            with progress.task(f"reading {file.name}") as task:
                found.append(find(way, file, task))
        if write_space is not None:
            with results_to(write_space) as out:
                out.write(json.dumps(found[0].space.to_json(), ensure_ascii=False, indent=1) + "\n")
        with results_to(answering.output) as out:
            if as_rules:
                out.writelines(_rule_lines(found, top, answering.output))
            else:
                for one in found:
                    lines = (_json_lines if answering.as_json else _text_lines)(one, top, answering)
                    out.writelines(map(one_line, lines))
    for one in found:
        if explain:
            _explain(one, progress)
        progress.note(_summary(one, max_predicates, max_context))


class _Reporter:
    """Shows what a discovery says of itself as progress."""

    def __init__(self, name: str, task: "Task") -> None:
        self._name = name
        self._task = task

    def __call__(self, doing: str) -> None:
        self._task.describe(f"{self._name}: {doing}")


def _json_lines(found: "Discovered", top: int | None, answering: Answering) -> Iterator[str]:
    table = found.table.schema.table
    if top is None:
        for constraint in found:
            yield json_line({**constraint_fields(constraint, table), **said_fields(constraint, answering)})
        return
    for rank, (score, constraint) in enumerate(found.top(top), 1):
        place = {"score": round(score, 4), "rank": rank}
        yield json_line({**constraint_fields(constraint, table), **place, **said_fields(constraint, answering)})


def _text_lines(found: "Discovered", top: int | None, answering: Answering) -> Iterator[str]:
    lines = ((None, constraint) for constraint in found) if top is None else found.top(top)
    for score, constraint in lines:
        place = "" if score is None else f"{score:.3f}  "
        yield f"{place}{constraint.kind.value.ljust(_KIND_WIDTH)}  {constraint}\n"
        yield from said_lines(constraint, answering)


def _rule_lines(found: Sequence["Discovered"], top: int | None, output: Path | None) -> Iterator[str]:
    from holdfast.jobs.files.found_rules import rule_lines

    constraints = [
        (one.table.schema.table, constraint)
        for one in found
        for constraint in (one if top is None else (constraint for _, constraint in one.top(top)))
    ]
    return rule_lines(constraints, output, several=len(found) > 1)


def _summary(found: "Discovered", max_predicates: int, max_context: int) -> str:
    counts = found.constraints.counts().items()
    counted = ", ".join(f"{count:,} {kind.value.replace('_', ' ')}" for kind, count in counts) or "none"
    table, family = found.table, found.space.family
    known = counted_constraints(len(found), family, max_context if family is Family.ORDER else max_predicates)
    return f"{table.schema.table}: {table.row_count:,} rows, {len(table.schema)} columns; {known} ({counted})"


def _explain(found: "Discovered", progress: "Progress") -> None:
    plan = f"plan: {found.explained.plan}" if found.explained.plan else "steps"
    progress.note(f"{found.table.schema.table}: {plan}")
    for step, seconds in found.explained.steps:
        progress.note(f"  {seconds:8.3f} s  {step}")
    if found.space.family is not Family.DENIAL:
        return
    progress.note(f"  {compared_across(found.space)}")
