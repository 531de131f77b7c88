"""Laws of netting: what a stream of records leaves in a table, however it is cut into batches.

Oracle tests: the table is followed record by record, in dictionaries, with no code shared. Each history also has batches
that fail halfway and are applied again, and restarts from what was saved. A failure prints the line that repeats it.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from holdfast.constraints import Column, PredicateSpace, Schema
from holdfast.constraints.types import INTEGER, STRING
from holdfast.discovery.blocks.executors import InProcess
from holdfast.discovery.blocks.storage.block import Rows as Numbered
from holdfast.discovery.blocks.storage.block import write_blocks
from holdfast.discovery.blocks.storage.location import Storage
from holdfast.discovery.blocks.storage.table import BlockTable, Source
from holdfast.indexes.rows import RowSet
from holdfast.state.memory import MemoryStore
from holdfast.streaming.incoming.arrivals import TRUNCATE, UNREADABLE, Arrivals, Draft, Target, arrivals
from holdfast.streaming.incoming.key_versions import KeyVersions, first_versions
from holdfast.streaming.incoming.netting import DELETE, INSERT, UPDATE
from holdfast.streaming.maintainers.certified.denial import DenialMaintainer
from holdfast.streaming.maintainers.holdings.in_blocks import BlockPlace, WholeInBlocks
from holdfast.streaming.maintainers.holdings.in_memory import RowsInMemory
from holdfast.streaming.maintainers.maintainer import BatchResult, Maintainer
from holdfast.tables import Table, from_arrow
from tests.invariants import check_invariants
from tests.properties.test_block_laws import MOST, tiny_blocks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["tiny_blocks"]

CODES = {"insert": INSERT, "update": UPDATE, "delete": DELETE, "truncate": TRUNCATE, "bad": UNREADABLE}
LEAST = -(2**63)
KEPT = "kept"
KEYS, STRINGS, NUMBERS = ["x", "y", ""], [None, "", "p", "q"], [None, 0, 1, LEAST]
SCHEMA = Schema("r", (Column("k", STRING), Column("a", STRING), Column("b", INTEGER)))

STEPS: list[tuple[type, str]] = [
    (DenialMaintainer, "apply"),
    (RowSet, "change"),
    (RowSet, "forget"),
    (KeyVersions, "note"),
    (KeyVersions, "latest"),
    (BatchResult, "of"),
]

Row = tuple[Any, Any, Any]


@dataclass(frozen=True)
class Event:
    """A record: its number, what it does, its cells (`KEPT` where one was not sent), its sequence."""

    number: int
    operation: str
    row: Row = (None, None, None)
    sequence: int = 0


def frame(rows: Sequence[Row]) -> pa.Table:
    kinds = (pa.string(), pa.string(), pa.int64())
    return pa.table(
        {name: pa.array([row[i] for row in rows], kinds[i]) for i, name in enumerate(SCHEMA.names)},
        pa.schema(list(zip(SCHEMA.names, kinds, strict=True))),
    )


def draft_of(batch: Sequence[Event], *, sequences: bool = False) -> Draft:
    rows = [tuple(None if cell == KEPT else cell for cell in event.row) for event in batch]
    cells = {
        name: pa.array([row[i] for row in rows], pa.string() if i < 2 else pa.int64()) for i, name in enumerate("kab")
    }
    if sequences:
        cells["s"] = pa.array([event.sequence for event in batch], pa.int64())
    return Draft(
        np.array([CODES[event.operation] for event in batch], np.int8),
        cells,
        lambda row: str(batch[row].number),
        reasons={row: "bad" for row, event in enumerate(batch) if event.operation == "bad"},
        kept=np.array([[cell == KEPT for cell in event.row] for event in batch], np.bool_).reshape(len(batch), 3),
    )


class Follower:
    """A maintainer that is saved after each batch, and now and then fails or is started again; in memory, or in blocks."""

    def __init__(
        self, data: st.DataObject, seed: Sequence[Row], key: Sequence[str], *, remembers: bool = False
    ) -> None:
        self.data = data
        table = from_arrow(frame(seed), "r")
        asked: dict[str, Any] = {"key": key, "max_predicates": 1, "threads": 1}
        self.maintainer: Maintainer
        self.place: BlockPlace | None = None
        if data.draw(st.booleans(), label="in blocks"):
            self.maintainer = self._in_blocks(table, asked, remembers=remembers)
        else:
            self.maintainer = Maintainer.seed(table, space=PredicateSpace(SCHEMA), **asked)
            if remembers:
                self.maintainer.remember()
        self.store = MemoryStore()
        self.save(everything=True)

    def _in_blocks(self, table: Table, asked: dict[str, Any], *, remembers: bool) -> Maintainer:
        self.folder = tempfile.TemporaryDirectory(prefix="holdfast-netting-")
        self.place = BlockPlace(InProcess(), Storage.at(self.folder.name))
        written = write_blocks(self.place.storage.open(), Numbered(np.arange(table.row_count), table), MOST)
        blocks = WholeInBlocks(
            BlockTable(Source(self.place.storage, SCHEMA, MOST), list(written), self.place.executors)
        )
        maintainer = Maintainer.seed(blocks, space=PredicateSpace(SCHEMA), **asked)
        if remembers and self.data.draw(st.booleans(), label="what is known of keys too"):
            maintainer.remember(known=first_versions(blocks, asked["key"], None))
        elif remembers:
            maintainer.remember()
        return maintainer

    def save(self, *, everything: bool = False) -> None:
        for part in self.maintainer.save(0, everything=everything):
            self.store.write(part)
        self.maintainer.committed()

    def rows(self) -> Counter[Row]:
        live, _ = self.maintainer.rows()
        return Counter(zip(*(live.column(name).to_pylist() for name in SCHEMA.names), strict=True))

    def apply(self, came: Arrivals) -> BatchResult:
        before = self.rows()
        if self.data.draw(st.integers(0, 3), label="fails") == 0:
            self._fail(came)
            assert self.rows() == before
            check_invariants(self.maintainer)
        result = self.maintainer.apply_records(came.records)
        check_invariants(self.maintainer)
        self.save()
        if self.data.draw(st.integers(0, 3), label="starts again") == 0:
            rows = RowsInMemory.restored if self.place is None else self.place.restored
            self.maintainer = Maintainer.restore(self.store, threads=1, rows=rows)
        return result

    def _fail(self, came: Arrivals) -> None:
        """Interrupt a batch before or after one of its steps, its last at the latest."""
        owner, method = self.data.draw(st.sampled_from(STEPS), label="where")
        after = self.data.draw(st.booleans(), label="after it")
        original = getattr(owner, method)

        def failing(*given: Any, **named: Any) -> Any:
            if after:
                original(*given, **named)
            raise MemoryError

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(BatchResult, "of", failing if owner is BatchResult else _fails)
            patch.setattr(owner, method, failing)
            with pytest.raises(MemoryError):
                self.maintainer.apply_records(came.records)


def _fails(*_: Any) -> Any:
    raise MemoryError


def cut(data: st.DataObject, events: Sequence[Any]) -> Iterator[list[Any]]:
    """Cut records into batches, some of them empty."""
    ends = sorted(data.draw(st.lists(st.integers(0, len(events)), max_size=5), label="cuts"))
    for start, end in zip([0, *ends], [*ends, len(events)], strict=True):
        yield list(events[start:end])


def cells(*domains: list[Any]) -> st.SearchStrategy[Row]:
    k, a, b = map(st.sampled_from, domains)
    return st.tuples(k, a, b)


def seeds(*, key: bool) -> st.SearchStrategy[list[Row]]:
    rows = st.lists(cells(KEYS, STRINGS, NUMBERS), max_size=4)
    return rows.map(lambda found: list({row[0]: row for row in found}.values())) if key else rows


# With a key


@st.composite
def keyed_events(draw: st.DrawFn, *, kept: bool = True, truncates: bool = True) -> list[Event]:
    words = ["insert", "update", "update", "delete", "delete", "bad", *(["truncate"] if truncates else [])]
    events = []
    for number in range(draw(st.integers(0, 12))):
        cells = [[KEPT, KEPT, *domain] if kept else domain for domain in (STRINGS, NUMBERS)]
        row = (draw(st.sampled_from(KEYS)), *(draw(st.sampled_from(domain)) for domain in cells))
        events.append(Event(number, draw(st.sampled_from(words)), row, draw(st.integers(-2, 5))))
    return events


def follow(rows: dict[str, Row], batch: Sequence[Event]) -> tuple[dict[str, Row], list[int], set[str]]:
    """Return the rows after a batch, which records lacked cells, and the keys whose last record deletes them."""
    rows = dict(rows)
    incomplete: list[int] = []
    deleted: set[str] = set()
    for event in batch:
        key = event.row[0]
        if event.operation == "truncate":
            rows, incomplete, deleted = {}, [], set()  # what came before says nothing any more
        elif event.operation == "delete":
            rows.pop(key, None)
            deleted.add(key)
        elif event.operation != "bad":
            before = rows.get(key)
            if before is None and KEPT in event.row:
                incomplete.append(event.number)
                continue
            row: list[Any] = [
                old if new == KEPT else new for old, new in zip(before or event.row, event.row, strict=True)
            ]
            rows[key] = (row[0], row[1], row[2])
            deleted.discard(key)
    return rows, incomplete, deleted


@given(st.data(), seeds(key=True), keyed_events())
def test_records_of_a_keyed_table(data: st.DataObject, seed: list[Row], events: list[Event]) -> None:
    """Cells that were not sent, chains of them, deletes and truncations in between: as if one record came at a time."""
    follower = Follower(data, seed, ["k"])
    rows = {row[0]: row for row in seed}
    for batch in cut(data, events):
        note(f"{rows}\n{batch}")
        before = rows
        rows, incomplete, deleted = follow(rows, batch)
        came = arrivals(draft_of(batch), Target(SCHEMA, ("k",)))
        result = follower.apply(came)
        assert follower.rows() == Counter(rows.values())
        assert [came.bad_record(row, "").record_id for row in result.incomplete] == list(map(str, incomplete))
        assert [bad.record_id for bad in came.bad] == [str(e.number) for e in batch if e.operation == "bad"]
        updated = sum(1 for key in before.keys() & rows.keys() if before[key] != rows[key])
        inserted, gone = len(rows.keys() - before.keys()), len(before.keys() - rows.keys())
        assert (result.inserted, result.deleted, result.updated) == (inserted, gone, updated)
        assert (result.rows_in, result.rows_out, result.rows) == (inserted + updated, gone + updated, len(rows))
        assert (result.ignored, result.late) == (len(deleted - before.keys()), 0)


@given(st.data(), seeds(key=True), keyed_events(kept=False, truncates=False))
def test_sequences(data: st.DataObject, seed: list[Row], events: list[Event]) -> None:
    """The last sequence of each key counts, of equal ones the last that came; older than what was known is late."""
    follower = Follower(data, seed, ["k"], remembers=True)
    rows = {row[0]: row for row in seed}
    last: dict[str, int] = {}
    for batch in cut(data, events):
        note(f"{rows} {last}\n{batch}")
        known, late = dict(last), 0
        for event in batch:
            key = event.row[0]
            if event.operation == "bad":
                continue
            late += key in known and event.sequence < known[key]
            if key not in last or event.sequence >= last[key]:
                last[key] = event.sequence
                rows.pop(key, None)
                if event.operation != "delete":
                    rows[key] = event.row
        target = Target(SCHEMA, ("k",), Column("s", INTEGER))
        result = follower.apply(arrivals(draft_of(batch, sequences=True), target))
        assert follower.rows() == Counter(rows.values())
        assert result.late == late


@given(st.data(), keyed_events(kept=False, truncates=False), st.permutations(range(12)), st.permutations(range(12)))
def test_arrival_order_does_not_matter_where_sequences_differ(
    data: st.DataObject, events: list[Event], sequences: list[int], arrival: list[int]
) -> None:
    numbered = [Event(e.number, e.operation, e.row, sequences[e.number]) for e in events if e.operation != "bad"]
    target = Target(SCHEMA, ("k",), Column("s", INTEGER))
    found = []
    for order in (range(12), arrival):
        follower = Follower(data, [], ["k"], remembers=True)
        for batch in cut(data, sorted(numbered, key=lambda event: order[event.number])):
            follower.apply(arrivals(draft_of(batch, sequences=True), target))
        found.append(follower.rows())
    winners = {event.row[0]: event for event in sorted(numbered, key=lambda event: event.sequence)}
    assert found[0] == found[1] == Counter(e.row for e in winners.values() if e.operation != "delete")


@pytest.mark.parametrize("sequence", [LEAST, LEAST + 1, 2**63 - 1])
def test_any_number_is_a_sequence(sequence: int) -> None:
    maintainer = Maintainer.seed(from_arrow(frame([]), "r"), key=["k"], max_predicates=1, threads=1)
    maintainer.remember()
    target = Target(SCHEMA, ("k",), Column("s", INTEGER))
    for number, row in enumerate([("x", "p", 0), ("x", "q", 1)]):
        came = arrivals(draft_of([Event(number, "insert", row, sequence)], sequences=True), target)
        result = maintainer.apply_records(came.records)
        assert (result.rows_in, result.late) == (1, 0), number


# Without a key


FEW_ROWS = cells(["x", None], [None, "p"], [None, 0, LEAST])
KEYLESS = st.tuples(st.sampled_from(["insert", "delete", "delete", "truncate", "bad"]), FEW_ROWS)


@given(st.data(), seeds(key=False), st.lists(KEYLESS, max_size=14))
def test_records_of_a_table_without_a_key(data: st.DataObject, seed: list[Row], changes: list[tuple[str, Row]]) -> None:
    """The signed sum of all records, owed copies included; a truncation leaves nothing of either."""
    follower = Follower(data, seed, [])
    sums: Counter[Row] = Counter(seed)
    for batch in cut(data, [Event(number, *change) for number, change in enumerate(changes)]):
        note(f"{sums}\n{batch}")
        before = sums.copy()
        for event in batch:
            if event.operation == "truncate":
                sums = Counter()
            elif event.operation != "bad":
                sums[event.row] += 1 if event.operation == "insert" else -1
        result = follower.apply(arrivals(draft_of(batch), Target(SCHEMA)))
        assert follower.rows() == +sums
        every = {*before, *sums}
        assert result.owed == sum(-count for count in sums.values() if count < 0)
        assert result.newly_owed == sum(max(0, max(0, -sums[row]) - max(0, -before[row])) for row in every)
        assert result.rows_in == sum(max(0, max(0, sums[row]) - max(0, before[row])) for row in every)
        assert result.rows_out == sum(max(0, max(0, before[row]) - max(0, sums[row])) for row in every)
