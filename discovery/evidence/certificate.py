"""The evidences that prove a set of constraints complete, each with live pairs of rows that have it.

Every evidence has a number while it is held; free numbers are used again. `rollback` undoes a batch, back to the last
`begin`.

Invariant: an evidence has at least one witness, except between `kill` and `drop`; no two witnesses of one evidence
share a row, so that a row that vanishes costs each evidence one witness at most.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.discovery.kernels.certificate import (
    add_kernel,
    kill_kernel,
    put_witness_kernel,
    take_witness_kernel,
    uses_kernel,
)
from holdfast.indexes.evidence_table import WITNESSES
from holdfast.indexes.growing import with_room
from holdfast.indexes.row_hash import RowHash
from holdfast.state import codecs
from holdfast.state.store import Store, WriteBatch
from holdfast.tables.arrays import Ints, Numbers, Pairs, Words

_FEWEST = 256
_SAVED_AT_ONCE = 50_000


class Certificate:
    """Evidences and their witnesses.

    Parameters
    ----------
    width : the number of words of an evidence.
    """

    def __init__(self, width: int) -> None:
        self.words: Words = np.zeros((_FEWEST, width), np.uint64)
        self.pairs: Pairs = np.full((_FEWEST, WITNESSES, 2), -1, np.int64)
        self._counts = np.zeros(_FEWEST, np.int64)
        self._head = np.full(_FEWEST, -1, np.int64)
        self._before = np.full(_FEWEST * WITNESSES * 2, -1, np.int64)
        self._after = np.full(_FEWEST * WITNESSES * 2, -1, np.int64)
        self._hash = RowHash(range(width))
        self._free = list(range(_FEWEST))[::-1]
        self._held = np.zeros(_FEWEST, np.bool_)
        self._journal: list[tuple[str, Numbers]] = []
        self._changed: list[Numbers] = [np.zeros(0, np.int64)]

    def __len__(self) -> int:
        return len(self.words) - len(self._free)

    @property
    def held(self) -> Numbers:
        """The numbers of all evidences. O(E)."""
        return np.flatnonzero(self._held)

    def find(self, words: Words) -> Numbers:
        """Return the number of each evidence, -1 where it is not held."""
        return self._hash.find(self.words.view(np.int64), words.view(np.int64))

    def add(self, words: Words, pairs: NDArray[np.integer[Any]]) -> Numbers:
        """Add evidences, all different, with (e, k, 2) pairs; return the numbers of the evidences that are new."""
        numbers = self.find(words)
        new = numbers < 0
        while np.count_nonzero(new) > len(self._free):
            self._grow()
        given = np.array([self._free.pop() for _ in range(np.count_nonzero(new))], np.int64)
        numbers[new] = given
        self.words[given] = words[new]
        self._journal.append(("held", given))
        self._held[given] = True
        self._hash.insert(self.words.view(np.int64), given)
        self.witness(numbers, pairs)
        return given

    def witness(self, numbers: Numbers, pairs: NDArray[np.integer[Any]]) -> None:
        """Add witnesses to evidences, as far as there is room."""
        listed = pairs.reshape(-1, 2).astype(np.int64)
        self._head = with_room(self._head, int(listed.max(initial=-1)) + 1, -1)
        done = self._noted("put", len(listed))
        owners = np.repeat(numbers, pairs.shape[1])
        add_kernel(owners, listed, self.pairs, self._counts, self._head, self._before, self._after, done)

    def kill(self, vanished: Numbers, single: Numbers) -> tuple[Numbers, Numbers]:
        """Remove the witnesses with vanished rows, and the witnesses of rows with themselves that are single now.

        Returns the numbers of evidences without a witness left, and (m, 4) the removed: (evidence, position, t, s).
        """
        taken = [self._killed(vanished, with_itself_only=False), self._killed(single, with_itself_only=True)]
        dead = np.concatenate(taken)
        touched = np.unique(dead[:, 0])
        return touched[self._counts[touched] == 0], dead

    def drop(self, numbers: Numbers) -> None:
        """Remove evidences that have no witness."""
        assert not self._counts[numbers].any()
        self._journal.append(("dropped", numbers))
        self._held[numbers] = False
        self._hash.remove(self.words.view(np.int64), numbers)

    def witnesses_left(self, numbers: Numbers) -> Ints:
        """Return the number of witnesses of each evidence."""
        return np.asarray(self._counts[numbers])

    def save(self, prefix: bytes, *, everything: bool = False) -> Iterator[WriteBatch]:
        """Yield changes since the last save, or everything, in batches of bounded size."""
        self._changed.extend(_touched(self._journal))
        changed = self.held if everything else np.unique(np.concatenate(self._changed))
        for start in range(0, len(changed), _SAVED_AT_ONCE):
            batch = WriteBatch()
            for number in changed[start : start + _SAVED_AT_ONCE].tolist():
                key = prefix + codecs.number(number)
                if self._held[number]:
                    batch.put("evidences", key, codecs.words(self.words[number]) + codecs.codes(self.pairs[number]))
                else:
                    batch.delete("evidences", key)
            yield batch
        self._changed = [np.zeros(0, np.int64)]

    def restore(self, store: Store, prefix: bytes) -> None:
        """Read what was saved into an empty certificate. O(E)."""
        found = list(store.scan("evidences", prefix))
        numbers = np.array([codecs.read_number(key) for key, _ in found], np.int64)
        while len(self.words) <= numbers.max(initial=-1):
            self._grow()
        width = self.words.shape[1]
        self.words[numbers] = np.array([codecs.read_words(v[: 8 * width]) for _, v in found]).reshape(-1, width)
        pairs = np.array([codecs.read_codes(v[8 * width :]) for _, v in found], np.int64)
        self._held[numbers] = True
        self._free = np.flatnonzero(~self._held)[::-1].tolist()
        self._hash.insert(self.words.view(np.int64), numbers)
        self.witness(numbers, pairs.reshape(-1, WITNESSES, 2))
        self._journal.clear()

    def a_witness(self, numbers: Numbers) -> Pairs:
        """Return a live pair of each evidence."""
        pairs = self.pairs[numbers]
        filled = (pairs[:, :, 0] >= 0).argmax(axis=1)
        one: Pairs = pairs[np.arange(len(numbers)), filled]
        return one

    def begin(self) -> None:
        """Begin a batch: earlier changes cannot be undone any more."""
        self._changed.extend(_touched(self._journal))
        for what, numbers in self._journal:
            if what == "dropped":
                self._free.extend(numbers.tolist())
        self._journal.clear()

    def rollback(self) -> None:
        """Undo all changes since `begin`, wherever they stopped. O(E)."""
        lists = (self.pairs, self._counts, self._head, self._before, self._after)
        while self._journal:
            what, rows = self._journal.pop()
            if what == "put":
                for e, k, _, _ in rows[rows[:, 0] >= 0][::-1].tolist():
                    take_witness_kernel(e, k, *lists)
            elif what == "taken":
                for e, k, t, s in rows[rows[:, 0] >= 0][::-1].tolist():
                    put_witness_kernel(e, k, t, s, *lists)
            else:
                self._held[rows] = what == "dropped"
        self._free = np.flatnonzero(~self._held)[::-1].tolist()
        self._hash.rebuild(self.words.view(np.int64), self.held)

    def check_invariants(self) -> None:
        """Assert the invariants. O(E)."""
        held = self.held
        assert (self.find(self.words[held]) == held).all()
        assert len(np.unique(self.words[held], axis=0)) == len(held)
        filled = self.pairs[:, :, 0] >= 0
        assert (filled.sum(axis=1) == self._counts).all()
        assert (self._counts[held] > 0).all()
        assert not self._counts[~self._held].any()
        for e in held.tolist():
            rows = [row for t, s in self.pairs[e][filled[e]].tolist() for row in {t, s}]
            assert len(rows) == len(set(rows))
        uses = sum(len({int(t), int(s)}) for t, s in self.pairs[filled].tolist())
        assert uses_kernel(np.arange(len(self._head)), self._head, self._after) == uses

    def _killed(self, rows: Numbers, *, with_itself_only: bool) -> Numbers:
        rows = rows[rows < len(self._head)]
        done = self._noted("taken", uses_kernel(rows, self._head, self._after))
        taken = kill_kernel(
            rows, with_itself_only, self.pairs, self._counts, self._head, self._before, self._after, done
        )
        return done[:taken]

    def _noted(self, what: str, most: int) -> Numbers:
        """Return room for a kernel to list its changes, which is in the journal before the kernel runs."""
        done: Numbers = np.full((most, 4), -1, np.int64)
        self._journal.append((what, done))
        return done

    def _grow(self) -> None:
        old = len(self.words)
        self.words = np.concatenate([self.words, np.zeros_like(self.words)])
        self.pairs = np.concatenate([self.pairs, np.full_like(self.pairs, -1)])
        self._counts = np.concatenate([self._counts, np.zeros_like(self._counts)])
        self._before = np.concatenate([self._before, np.full_like(self._before, -1)])
        self._after = np.concatenate([self._after, np.full_like(self._after, -1)])
        self._held = np.concatenate([self._held, np.zeros_like(self._held)])
        self._free.extend(range(2 * old - 1, old - 1, -1))


def _touched(journal: Sequence[tuple[str, Numbers]]) -> list[Numbers]:
    """Return the numbers of the evidences in a journal."""
    return [rows[rows[:, 0] >= 0, 0] if rows.ndim == 2 else rows for _, rows in journal]
