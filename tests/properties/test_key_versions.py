"""Laws of what is remembered of keys: the last sequence of each, rows gone or not, and no longer than asked for.

Oracle tests: a dictionary follows the same notes. Some batches are taken back, others are followed by a restart.
"""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from holdfast.constraints import Column, Schema
from holdfast.constraints.types import INTEGER, STRING
from holdfast.discovery.blocks.executors import InProcess
from holdfast.discovery.blocks.storage.location import Storage
from holdfast.discovery.blocks.storage.table import BlockTable, Source
from holdfast.state.memory import MemoryStore
from holdfast.streaming.incoming import key_versions
from holdfast.streaming.incoming.key_versions import KeyVersions, versions_definition
from holdfast.streaming.incoming.netting import DELETE, INSERT
from holdfast.streaming.maintainers.holdings.in_blocks import BlockPlace, WholeInBlocks
from holdfast.streaming.maintainers.holdings.in_memory import RowsInMemory
from holdfast.tables import Table, from_arrow
from tests.invariants import check_invariants
from tests.properties.test_block_laws import MOST, tiny_blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.streaming.maintainers.holdings.contract import Holding

__all__ = ["tiny_blocks"]

LEAST = -(2**63)
SCHEMA = Schema("r", (Column("other", STRING), Column("a", STRING), Column("b", INTEGER)))
DEFINITION = versions_definition(SCHEMA, ("a", "b"))
KEYS = [(a, b) for a in ("x", "y", "") for b in (0, LEAST)]
SEQUENCES = [LEAST, -1, 0, 1, 2, 3, 2**63 - 1]

Key = tuple[str, int]
Note = tuple[Key, bool, int]


@pytest.fixture(autouse=True, scope="module")
def sweep_often() -> Iterator[None]:
    """Look for what is to be forgotten every second batch."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_versions, "_SWEEP_EVERY", 2)
        yield


def table(keys: list[Key]) -> Table:
    names = pa.schema([("other", pa.string()), ("a", pa.string()), ("b", pa.int64())])
    return from_arrow(pa.table([["-"] * len(keys), [a for a, _ in keys], [b for _, b in keys]], schema=names), "r")


class Remembering(RuleBasedStateMachine):
    """Any history of notes."""

    @initialize(retention=st.sampled_from([None, 5.0]))
    def start(self, retention: float | None) -> None:
        self.now = 100.0
        self.retention = retention
        self.versions = self.fresh()
        self.store = MemoryStore()
        self.save(everything=True)
        self.last: dict[Key, tuple[int, float]] = {}
        self.batches = 0

    def fresh(self) -> KeyVersions:
        return self.of(RowsInMemory(DEFINITION.empty()))

    def restored(self) -> KeyVersions:
        return self.of(RowsInMemory.restored(self.store, b"v", DEFINITION))

    def of(self, holding: Holding) -> KeyVersions:
        return KeyVersions(holding, self.retention, lambda: self.now)

    def save(self, *, everything: bool = False) -> None:
        for part in self.versions.save(b"v", everything=everything):
            self.store.write(part)

    def note(self, batch: list[Note], which: list[int]) -> None:
        keys = [key for key, _, _ in batch]
        operations = np.array([DELETE if is_delete else INSERT for _, is_delete, _ in batch], np.int8)
        sequences = np.array([sequence for _, _, sequence in batch], np.int64)
        self.versions.latest(table(keys))
        self.versions.note(operations, sequences, np.array(which, np.int64))

    @rule(
        batch=st.lists(st.tuples(st.sampled_from(KEYS), st.booleans(), st.sampled_from(SEQUENCES)), max_size=5),
        data=st.data(),
    )
    def batch(self, batch: list[Note], data: st.DataObject) -> None:
        which = [i for i in range(len(batch)) if data.draw(st.integers(0, 4), label="noted")]
        before = data.draw(st.sampled_from([None, None, *SEQUENCES[1:]]), label="forgotten before")
        fails = data.draw(st.integers(0, 2), label="taken back") == 0
        for attempt in range(1 + fails):
            self.versions.begin()
            if before is not None:
                self.versions.forget_before(before)
            self.note(batch, which)
            if fails and not attempt:
                self.versions.undo()
                self.compare()
        if before is not None:
            self.last = {key: known for key, known in self.last.items() if known[0] >= before}
        for i in which:
            key, is_delete, sequence = batch[i]
            if key not in self.last or sequence >= self.last[key][0]:
                self.last[key] = sequence, self.now if is_delete else 0
        self.batches += 1 + fails
        if self.retention is not None and self.batches % 2 == 1:
            oldest = self.now - self.retention
            self.last = {key: known for key, known in self.last.items() if not 0 < known[1] < oldest}
        self.save()

    @rule(seconds=st.sampled_from([1, 4, 6]))
    def time_passes(self, seconds: int) -> None:
        self.now += seconds

    @rule()
    def starts_again(self) -> None:
        self.versions = self.restored()
        self.batches = 0

    @invariant()
    def compare(self) -> None:
        if not hasattr(self, "versions"):
            return
        note(f"{self.last}")
        check_invariants(self.versions)
        self.versions.begin()  # keys that are asked for are not kept
        found: list[Any] = self.versions.latest(table(KEYS)).tolist()
        self.versions.undo()
        assert found == [self.last[key][0] if key in self.last else LEAST for key in KEYS]
        assert len(self.versions) == len(self.last)


TestRemembering = Remembering.TestCase
TestRemembering.settings = settings(stateful_step_count=15)


class RememberingInBlocks(Remembering):
    """Any history of notes that blocks of a few rows have."""

    def fresh(self) -> KeyVersions:
        self.place = tempfile.TemporaryDirectory(prefix="holdfast-keys-")
        self.blocks = BlockPlace(InProcess(2), Storage.at(self.place.name))
        empty = BlockTable(Source(self.blocks.storage, DEFINITION.space.schema, MOST), [], self.blocks.executors)
        return self.of(WholeInBlocks(empty).held(DEFINITION))

    def restored(self) -> KeyVersions:
        self.versions.holding.committed()
        return self.of(self.blocks.restored(self.store, b"v", DEFINITION))

    def teardown(self) -> None:
        if hasattr(self, "place"):
            self.place.cleanup()


TestRememberingInBlocks = RememberingInBlocks.TestCase
TestRememberingInBlocks.settings = settings(stateful_step_count=15)
