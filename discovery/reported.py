"""Reported constraints as masks, converted to values and text on access.

Invariant: the order depends on the set alone: fewest columns first, then plain kinds (keys, constants, functional
dependencies) before others, then by mask.
"""

from collections.abc import Iterator
from enum import Enum
from typing import TypeAlias

import numpy as np

from holdfast.constraints import DenialConstraint, DenialKind, OrderDependency, OrderKind, PredicateSpace
from holdfast.constraints.operators import EQUAL, EVERY_OUTCOME, GREATER, LESS
from holdfast.constraints.types import Family
from holdfast.indexes.masks import outcomes_of
from holdfast.tables.arrays import Positions, Words

Reported: TypeAlias = DenialConstraint | OrderDependency


class ReportedSet:
    """The constraints of one space and its family.

    Parameters
    ----------
    space, masks : the space, and (k, W) masks of constraints.
    """

    def __init__(self, space: PredicateSpace, masks: Words) -> None:
        sizes, kinds = _sizes_and_kinds(space, masks)
        order = np.lexsort((*masks.T, kinds, sizes))
        self.space = space
        self.masks: Words = masks[order]
        self.sizes: Positions = sizes[order]
        self._kinds: Positions = kinds[order]

    def __len__(self) -> int:
        return len(self.masks)

    def __iter__(self) -> Iterator[Reported]:
        for mask in self.masks:
            yield constraint_of(self.space, mask)

    def counts(self) -> dict[Enum, int]:
        """Return the number of constraints of each kind that occurs."""
        kinds = _KINDS[self.space.family]
        counted = np.bincount(self._kinds, minlength=len(kinds)).tolist()
        return {kind: count for kind, count in zip(kinds, counted, strict=True) if count}


def constraint_of(space: PredicateSpace, mask: Words) -> Reported:
    """Return the constraint with a mask."""
    bits = space.bits(mask)
    if space.family is Family.DENIAL:
        return space.constraint(bits)
    names = space.schema.names
    outcomes = {names[pair.left]: pair.outcomes(bits) for pair in space.pairs}
    targets = {name: allowed for name, allowed in outcomes.items() if allowed not in {EQUAL, EVERY_OUTCOME}}
    context = [name for name, allowed in outcomes.items() if allowed == EQUAL]
    return OrderDependency(context, targets, opposite=len(targets) > len(set(targets.values())))


_KINDS: dict[Family, tuple[Enum, ...]] = {
    Family.DENIAL: (DenialKind.KEY, DenialKind.CONSTANT, DenialKind.FUNCTIONAL_DEPENDENCY, DenialKind.OTHER),
    Family.ORDER: (OrderKind.CONSTANT, OrderKind.ORDER_COMPATIBLE),
}


def _sizes_and_kinds(space: PredicateSpace, masks: Words) -> tuple[Positions, Positions]:
    """Return the number of column pairs that each mask constrains, and the position of its kind in `_KINDS`."""
    equal, unequal, others = (np.zeros(len(masks), np.int64) for _ in range(3))
    for pair, outcomes in zip(space.pairs, outcomes_of(masks, space), strict=True):
        constrained = outcomes != EVERY_OUTCOME
        if pair.left != pair.right:
            others += constrained
            continue
        equal += outcomes == EQUAL
        unequal += outcomes == LESS | GREATER
        others += constrained & (outcomes != EQUAL) & (outcomes != LESS | GREATER)
    if space.family is Family.ORDER:
        return equal + unequal + others, (others > 0).astype(np.int64)
    plain = (others == 0) & (equal + unequal > 0)
    kinds = np.full(len(masks), _KINDS[Family.DENIAL].index(DenialKind.OTHER))
    kinds[plain & (unequal == 1) & (equal > 0)] = _KINDS[Family.DENIAL].index(DenialKind.FUNCTIONAL_DEPENDENCY)
    kinds[plain & (unequal == 1) & (equal == 0)] = _KINDS[Family.DENIAL].index(DenialKind.CONSTANT)
    kinds[plain & (unequal == 0)] = _KINDS[Family.DENIAL].index(DenialKind.KEY)
    return equal + unequal + others, kinds
