"""`holdfast discover --family ind`: read files, find which columns are included in which across all of them.

Invariant: results are written when all files are done with, so an error or an interrupt leaves no half answer.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.constraints import InclusionDependency, UsageError, constraint_fields, json_value
from holdfast.jobs.files.addresses import Place, paths_of
from holdfast.jobs.files.engines import Spread, engine
from holdfast.jobs.terminal.counts import counted
from holdfast.jobs.terminal.options import Answering
from holdfast.jobs.terminal.output import json_line, one_line, results_to
from holdfast.jobs.terminal.sentences import said_fields, said_lines

if TYPE_CHECKING:
    from holdfast.discovery.inclusion.discover import DiscoveredInclusions
    from holdfast.discovery.inclusion.result import NearInclusion
    from holdfast.tables import ReadOptions


def discover_inclusions_in(
    files: Iterable[Place],
    reading: "ReadOptions",
    answering: Answering,
    *,
    min_coverage: float | None,
    explain: bool,
    top: int | None,
    as_rules: bool,
    spread: Spread | None = None,
) -> None:
    """Discover the inclusion dependencies across all files."""
    from holdfast.tables import table_names

    files = list(files)
    table_names(paths_of(files))
    if top is not None and min_coverage is not None:
        raise UsageError("--top and --min-coverage: use one of them")
    progress = answering.progress()
    with engine(spread, progress) as way:
        with progress.task("reading") as task:
            found = way.inclusions(files, reading, task.describe, lambda warning: progress.note(f"warning: {warning}"))
        with results_to(answering.output) as out:
            if as_rules:
                out.writelines(_rule_lines(found, top, answering.output))
            else:
                out.writelines(map(one_line, _lines(found, top, min_coverage, answering)))
    if explain:
        for step, seconds in found.explained.steps:
            progress.note(f"  {seconds:8.3f} s  {step}")
    columns = counted(len(found.constraints.clusters.columns), "column")
    dependencies = counted(len(found), "inclusion dependency", "inclusion dependencies")
    progress.note(f"{counted(len(files), 'table')}, {columns}; {dependencies}")


def _lines(
    found: "DiscoveredInclusions", top: int | None, min_coverage: float | None, answering: Answering
) -> Iterator[str]:
    if top is not None:
        for rank, (score, dependency) in enumerate(found.constraints.top(top), 1):
            place = {"score": round(score, 4), "rank": rank}
            yield from _answered(dependency, place, f"{score:.3f}  {dependency}", answering)
        return
    for dependency in found:
        yield from _answered(dependency, {}, str(dependency), answering)
    for near in () if min_coverage is None else found.constraints.near(min_coverage):
        yield _near_line(found, near, as_json=answering.as_json)


def _answered(
    dependency: InclusionDependency, place: Mapping[str, Any], line: str, answering: Answering
) -> Iterator[str]:
    if answering.as_json:
        yield json_line({**_fields(dependency), **place, **said_fields(dependency, answering)})
    else:
        yield f"{line}\n"
        yield from said_lines(dependency, answering)


def _rule_lines(found: "DiscoveredInclusions", top: int | None, output: Path | None) -> Iterator[str]:
    from holdfast.jobs.files.found_rules import rule_lines

    dependencies = found if top is None else (dependency for _, dependency in found.constraints.top(top))
    return rule_lines([(one.dependent.table, one) for one in dependencies], output, several=False)


def _near_line(found: "DiscoveredInclusions", near: "NearInclusion", *, as_json: bool) -> str:
    examples = [json_value(value) for value in found.missing(near.dependency)]
    if as_json:
        about = {
            "coverage": round(near.coverage, 6),
            "missing_values": near.missing_values,
            "missing_occurrences": near.missing_occurrences,
            "examples": examples,
        }
        return json_line({**_fields(near.dependency), **about})
    missing = f"{counted(near.missing_values, 'value')} missing, {counted(near.missing_occurrences, 'occurrence')}"
    such = ", ".join(str(example) for example in examples)
    return f"{near.dependency}  ({100 * near.coverage:.2f} % covered; {missing}, such as {such})\n"


def _fields(dependency: InclusionDependency) -> dict[str, Any]:
    return constraint_fields(dependency, dependency.dependent.table)
