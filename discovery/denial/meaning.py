"""Which maximal boxes are reported: no vacuous boxes, and none that another box implies (semantics, *Vacuous*).

Where three or more columns are compared across, predicates relate values around a cycle, and by transitivity

- a box may be *vacuous*: no two rows of any table satisfy its predicates, such as
  `not(t.a = s.b and t.b = s.b and t.b = s.c and t.a != s.c)`;
- two boxes may forbid the same pairs of rows, or one a part of what the other forbids, though neither contains the
  other.

Both are decided by the *hull* of a box: the outcomes that pairs of rows in the box have (`kernels/hulls.py`). A box
forbids a part of the pairs that another box forbids exactly if its hull lies in the other box; of boxes with one hull
the box with the smallest text is reported. Spaces whose column pairs form no cycle have neither, and are not analysed.

Invariant: every constraint of the bound that holds is implied by a reported one, and no reported one by another.
"""

from functools import cached_property

import numpy as np

from holdfast.constraints import PredicateSpace
from holdfast.discovery.denial.enumerating import reported_images
from holdfast.discovery.evidence.evidences import mirrored
from holdfast.discovery.kernels.hulls import (
    FEWEST_PREDICATES,
    HullLayout,
    Scratch,
    count_kernel,
    hulls_kernel,
    predicates_kernel,
    rarest_kernel,
    within_other_kernel,
)
from holdfast.indexes.masks import as_items
from holdfast.tables.arrays import Flags, Positions, Words


