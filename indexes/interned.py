"""Byte strings, each with a number: its code. Codes are given in the order of first appearance.

All bytes are in one array, and strings are found by a hash table of codes (`kernels/texts.py`): a string takes about 40
bytes besides its own.

Invariant: a code has at most one string, and a string at most one code.
"""

import numpy as np
import pyarrow as pa

from holdfast.indexes.growing import doubled, with_room
from holdfast.indexes.kernels.texts import (
    EMPTY,
    FREE,
    TextTable,
    find_texts_kernel,
    gather_texts_kernel,
    hash_texts_kernel,
    put_texts_kernel,
)
from holdfast.tables.arrays import Bytes, Codes

_FEWEST = 1 << 10
_ROOM = 2.5  # places for each string when the table is built; below 2 it is rebuilt


class Interned:
    """Byte strings and their codes.

    - Looking up: `intern`, `binaries`, `gathered`, `sizes`, `held`
    - Changing: `intern`, `free`, `forget_after`, `replace`
    """

    def __init__(self) -> None:
        self.data: Bytes = np.zeros(_FEWEST, np.uint8)
        self.start: Codes = np.zeros(_FEWEST, np.int64)
        self.size: Codes = np.full(_FEWEST, FREE, np.int64)
        self.used = 0
        self._end = 0
        self._table = np.full(_FEWEST, EMPTY, np.int32)
        self._free: list[int] = []

    def __len__(self) -> int:
        return self.used - len(self._free)

    @property
    def nbytes(self) -> int:
        """The bytes of memory that the strings take."""
        return int(self.data.nbytes + self.start.nbytes + self.size.nbytes + self._table.nbytes)

    @property
    def _texts(self) -> TextTable:
        return TextTable(self.data, self.start, self.size, self._table)

    def held(self) -> Codes:
        """Return the codes that have a string, ascending. O(codes)."""
        return np.flatnonzero(self.size[: self.used] != FREE)

    def intern(self, strings: pa.Array) -> tuple[Codes, Codes]:
        """Return the code of each string, and the codes of the strings that are new. Amortised O(bytes)."""
        given, bounds = _bytes_of(strings)
        codes = np.empty(len(strings), np.int64)
        find_texts_kernel(given, bounds, self._texts, codes)
        new = np.flatnonzero(codes < 0)
        if not len(new):
            return codes, new
        reused = min(len(new), len(self._free))
        fresh = self.used + np.arange(len(new) - reused)
        offered = np.concatenate([np.array(self._free[len(self._free) - reused :][::-1], np.int64), fresh])
        self._make_room(self.used + len(fresh), self._end + int((bounds[new + 1] - bounds[new]).sum()), len(new))
        out = np.empty(len(new), np.int64)
        taken = put_texts_kernel(given, bounds, new, offered, self._end, self._texts, out)
        codes[new] = out
        given_out = offered[:taken]
        del self._free[len(self._free) - min(taken, reused) :]
        self.used += max(taken - reused, 0)
        self._end += int(self.size[given_out].sum())
        return codes, given_out

    def free(self, codes: Codes) -> None:
        """Free codes, and close the gaps between the other strings. O(strings)."""
        if not len(codes):
            return
        self.size[codes] = FREE
        self._free.extend(codes.tolist())
        held = self.held()
        self._take_over(held, self.size[held], self.gathered(held))

    def forget_after(self, count: int) -> None:
        """Forget the strings of all codes from `count` on; no code was freed before. O(strings)."""
        assert not self._free
        self.size[count : self.used] = FREE
        self.used = count
        held = self.held()
        self._take_over(held, self.size[held], self.gathered(held))

    def replace(self, data: Bytes, start: Codes, size: Codes) -> None:
        """Replace all strings: code c has the string at `start[c]` of `data`, or none where its size is FREE."""
        self.data, self.start, self.size, self.used = data, start, size, len(size)
        self._free = np.flatnonzero(size == FREE)[::-1].tolist()
        held = self.held()
        self._take_over(held, size[held], self.gathered(held))

    def gathered(self, codes: Codes) -> Bytes:
        """Return the bytes of some strings, in the order of `codes`. O(bytes)."""
        gathered = np.empty(int(self.size[codes].sum()), np.uint8)
        gather_texts_kernel(self.data, self.start, self.size, codes, gathered)
        return gathered

    def binaries(self, codes: Codes) -> pa.Array:
        """Return the strings of some codes as an Arrow array of large binaries. O(bytes)."""
        bounds = np.concatenate([[0], np.cumsum(self.size[codes])]).astype(np.int64)
        buffers = [None, pa.py_buffer(bounds), pa.py_buffer(self.gathered(codes))]
        return pa.Array.from_buffers(pa.large_binary(), len(codes), buffers)

    def one(self, code: int) -> bytes:
        """Return the string of a code."""
        start = int(self.start[code])
        return self.data[start : start + int(self.size[code])].tobytes()

    def _make_room(self, codes: int, size: int, more: int) -> None:
        """Make room for codes and bytes, and in the hash table for `more` strings. Amortised O(1) each."""
        self.start, self.size = with_room(self.start, codes), with_room(self.size, codes, FREE)
        self.data = with_room(self.data, size)
        if 2 * (len(self) + more) > len(self._table):
            self._hash(len(self) + more)

    def _take_over(self, codes: Codes, sizes: Codes, data: Bytes) -> None:
        """Replace all strings by these, whose bytes follow each other."""
        self.data, self._end = data, len(data)
        self.start[codes] = np.cumsum(sizes) - sizes
        self._hash(len(codes))

    def _hash(self, room: int) -> None:
        """Rebuild the hash table, with room for `room` strings and some more."""
        self._table = np.full(doubled(_FEWEST, _ROOM * room), EMPTY, np.int32)
        hash_texts_kernel(self.held(), self._texts)


def _bytes_of(strings: pa.Array) -> tuple[Bytes, Codes]:
    """Return the bytes of some strings, and where each begins and the last one ends."""
    strings = strings.cast(pa.large_binary())
    _, bounds, data = strings.buffers()
    within = np.frombuffer(bounds, np.int64)[strings.offset : strings.offset + len(strings) + 1]
    return np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8), within
