"""A B+ tree of rows whose nodes know the least and the greatest code of every column below them: its *zone*.

Rows are in the order of (place, slot): `place` is any number that rows near each other share or have alike (the code
of an equality column, a place on a curve through several columns), so that zones are tight; the answers do not depend
on it.

    size    (N,)       int64   entries of each node, 0 where it is free
    leaf    (N,)       int64   1 where entries are slots, 0 where they are nodes
    entry   (N, B)     int32   slots, or nodes
    place   (N, B)     int64   place of each entry: a row's, or the first row's below the node
    first   (N, B)     int32   slot of each entry: the row, or the first row below the node
    zone    (N, 2, C)  int64   least and greatest code of each column
    weight  (N,)       int64   copies of the rows below
    root    (3,)       int64   the root, the head of the list of nodes given back (linked by `entry[., 0]`; -1), and the
                               first node that was never used: those behind it are free too

Every leaf is at the same depth. A node is split in two when it is full, and given back when it is empty; half-empty
nodes are left alone. Zones are exact at all times, weights once rows whose copies changed were told (`weigh_kernel`).
Where `copies` is empty every row counts as one.
"""

from typing import Any

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

Codes = NDArray[np.int64]
Ints = NDArray[np.int64]
Entries = NDArray[np.int32]

FANOUT = 16
DEPTH = 24
_DIGIT = 1 << 11
_LEAST = np.iinfo(np.int64).min
_GREATEST = np.iinfo(np.int64).max


@njit(cache=True, nogil=True)
def _child(node: int, place: int, slot: int, size: Ints, places: Codes, first: Entries) -> int:
    """Return the last entry that is not behind (place, slot), or 0."""
    low, high = 0, size[node]
    while high - low > 1:
        middle = (low + high) // 2
        before = places[node, middle] < place or (places[node, middle] == place and first[node, middle] <= slot)
        if before:
            low = middle
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def _weigh(node: int, copies: Ints, size: Ints, leaf: Ints, entry: Entries, weight: Ints) -> None:
    """Compute a node's weight from its entries."""
    total = 0
    for i in range(size[node]):
        if not leaf[node]:
            total += weight[entry[node, i]]
        else:
            total += copies[entry[node, i]] if len(copies) else 1
    weight[node] = total


@njit(cache=True, nogil=True)
def _tighten(
    node: int, codes: Codes, copies: Ints, size: Ints, leaf: Ints, entry: Entries, zone: Codes, weight: Ints
) -> None:
    """Compute a node's zone and weight from its entries."""
    _weigh(node, copies, size, leaf, entry, weight)
    for k in range(codes.shape[1]):
        least, greatest = _GREATEST, _LEAST
        for i in range(size[node]):
            below = entry[node, i]
            if leaf[node]:
                least = min(least, codes[below, k])
                greatest = max(greatest, codes[below, k])
            else:
                least = min(least, zone[below, 0, k])
                greatest = max(greatest, zone[below, 1, k])
        zone[node, 0, k], zone[node, 1, k] = least, greatest


@njit(cache=True, nogil=True)
def _put(
    node: int, at: int, what: int, place: int, slot: int, size: Ints, entry: Entries, places: Codes, first: Entries
) -> None:
    """Put an entry into a node that has room."""
    for i in range(size[node], at, -1):
        entry[node, i], places[node, i], first[node, i] = entry[node, i - 1], places[node, i - 1], first[node, i - 1]
    entry[node, at], places[node, at], first[node, at] = what, place, slot
    size[node] += 1


@njit(cache=True, nogil=True)
def _new_node(entry: Entries, root: Ints) -> int:
    """Return a free node."""
    node: int = root[1]
    if node >= 0:
        root[1] = entry[node, 0]
        return node
    node = root[2]
    root[2] += 1
    return node


@njit(cache=True, nogil=True)
def _give_back(node: int, size: Ints, entry: Entries, root: Ints) -> None:
    """Free a node."""
    size[node] = 0
    entry[node, 0] = root[1]
    root[1] = node


