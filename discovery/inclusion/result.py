"""The inclusions that hold among columns, those that nearly hold, and their scores as foreign keys.

Invariant: what is ranked with a coverage has every inclusion that holds, and every one that holds for that share of
the values.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from holdfast.constraints import ColumnRef, Family, InclusionDependency
from holdfast.constraints.scores import Score, sound_of
from holdfast.discovery.inclusion.clusters import Clusters
from holdfast.discovery.inclusion.foreign_keys import ForeignKeyScores
from holdfast.discovery.inclusion.value_ranges import ValueRange
from holdfast.display.constraints import Ranked
from holdfast.tables.arrays import Ints


@dataclass(frozen=True)
class NearInclusion:
    """An inclusion that holds for most values.

    Parameters
    ----------
    dependency : the inclusion.
    coverage : the share of the left column's values that the right column has.
    missing_values, missing_occurrences : the number of values that it lacks, and how often they occur.
    occurrences : the number of cells of the left column that are not null.
    """

    dependency: InclusionDependency
    coverage: float
    missing_values: int
    missing_occurrences: int
    occurrences: int

    @property
    def row_coverage(self) -> float:
        """The share of the left column's cells whose value the right column has."""
        return 1 - self.missing_occurrences / max(self.occurrences, 1)


class Inclusions:
    """The inclusions among the columns of a clustering.

    Parameters
    ----------
    clusters : the clustering.
    ranges : where the values of each column lie; empty where that is not known.
    """

    family = Family.INCLUSION

    def __init__(self, clusters: Clusters, ranges: Sequence[ValueRange] = ()) -> None:
        self.clusters = clusters
        self._ranges = ranges
        self._pairs = np.argwhere(clusters.holding)

    def __len__(self) -> int:
        return len(self._pairs)

    def __getitem__(self, place: int) -> InclusionDependency:
        """Return an inclusion, in the order of their columns."""
        return self.dependency(*self._pairs[place].tolist())

    def __iter__(self) -> Iterator[InclusionDependency]:
        return (self.dependency(a, b) for a, b in self._pairs.tolist())

    def dependency(self, dependent: int, referenced: int) -> InclusionDependency:
        """Return an inclusion between two columns by their numbers."""
        columns = self.clusters.columns
        return InclusionDependency(columns[dependent].ref, columns[referenced].ref)

    def top(self, count: int, least: float = 1.0) -> Ranked[InclusionDependency]:
        """Return the likeliest foreign keys, best first, each with its score.

        Parameters
        ----------
        least : also rank inclusions that hold for this share of the values.
        """
        return self._ranked(np.concatenate([self._pairs, self._near_pairs(least)]), count)

    def foreign_keys(self) -> Ranked[InclusionDependency]:
        """Return all inclusions that can be foreign keys, likeliest first, also those that hold for most rows only."""
        candidates = self._scores.candidates()
        return self._ranked(candidates, len(candidates))

    def near(self, least: float) -> Iterator[NearInclusion]:
        """Yield inclusions that hold for at least a share of the left values, but not for all; best covered first."""
        for a, b in self._near_pairs(least).tolist():
            yield self.covered(a, b)

    def covered(self, dependent: int, referenced: int) -> NearInclusion:
        """Return how many values and cells of the first column the second one lacks, by their numbers."""
        missing = int(self.clusters.missing[dependent, referenced])
        return NearInclusion(
            self.dependency(dependent, referenced),
            1.0 - missing / max(int(self.clusters.totals[dependent]), 1),
            missing,
            int(self._scores.missing_cells[dependent, referenced]),
            int(self._scores.cells[dependent]),
        )

    def coverage_of(self, dependency: InclusionDependency) -> NearInclusion:
        """Return how many values and cells of the left column of an inclusion the right one lacks."""
        return self.covered(self._numbers[dependency.dependent], self._numbers[dependency.referenced])

    def scores(self, pairs: Ints) -> list[Score]:
        """Return for pairs of columns how likely the first is a foreign key to the second."""
        return [self._scores.score(a, b) for a, b in pairs.tolist()]

    def _near_pairs(self, least: float) -> Ints:
        """Return the pairs of columns whose inclusion holds for a share of the values, but not for all."""
        missing, total = self.clusters.missing, self.clusters.totals
        coverage = 1.0 - missing / np.maximum(total, 1)[:, None]
        np.fill_diagonal(coverage, 0.0)
        pairs = np.argwhere((coverage >= least) & (missing > 0) & (coverage > 0))
        return np.asarray(pairs[np.argsort(-coverage[pairs[:, 0], pairs[:, 1]], kind="stable")])

    def _ranked(self, pairs: Ints, count: int) -> Ranked[InclusionDependency]:
        scores = self.scores(pairs)
        best = sorted(range(len(scores)), key=lambda place: scores[place].place())[:count]
        ranked = ((scores[place], self.dependency(*pairs[place].tolist())) for place in best)
        return Ranked(ranked, sound=sound_of(scores))

    @cached_property
    def _scores(self) -> ForeignKeyScores:
        return ForeignKeyScores(self.clusters, self._ranges)

    @cached_property
    def _numbers(self) -> dict[ColumnRef, int]:
        """The numbers of the columns."""
        return {column.ref: number for number, column in enumerate(self.clusters.columns) if not column.dropped}