class Meaning:
    """The pairs of rows that boxes of one space forbid, transitivity included.

    Parameters
    ----------
    space : what masks mean.

    Examples
    --------
    >>> from holdfast.constraints import Column, Schema, parse_denial
    >>> from holdfast.constraints.types import INTEGER
    >>> space = PredicateSpace(Schema("r", tuple(Column(c, INTEGER) for c in "abc")), ((0, 1), (0, 2), (1, 2)))
    >>> said = ["t.a = s.b and t.b = s.b and t.b = s.c and t.a != s.c", "t.a = s.b and t.b = s.b and t.b = s.c"]
    >>> masks = np.array([space.words(space.mask(parse_denial(f"not({text})"))) for text in said], np.uint64)
    >>> hulls, satisfiable = Meaning(space).hulls(masks)
    >>> satisfiable.tolist(), str(space.constraint(space.bits(hulls[1])))
    ([False, True], 'not(t.b = s.b and t.a = s.b and t.a = s.c and t.b = s.c)')
    """

    def __init__(self, space: PredicateSpace) -> None:
        self._space = space
        self._every = np.array(space.words(space.every), np.uint64)

    @cached_property
    def has_cycle(self) -> bool:
        """Whether column pairs relate the values of two rows around a cycle. O(pairs)."""
        columns = len(self._space.schema)
        root = list(range(2 * columns))

        def root_of(node: int) -> int:
            while root[node] != node:
                root[node] = node = root[root[node]]
            return node

        for pair in self._space.pairs:
            t, s = root_of(pair.left), root_of(columns + pair.right)
            if t == s:
                return True
            root[t] = s
        return False

    def reported(self, masks: Words) -> Words:
        """Return the boxes to report, given all maximal boxes (of two mirror images at least one).

        The box of everything stays.
        """
        images = reported_images(masks, self._space)
        if not self.has_cycle:
            return masks[images]
        related = self._related(masks)
        hulls, satisfiable = self.hulls(masks[related])
        narrower = satisfiable & (hulls != masks[related]).any(axis=1)
        vacuous, asked, hulls = related[~satisfiable], related[narrower], hulls[narrower]
        outer = self._lie_in_others(hulls, np.delete(masks, vacuous, axis=0))
        asked, hulls = asked[~outer], hulls[~outer]
        images[vacuous] = images[related[narrower]] = False
        images[asked[self._smallest_texts(masks[asked], hulls)]] = True
        return masks[images]

    def satisfiable(self, masks: Words) -> Flags:
        """Return which boxes a pair of rows can satisfy, in any table."""
        found = np.ones(len(masks), np.bool_)
        if self.has_cycle:
            related = self._related(masks)
            found[related] = self.hulls(masks[related])[1]
        return found

    def _related(self, masks: Words) -> Positions:
        """Return which boxes have enough predicates for another predicate to follow from them."""
        counts = np.zeros(len(masks), np.int64)
        predicates_kernel(np.ascontiguousarray(masks), self._every, self._layout, counts)
        return np.flatnonzero(counts >= FEWEST_PREDICATES)

    def hulls(self, masks: Words) -> tuple[Words, Flags]:
        """Return the hull of each box, and which boxes are satisfiable. O(predicates^3) each."""
        hulls, satisfiable = masks.copy(), np.ones(len(masks), np.bool_)
        if self.has_cycle:
            nodes = 2 * len(self._space.schema)
            order, apart = (np.zeros((nodes, nodes), np.uint8) for _ in range(2))
            scratch = Scratch(order, apart, np.full(nodes, -1), np.zeros(nodes, np.int64))
            boxes = np.ascontiguousarray(masks)
            hulls_kernel(boxes, self._every, self._layout, scratch, hulls, satisfiable)
        return hulls, satisfiable

    def wider(self, mask: Words, boxes: Words) -> Words | None:
        """Return a box, or the mirror image of a box, that forbids all pairs that `mask` forbids; None without any."""
        candidates = np.concatenate([boxes, self._other_images(boxes)])
        hull = self.hulls(mask[None])[0][0]
        found = candidates[~(hull & ~candidates).any(axis=1)]
        return found[0] if len(found) else None

    @cached_property
    def _layout(self) -> HullLayout:
        pairs = self._space.pairs
        word, left, right = np.array([(pair.offset // 64, pair.left, pair.right) for pair in pairs], np.int64).T.copy()
        pair_at = np.full((len(self._space.schema), len(self._space.schema)), -1, np.int64)
        pair_at[left, right] = np.arange(len(pairs))
        return HullLayout(
            np.searchsorted(word, np.arange(self._space.word_count + 1)).astype(np.int64),
            word,
            np.array([pair.offset % 64 for pair in pairs], np.uint64),
            np.array([(1 << pair.width) - 1 for pair in pairs], np.uint64),
            left,
            right,
            pair_at,
        )

    @cached_property
    def _crossing(self) -> Words:
        crossing = sum(pair.every for pair in self._space.pairs if pair.left != pair.right)
        return np.array(self._space.words(crossing), np.uint64)

    def _other_images(self, boxes: Words) -> Words:
        """Return the mirror images of boxes, where the space has them."""
        within = ((boxes & self._crossing) == self._crossing).all(axis=1)
        return mirrored(boxes[within], self._space)

    def _lie_in_others(self, hulls: Words, masks: Words) -> Flags:
        """Return which hulls lie in a box with another hull, or in its mirror image."""
        found = np.zeros(len(hulls), np.bool_)
        if not len(hulls):
            return found
        boxes = np.unique(np.concatenate([masks, self._other_images(masks)]), axis=0)
        left_out = self._every & ~boxes
        counts, chosen = np.zeros(64 * len(self._every), np.int64), np.empty(len(boxes), np.int64)
        count_kernel(left_out, counts)
        rarest_kernel(left_out, counts, chosen)
        members = np.argsort(chosen, kind="stable")
        start = np.searchsorted(chosen[members], np.arange(len(counts) + 1)).astype(np.int64)
        within_other_kernel(hulls, self._every, boxes, self.hulls(boxes)[0], start, members, found)
        return found

    def _smallest_texts(self, masks: Words, hulls: Words) -> Positions:
        """Return for each hull the position of the box with the smallest text."""
        _, classes, sizes = np.unique(as_items(hulls), return_inverse=True, return_counts=True)
        alone = sizes[classes] == 1
        best: dict[int, tuple[str, int]] = {}
        for i in np.flatnonzero(~alone).tolist():
            text = str(self._space.constraint(self._space.bits(masks[i])))
            best[int(classes[i])] = min(best.get(int(classes[i]), (text, i)), (text, i))
        return np.concatenate([np.flatnonzero(alone), np.array([i for _, i in best.values()], np.int64)])
