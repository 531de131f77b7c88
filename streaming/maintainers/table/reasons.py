"""Why constraints appeared in the reported set or disappeared from it, and the rows that prove it (semantics, Changes).

A box that disappeared is *violated* where a new evidence lies in it; else a wider box that appeared *implies* it. A box
that appeared was *weakened* from a wider box that disappeared; else deleted rows that violated it *released* it.
"""

import numpy as np
from numpy.typing import NDArray

from holdfast.constraints import ConstraintChange, DenialConstraint, PredicateSpace, Reason, Violation
from holdfast.discovery.reported import constraint_of
from holdfast.indexes.rows import RowSet
from holdfast.streaming.maintainers.certified.maintainer import CertifiedMaintainer, FamilyChanges
from holdfast.streaming.maintainers.table.row_images import row_images
from holdfast.tables.arrays import Words


class Reasons:
    """The reasons of one batch's changes.

    Parameters
    ----------
    rows : the table after the batch, with the deleted rows not forgotten yet.
    """

    def __init__(self, rows: RowSet) -> None:
        self._rows = rows
        self._images = row_images(rows)

    def of(self, family: CertifiedMaintainer, step: FamilyChanges) -> list[ConstraintChange]:
        """Return the changes of a family, each with its reason and its proof."""
        space = family.space
        changes = []
        for mask in _in_order(step.disappeared, space):
            violating = _lies_in(step.found, mask)
            if violating.any():
                pair = step.found_pairs[int(violating.argmax())]
                witness = Violation(tuple(self._images(int(slot)) for slot in pair))
                changes.append(_change(space, mask, Reason.VIOLATED, witness=witness))
            else:
                changes.append(_change(space, mask, Reason.IMPLIED, by=family.wider(mask, step.appeared)))
        for mask in _in_order(step.appeared, space):
            wider = family.wider(mask, step.disappeared)
            if wider is not None:
                changes.append(_change(space, mask, Reason.WEAKENED, by=wider))
                continue
            held_back = step.lost_pairs[_lies_in(step.lost, mask)]
            twice = held_back[:, 0] == held_back[:, 1]  # then one of the two copies was removed
            removed = held_back[(held_back >= 0) & (twice[:, None] | (self._rows.copies[held_back] <= 0))]
            proof = Violation((self._images(int(removed[0])),)) if len(removed) else None
            changes.append(_change(space, mask, Reason.RELEASED, witness=proof))
        return changes


def _change(
    space: PredicateSpace, mask: Words, reason: Reason, by: Words | None = None, witness: Violation | None = None
) -> ConstraintChange:
    implying = None if by is None else constraint_of(space, by)
    if isinstance(implying, DenialConstraint):
        implying = space.canonical(implying)
    return ConstraintChange(constraint_of(space, mask), space.schema.table, reason, implying, witness)


def _lies_in(words: Words, mask: Words) -> NDArray[np.bool_]:
    """Return, per evidence, whether it lies in the box."""
    return np.asarray(~(words & ~mask).any(axis=1))


def _in_order(masks: Words, space: PredicateSpace) -> Words:
    """Return the boxes in the order in which changes are reported, without the box of everything."""
    masks = masks[(masks != np.array(space.words(space.every), np.uint64)).any(axis=1)]
    return masks[np.lexsort(masks.T)]
