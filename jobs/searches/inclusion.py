"""Inclusion dependencies across all files: those that hold, and those that hold for most values."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, ClassVar

from holdfast.constraints import InclusionDependency, json_value
from holdfast.display.texts import counted
from holdfast.jobs.files.addresses import paths_of
from holdfast.jobs.files.engines import Engine
from holdfast.jobs.searches.contract import FileSearch, Line, Rank, Shown, note_warnings, steps
from holdfast.jobs.searches.request import SearchRequest

if TYPE_CHECKING:
    from holdfast.discovery.inclusion.discover import DiscoveredInclusions
    from holdfast.discovery.inclusion.result import NearInclusion
    from holdfast.jobs.terminal.progress import Progress


class InclusionSearch(FileSearch):
    """A search for inclusion dependencies."""

    names_tables: ClassVar[bool] = True
    _found: "DiscoveredInclusions"

    def __init__(self, request: SearchRequest) -> None:
        from holdfast.tables import table_names

        super().__init__(request)
        self._names = table_names(paths_of(request.files))

    def run(self, engine: Engine, progress: "Progress") -> None:
        """Read the files, and compare their values."""
        with progress.task("reading") as task:
            self._found = engine.inclusions(
                self.request.files,
                self.request.reading,
                task.describe,
                lambda warning: note_warnings([warning], progress),
            )

    def lines(self) -> Iterator[Line]:
        """Yield the inclusions that hold, then those that hold for a share of the values; ranked ones together."""
        coverage = self.request.min_coverage
        for rank, dependency in self._shown.constraints:
            near = self._found.constraints.coverage_of(dependency)
            yield self._near_line(near, rank) if near.missing_values else _line(dependency, rank)
        if coverage is not None and not self._is_ranked:
            yield from map(self._near_line, self._found.constraints.near(coverage))

    @cached_property
    def _shown(self) -> "Shown[InclusionDependency]":
        found = self._found.constraints
        least = 1.0 if self.request.min_coverage is None else self.request.min_coverage
        every = [*self._found, *(near.dependency for near in found.near(least))] if self._is_ranked else self._found
        return Shown.of(every, partial(found.top, least=least), self.request)

    @property
    def _is_ranked(self) -> bool:
        return self.request.top is not None

    def _near_line(self, near: "NearInclusion", rank: "Rank | None" = None) -> Line:
        examples = [json_value(value) for value in self._found.missing(near.dependency)]
        fields = {
            "coverage": round(near.coverage, 6),
            "missing_values": near.missing_values,
            "missing_occurrences": near.missing_occurrences,
            "examples": examples,
        }
        missing = f"{counted(near.missing_values, 'value')} missing, {counted(near.missing_occurrences, 'occurrence')}"
        such = ", ".join(map(str, examples))
        note = f"  ({100 * near.coverage:.2f} % covered; {missing}, such as {such})"
        return replace(_line(near.dependency, rank), fields=fields, note=note, holds=False)

    @property
    def tables(self) -> Sequence[str]:
        """The names of the tables that were searched."""
        return self._names

    def notes(self) -> Iterator[str]:
        """Yield how many inclusions were found; with `explain`, before that the steps of the search."""
        if self.request.explain:
            yield from steps(self._found.explained)
        columns = counted(len(self._found.constraints.clusters.columns), "column")
        found = counted(len(self._found), "inclusion dependency", "inclusion dependencies")
        yield f"{counted(len(self.request.files), 'table')}, {columns}; {found}"
        yield from self._shown.notes()


def _line(dependency: InclusionDependency, rank: "Rank | None") -> Line:
    return Line(dependency.dependent.table, dependency, rank=rank)
