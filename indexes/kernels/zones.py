"""A B+ tree of rows whose nodes know the least and the greatest code of every column below them: their *zones*.

Rows are sorted by (key, slot). The sort key of a row is any number that rows with similar codes share or have nearly
alike (the code of an equality column, a position on a curve through several columns), so that zones are narrow. Answers
do not depend on the keys.

Every leaf has the same depth. A full node is split in two and an empty node is freed; half-empty nodes are left alone.
Zones are exact at all times; weights are exact once `weigh_kernel` has seen the rows whose copies changed.
Where `copies` is empty every row counts once.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit, uint64

from holdfast.tables.arrays import Codes, Ints, Ints32

FANOUT = 16
DEPTH = 24
_DIGIT = 1 << 11
_LEAST = np.iinfo(np.int64).min
_GREATEST = np.iinfo(np.int64).max


class Tree(NamedTuple):
    """The arrays of one tree with N nodes of up to B entries over C columns.

    Parameters
    ----------
    size : (N,) the number of entries of each node, 0 for a free node.
    leaf : (N,) 1 where entries are slots, 0 where they are nodes.
    entry : (N, B) slots, or nodes.
    key : (N, B) the sort key of each entry: of the row, or of the first row below the node.
    first : (N, B) the slot of each entry: of the row, or of the first row below the node.
    zone : (N, 2, C) the least and the greatest code of each column.
    weight : (N,) the number of copies of the rows below.
    root : (3,) the root; the head of the list of freed nodes, linked by `entry[., 0]`, -1 where it is empty; the first
        node that was never used, all nodes from there on being free.
    """

    size: Ints
    leaf: Ints
    entry: Ints32
    key: Ints
    first: Ints32
    zone: Codes
    weight: Ints
    root: Ints


@njit(cache=True, nogil=True)
def _child(node: int, key: int, slot: int, tree: Tree) -> int:
    """Return the last entry of a node that does not sort after (key, slot), or 0."""
    size, keys_of, first = tree.size, tree.key, tree.first
    low, high = 0, size[node]
    while high - low > 1:
        middle = (low + high) // 2
        before = keys_of[node, middle] < key or (keys_of[node, middle] == key and first[node, middle] <= slot)
        if before:
            low = middle
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def _weigh(node: int, copies: Ints, tree: Tree) -> None:
    """Set the weight of a node from its entries."""
    size, leaf, entries, weight = tree.size, tree.leaf, tree.entry, tree.weight
    total = 0
    for i in range(size[node]):
        if not leaf[node]:
            total += weight[entries[node, i]]
        else:
            total += copies[entries[node, i]] if len(copies) else 1
    weight[node] = total


@njit(cache=True, nogil=True)
def _tighten(node: int, codes: Codes, copies: Ints, tree: Tree) -> None:
    """Set the zone and the weight of a node from its entries."""
    size, leaf, entries, zone = tree.size, tree.leaf, tree.entry, tree.zone
    _weigh(node, copies, tree)
    for k in range(codes.shape[1]):
        least, greatest = _GREATEST, _LEAST
        for i in range(size[node]):
            below = entries[node, i]
            if leaf[node]:
                least = min(least, codes[below, k])
                greatest = max(greatest, codes[below, k])
            else:
                least = min(least, zone[below, 0, k])
                greatest = max(greatest, zone[below, 1, k])
        zone[node, 0, k], zone[node, 1, k] = least, greatest


@njit(cache=True, nogil=True)
def _copy(node: int, i: int, target: int, j: int, tree: Tree) -> None:
    """Copy entry `i` of a node to position `j` of another node, or of the same node."""
    entries, keys_of, first = tree.entry, tree.key, tree.first
    entries[target, j] = entries[node, i]
    keys_of[target, j], first[target, j] = keys_of[node, i], first[node, i]


@njit(cache=True, nogil=True)
def _put(node: int, at: int, entry: int, key: int, slot: int, tree: Tree) -> None:
    """Insert an entry at position `at` of a node that is not full."""
    size, entries, keys_of, first = tree.size, tree.entry, tree.key, tree.first
    for i in range(size[node], at, -1):
        _copy(node, i - 1, node, i, tree)
    entries[node, at], keys_of[node, at], first[node, at] = entry, key, slot
    size[node] += 1


@njit(cache=True, nogil=True)
def _put_node(node: int, at: int, below: int, tree: Tree) -> None:
    """Insert a node as the entry at position `at` of a node that is not full."""
    keys_of, first = tree.key, tree.first
    _put(node, at, below, keys_of[below, 0], first[below, 0], tree)


@njit(cache=True, nogil=True)
def _new_node(tree: Tree) -> int:
    """Take a free node."""
    entries, root = tree.entry, tree.root
    node: int = root[1]
    if node >= 0:
        root[1] = entries[node, 0]
        return node
    node = root[2]
    root[2] += 1
    return node


@njit(cache=True, nogil=True)
def _free(node: int, tree: Tree) -> None:
    """Free a node."""
    size, entries, root = tree.size, tree.entry, tree.root
    size[node] = 0
    entries[node, 0] = root[1]
    root[1] = node


@njit(cache=True, nogil=True)
def _split(node: int, codes: Codes, copies: Ints, tree: Tree) -> int:
    """Move the upper half of a full node into a new node, and return the new node."""
    size, leaf = tree.size, tree.leaf
    new = _new_node(tree)
    keep = FANOUT // 2
    leaf[new] = leaf[node]
    size[new] = FANOUT - keep
    for i in range(FANOUT - keep):
        _copy(node, keep + i, new, i, tree)
    size[node] = keep
    _tighten(node, codes, copies, tree)
    _tighten(new, codes, copies, tree)
    return new


@njit(cache=True, nogil=True)
def insert_kernel(slots: Ints, keys: Codes, start: int, codes: Codes, copies: Ints, tree: Tree) -> int:
    """Insert the rows `slots[start:]` with their sort keys; return the position of the first row not inserted.

    Stops before a row that might need more nodes than are free.
    """
    size, leaf, entries, keys_of, first, zone, weight, root = tree
    path = np.empty(DEPTH, np.int64)
    taken = np.empty(DEPTH, np.int64)
    for i in range(start, len(slots)):
        if root[2] + DEPTH >= len(size):
            return i
        slot, key = slots[i], keys[i]
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
            at = _child(node, key, slot, tree)
            if keys_of[node, at] > key or (keys_of[node, at] == key and first[node, at] > slot):
                keys_of[node, at], first[node, at] = key, slot
            taken[depth] = at
            node = entries[node, at]
            depth += 1
        at = _child(node, key, slot, tree)
        if size[node] > 0 and (keys_of[node, at] < key or (keys_of[node, at] == key and first[node, at] < slot)):
            at += 1
        _put(node, at, slot, key, slot, tree)
        while size[node] == FANOUT:
            new = _split(node, codes, copies, tree)
            if depth == 0:
                top = _new_node(tree)
                leaf[top], size[top] = 0, 0
                _put_node(top, 0, node, tree)
                _put_node(top, 1, new, tree)
                _tighten(top, codes, copies, tree)
                root[0] = top
                break
            depth -= 1
            node = path[depth]
            _put_node(node, taken[depth] + 1, new, tree)
    return len(slots)


@njit(cache=True, nogil=True)
def remove_kernel(slots: Ints, keys: Codes, codes: Codes, copies: Ints, tree: Tree) -> int:
    """Remove rows, whose codes and keys are those they were inserted with; return how many rows were not found."""
    size, leaf, entries, keys_of, first, _, _, root = tree
    path = np.empty(DEPTH, np.int64)
    taken = np.empty(DEPTH, np.int64)
    missing = 0
    for i in range(len(slots)):
        slot, key = slots[i], keys[i]
        node, depth = root[0], 0
        while True:
            path[depth] = node
            taken[depth] = _child(node, key, slot, tree)
            if leaf[node]:
                break
            node = entries[node, taken[depth]]
            depth += 1
        if size[node] == 0 or entries[node, taken[depth]] != slot:
            missing += 1
            continue
        while True:
            node, at = path[depth], taken[depth]
            size[node] -= 1
            for j in range(at, size[node]):
                _copy(node, j + 1, node, j, tree)
            if size[node] > 0 or depth == 0:
                break
            _free(node, tree)
            depth -= 1
        if depth == 0 and size[root[0]] == 0:
            leaf[root[0]] = 1
        for level in range(depth, -1, -1):
            node = path[level]
            if level < depth:
                below = entries[node, taken[level]]
                keys_of[node, taken[level]] = keys_of[below, 0]
                first[node, taken[level]] = first[below, 0]
            _tighten(node, codes, copies, tree)
        while not leaf[root[0]] and size[root[0]] == 1:
            old = root[0]
            root[0] = entries[old, 0]
            _free(old, tree)
    return missing


@njit(cache=True, nogil=True)
def weigh_kernel(slots: Ints, keys: Codes, copies: Ints, tree: Tree) -> None:
    """Recompute the weights of all nodes above rows of the tree whose numbers of copies changed."""
    leaf, entries, root = tree.leaf, tree.entry, tree.root
    path = np.empty(DEPTH, np.int64)
    for i in range(len(slots)):
        node, depth = root[0], 0
        while True:
            path[depth] = node
            if leaf[node]:
                break
            node = entries[node, _child(node, keys[i], slots[i], tree)]
            depth += 1
        for level in range(depth, -1, -1):
            _weigh(path[level], copies, tree)


@njit(cache=True, nogil=True)
def build_kernel(slots: Ints, keys: Codes, codes: Codes, copies: Ints, tree: Tree) -> None:
    """Fill an empty tree with rows sorted by (key, slot); nodes become three quarters full."""
    size, leaf, entries, keys_of, first, zone, _, root = tree
    fill = FANOUT * 3 // 4
    used = 0
    for start in range(0, len(slots), fill):
        end = min(start + fill, len(slots))
        leaf[used], size[used] = 1, end - start
        least, greatest = zone[used, 0], zone[used, 1]
        least[:], greatest[:] = _GREATEST, _LEAST
        for i in range(start, end):  # row by row, as rows are anywhere in memory
            slot = slots[i]
            entries[used, i - start] = first[used, i - start] = slot
            keys_of[used, i - start] = keys[i]
            row = codes[slot]
            for k in range(codes.shape[1]):
                code = row[k]
                least[k] = min(least[k], code)
                greatest[k] = max(greatest[k], code)
        _weigh(used, copies, tree)
        used += 1
    if used == 0:
        leaf[0], used = 1, 1
        _tighten(0, codes, copies, tree)
    low = 0
    while used - low > 1:
        high = used
        for start in range(low, high, fill):
            leaf[used] = 0
            size[used] = min(start + fill, high) - start
            for i in range(size[used]):
                below = start + i
                entries[used, i], keys_of[used, i], first[used, i] = below, keys_of[below, 0], first[below, 0]
            _tighten(used, codes, copies, tree)
            used += 1
        low = high
    root[0], root[1], root[2] = used - 1, -1, used


@njit(cache=True, nogil=True)
def order_kernel(slots: Ints, keys: Codes, more_slots: Ints, more_keys: Codes) -> Any:
    """Sort ascending slots by (key, slot); return the slots and the keys, each in one of the two arrays given.

    A radix sort, eleven bits of the keys at a time, lowest bits first: each pass is stable.
    """
    low, high = keys[0], keys[0]
    for i in range(len(keys)):
        low, high = min(low, keys[i]), max(high, keys[i])
    reach = uint64(high) - uint64(low)
    shift = uint64(0)
    while shift < uint64(64) and reach >> shift:
        at = np.zeros(_DIGIT + 1, np.int64)
        for i in range(len(keys)):
            at[((uint64(keys[i]) - uint64(low)) >> shift & uint64(_DIGIT - 1)) + uint64(1)] += 1
        for digit in range(_DIGIT):
            at[digit + 1] += at[digit]
        for i in range(len(keys)):
            digit = (uint64(keys[i]) - uint64(low)) >> shift & uint64(_DIGIT - 1)
            more_slots[at[digit]], more_keys[at[digit]] = slots[i], keys[i]
            at[digit] += 1
        slots, more_slots = more_slots, slots
        keys, more_keys = more_keys, keys
        shift += uint64(11)
    return slots, keys
