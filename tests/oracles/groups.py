"""What groups of rows make of keys and functional dependencies, counted from the rows themselves.

Twin of `indexes/kernels/groups.py`. Rows count as often as they have copies. Of a key (no dependent) all pairs of a
group break it; of a functional dependency the pairs that differ in the dependent. A group breaks the rule whole: a key
where it has two rows, a dependency where it has two dependents.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

Group = tuple[int, ...]


@dataclass(frozen=True)
class PlainGroups:
    """The live rows of a table, once for each copy.

    Parameters
    ----------
    rows : each a list of codes.
    columns : those that a group agrees on.
    dependent : of a functional dependency, else None.
    """

    rows: Sequence[Sequence[int]]
    columns: Sequence[int]
    dependent: int | None

    def group(self, row: Sequence[int]) -> Group:
        return tuple(int(row[c]) for c in self.columns)

    def members(self, group: Group) -> list[Sequence[int]]:
        return [row for row in self.rows if self.group(row) == group]

    def dependents(self, group: Group) -> Counter[int]:
        """Return how many rows of a group have which dependent."""
        if self.dependent is None:
            return Counter()
        return Counter(int(row[self.dependent]) for row in self.members(group))

    def sizes(self) -> dict[Group, tuple[int, int]]:
        """Return how many rows each group has, and how many different dependents."""
        groups = {self.group(row) for row in self.rows}
        return {group: (len(self.members(group)), len(self.dependents(group))) for group in groups}

    def breaks(self, group: Group) -> bool:
        if self.dependent is None:
            return len(self.members(group)) > 1
        return len(self.dependents(group)) > 1

    def pairs(self) -> int:
        """Return how many ordered pairs of rows break the rule."""
        broken = 0
        for i, one in enumerate(self.rows):
            for j, other in enumerate(self.rows):
                if i != j and self.group(one) == self.group(other):
                    broken += self.dependent is None or one[self.dependent] != other[self.dependent]
        return broken

    def breaking(self) -> int:
        """Return how many rows are in a group that breaks the rule."""
        return sum(self.breaks(self.group(row)) for row in self.rows)
