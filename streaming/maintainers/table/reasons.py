"""Why constraints entered or left the reported set, and the rows that prove it (semantics, Changes).

A box that went is *violated* where a new evidence lies in it, else a wider one that came *implies* it; one that came
was *weakened* from a wider one that went, else it is *released* by the rows that had held it back.
"""

import numpy as np
from numpy.typing import NDArray

from holdfast.constraints import ConstraintChange, DenialConstraint, PredicateSpace, Reason, Violation
from holdfast.discovery.reported import constraint_of
from holdfast.indexes.rows import RowSet
from holdfast.streaming.maintainers.certified.maintainer import CertifiedMaintainer, Step
from holdfast.streaming.maintainers.table.row_images import RowImages
from holdfast.tables.arrays import Words


class Reasons:
    """The reasons of one batch's changes.

    Parameters
    ----------
    rows : the table after the batch, the rows that went not forgotten yet.
    """

    def __init__(self, rows: RowSet) -> None:
        self._rows = rows
        self._images = RowImages(rows)

    def of(self, family: CertifiedMaintainer, step: Step) -> list[ConstraintChange]:
        """Give each change of a family its reason and its proof."""
        space = family.space
        changes = []
        for mask in _told(step.gone, space):
            violating = _lies_in(step.found, mask)
            if violating.any():
                pair = step.found_pairs[int(violating.argmax())]
                witness = Violation(tuple(self._images.of(int(slot)) for slot in pair))
                changes.append(_change(space, mask, Reason.VIOLATED, witness=witness))
            else:
                changes.append(_change(space, mask, Reason.IMPLIED, by=family.wider(mask, step.come)))
        for mask in _told(step.come, space):
            wider = family.wider(mask, step.gone)
            if wider is not None:
                changes.append(_change(space, mask, Reason.WEAKENED, by=wider))
                continue
            held_back = step.lost_pairs[_lies_in(step.lost, mask)]
            twice = held_back[:, 0] == held_back[:, 1]  # then one of the two copies was removed
            removed = held_back[(held_back >= 0) & (twice[:, None] | (self._rows.copies[held_back] <= 0))]
            proof = Violation((self._images.of(int(removed[0])),)) if len(removed) else None
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
    """Return which evidences lie in a box."""
    return np.asarray(~(words & ~mask).any(axis=1))


def _told(masks: Words, space: PredicateSpace) -> Words:
    """Return boxes in the order in which changes are told; the box of everything is not told."""
    masks = masks[(masks != np.array(space.words(space.every), np.uint64)).any(axis=1)]
    return masks[np.lexsort(masks.T)]
