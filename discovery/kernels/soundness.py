"""Counts pairs of rows that satisfy predicates, and those of them that satisfy one predicate more."""

import numpy as np
from numba import njit

from holdfast.tables.arrays import Ints, Words

_ZERO = np.uint64(0)


@njit(cache=True, nogil=True)
def rates_kernel(words: Words, others: Words, last: Words, out: Ints) -> None:
    """Count for each of k questions the pairs that satisfy some predicates, and of these those that satisfy another.

    Parameters
    ----------
    words : (m, W) the evidence of each pair.
    others, last : (k, W) masks: the predicates, and the other predicate.
    out : (k, 2) the two numbers of pairs of each question.
    """
    for question in range(len(others)):
        satisfied = with_last = 0
        for e in range(len(words)):
            outside = _ZERO
            for w in range(words.shape[1]):
                outside |= words[e, w] & ~others[question, w]
            if outside != _ZERO:
                continue
            satisfied += 1
            for w in range(words.shape[1]):
                outside |= words[e, w] & ~last[question, w]
            if outside == _ZERO:
                with_last += 1
        out[question, 0] = satisfied
        out[question, 1] = with_last
