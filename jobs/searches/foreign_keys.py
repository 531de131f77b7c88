"""Likely foreign keys across all files, also those that hold for most rows only.

    0.913  foreign_key  flights.tailnum -> planes.tailnum  (85 % of rows; 721 values missing, such as N3ALAA)

Invariant: of the tables only the distinct values of their columns are compared, all columns at once.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from holdfast.constraints import InclusionDependency, json_value
from holdfast.display.short_forms import FOREIGN_KEY, foreign_key_form
from holdfast.display.texts import counted
from holdfast.jobs.files.addresses import paths_of
from holdfast.jobs.files.engines import Engine
from holdfast.jobs.files.found_rules import Found
from holdfast.jobs.searches.contract import FileSearch, Line, note_warnings, steps
from holdfast.jobs.searches.request import SearchRequest

if TYPE_CHECKING:
    from holdfast.constraints.scores import Score
    from holdfast.discovery.inclusion.discover import DiscoveredInclusions
    from holdfast.discovery.inclusion.result import NearInclusion
    from holdfast.jobs.terminal.progress import Progress


class ForeignKeySearch(FileSearch):
    """A search for foreign keys."""

    names_tables: ClassVar[bool] = True

    def __init__(self, request: SearchRequest) -> None:
        from holdfast.tables import table_names

        super().__init__(request)
        self._names = table_names(paths_of(request.files))
        self._least = request.min_coverage or 0.0
        self._found: DiscoveredInclusions
        self._ranked: list[tuple[Score, NearInclusion]] = []

    def run(self, engine: Engine, progress: "Progress") -> None:
        """Read the files, and compare their values."""
        with progress.task("reading") as task:
            found = engine.inclusions(
                self.request.files,
                self.request.reading,
                task.describe,
                lambda warning: note_warnings([warning], progress),
            )
        self.rank(found)

    def rank(self, found: "DiscoveredInclusions") -> None:
        """Take the inclusions of the tables, and rank those that can be foreign keys."""
        self._found = found
        ranked = [(score, found.constraints.coverage_of(one)) for score, one in found.constraints.foreign_keys()]
        self._ranked = [(score, near) for score, near in ranked if near.coverage >= self._least]

    @property
    def tables(self) -> Sequence[str]:
        """The names of the tables that were searched."""
        return self._names

    def lines(self) -> Iterator[Line]:
        """Yield what can be a foreign key, the likeliest first."""
        for place, (score, near) in enumerate(self._ranked, 1):
            yield Line(
                near.dependency.dependent.table,
                near.dependency,
                FOREIGN_KEY,
                foreign_key_form(near.dependency),
                (place, score),
                fields={"kind": FOREIGN_KEY, **self._coverage_fields(near)},
                note=self._note(near),
                holds=not near.missing_values,
            )

    def notes(self) -> Iterator[str]:
        """Yield how many columns were compared; with `explain`, before that the steps of the search."""
        if self.request.explain:
            yield "foreign keys: steps"
            yield from steps(self._found.explained)

    def thresholds(self, found: Sequence[Found], engine: Engine, progress: "Progress") -> dict[Found, int]:  # noqa: ARG002  (known already)
        """Return how many rows have a value that is missing, of each foreign key that does not hold for all rows."""
        missing = {near.dependency: near.missing_occurrences for _, near in self._ranked if near.missing_occurrences}
        return {
            (table, one): missing[one]
            for table, one in found
            if isinstance(one, InclusionDependency) and one in missing
        }

    def _coverage_fields(self, near: "NearInclusion") -> dict[str, Any]:
        return {
            "coverage": round(near.coverage, 6),
            "row_coverage": round(near.row_coverage, 6),
            "missing_values": near.missing_values,
            "missing_occurrences": near.missing_occurrences,
            "examples": self._examples(near),
        }

    def _note(self, near: "NearInclusion") -> str:
        """Return for how many rows a foreign key holds, and which values are missing; nothing where it holds."""
        if not near.missing_values:
            return ""
        such = ", ".join(map(str, self._examples(near)))
        share = f"{100 * near.row_coverage:.3g} % of rows"
        return f"  ({share}; {counted(near.missing_values, 'value')} missing, such as {such})"

    def _examples(self, near: "NearInclusion") -> list[Any]:
        if not near.missing_values:
            return []
        return [json_value(value) for value in self._found.missing(near.dependency)]
