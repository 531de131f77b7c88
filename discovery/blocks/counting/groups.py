"""Sizes of the groups that the rows of a batch are in, put together from blocks, and what they say of before.

Rows that agree on some columns are a group; those that agree on a dependent too are a part of it. Blocks tell how many
rows the groups and parts of the batch's rows have, and which other dependents: none, this one, or several. That is all
that has to be known: what the batch changed lies in its own parts, so the others were there before, too.

    pairs that break the rule    of a dependency n^2 - the sum of m^2 over the parts m of a group n; of a key n^2 - n
    rows that break it           all n where there are two parts; of a key where there are two rows

Invariant: sizes are those of all rows, whatever the blocks.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from holdfast.constraints import Column
from holdfast.discovery.detection.forms import Groups
from holdfast.discovery.detection.grouping import Grouping
from holdfast.tables.arrays import Flags, Ints
from holdfast.tables.columnar import encoded


@dataclass(frozen=True)
class AskedGroups:
    """The groups and parts of a batch's rows.

    Parameters
    ----------
    groups : what rows agree on.
    group, part : of each row, numbered from 0 on.
    rows : a row of each part.
    """

    groups: Groups
    group: Ints
    part: Ints
    rows: Ints

    @classmethod
    def of(cls, grouping: Grouping, groups: Groups) -> "AskedGroups":
        """Give the groups and parts of some rows numbers. O(n log n)."""
        columns = [(c, c) for c in groups.columns]
        more = [] if groups.dependent is None else [(groups.dependent, groups.dependent)]
        _, group = np.unique(grouping.groups(columns).left, return_inverse=True)
        _, rows, part = np.unique(grouping.groups([*columns, *more]).left, return_index=True, return_inverse=True)
        return cls(groups, group, part, rows)


@dataclass(frozen=True)
class SomeSizes:
    """What one block says.

    Parameters
    ----------
    group, groups : some groups, and how many rows each has here.
    part, parts : their parts, and how many rows each has here.
    others : of each group, how many dependents its rows have here that the batch has not; 2 for more.
    other : those dependents of the groups that have one.
    """

    group: Ints
    groups: Ints
    part: Ints
    parts: Ints
    others: Ints
    other: pa.ChunkedArray


@dataclass(frozen=True)
class GroupChange:
    """What a batch did to a rule.

    Parameters
    ----------
    pairs, rows : how many more break it now.
    breaks : of each row of the batch, whether its group breaks it now.
    """

    pairs: int
    rows: int
    breaks: Flags


@dataclass(frozen=True)
class GroupSizes:
    """The groups and parts of a batch's rows in the whole table.

    Parameters
    ----------
    asked : which ones they are.
    groups, parts : how many rows each has, after the batch.
    others : of each group, how many dependents its rows have that the batch has not; 2 for more.
    """

    asked: AskedGroups
    groups: Ints
    parts: Ints
    others: Ints

    @classmethod
    def together(cls, asked: AskedGroups, found: Sequence[SomeSizes], columns: Sequence[Column]) -> "GroupSizes":
        """Put together what blocks say."""
        count = int(asked.group.max(initial=-1)) + 1
        groups, others, parts = (
            np.zeros(count, np.int64),
            np.zeros(count, np.int64),
            np.zeros(len(asked.rows), np.int64),
        )
        ones: list[Ints] = [np.zeros(0, np.int64)]
        values: list[pa.Array] = []
        for some in found:
            groups[some.group] += some.groups
            parts[some.part] += some.parts
            others[some.group[some.others > 1]] = 2
            ones.append(some.group[some.others == 1])
            values += some.other.chunks
        if asked.groups.dependent is not None and values:
            group = np.concatenate(ones)
            column = columns[asked.groups.dependent]
            keys = encoded("others", [column], {column.name: pa.chunked_array(values)}, len(group)).columns[0]
            valid = np.ones(len(group), np.bool_) if keys.valid is None else keys.valid
            distinct = np.unique(np.stack([group, keys.keys, valid]), axis=1)
            others = np.minimum(2, others + np.bincount(distinct[0], minlength=count))
        return cls(asked, groups, parts, others)

    def change(self, copies: Ints) -> GroupChange:
        """Return what changed, as each row of the batch has so many more copies now."""
        asked = self.asked
        in_group, in_part = np.zeros_like(self.groups), np.zeros_like(self.parts)
        np.add.at(in_group, asked.group, copies)
        np.add.at(in_part, asked.part, copies)
        pairs, rows, breaks = self._broken(self.groups, self.parts)
        pairs_before, rows_before, _ = self._broken(self.groups - in_group, self.parts - in_part)
        return GroupChange(pairs - pairs_before, rows - rows_before, breaks[asked.group])

    def _broken(self, groups: Ints, parts: Ints) -> tuple[int, int, Flags]:
        """Return how many pairs and rows break the rule, but for what the batch did not touch, and which groups do."""
        if self.asked.groups.dependent is None:
            breaks = groups > 1
            return int(groups @ (groups - 1)), int(groups[breaks].sum()), breaks
        of_part = self.asked.group[self.asked.rows]
        breaks = self.others + np.bincount(of_part, parts > 0, minlength=len(groups)) > 1
        return int(groups @ groups - parts @ parts), int(groups[breaks].sum()), breaks
