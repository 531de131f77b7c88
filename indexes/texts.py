"""Strings without an order: a number for each distinct one, in the order of first appearance, and again once free.

They lie as UTF-8 in one array, and are found by a hash table of their codes (`kernels/texts.py`): a million of them
take some 40 bytes each besides their own, and a restart copies arrays.

Invariant: a code has at most one text, and a text at most one code.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdfast.constraints import Column, Value
from holdfast.indexes.kernels.texts import (
    EMPTY,
    FREE,
    find_texts_kernel,
    gather_texts_kernel,
    hash_texts_kernel,
    put_texts_kernel,
)
from holdfast.state import codecs
from holdfast.state.pieces import Pieces
from holdfast.state.store import Store, WriteBatch
from holdfast.tables import EncodedColumn

Codes = NDArray[np.int64]

NULL = np.iinfo(np.int64).min
_FEWEST = 1 << 10
_FEW_KEPT = 10_000
_SHARED = 12


class Texts:
    """The strings of one table."""

    def __init__(self) -> None:
        self._data = np.zeros(_FEWEST, np.uint8)
        self._end = 0
        self._start: Codes = np.zeros(_FEWEST, np.int64)
        self._size: Codes = np.full(_FEWEST, FREE, np.int64)
        self._table = np.full(_FEWEST, EMPTY, np.int32)
        self._used = 0
        self._free: list[int] = []
        self._kept = _FEW_KEPT
        self._seen: pa.Array = None
        self._seen_codes: Codes = np.zeros(0, np.int64)
        self._pieces = Pieces("values")
        self._changed: list[Codes] = [np.zeros(0, np.int64)]

    def __len__(self) -> int:
        return self._used - len(self._free)

    @property
    def is_wasteful(self) -> bool:
        """Whether as many have come as there were before."""
        return len(self) > 2 * self._kept

    def codes(self, column: EncodedColumn) -> Codes:
        """Return codes of a column of the domain; new strings get one."""
        dictionary = column.dictionary
        assert dictionary is not None
        if not len(dictionary):
            return np.zeros(len(column), np.int64)
        if len(dictionary) <= _SHARED * len(column):  # about all of it is used, by this column or the next one
            if self._seen is not dictionary:
                self._seen, self._seen_codes = dictionary, self._coded(dictionary)
            return np.asarray(self._seen_codes[column.keys])
        used, places = np.unique(column.keys, return_inverse=True)
        return np.asarray(self._coded(dictionary.take(pa.array(used)))[places])

    def values(self, codes: Codes, _column: Column) -> list[Value]:
        """Return the strings of codes."""
        return [None if code == NULL else self._text(code) for code in codes.tolist()]

    def array(self, codes: Codes) -> pa.Array:
        """Return the strings of codes, none of them null, as an Arrow array. O(bytes)."""
        bounds = np.concatenate([[0], np.cumsum(self._size[codes])]).astype(np.int64)
        buffers = [None, pa.py_buffer(bounds), pa.py_buffer(self._gathered(codes))]
        return pa.Array.from_buffers(pa.large_string(), len(codes), buffers)

    def keep(self, codes: Codes) -> None:
        """Forget all strings but those of some codes. O(codes + strings)."""
        self._seen = None
        kept = np.zeros(self._used, np.bool_)
        for column in codes.T:
            kept[column[column != NULL]] = True
        gone = np.flatnonzero(~kept & (self._size[: self._used] != FREE))
        self._kept = max(len(self) - len(gone), _FEW_KEPT)
        if not len(gone):
            return
        self._changed.append(gone)
        self._size[gone] = FREE
        self._free.extend(gone.tolist())
        held = self._held()
        self._take_over(held, self._size[held], self._gathered(held))

    def save(self, prefix: bytes, *, everything: bool) -> Iterator[WriteBatch]:
        """Yield what changed since it was last saved, or everything, in batches of bounded size."""
        if everything:
            yield from self._pieces.save_all(prefix + b"t", self._held(), self._stored)
        else:
            changed = np.unique(np.concatenate(self._changed))
            yield from self._pieces.save(prefix + b"t", changed, lambda codes: self._size[codes] != FREE, self._stored)
        self._changed = [np.zeros(0, np.int64)]

    def restore(self, store: Store, prefix: bytes) -> None:
        """Take over what was saved. O(strings)."""
        found = list(self._pieces.restore(store, prefix + b"t"))
        codes = [piece.records for piece, _ in found]
        ends = [piece.ended for piece, _ in found]
        used = max((int(numbers.max(initial=-1)) for numbers in codes), default=-1) + 1
        source = np.full(used, FREE, np.int64)  # where the last text of each code lies in all that was found
        size = np.full(used, FREE, np.int64)
        parts: list[NDArray[np.uint8]] = [np.zeros(0, np.uint8)]
        end = 0
        for records, ended, (_, stored) in zip(codes, ends, found, strict=True):
            sizes = codecs.read_codes(stored[: 8 * len(records)])
            parts.append(np.frombuffer(stored, np.uint8, offset=8 * len(records)))
            size[records], source[records] = sizes, end + np.cumsum(sizes) - sizes
            size[ended[ended < used]] = FREE
            end += len(parts[-1])
        del found
        self._data, self._start, self._size, self._used = np.concatenate(parts), source, size, used
        self._free = np.flatnonzero(size == FREE)[::-1].tolist()
        held = self._held()
        self._kept = max(len(held), _FEW_KEPT)
        self._take_over(held, size[held], self._gathered(held))

    def check_saved(self) -> None:
        """Assert that what was saved last gives the strings."""
        self._pieces.check_invariants(self._held())

    def _coded(self, texts: pa.Array) -> Codes:
        """Return the codes of some strings; new ones get one."""
        given, bounds = _bytes_of(texts)
        codes = np.empty(len(texts), np.int64)
        find_texts_kernel(given, bounds, self._data, self._start, self._size, self._table, codes)
        new = np.flatnonzero(codes < 0)
        if not len(new):
            return codes
        reused = min(len(new), len(self._free))
        fresh = self._used + np.arange(len(new) - reused)
        offered = np.concatenate([np.array(self._free[len(self._free) - reused :][::-1], np.int64), fresh])
        self._make_room(self._used + len(fresh), self._end + int((bounds[new + 1] - bounds[new]).sum()), len(new))
        out = np.empty(len(new), np.int64)
        arrays = (self._data, self._start, self._size, self._table)
        taken = put_texts_kernel(given, bounds, new, offered, self._end, *arrays, out)
        codes[new] = out
        given_out = offered[:taken]
        del self._free[len(self._free) - min(taken, reused) :]
        self._used += max(taken - reused, 0)
        self._end += int(self._size[given_out].sum())
        self._changed.append(given_out)
        return codes

    def _make_room(self, codes: int, size: int, more: int) -> None:
        """Have room for codes and bytes, and in the table for some strings more. Amortised O(1) each."""
        if codes > len(self._start):
            self._start, self._size = _longer(self._start, codes, 0), _longer(self._size, codes, FREE)
        if size > len(self._data):
            self._data = _longer(self._data, size, 0)
        if 2 * (len(self) + more) > len(self._table):
            self._hash(len(self) + more)

    def _take_over(self, codes: Codes, sizes: Codes, data: NDArray[np.uint8]) -> None:
        """Hold these strings alone, which lie one behind the other."""
        self._data, self._end = data, len(data)
        self._start[codes] = np.cumsum(sizes) - sizes
        self._hash(len(codes))

    def _hash(self, room: int) -> None:
        """Make the table anew, with room for so many strings and as many again."""
        size = _FEWEST
        while size < 4 * room:
            size *= 2
        self._table = np.full(size, EMPTY, np.int32)
        hash_texts_kernel(self._data, self._start, self._size, self._held(), self._table)

    def _held(self) -> Codes:
        return np.flatnonzero(self._size[: self._used] != FREE)

    def _gathered(self, codes: Codes) -> NDArray[np.uint8]:
        gathered = np.empty(int(self._size[codes].sum()), np.uint8)
        gather_texts_kernel(self._data, self._start, self._size, codes, gathered)
        return gathered

    def _stored(self, codes: Codes) -> bytes:
        """Lay strings out: how many bytes each has, then these."""
        return codecs.codes(self._size[codes]) + self._gathered(codes).tobytes()

    def _text(self, code: int) -> str:
        start = int(self._start[code])
        return self._data[start : start + int(self._size[code])].tobytes().decode()


def _bytes_of(texts: pa.Array) -> tuple[NDArray[np.uint8], Codes]:
    """Return the bytes of some strings, and where each begins and the last one ends."""
    texts = texts.cast(pa.large_string())
    _, bounds, data = texts.buffers()
    within = np.frombuffer(bounds, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    return np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8), within


def _longer(array: NDArray[Any], least: int, fill: int) -> NDArray[Any]:
    """Return an array with room for at least so many entries, half as much again where it grows."""
    longer = np.full(max(least, len(array) * 3 // 2), fill, array.dtype)
    longer[: len(array)] = array
    return longer
