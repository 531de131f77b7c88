"""Distinct evidences in a hash table with open addressing, each with a few pairs of rows that have it."""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numba import njit, uint64

from holdfast.tables.arrays import Codes, Flags, Ints, SlotPairs, Words

Word: TypeAlias = Any
"""One 64-bit word: `uint64` when compiled."""

_ZERO = np.uint64(0)
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


class Layout(NamedTuple):
    """The column pairs of a space, and where evidences have their outcomes.

    Parameters
    ----------
    left, right : (P,) the column of t and the column of s.
    ordered : (P,) whether the pair has the outcomes <, =, > in three bits; else =, != in two.
    word, shift : (P,) the word, and the position in the word, of the lowest bit.
    """

    left: Ints
    right: Ints
    ordered: Flags
    word: Ints
    shift: Ints


class EvidenceArrays(NamedTuple):
    """The arrays of one hash table with S places, a power of two, for evidences of W words with up to K pairs each.

    Parameters
    ----------
    words : (S, W) the evidences; the first word is 0 in a free place, and never 0 in an evidence.
    pairs : (S, K, 2) pairs of rows (t, s).
    filled : (S,) the number of pairs of each evidence; empty where K is 1.
    held : (1,) the number of evidences.
    """

    words: Words
    pairs: SlotPairs
    filled: Ints
    held: Ints


@njit(cache=True, nogil=True)
def hash_kernel(key: Words) -> Word:
    """Return the hash of an evidence."""
    mixed: Word = _ZERO
    for w in range(len(key)):
        mixed = (mixed ^ key[w]) * _MULTIPLIER
        mixed ^= mixed >> uint64(29)
    return mixed


@njit(cache=True, nogil=True)
def place_kernel(key: Words, hashed: Word, words: Words) -> Word:
    """Return the place of an evidence, given its hash, or the free place where the evidence belongs."""
    last = uint64(len(words) - 1)
    place = hashed & last
    while words[place, 0] != _ZERO:
        same = True
        for w in range(len(key)):
            same &= words[place, w] == key[w]
        if same:
            break
        place = (place + uint64(1)) & last
    return place


@njit(cache=True, nogil=True)
def take_kernel(place: Word, key: Words, t: int, s: int, words: Words, pairs: SlotPairs) -> int:
    """Write an evidence and its first pair into a free place; return 1, by which `held` grows."""
    for w in range(len(key)):
        words[place, w] = key[w]
    pairs[place, 0, 0], pairs[place, 0, 1] = t, s
    return 1


@njit(cache=True, nogil=True)
def insert_kernel(key: Words, t: int, s: int, table: EvidenceArrays) -> None:
    """Insert an evidence with a pair that has it.

    Where the evidence is in the table, the pair is added unless K pairs are, or a pair that shares a row with it.
    """
    words, pairs, filled, held = table
    place = place_kernel(key, hash_kernel(key), words)
    if words[place, 0] == _ZERO:
        held[0] += take_kernel(place, key, t, s, words, pairs)
        if len(filled):
            filled[place] = 1
    elif len(filled):
        _add_pair(place, t, s, pairs, filled)


@njit(cache=True, nogil=True)
def _add_pair(place: int, t: int, s: int, pairs: SlotPairs, filled: Ints) -> None:
    """Add a pair to the evidence at a place, if there is room and no pair there has t or s."""
    count = filled[place]
    if count == pairs.shape[1]:
        return
    for k in range(count):
        if t in (pairs[place, k, 0], pairs[place, k, 1]) or s in (pairs[place, k, 0], pairs[place, k, 1]):
            return
    pairs[place, count, 0], pairs[place, count, 1] = t, s
    filled[place] = count + 1


@njit(cache=True, nogil=True)
def insert_all_kernel(words: Words, pairs: Ints, table: EvidenceArrays) -> None:
    """Insert evidences with a pair each, for which there is room."""
    for i in range(len(words)):
        insert_kernel(words[i], pairs[i, 0], pairs[i, 1], table)


@njit(cache=True, nogil=True)
def rehash_kernel(table: EvidenceArrays, larger: EvidenceArrays) -> None:
    """Copy all evidences and pairs into a larger table that is empty."""
    last = uint64(len(larger.words) - 1)
    for i in range(len(table.words)):
        if table.words[i, 0] != _ZERO:
            place = hash_kernel(table.words[i]) & last
            while larger.words[place, 0] != _ZERO:
                place = (place + uint64(1)) & last
            larger.words[place] = table.words[i]
            larger.pairs[place] = table.pairs[i]
            if len(table.filled):
                larger.filled[place] = table.filled[i]
    larger.held[0] = table.held[0]


@njit(cache=True, nogil=True)
def evidence_kernel(t: int, s: int, codes: Codes, layout: Layout, key: Words) -> None:
    """Write the evidence of the rows (t, s) into `key`."""
    left, right, ordered, word, shift = layout
    key[:] = _ZERO
    for p in range(len(left)):
        a, b = codes[t, left[p]], codes[s, right[p]]
        if ordered[p]:
            outcome = uint64(1) if a < b else (uint64(2) if a == b else uint64(4))
        else:
            outcome = uint64(1) if a == b else uint64(2)
        key[word[p]] |= outcome << uint64(shift[p])


@njit(cache=True, nogil=True)
def listed_kernel(pairs: SlotPairs, start: int, codes: Codes, layout: Layout, table: EvidenceArrays) -> int:
    """Insert the evidences of listed pairs from number `start` on; return the number of the first not inserted.

    Stops where the table is half full.
    """
    key = np.empty(table.words.shape[1], np.uint64)
    for i in range(start, len(pairs)):
        if table.held[0] * 2 >= len(table.words):
            return i
        evidence_kernel(pairs[i, 0], pairs[i, 1], codes, layout, key)
        insert_kernel(key, pairs[i, 0], pairs[i, 1], table)
    return len(pairs)
