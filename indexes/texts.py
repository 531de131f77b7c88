"""Strings without an order: a number for each distinct string (`interned.py`), stored in pieces.

A code is used again once no row has its string. A restart copies arrays.

Invariant: a code has at most one text, and a text at most one code.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from holdfast.constraints import Column, Value
from holdfast.indexes.interned import Interned
from holdfast.indexes.kernels.texts import FREE
from holdfast.state import codecs
from holdfast.state.pieces import Pieces
from holdfast.state.store import Reader, WriteBatch
from holdfast.tables import EncodedColumn
from holdfast.tables.arrays import Bytes, Codes

NULL = np.iinfo(np.int64).min
_FEW_KEPT = 10_000
_SHARED = 12


class Texts:
    """The strings of one table."""

    def __init__(self) -> None:
        self._interned = Interned()
        self._kept = _FEW_KEPT
        self._seen: pa.Array = None
        self._seen_codes: Codes = np.zeros(0, np.int64)
        self._pieces = Pieces("values")
        self._changed: list[Codes] = [np.zeros(0, np.int64)]

    def __len__(self) -> int:
        return len(self._interned)

    @property
    def is_wasteful(self) -> bool:
        """Whether the number of strings has doubled since strings were last forgotten."""
        return len(self) > 2 * self._kept

    def codes(self, column: EncodedColumn) -> Codes:
        """Return the codes of a column; new strings get codes."""
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
        return [None if code == NULL else self._interned.one(code).decode() for code in codes.tolist()]

    def array(self, codes: Codes) -> pa.Array:
        """Return the strings of codes, none of them null, as an Arrow array. O(bytes)."""
        return self._interned.binaries(codes).view(pa.large_string())

    def let_go(self) -> None:
        """Release the strings of the last table."""
        self._seen, self._seen_codes = None, np.zeros(0, np.int64)

    def keep(self, codes: Iterable[Codes]) -> None:
        """Forget all strings but those of the given codes. O(codes + strings)."""
        self.let_go()
        kept = np.zeros(self._interned.used, np.bool_)
        for column in codes:
            kept[column[column != NULL]] = True
        held = self._interned.held()
        gone = held[~kept[held]]
        self._kept = max(len(held) - len(gone), _FEW_KEPT)
        self._changed.append(gone)
        self._interned.free(gone)

    def save(self, prefix: bytes, *, everything: bool) -> Iterator[WriteBatch]:
        """Yield changes since the last save, or everything, in batches of bounded size."""
        if everything:
            yield from self._pieces.save_all(prefix + b"t", self._interned.held(), self._stored)
        else:
            size = self._interned.size
            changed = np.unique(np.concatenate(self._changed))
            yield from self._pieces.save(prefix + b"t", changed, lambda codes: size[codes] != FREE, self._stored)
        self._changed = [np.zeros(0, np.int64)]

    def restore(self, store: Reader, prefix: bytes) -> None:
        """Read what was saved. O(strings)."""
        found = list(self._pieces.restore(store, prefix + b"t"))
        codes = [piece.records for piece, _ in found]
        ends = [piece.ended for piece, _ in found]
        used = max((int(numbers.max(initial=-1)) for numbers in codes), default=-1) + 1
        source = np.full(used, FREE, np.int64)  # the position of the last text of each code
        size = np.full(used, FREE, np.int64)
        parts: list[Bytes] = [np.zeros(0, np.uint8)]
        end = 0
        for records, ended, (_, stored) in zip(codes, ends, found, strict=True):
            sizes = codecs.read_codes(stored[: 8 * len(records)])
            parts.append(np.frombuffer(stored, np.uint8, offset=8 * len(records)))
            size[records], source[records] = sizes, end + np.cumsum(sizes) - sizes
            size[ended[ended < used]] = FREE
            end += len(parts[-1])
        del found
        self._interned.replace(np.concatenate(parts), source, size)
        self._kept = max(len(self), _FEW_KEPT)

    def check_saved(self) -> None:
        """Assert that the last save has all strings."""
        self._pieces.check_invariants(self._interned.held())

    def _coded(self, texts: pa.Array) -> Codes:
        """Return the codes of strings; new strings get codes."""
        codes, given = self._interned.intern(texts)
        self._changed.append(given)
        return codes

    def _stored(self, codes: Codes) -> bytes:
        """Return strings as they are stored: the size of each, then all bytes."""
        return codecs.codes(self._interned.size[codes]) + self._interned.gathered(codes).tobytes()
