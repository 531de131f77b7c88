"""Numbered records in pieces, many records under one key: a restart reads arrays, and a save does not loop over rows.

    key     number of the piece, in the order in which pieces are written
    value   8 bytes each, signed, least significant first: how many records, how many ends, the numbers of the records,
            the numbers of the ends; then the records themselves, in the layout of their owner

A piece is never changed. Of all pieces with a number the last one counts: it has the record, or its end, which means
that the record was deleted. Pieces read in order, each over those before it, give the saved records.

If most stored records are outdated, or pieces became small, a save also cleans the oldest pieces: their valid records
are written again with the new ones, and the pieces are deleted. An end in the oldest piece is deleted too, since there
is no earlier record that it could hide. So a save writes at most three times the changes and one piece more, and the
store has at most about three times the valid records.

Invariant: `_holder` has, for each number, the last piece with the number, and whether it has a record or an end.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.state import codecs
from holdfast.state.store import Reader, WriteBatch
from holdfast.tables.arrays import Numbers

PIECE = 512
_SLACK = 1_024
_SMALL = 32
_MOVED_PER_CHANGE = 2
_BYTES_AT_ONCE = 1 << 23
_NOWHERE = -1


@dataclass(frozen=True)
class Piece:
    """The contents of one key.

    Parameters
    ----------
    number : the number of the piece.
    records, ended : the numbers of its records, and of its ends.
    """

    number: int
    records: Numbers
    ended: Numbers

    def __len__(self) -> int:
        return len(self.records) + len(self.ended)


class Pieces:
    """The pieces of one kind of records of one table.

    Parameters
    ----------
    family : the family of the store.
    """

    def __init__(self, family: str) -> None:
        self._family = family
        self._pieces: deque[Piece] = deque()
        self._next = 0
        self._holder = np.full(PIECE, _NOWHERE, np.int64)  # p for a record in piece p, -2 - p for an end
        self._counting = 0
        self._stored = 0

    def save(
        self,
        prefix: bytes,
        changed: Numbers,
        exists: Callable[[Numbers], NDArray[np.bool_]],
        body: Callable[[Numbers], bytes],
    ) -> Iterator[WriteBatch]:
        """Yield the changes since the last save. O(changes), amortised.

        Parameters
        ----------
        prefix : the prefix of the keys.
        changed : the numbers of the records that were added, changed or deleted, each once.
        exists : returns, per number, whether the record exists.
        body : returns the bytes of records.
        """
        self._reach(int(changed.max(initial=-1)) + 1)
        there = exists(changed)
        come, ended = changed[there], changed[~there & (self._holder[changed] >= 0)]
        self._counting += int(np.count_nonzero(self._holder[come] < 0)) - len(ended)
        self._holder[come] = self._holder[ended] = _NOWHERE
        self._stored += len(come) + len(ended)
        moved, cleaned = self._clean(_MOVED_PER_CHANGE * len(changed) + PIECE)
        yield from self._written(prefix, np.concatenate([come, *moved]), ended, cleaned, body)

    def save_all(self, prefix: bytes, records: Numbers, body: Callable[[Numbers], bytes]) -> Iterator[WriteBatch]:
        """Yield the changes that make these the stored records, whatever was saved before. O(records)."""
        cleaned = [piece.number for piece in self._pieces]
        self._pieces.clear()
        self._holder[:] = _NOWHERE
        self._reach(int(records.max(initial=-1)) + 1)
        self._counting = self._stored = len(records)
        yield from self._written(prefix, records, records[:0], cleaned, body)

    def restore(self, store: Reader, prefix: bytes) -> Iterator[tuple[Piece, bytes]]:
        """Yield all pieces in order with their bodies: each replaces records of those before it. O(records)."""
        for key, value in store.scan(self._family, prefix):
            records, ended = (int(count) for count in np.frombuffer(value, "<i8", 2))
            numbers = np.frombuffer(value, "<i8", records + ended, 16).astype(np.int64)
            piece = Piece(codecs.read_number(key), numbers[:records], numbers[records:])
            self._reach(int(numbers.max(initial=-1)) + 1)
            self._keep(piece)
            yield piece, value[16 + 8 * len(numbers) :]
        self._counting = int(np.count_nonzero(self._holder >= 0))
        self._stored = sum(len(piece) for piece in self._pieces)

    def check_invariants(self, records: Numbers) -> None:
        """Assert that the pieces give these records. O(stored records)."""
        held: dict[int, int] = {}
        for piece in self._pieces:
            assert 0 < len(piece.records) <= PIECE or len(piece.ended)
            held |= dict.fromkeys(piece.records.tolist(), piece.number)
            held |= dict.fromkeys(piece.ended.tolist(), _end(piece.number))
        assert {r for r, holder in held.items() if holder >= 0} == set(records.tolist())
        assert (self._holder[list(held)] == list(held.values())).all()
        assert np.count_nonzero(self._holder != _NOWHERE) == len(held)
        assert [piece.number for piece in self._pieces] == sorted({piece.number for piece in self._pieces})
        assert self._counting == len(records)
        assert self._stored == sum(len(piece) for piece in self._pieces)

    def _clean(self, room: int) -> tuple[list[Numbers], list[int]]:
        """Delete the oldest pieces, as long as that is useful and at most `room` records have to be written again."""
        moved: list[Numbers] = []
        cleaned: list[int] = []
        while room > 0 and self._pieces and self._is_wasteful(sum(map(len, moved))):
            piece = self._pieces.popleft()
            still = piece.records[self._holder[piece.records] == piece.number]
            self._holder[still] = _NOWHERE
            self._holder[piece.ended[self._holder[piece.ended] == _end(piece.number)]] = _NOWHERE
            self._stored -= len(piece) - len(still)
            moved.append(still)
            cleaned.append(piece.number)
            room -= len(still) + 1
        return moved, cleaned

    def _is_wasteful(self, moved: int) -> bool:
        pieces = len(self._pieces) + -(-moved // PIECE)
        return self._stored > 2 * self._counting + _SLACK or pieces > self._counting // _SMALL + _SLACK

    def _written(
        self, prefix: bytes, records: Numbers, ended: Numbers, cleaned: list[int], body: Callable[[Numbers], bytes]
    ) -> Iterator[WriteBatch]:
        """Yield new pieces, and the deletes of cleaned ones, in batches of bounded size."""
        batch, size = WriteBatch(), 0
        for number in cleaned:
            batch.delete(self._family, prefix + codecs.number(number))
        for start in range(0, max(len(records), len(ended)), PIECE):
            piece = Piece(self._next, records[start : start + PIECE], ended[start : start + PIECE])
            self._next += 1
            self._keep(piece)
            counts = np.array([len(piece.records), len(piece.ended)])
            value = codecs.codes(np.concatenate([counts, piece.records, piece.ended])) + body(piece.records)
            batch.put(self._family, prefix + codecs.number(piece.number), value)
            size += len(value)
            if size >= _BYTES_AT_ONCE:
                yield batch
                batch, size = WriteBatch(), 0
        yield batch

    def _keep(self, piece: Piece) -> None:
        """Note a piece as the last one."""
        self._holder[piece.records], self._holder[piece.ended] = piece.number, _end(piece.number)
        self._pieces.append(piece)
        self._next = piece.number + 1

    def _reach(self, numbers: int) -> None:
        if numbers > len(self._holder):
            more = max(numbers * 3 // 2, PIECE) - len(self._holder)
            self._holder = np.concatenate([self._holder, np.full(more, _NOWHERE, np.int64)])


def _end(piece: int) -> int:
    return -2 - piece