@njit(cache=True, nogil=True)
def _split(
    node: int,
    codes: Codes,
    copies: Ints,
    size: Ints,
    leaf: Ints,
    entry: Entries,
    places: Codes,
    first: Entries,
    zone: Codes,
    weight: Ints,
    root: Ints,
) -> int:
    """Give the upper half of a full node to a new one, and return that."""
    new = _new_node(entry, root)
    keep = FANOUT // 2
    leaf[new] = leaf[node]
    size[new] = FANOUT - keep
    for i in range(FANOUT - keep):
        entry[new, i], places[new, i], first[new, i] = (
            entry[node, keep + i],
            places[node, keep + i],
            first[node, keep + i],
        )
    size[node] = keep
    _tighten(node, codes, copies, size, leaf, entry, zone, weight)
    _tighten(new, codes, copies, size, leaf, entry, zone, weight)
    return new


@njit(cache=True, nogil=True)
def insert_kernel(
    slots: Ints,
    of_slots: Codes,
    start: int,
    codes: Codes,
    copies: Ints,
    size: Ints,
    leaf: Ints,
    entry: Entries,
    places: Codes,
    first: Entries,
    zone: Codes,
    weight: Ints,
    root: Ints,
) -> int:
    """Insert rows from number `start` on, `of_slots` their places; return the number to go on with.

    Stops where a row might need more nodes than are free.
    """
    path = np.empty(DEPTH, np.int64)
    taken = np.empty(DEPTH, np.int64)
    for i in range(start, len(slots)):
        if root[2] + DEPTH >= len(size):
            return i
        slot, place = slots[i], of_slots[i]
        node, depth = root[0], 0
        while True:
            for k in range(codes.shape[1]):
                code = codes[slot, k]
                zone[node, 0, k] = min(zone[node, 0, k], code)
                zone[node, 1, k] = max(zone[node, 1, k], code)
            weight[node] += copies[slot] if len(copies) else 1
            path[depth] = node
            if leaf[node]:
                break
            at = _child(node, place, slot, size, places, first)
            if places[node, at] > place or (places[node, at] == place and first[node, at] > slot):
                places[node, at], first[node, at] = place, slot
            taken[depth] = at
            node = entry[node, at]
            depth += 1
        at = _child(node, place, slot, size, places, first)
        if size[node] > 0 and (places[node, at] < place or (places[node, at] == place and first[node, at] < slot)):
            at += 1
        _put(node, at, slot, place, slot, size, entry, places, first)
        while size[node] == FANOUT:
            new = _split(node, codes, copies, size, leaf, entry, places, first, zone, weight, root)
            if depth == 0:
                top = _new_node(entry, root)
                leaf[top], size[top] = 0, 0
                _put(top, 0, node, places[node, 0], first[node, 0], size, entry, places, first)
                _put(top, 1, new, places[new, 0], first[new, 0], size, entry, places, first)
                _tighten(top, codes, copies, size, leaf, entry, zone, weight)
                root[0] = top
                break
            depth -= 1
            _put(path[depth], taken[depth] + 1, new, places[new, 0], first[new, 0], size, entry, places, first)
            node = path[depth]
    return len(slots)


@njit(cache=True, nogil=True)
def remove_kernel(
    slots: Ints,
    of_slots: Codes,
    codes: Codes,
    copies: Ints,
    size: Ints,
    leaf: Ints,
    entry: Entries,
    places: Codes,
    first: Entries,
    zone: Codes,
    weight: Ints,
    root: Ints,
) -> int:
    """Take rows out that are there, codes and places as they were put in; return how many were not found."""
    path = np.empty(DEPTH, np.int64)
    taken = np.empty(DEPTH, np.int64)
    missing = 0
    for i in range(len(slots)):
        slot, place = slots[i], of_slots[i]
        node, depth = root[0], 0
        while True:
            path[depth] = node
            taken[depth] = _child(node, place, slot, size, places, first)
            if leaf[node]:
                break
            node = entry[node, taken[depth]]
            depth += 1
        if size[node] == 0 or entry[node, taken[depth]] != slot:
            missing += 1
            continue
        while True:
            node, at = path[depth], taken[depth]
            size[node] -= 1
            for j in range(at, size[node]):
                entry[node, j], places[node, j], first[node, j] = (
                    entry[node, j + 1],
                    places[node, j + 1],
                    first[node, j + 1],
                )
            if size[node] > 0 or depth == 0:
                break
            _give_back(node, size, entry, root)
            depth -= 1
        if depth == 0 and size[root[0]] == 0:
            leaf[root[0]] = 1
        for level in range(depth, -1, -1):
            node = path[level]
            if level < depth:
                below = entry[node, taken[level]]
                places[node, taken[level]], first[node, taken[level]] = places[below, 0], first[below, 0]
            _tighten(node, codes, copies, size, leaf, entry, zone, weight)
        while not leaf[root[0]] and size[root[0]] == 1:
            old = root[0]
            root[0] = entry[old, 0]
            _give_back(old, size, entry, root)
    return missing


