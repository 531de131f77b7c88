"""Sizes of the groups of a batch's rows, added up over blocks, and the change of the violations by the batch.

Rows with equal values in some columns are a group; rows of a group with an equal dependent are a part. Blocks send the
numbers of rows of the groups and parts of the batch's rows, and the other dependents of each group: none, one, or
several. That is enough: the batch changed its own parts only, so the other parts existed before, too.

    pairs that break the rule    of a dependency n^2 - the sum of m^2 over the parts m of a group n; of a key n^2 - n
    rows that break the rule     all n where there are two parts; of a key where there are two rows

Invariant: sizes are those of all rows, for any blocks.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from holdfast.constraints import Column
from holdfast.discovery.detection.forms import GroupColumns
from holdfast.discovery.detection.grouping import Grouping
from holdfast.tables.arrays import Flags, Ints
from holdfast.tables.columnar import encoded


@dataclass(frozen=True)
class AskedGroups:
    """The groups and parts of a batch's rows.

    Parameters
    ----------
    groups : the columns of groups, and the dependent of parts.
    group, part : the group and the part of each row, numbered from 0 on.
    rows : a row of each part.
    counts : which rows have no null where the rule leaves these rows out; the other rows count in no group.
    """

    groups: GroupColumns
    group: Ints
    part: Ints
    rows: Ints
    counts: Flags

    @classmethod
    def of(cls, grouping: Grouping, groups: GroupColumns) -> "AskedGroups":
        """Return the numbered groups and parts of rows. O(n log n)."""
        columns = [(c, c) for c in groups.columns]
        more = [] if groups.dependent is None else [(groups.dependent, groups.dependent)]
        _, group = np.unique(grouping.groups(columns).left, return_inverse=True)
        _, rows, part = np.unique(grouping.groups([*columns, *more]).left, return_index=True, return_inverse=True)
        counts = np.ones(len(group), np.bool_)
        for column in groups.present:
            counts &= grouping.groups([(column, column)]).left != 0  # the code of null
        return cls(groups, group, part, rows, counts)


@dataclass(frozen=True)
class SomeSizes:
    """The sizes of groups in one block.

    Parameters
    ----------
    group, groups : some groups, and the number of rows of each in the block.
    part, parts : their parts, and the number of rows of each in the block.
    others : for each group the number of dependents in the block that the batch does not have, 2 for more.
    other : for the groups with one such dependent, this dependent.
    """

    group: Ints
    groups: Ints
    part: Ints
    parts: Ints
    others: Ints
    other: pa.ChunkedArray


@dataclass(frozen=True)
class GroupChange:
    """The change of a rule's violations by a batch.

    Parameters
    ----------
    pairs, rows : the growth of the numbers of violating pairs and rows.
    breaks : for each row of the batch whether its group breaks the rule now.
    """

    pairs: int
    rows: int
    breaks: Flags


@dataclass(frozen=True)
class GroupSizes:
    """The groups and parts of a batch's rows in the whole table.

    Parameters
    ----------
    asked : the groups and parts.
    groups, parts : the number of rows of each, after the batch.
    others : for each group the number of dependents that the batch does not have, 2 for more.
    """

    asked: AskedGroups
    groups: Ints
    parts: Ints
    others: Ints

    @classmethod
    def together(cls, asked: AskedGroups, found: Sequence[SomeSizes], columns: Sequence[Column]) -> "GroupSizes":
        """Add up the sizes of several blocks."""
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
        """Return the change of the violations, by the number of copies that each row of the batch gained."""
        asked = self.asked
        copies = copies * asked.counts
        in_group, in_part = np.zeros_like(self.groups), np.zeros_like(self.parts)
        np.add.at(in_group, asked.group, copies)
        np.add.at(in_part, asked.part, copies)
        pairs, rows, breaks = self._broken(self.groups, self.parts)
        pairs_before, rows_before, _ = self._broken(self.groups - in_group, self.parts - in_part)
        return GroupChange(pairs - pairs_before, rows - rows_before, breaks[asked.group] & asked.counts)

    def _broken(self, groups: Ints, parts: Ints) -> tuple[int, int, Flags]:
        """Return the numbers of violating pairs and rows in groups of the batch, and which groups break the rule."""
        if self.asked.groups.dependent is None:
            breaks = groups > 1
            return int(groups @ (groups - 1)), int(groups[breaks].sum()), breaks
        of_part = self.asked.group[self.asked.rows]
        breaks = self.others + np.bincount(of_part, parts > 0, minlength=len(groups)) > 1
        return int(groups @ groups - parts @ parts), int(groups[breaks].sum()), breaks
