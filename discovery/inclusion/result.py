"""The inclusions that hold among columns, those that nearly hold, and their scores as foreign keys.

Most unary inclusions hold by chance: flags and small numbers are included in everything. A *likely foreign key* has
unique values on its right, similar names, values that recur on its left, and enough values to rule out chance.
"""

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from holdfast.constraints import Family, InclusionDependency
from holdfast.constraints.scores import Score
from holdfast.discovery.inclusion.clusters import Clusters
from holdfast.display.constraints import Ranked
from holdfast.tables.arrays import Ints

_MANY_VALUES = 100.0


@dataclass(frozen=True)
class NearInclusion:
    """An inclusion that holds for most values.

    Parameters
    ----------
    dependency : the inclusion.
    coverage : the share of the left column's values that the right column has.
    missing_values, missing_occurrences : the number of values that it lacks, and how often they occur.
    """

    dependency: InclusionDependency
    coverage: float
    missing_values: int
    missing_occurrences: int


class Inclusions:
    """The inclusions among the columns of a clustering.

    Parameters
    ----------
    clusters : the clustering.
    """

    family = Family.INCLUSION

    def __init__(self, clusters: Clusters) -> None:
        self.clusters = clusters
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

    def top(self, count: int) -> Ranked[InclusionDependency]:
        """Return the likeliest foreign keys, best first, each with its score."""
        score = self.scores(self._pairs)
        best = np.argsort(-score, kind="stable")[:count]
        return Ranked((Score(score[i]), self.dependency(*self._pairs[i].tolist())) for i in best)

    def near(self, least: float) -> Iterator[NearInclusion]:
        """Yield inclusions that hold for at least a share of the left values, but not for all; best covered first."""
        missing, total = self.clusters.missing, self.clusters.totals
        occurring = self.clusters.missing_occurrences
        coverage = 1.0 - missing / np.maximum(total, 1)[:, None]
        np.fill_diagonal(coverage, 0.0)
        pairs = np.argwhere((coverage >= least) & (missing > 0) & (coverage > 0))
        order = np.argsort(-coverage[pairs[:, 0], pairs[:, 1]], kind="stable")
        for a, b in pairs[order].tolist():
            yield NearInclusion(self.dependency(a, b), float(coverage[a, b]), int(missing[a, b]), int(occurring[a, b]))

    def scores(self, pairs: Ints) -> np.ndarray:
        """Return for pairs of columns how likely the first is a foreign key to the second: from 0 to 1.

        The mean of: how unique the right column's values are, and how much the left column's recur; how similar the
        names are; how many values the left column has.
        """
        total, rows = self.clusters.totals, self._occurrences
        unique = total / np.maximum(rows, 1)
        size = np.minimum(1.0, np.log1p(total) / np.log1p(_MANY_VALUES))
        alike = np.array([self._alike(a, b) for a, b in pairs.tolist()])
        if not len(pairs):
            return np.zeros(0)
        return np.asarray((unique[pairs[:, 1]] + 1.0 - unique[pairs[:, 0]] + alike + size[pairs[:, 0]]) / 4)

    @cached_property
    def _occurrences(self) -> Ints:
        """The number of non-null cells of each column."""
        return self.clusters.total_occurrences

    def _alike(self, a: int, b: int) -> float:
        """Return how similar two names are, with the table of the right column: `user_id`, `users.id`."""
        left, right = self.clusters.columns[a].ref, self.clusters.columns[b].ref
        names = (right.column, f"{right.table}_{right.column}")
        return max(difflib.SequenceMatcher(None, left.column.lower(), name.lower()).ratio() for name in names)
