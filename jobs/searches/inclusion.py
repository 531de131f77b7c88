"""Inclusion dependencies across all files: those that hold, and those that hold for most values."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from holdfast.constraints import UsageError, json_value
from holdfast.display.texts import counted
from holdfast.jobs.files.addresses import paths_of
from holdfast.jobs.files.engines import Engine
from holdfast.jobs.searches.contract import FileSearch, Line, Shown, note_warnings, steps
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
        table_names(paths_of(request.files))
        if request.top is not None and request.min_coverage is not None:
            raise UsageError("--top and --min-coverage: use one of them")

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
        """Yield the inclusions that hold, then those that hold for a share of the values."""
        found, coverage = self._found, self.request.min_coverage
        for rank, dependency in Shown.of(found, found.constraints.top, self.request).constraints:
            yield Line(dependency.dependent.table, dependency, rank=rank)
        if coverage is not None:
            yield from map(self._near_line, found.constraints.near(coverage))

    def _near_line(self, near: "NearInclusion") -> Line:
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
        return Line(near.dependency.dependent.table, near.dependency, fields=fields, note=note, holds=False)

    def notes(self) -> Iterator[str]:
        """Yield how many inclusions were found; with `explain`, before that the steps of the search."""
        if self.request.explain:
            yield from steps(self._found.explained)
        columns = counted(len(self._found.constraints.clusters.columns), "column")
        found = counted(len(self._found), "inclusion dependency", "inclusion dependencies")
        yield f"{counted(len(self.request.files), 'table')}, {columns}; {found}"
