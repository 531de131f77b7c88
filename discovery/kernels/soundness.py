"""Counts pairs of rows that satisfy predicates, and those of them that satisfy one predicate more."""

import numpy as np
from numba import njit, uint64

from holdfast.tables.arrays import DenseCodes, Ints, Rows, Words

_ZERO = np.uint64(0)


@njit(cache=True, nogil=True)
def outcomes_kernel(
    left: DenseCodes, right: DenseCodes, t: Rows, s: Rows, is_ordered: bool, shift: int, out: Words
) -> None:
    """Add the outcomes of pairs of rows on one column pair to their evidences, from bit `shift` on."""
    at = uint64(shift)
    for i in range(len(t)):
        a, b = left[t[i]], right[s[i]]
        if is_ordered:
            out[i] |= (uint64(a < b) | uint64(a == b) << uint64(1) | uint64(a > b) << uint64(2)) << at
        else:
            out[i] |= (uint64(a == b) | uint64(a != b) << uint64(1)) << at


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
