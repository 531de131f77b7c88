"""Why constraints appeared in the reported set or disappeared from it, and the rows that prove it (semantics, Changes).

A box that disappeared is *violated* where a new evidence lies in it; else a wider box that appeared *implies* it. A box
that appeared was *weakened* from a wider box that disappeared; else deleted rows that violated it *released* it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.constraints import ConstraintChange, DenialConstraint, PredicateSpace, Reason, Violation
from holdfast.discovery.reported import constraint_of
from holdfast.indexes.rows import RowSet
from holdfast.streaming.maintainers.certified.maintainer import CertifiedMaintainer, FamilyChanges
from holdfast.streaming.maintainers.table.row_images import RowImages
from holdfast.tables.arrays import Words


class Reasons:
    """The reasons of one batch's changes.

    Parameters
    ----------
    rows : the table after the batch, with the deleted rows not forgotten yet.
    """

    def __init__(self, rows: RowSet) -> None:
        self._rows = rows
        self._images = RowImages(rows)

    def of(self, family: CertifiedMaintainer, step: FamilyChanges) -> list[ConstraintChange]:
        """Return the changes of a family, each with its reason and its proof."""
        every = [
            *(self._gone(mask, family, step) for mask in _in_order(step.disappeared, family.space)),
            *(self._come(mask, family, step) for mask in _in_order(step.appeared, family.space)),
        ]
        self._images.make(slot for reasoned in every for slot in reasoned.proof)
        return [self._change(family.space, reasoned) for reasoned in every]

    def _gone(self, mask: Words, family: CertifiedMaintainer, step: FamilyChanges) -> "_Reasoned":
        violating = _lies_in(step.found, mask)
        if violating.any():
            return _Reasoned(mask, Reason.VIOLATED, proof=step.found_pairs[int(violating.argmax())].tolist())
        return _Reasoned(mask, Reason.IMPLIED, by=family.wider(mask, step.appeared))

    def _come(self, mask: Words, family: CertifiedMaintainer, step: FamilyChanges) -> "_Reasoned":
        wider = family.wider(mask, step.disappeared)
        if wider is not None:
            return _Reasoned(mask, Reason.WEAKENED, by=wider)
        held_back = step.lost_pairs[_lies_in(step.lost, mask)]
        twice = held_back[:, 0] == held_back[:, 1]  # then one of the two copies was removed
        removed = held_back[(held_back >= 0) & (twice[:, None] | (self._rows.copies[held_back] <= 0))]
        return _Reasoned(mask, Reason.RELEASED, proof=removed[:1].tolist())

    def _change(self, space: PredicateSpace, reasoned: "_Reasoned") -> ConstraintChange:
        implying = None if reasoned.by is None else constraint_of(space, reasoned.by)
        if isinstance(implying, DenialConstraint):
            implying = space.canonical(implying)
        witness = Violation(tuple(map(self._images, reasoned.proof))) if reasoned.proof else None
        constraint = constraint_of(space, reasoned.mask)
        return ConstraintChange(constraint, space.schema.table, reasoned.reason, implying, witness)


@dataclass(frozen=True)
class _Reasoned:
    """A box that changed.

    Parameters
    ----------
    mask, reason : the box, and why it changed.
    by : the box that implies it, or from which it was weakened.
    proof : the slots of the rows that show the reason.
    """

    mask: Words
    reason: Reason
    by: Words | None = None
    proof: Sequence[int] = ()


def _lies_in(words: Words, mask: Words) -> NDArray[np.bool_]:
    """Return, per evidence, whether it lies in the box."""
    return np.asarray(~(words & ~mask).any(axis=1))


def _in_order(masks: Words, space: PredicateSpace) -> Words:
    """Return the boxes in the order in which changes are reported, without the box of everything."""
    masks = masks[(masks != np.array(space.words(space.every), np.uint64)).any(axis=1)]
    return masks[np.lexsort(masks.T)]
