"""The targets of order dependencies, and their bits in the words of a space.

A *target* is a column (constant), or two columns and a direction (order compatible). For one target an evidence that
is a split or a swap of it is an *edge*: the other columns in which its two rows differ. A context makes the dependency
hold when it has a column of every edge, so the minimal dependencies of a target are its minimal hitting sets.

A column is represented by a bit: that of `<`, or of `!=` where its values have no order. A set of columns is then a
mask of the space, with bits where evidences have theirs:

    evidence   A<  A=  A>  B<  B=  B>        t.A < s.A, t.B > s.B
               1   0   0   0   0   1
    differs    1   .   .   1   .   .         |= the bits two positions above, shifted down
    less       1   .   .   .   .   .
"""

from functools import cached_property
from itertools import combinations

import numpy as np

from holdfast.constraints import OrderDependency, PredicateSpace
from holdfast.constraints.types import Family
from holdfast.discovery.evidence.evidences import mirrored
from holdfast.discovery.evidence.hitting_sets import groups_of
from holdfast.discovery.kernels.hitting_sets import VertexGroups
from holdfast.tables.arrays import Ints, Words


class Targets:
    """The targets of one space: every column, then every two ordered columns in both directions.

    Parameters
    ----------
    space : of the family of order dependencies.
    """

    def __init__(self, space: PredicateSpace) -> None:
        assert space.family is Family.ORDER
        assert not space.crossing
        self.space = space
        columns = range(len(space.pairs))
        ordered = [c for c in columns if space.pairs[c].ordered]
        both = [(a, b, opposite) for a, b in combinations(ordered, 2) for opposite in (False, True)]
        self.left = np.array([*columns, *(a for a, _, _ in both)], np.int64)
        self.right = np.array([*columns, *(b for _, b, _ in both)], np.int64)
        self.opposite = np.array([*(False for _ in columns), *(opposite for _, _, opposite in both)], np.bool_)
        self.bit = np.array([p.offset if p.ordered else p.offset + 1 for p in space.pairs], np.int64)

    def __len__(self) -> int:
        return len(self.left)

    @property
    def constants(self) -> int:
        """The number of constants, which are the first targets."""
        return len(self.space.pairs)

    @cached_property
    def _less(self) -> Words:
        return _words(self.space, sum(1 << p.offset for p in self.space.pairs if p.ordered))

    @cached_property
    def columns(self) -> Words:
        """The bits of all columns."""
        return _words(self.space, sum(1 << int(bit) for bit in self.bit))

    @cached_property
    def groups(self) -> VertexGroups:
        """The bits of each column pair as groups of vertices."""
        return groups_of(self.space)

    @cached_property
    def boxes(self) -> Words:
        """For each target the box of its splits or swaps, with an empty context."""
        boxes = np.empty((len(self), self.space.word_count), np.uint64)
        for i in range(len(self)):
            names = self.space.schema.names
            targets = dict.fromkeys((names[self.left[i]], names[self.right[i]]))
            violated = OrderDependency((), targets, opposite=bool(self.opposite[i])).as_denial()
            boxes[i] = self.space.words(self.space.mask(violated))
        return boxes

    def differs(self, words: Words) -> Words:
        """Return the columns in which the two rows of evidences differ."""
        return (words & self.columns) | (words >> np.uint64(2) & self._less)

    def less(self, words: Words) -> Words:
        """Return the columns in which the first row comes first."""
        return words & self._less

    def masks(self, targets: Ints, contexts: Words) -> Words:
        """Return dependencies as the boxes of the denial constraints that they are."""
        masks: Words = self.boxes[targets] & ~(contexts | (contexts & self._less) << np.uint64(2))
        return masks


def one_way(space: PredicateSpace, words: Words, pairs: Ints) -> tuple[Words, Ints]:
    """Mirror evidences, with their pairs, so that `t` comes first in the first ordered column in which rows differ.

    Pairs without such a column are left. An evidence and its mirror image break the same targets.
    """
    turned = mirrored(words, space)
    swap, decided = np.zeros((2, len(words)), np.bool_)
    for one, other in zip(words.T, turned.T, strict=True):
        different = one ^ other
        first = different & (~different + np.uint64(1))  # the lowest bit, that of `<` in one of the two
        swap |= ~decided & (different != 0) & (one & first == 0)
        decided |= different != 0
    pairs = pairs.copy()
    pairs[swap] = pairs[swap][..., ::-1]
    return np.where(swap[:, None], turned, words), pairs


def _words(space: PredicateSpace, bits: int) -> Words:
    return np.array(space.words(bits), np.uint64)
