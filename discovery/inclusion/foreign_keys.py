"""Which inclusions are foreign keys, from the values and the names of their columns.

Most inclusions hold by chance: flags and small whole numbers are included in everything. The *strength* of a foreign
key is the product of three numbers from 0 to 1:

    unique     1 if no value of the referenced column recurs, 0 if a fifth of its cells or more repeat another one
    coverage   the share of the cells of the referring column whose value is there
    evidence   that this is more than chance, by the values or by the names (`names.refers`)

The evidence of values is one minus the chance that as many of them as there are would be values of the referenced
column (`value_ranges`). One value is evidence of at most one half, two values of three quarters. Small whole numbers
are no evidence, unless they recur and are most of the referenced values, up to the highest.

The score is two thirds strength. The rest is nearly one third, as of the shortest constraints of other families; it is
higher if the names are alike, if many of the referenced values are used, and if the referring values recur.
"""

import math
from collections.abc import Sequence

import numpy as np

from holdfast.constraints import TypeGroup
from holdfast.constraints.scores import Score
from holdfast.discovery.inclusion.clusters import Clusters
from holdfast.discovery.inclusion.names import refers
from holdfast.discovery.inclusion.value_ranges import ValueRange
from holdfast.tables.arrays import Floats, Ints

_MOST_REPEATED = 0.2
_LEAST_CHANCE = 0.5
_LEAST_REACH = 0.9
_SMALL = 50
_SHORT = 0.9
_NEARLY_UNIQUE = 0.9


class KeyScore(Score):
    """The score of an inclusion as a foreign key."""

    @property
    def why_not(self) -> str | None:
        """Why an inclusion is no likely foreign key; None if it is one."""
        return None if self.sound else "values recur on its right, too many are missing, or chance explains it"


class ForeignKeyScores:
    """Scores pairs of columns as foreign keys.

    Parameters
    ----------
    clusters : the clusters of the columns.
    ranges : where the values of each column lie; empty where that is not known.
    """

    def __init__(self, clusters: Clusters, ranges: Sequence[ValueRange] = ()) -> None:
        self._clusters = clusters
        self._ranges = ranges
        self.cells: Ints = clusters.total_occurrences
        """The number of cells of each column that are not null."""
        self.missing_cells: Ints = clusters.missing_occurrences
        """For every two columns, the cells of the first one whose value the second one lacks."""
        unique = clusters.totals / np.maximum(self.cells, 1)
        self._unique: Floats = np.asarray(unique)

    def candidates(self) -> Ints:
        """Return the pairs of columns that can be foreign keys: half of the values are there, and these are unique."""
        clusters = self._clusters
        some = clusters.totals > 0
        groups = np.array([list(TypeGroup).index(column.group) for column in clusters.columns], np.int64)
        alike = groups[:, None] == groups[None, :]
        present = 2 * self.missing_cells <= self.cells[:, None]
        fits = alike & present & some[:, None] & some[None, :] & (self._unique > 1 - _MOST_REPEATED)[None, :]
        np.fill_diagonal(fits, val=False)
        dropped = [number for number, column in enumerate(clusters.columns) if column.dropped]
        fits[dropped] = fits[:, dropped] = False
        return np.argwhere(fits)

    def score(self, dependent: int, referenced: int) -> Score:
        """Return how likely the first column is a foreign key to the second."""
        total = self._clusters.totals
        if not total[dependent] or not total[referenced]:
            return KeyScore(0.0, 0.0, 0.0)
        there = int(total[dependent] - self._clusters.missing[dependent, referenced])
        unique = max(0.0, 1 - (1 - self._unique[referenced]) / _MOST_REPEATED)
        coverage = 1 - self.missing_cells[dependent, referenced] / self.cells[dependent]
        recurring = 1 - self._unique[dependent]
        used = math.sqrt(there / total[referenced])
        names = refers(self._clusters.columns[dependent].ref, self._clusters.columns[referenced].ref)
        values = self._evidence(dependent, referenced, there)
        if self._is_copy(dependent, referenced):
            values = names = 0.0
        strength = float(unique * coverage * (1 - (1 - names) * (1 - values)))
        rest = _SHORT + (1 - _SHORT) * (names + used + recurring) / 3
        return KeyScore(float(2 * strength + rest) / 3, strength, float(self.cells[dependent]))

    def _evidence(self, dependent: int, referenced: int, there: int) -> float:
        """Return how much the values say that the inclusion is more than chance."""
        total = self._clusters.totals
        if not self._ranges:
            is_text = self._clusters.columns[referenced].group is TypeGroup.STRINGS
            return _beyond(there, int(total[dependent]), _LEAST_CHANCE if is_text else 1.0)
        mine, theirs = self._ranges[dependent], self._ranges[referenced]
        by_chance = _beyond(there, int(total[dependent]), max(_LEAST_CHANCE, mine.chance_in(theirs)))
        if self._unique[dependent] > _NEARLY_UNIQUE:
            return by_chance
        reach = max(0.0, (mine.reach_in(theirs) - _LEAST_REACH) / (1 - _LEAST_REACH))
        used = there / total[referenced]
        return max(by_chance, float(reach * used * max(0.0, 1 - _SMALL / total[referenced])))

    def _is_copy(self, dependent: int, referenced: int) -> bool:
        """Whether two columns of one table have unique values: the one repeats the other."""
        columns = self._clusters.columns
        is_same = columns[dependent].ref.table == columns[referenced].ref.table
        return bool(is_same and self._unique[dependent] > _NEARLY_UNIQUE)


def _beyond(there: int, of: int, chance: float) -> float:
    """Return one minus the bound of the chance that so many of some values are there, if one is with a chance.

    >>> _beyond(3, 3, 0.5), _beyond(31, 31, 1.0), _beyond(1, 2, 0.5), round(_beyond(90, 100, 0.5), 6)
    (0.875, 0.0, 0.0, 1.0)
    """
    share = there / of
    if share <= chance:
        return 0.0
    divergence = share * math.log(share / chance)
    if share < 1:
        divergence += (1 - share) * math.log((1 - share) / (1 - chance))
    return 1 - math.exp(-of * divergence)
