"""A set of denial constraints as masks, turned into values and text only as they are looked at.

Invariant: the order is that of people's interest, and the same for the same set: fewest predicates first; among those
keys, constants and functional dependencies before others; then by the mask.
"""

from collections.abc import Iterator

import numpy as np

from holdfast.constraints import DenialConstraint, DenialKind, PredicateSpace
from holdfast.constraints.operators import EQUAL, EVERY_OUTCOME, GREATER, LESS
from holdfast.discovery.kernels.evidence import Places, Words
from holdfast.indexes.masks import outcomes_of


class DenialSet:
    """Denial constraints of one space.

    Parameters
    ----------
    space, masks : (k, W) words; each the mask of one constraint.
    """

    def __init__(self, space: PredicateSpace, masks: Words) -> None:
        sizes, kinds = _sizes_and_kinds(space, masks)
        order = np.lexsort((*masks.T, kinds, sizes))
        self.space = space
        self.masks: Words = masks[order]
        self.sizes: Places = sizes[order]
        self._kinds: Places = kinds[order]

    def __len__(self) -> int:
        return len(self.masks)

    def __iter__(self) -> Iterator[DenialConstraint]:
        for mask in self.masks:
            yield self.space.constraint(self.space.bits(mask))

    def counts(self) -> dict[DenialKind, int]:
        """Return how many there are of each kind that occurs."""
        counted = np.bincount(self._kinds, minlength=len(_KINDS)).tolist()
        return {kind: count for kind, count in zip(_KINDS, counted, strict=True) if count}


_KINDS = (DenialKind.KEY, DenialKind.CONSTANT, DenialKind.FUNCTIONAL_DEPENDENCY, DenialKind.OTHER)


def _sizes_and_kinds(space: PredicateSpace, masks: Words) -> tuple[Places, Places]:
    """Return how many column pairs each mask constrains, and the place of its kind in `_KINDS`."""
    equal, unequal, others = (np.zeros(len(masks), np.int64) for _ in range(3))
    for pair, outcomes in zip(space.pairs, outcomes_of(masks, space), strict=True):
        constrained = outcomes != EVERY_OUTCOME
        if pair.left != pair.right:
            others += constrained
            continue
        equal += outcomes == EQUAL
        unequal += outcomes == LESS | GREATER
        others += constrained & (outcomes != EQUAL) & (outcomes != LESS | GREATER)
    plain = (others == 0) & (equal + unequal > 0)
    kinds = np.full(len(masks), _KINDS.index(DenialKind.OTHER))
    kinds[plain & (unequal == 1) & (equal > 0)] = _KINDS.index(DenialKind.FUNCTIONAL_DEPENDENCY)
    kinds[plain & (unequal == 1) & (equal == 0)] = _KINDS.index(DenialKind.CONSTANT)
    kinds[plain & (unequal == 0)] = _KINDS.index(DenialKind.KEY)
    return equal + unequal + others, kinds
