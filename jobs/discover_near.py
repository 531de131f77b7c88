"""`holdfast discover --near`: read files, find what holds on each but for few rows, write it out with its exceptions.

    constant    {Zip}: [] -> City  (2 of 300 rows, 0.667 %)
        Zip      City
        "01907"  "Lynn"    tax.csv, line 17
        "10001"  "Albany"  tax.csv, line 20  undecided

Invariant: results are written when all files are done with, so an error or an interrupt leaves no half answer.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.constraints import NearConstraint, NearShape, Rule, UsageError, constraint_fields, json_value
from holdfast.display.near import but_for
from holdfast.display.texts import counted
from holdfast.jobs.files.addresses import Place, paths_of
from holdfast.jobs.files.engines import Spread, engine
from holdfast.jobs.files.spaces import read_space, reading_in
from holdfast.jobs.terminal.check_lines import aligned, shown_value
from holdfast.jobs.terminal.options import Answering
from holdfast.jobs.terminal.output import json_line, one_line, results_to
from holdfast.jobs.terminal.sentences import said_fields, said_lines

if TYPE_CHECKING:
    from holdfast.discovery.detection.check import Checked
    from holdfast.discovery.near.discover import NearDiscovered
    from holdfast.discovery.near.removal import Removal
    from holdfast.display.verdicts import Verdicts
    from holdfast.jobs.files.found_rules import Found
    from holdfast.jobs.terminal.progress import Progress, Task
    from holdfast.tables import ReadOptions, Table

_SHAPE_WIDTH = max(len(shape.value) for shape in NearShape)
_INDENT = " " * 4

_Line = tuple[NearConstraint, dict[str, Any]]
"""A constraint, with its place among the best where these alone are asked for."""


def discover_near_files(
    files: Iterable[Place],
    reading: "ReadOptions",
    answering: Answering,
    *,
    share: Fraction,
    families: Sequence[str] | None,
    max_context: int,
    space_file: Path | None,
    threads: int | None,
    explain: bool,
    top: int | None,
    as_rules: bool,
    examples: int,
    spread: Spread | None = None,
) -> None:
    """Discover the near constraints of each file: of some families, or of all that are counted where its rows are."""
    from holdfast.tables import table_names

    files = list(files)
    if as_rules:
        table_names(paths_of(files))
    if space_file is not None and len(files) > 1:
        raise UsageError("--space is for one file: name one, or leave it out")
    name = None
    if space_file is not None:
        space = read_space(space_file)
        reading, name = reading_in(space, reading), space.schema.table
    progress = answering.progress()
    found: list[tuple[NearDiscovered, list[_Line], list[Removal] | None]] = []
    tables: dict[str, Any] = {}
    rules: list[str] = []
    with engine(spread, progress) as way:
        if families is None and "od" not in way.near_families:
            progress.note("order compatibilities (od) are left out: they are found without --spark alone")
        for file in files:
            with progress.task(f"reading {file.name}") as task:
                table = way.read(file, reading, name, task.describe)
                for warning in way.warnings(table):
                    progress.note(f"warning: {warning}")
                called = way.schema(table).table
                near = way.near(
                    table,
                    share,
                    max_context,
                    families or way.near_families,
                    threads or os.cpu_count() or 1,
                    partial(_describe, task, called),
                )
                task.describe(f"{called}: {'ranking' if top is not None else 'naming'} {len(near):,} constraints")
                lines = _lines(near, top)
                task.describe(f"{called}: listing exceptions of {len(lines):,} constraints")
                removals = near.removals(one for one, _ in lines) if examples and not as_rules else None
                found.append((near, lines, removals))
                tables[called] = table
        if as_rules:
            with progress.task("counting violating rows"):
                count = partial(way.check, tables, examples=0, threads=threads)
                rules = list(_rule_lines([(near, lines) for near, lines, _ in found], answering.output, count))
    with results_to(answering.output) as out:
        out.writelines(rules)
        for near, lines, removals in () if as_rules else found:
            write = _json_lines if answering.as_json else _text_lines
            out.writelines(map(one_line, write(near.table, lines, removals, examples, answering)))
    for near, _, _ in found:
        if explain:
            _explain(near, progress)
        progress.note(_summary(near))


def _describe(task: "Task", table: str, doing: str) -> None:
    task.describe(f"{table}: {doing}")


def _lines(near: "NearDiscovered", top: int | None) -> list[_Line]:
    if top is None:
        return [(constraint, {}) for constraint in near]
    ranked = enumerate(near.top(top), 1)
    return [(constraint, {"score": round(score, 4), "rank": rank}) for rank, (score, constraint) in ranked]


def _json_lines(
    table: "Table",
    lines: Sequence[_Line],
    removals: Sequence["Removal"] | None,
    examples: int,
    answering: Answering,
) -> Iterator[str]:
    for i, (constraint, place) in enumerate(lines):
        fields = {**constraint_fields(constraint, table.schema.table), **place}
        if removals is not None:
            fields["violating_pairs"] = removals[i].violating_pairs
            fields["examples"] = [
                {
                    "where": table.locate(row),
                    "undecided": undecided,
                    "row": {name: json_value(value) for name, value in table.row(row).items()},
                }
                for row, undecided in removals[i].first(examples)
            ]
        yield json_line({**fields, **said_fields(constraint, answering)})


def _text_lines(
    table: "Table",
    lines: Sequence[_Line],
    removals: Sequence["Removal"] | None,
    examples: int,
    answering: Answering,
) -> Iterator[str]:
    for i, (constraint, place) in enumerate(lines):
        score = f"{place['score']:.3f}  " if place else ""
        yield f"{score}{constraint.shape.value.ljust(_SHAPE_WIDTH)}  {constraint}  ({but_for(constraint)})\n"
        yield from said_lines(constraint, answering)
        if removals is not None:
            yield from (f"{_INDENT}{line}\n" for line in _example_lines(table, constraint, removals[i], examples))


def _example_lines(table: "Table", constraint: NearConstraint, removal: "Removal", examples: int) -> Iterator[str]:
    """Return rows below one another, with the columns that the constraint names."""
    names = [*constraint.context, *constraint.target]
    shown = removal.first(examples)
    if not shown:
        return
    images: Sequence[Mapping[str, Any]] = table.rows([row for row, _ in shown])
    lines = [
        [*(shown_value(image[name]) for name in names), table.locate(row), "undecided" if undecided else ""]
        for image, (row, undecided) in zip(images, shown, strict=True)
    ]
    lines.insert(0, [*names, "", ""])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        yield aligned(line, widths)


def _rule_lines(
    found: Sequence[tuple["NearDiscovered", Sequence[_Line]]],
    output: Path | None,
    count: Callable[[Sequence[Rule]], "Verdicts[Checked]"],
) -> Iterator[str]:
    """Return a rules file whose rules accept as many violating rows as there are now."""
    from holdfast.jobs.files.found_rules import rule_lines

    every = [(near.table.schema.table, constraint) for near, lines in found for constraint, _ in lines]
    inexact = list(dict.fromkeys(one for one in every if one[1].exceptions))
    rules = [Rule(str(constraint), table, constraint.exact) for table, constraint in inexact]
    counts = zip(inexact, count(rules), strict=True)
    accepted: dict[Found, int] = {one: checked.violating_rows or 0 for one, checked in counts}
    return rule_lines(every, output, several=len(found) > 1, thresholds=accepted)


def _summary(near: "NearDiscovered") -> str:
    counts = ", ".join(f"{count:,} {shape.value.replace('_', ' ')}" for shape, count in near.counts().items()) or "none"
    table = near.table
    bound = f" and at most {counted(near.max_context, 'column')} in the context" if near.max_context else ""
    kinds = f"{counted(len(near), 'near constraint')} with at most {counted(near.found.most, 'exception')}{bound}"
    return f"{table.schema.table}: {table.row_count:,} rows, {len(table.schema)} columns; {kinds} ({counts})"


def _explain(near: "NearDiscovered", progress: "Progress") -> None:
    progress.note(f"{near.table.schema.table}: steps")
    for step, seconds in near.explained.steps:
        progress.note(f"  {seconds:8.3f} s  {step}")
    border = sum(len(part.numbers) for part in near.found.border)
    progress.note(f"  {near.found.counted:,} candidates counted; {border:,} are as large as they can be and not near")