@njit(cache=True, nogil=True)
def weigh_kernel(
    slots: Ints,
    of_slots: Codes,
    copies: Ints,
    size: Ints,
    leaf: Ints,
    entry: Entries,
    places: Codes,
    first: Entries,
    weight: Ints,
    root: Ints,
) -> None:
    """Compute the weights above rows that are there anew: the numbers of their copies have changed."""
    path = np.empty(DEPTH, np.int64)
    for i in range(len(slots)):
        node, depth = root[0], 0
        while True:
            path[depth] = node
            if leaf[node]:
                break
            node = entry[node, _child(node, of_slots[i], slots[i], size, places, first)]
            depth += 1
        for level in range(depth, -1, -1):
            _weigh(path[level], copies, size, leaf, entry, weight)


@njit(cache=True, nogil=True)
def build_kernel(
    slots: Ints,
    of_slots: Codes,
    codes: Codes,
    copies: Ints,
    size: Ints,
    leaf: Ints,
    entry: Entries,
    places: Codes,
    first: Entries,
    zone: Codes,
    weight: Ints,
    root: Ints,
) -> None:
    """Fill an empty tree with rows in the order of (place, slot); nodes are three quarters full."""
    fill = FANOUT * 3 // 4
    used = 0
    for start in range(0, len(slots), fill):
        end = min(start + fill, len(slots))
        leaf[used], size[used] = 1, end - start
        least, greatest = zone[used, 0], zone[used, 1]
        least[:], greatest[:] = _GREATEST, _LEAST
        for i in range(start, end):  # row by row: they lie anywhere
            slot = slots[i]
            entry[used, i - start], places[used, i - start], first[used, i - start] = slot, of_slots[i], slot
            row = codes[slot]
            for k in range(codes.shape[1]):
                code = row[k]
                least[k] = min(least[k], code)
                greatest[k] = max(greatest[k], code)
        _weigh(used, copies, size, leaf, entry, weight)
        used += 1
    if used == 0:
        leaf[0], used = 1, 1
        _tighten(0, codes, copies, size, leaf, entry, zone, weight)
    low = 0
    while used - low > 1:
        high = used
        for start in range(low, high, fill):
            leaf[used] = 0
            for i in range(start, min(start + fill, high)):
                _put(used, i - start, i, places[i, 0], first[i, 0], size, entry, places, first)
            _tighten(used, codes, copies, size, leaf, entry, zone, weight)
            used += 1
        low = high
    root[0], root[1], root[2] = used - 1, -1, used


@njit(cache=True, nogil=True)
def order_kernel(slots: Ints, of_slots: Codes, more_slots: Ints, more_places: Codes) -> Any:
    """Put ascending slots into the order of (place, slot); return the two of the pairs of arrays that have it.

    Eleven bits of the places at a time, the last ones first: each pass leaves rows that are alike as they were.
    """
    low, high = of_slots[0], of_slots[0]
    for i in range(len(of_slots)):
        low, high = min(low, of_slots[i]), max(high, of_slots[i])
    reach = uint64(high) - uint64(low)
    shift = uint64(0)
    while shift < uint64(64) and reach >> shift:
        at = np.zeros(_DIGIT + 1, np.int64)
        for i in range(len(of_slots)):
            at[((uint64(of_slots[i]) - uint64(low)) >> shift & uint64(_DIGIT - 1)) + uint64(1)] += 1
        for digit in range(_DIGIT):
            at[digit + 1] += at[digit]
        for i in range(len(of_slots)):
            digit = (uint64(of_slots[i]) - uint64(low)) >> shift & uint64(_DIGIT - 1)
            more_slots[at[digit]], more_places[at[digit]] = slots[i], of_slots[i]
            at[digit] += 1
        slots, more_slots = more_slots, slots
        of_slots, more_places = more_places, of_slots
        shift += uint64(11)
    return slots, of_slots
