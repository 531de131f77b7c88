"""Masks of denial constraints and evidences as outcomes, column pair by column pair, and back."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.constraints import PredicateSpace
from holdfast.constraints.operators import EQUAL, EVERY_OUTCOME, GREATER, LESS
from holdfast.tables.arrays import Outcomes, Words


def outcomes_of(masks: Words, space: PredicateSpace) -> Outcomes:
    """Return (P, k): the outcomes that each of k masks allows on each column pair.

    >>> from holdfast.constraints import Column, Schema, parse_denial
    >>> from holdfast.constraints.types import FLOAT, STRING
    >>> space = PredicateSpace(Schema("tax", (Column("State", STRING), Column("Rate", FLOAT))))
    >>> mask = space.mask(parse_denial("not(t.State = s.State and t.Rate < s.Rate)"))
    >>> outcomes_of(np.array([space.words(mask)], np.uint64), space).tolist() == [[EQUAL], [LESS]]
    True
    """
    found = np.empty((len(space.pairs), len(masks)), np.int8)
    if not len(masks):
        return found
    unordered = np.array([0, EQUAL, LESS | GREATER, EVERY_OUTCOME], np.int8)
    for p, pair in enumerate(space.pairs):
        bits = masks[:, pair.offset // 64] >> np.uint64(pair.offset % 64) & np.uint64((1 << pair.width) - 1)
        found[p] = bits if pair.ordered else unordered[bits.astype(np.int64)]
    return found


def words_of(outcomes: Outcomes, space: PredicateSpace) -> Words:
    """Return masks by the outcomes (P, k) that they allow, or evidences by the outcomes that they have.

    On pairs without an order both `<` and `>` stand for `!=`.
    """
    words = np.zeros((outcomes.shape[1], space.word_count), np.uint64)
    unordered = np.array([(o & EQUAL) >> 1 | (2 if o & (LESS | GREATER) else 0) for o in range(8)], np.uint64)
    for pair, allowed in zip(space.pairs, outcomes, strict=True):
        bits = allowed.astype(np.uint64) if pair.ordered else unordered[allowed]
        words[:, pair.offset // 64] |= bits << np.uint64(pair.offset % 64)
    return words


def seen_in(words: Words, here: PredicateSpace, there: PredicateSpace) -> Words:
    """Return masks or evidences of one space as masks or evidences of another space over the same columns.

    Column pairs that only the other space has allow every outcome; an order that it does not have is forgotten.
    """
    if here == there:
        return words
    outcomes = outcomes_of(words, here)
    place = {(pair.left, pair.right): p for p, pair in enumerate(here.pairs)}
    seen = np.full((len(there.pairs), len(words)), EVERY_OUTCOME, np.int8)
    for p, pair in enumerate(there.pairs):
        if (pair.left, pair.right) in place:
            seen[p] = outcomes[place[pair.left, pair.right]]
    return words_of(seen, there)


def as_items(masks: Words) -> NDArray[Any]:
    """Return each mask as one item, for set operations."""
    masks = np.ascontiguousarray(masks)
    if masks.shape[1] == 1:
        return masks.reshape(-1)
    return masks.view(np.dtype((np.void, masks.shape[1] * 8))).reshape(-1)
