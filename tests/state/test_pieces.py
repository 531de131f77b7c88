"""Pieces, against a dictionary: any changes, saved and read again at any time, with pieces so small that all is cleaned."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from holdfast.state import codecs, pieces
from holdfast.state.memory import MemoryStore
from holdfast.state.pieces import Pieces
from holdfast.state.store import WriteBatch
from holdfast.tables.arrays import Numbers

PREFIX = b"table"
NUMBERS = st.integers(0, 12)


def _read(held: Pieces, store: MemoryStore) -> dict[int, int]:
    found: dict[int, int] = {}
    for piece, stored in held.restore(store, PREFIX):
        found |= dict(zip(piece.records.tolist(), codecs.read_codes(stored).tolist(), strict=True))
        for number in piece.ended.tolist():
            found.pop(number, None)
    return found


class PiecesMachine(RuleBasedStateMachine):
    """Records that are numbers: the k-th change gives a record the value k."""

    size: int

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.store = MemoryStore()
        self.held = Pieces("family")
        self.model: dict[int, int] = {}
        self.changed: set[int] = set()
        self.clock = 0

    @initialize(size=st.sampled_from([1, 2, 5]), slack=st.sampled_from([0, 3, 1_000]), small=st.sampled_from([1, 32]))
    def sizes(self, size: int, slack: int, small: int) -> None:
        self.patch.setattr(pieces, "PIECE", size)
        self.patch.setattr(pieces, "_SLACK", slack)
        self.patch.setattr(pieces, "_SMALL", small)
        self.patch.setattr(pieces, "_BYTES_AT_ONCE", 60)

    @rule(numbers=st.lists(st.tuples(NUMBERS, st.booleans()), max_size=8))
    def change(self, numbers: list[tuple[int, bool]]) -> None:
        for number, stays in numbers:
            self.clock += 1
            self.changed.add(number)
            self.model.pop(number, None)
            if stays:
                self.model[number] = self.clock

    @rule()
    def save(self) -> None:
        changed = np.array(sorted(self.changed), np.int64)
        written = sum(self._write(batch) for batch in self.held.save(PREFIX, changed, self._exists, self._body))
        assert written <= (1 + pieces._MOVED_PER_CHANGE) * len(changed) + 2 * pieces.PIECE
        self._check()

    @rule()
    def save_all(self) -> None:
        for batch in self.held.save_all(PREFIX, np.array(sorted(self.model), np.int64), self._body):
            self._write(batch)
        self._check()

    @rule()
    def restore(self) -> None:
        """Go on with what was saved; what was not is gone."""
        self.held = Pieces("family")
        self.model = _read(self.held, self.store)
        self.changed.clear()
        self._check()

    @invariant()
    def nothing_else_is_in_the_store(self) -> None:
        assert all(key.startswith(PREFIX) for key, _ in self.store.scan("family"))

    def teardown(self) -> None:
        self.patch.undo()

    def _write(self, batch: WriteBatch) -> int:
        self.store.write(batch)
        values = [value for value in batch.changes.values() if value is not None]
        return sum(int(np.frombuffer(value, "<i8", 1)[0]) for value in values)

    def _exists(self, numbers: Numbers) -> np.ndarray:
        return np.array([number in self.model for number in numbers.tolist()], np.bool_)

    def _body(self, numbers: Numbers) -> bytes:
        return codecs.codes(np.array([self.model[number] for number in numbers.tolist()], np.int64))

    def _check(self) -> None:
        self.changed.clear()
        assert _read(Pieces("family"), self.store) == self.model
        self.held.check_invariants(np.array(sorted(self.model), np.int64))
        assert len(list(self.store.scan("family"))) == len(self.held._pieces)


TestPieces = PiecesMachine.TestCase
TestPieces.settings = settings(max_examples=150, stateful_step_count=25)


@pytest.mark.parametrize("batch", [1, 7, 100, 3_000])
def test_what_is_stored_stays_within_what_counts(batch: int) -> None:
    """A thousand batches of updates, deletes and inserts among 4,000 records: neither bytes nor keys pile up."""
    rng = np.random.default_rng(batch)
    store, held = MemoryStore(), Pieces("family")
    there = np.zeros(6_000, np.bool_)
    there[:4_000] = True

    def write(batches: Iterator[WriteBatch]) -> None:
        for part in batches:
            store.write(part)

    write(held.save_all(PREFIX, np.flatnonzero(there), codecs.codes))
    for i in range(4_000 // batch + 400):
        changed = rng.choice(6_000, batch, replace=False)
        there[changed] = rng.random(batch) < (0.7 if i % 50 else 0.2)
        write(held.save(PREFIX, changed, lambda numbers: there[numbers], codecs.codes))
        counting = int(there.sum())
        assert held._stored <= 3 * counting + pieces._SLACK + 3 * batch + pieces.PIECE
        assert len(held._pieces) <= counting // pieces._SMALL + pieces._SLACK + 1
    held.check_invariants(np.flatnonzero(there))
    assert sum(len(value) for _, value in store.scan("family")) < 16 * 3 * 6_000 + 100_000


def test_an_emptied_table_leaves_next_to_nothing() -> None:
    store, held = MemoryStore(), Pieces("family")
    for batch in held.save_all(PREFIX, np.arange(50_000), codecs.codes):
        store.write(batch)
    for changed in (np.arange(50_000), np.array([7])):
        for batch in held.save(PREFIX, changed, lambda numbers: numbers < 0, codecs.codes):
            store.write(batch)
    held.check_invariants(np.zeros(0, np.int64))
    assert _read(Pieces("family"), store) == {}
    assert sum(len(value) for _, value in store.scan("family")) < 10_000
