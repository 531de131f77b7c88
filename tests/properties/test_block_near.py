"""Laws of near constraints over blocks: they are those of the table in memory, found at once and batch by batch.

Differential tests: discovery and its border against `discover_near`, counts of candidates against those of all rows, and a
maintainer of a table in blocks of a few rows beside one in memory.
"""

import itertools
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Maintainer
from holdfast.constraints import PredicateSpace, UsageError
from holdfast.discovery.blocks.counting import near_tasks
from holdfast.discovery.blocks.counting.near import BlockCounts, unordered_targets
from holdfast.discovery.blocks.discover import discover_near_blocks
from holdfast.discovery.blocks.storage import live
from holdfast.discovery.blocks.storage.block import Rows, write_blocks
from holdfast.discovery.blocks.storage.location import Storage
from holdfast.discovery.blocks.storage.table import BlockTable, Source
from holdfast.discovery.evidence.codes import column_numbers
from holdfast.discovery.near.counting import Context, Counter
from holdfast.discovery.near.discover import NearDiscovered, discover_near, exceptions_of
from holdfast.discovery.near.lattice import NearMember
from holdfast.discovery.near.targets import KEY
from holdfast.state.memory import MemoryStore
from holdfast.streaming.maintainers.holdings import residents
from holdfast.streaming.maintainers.holdings.in_blocks import BlockPlace, WholeInBlocks
from holdfast.streaming.maintainers.maintainer import DELETE, INSERT, Records
from holdfast.streaming.maintainers.near import counting_blocks, maintainer
from holdfast.tables import Table, from_arrow
from tests.executors import Apart
from tests.invariants import check_invariants
from tests.oracles.values import Row
from tests.oracles.values import Table as OracleTable
from tests.properties.monitored import Interrupted, interrupted, kinds, table_like
from tests.properties.tables import DOMAINS, tables

SHARES = st.sampled_from([Fraction(0), Fraction(1, 7), Fraction(1, 4), Fraction(1, 3), Fraction(1, 2)])
FAMILIES = st.sampled_from([("key", "fd"), ("key",), ("fd",)])


@contextmanager
def _storage() -> Iterator[Storage]:
    folder = Path(tempfile.mkdtemp(prefix="holdfast-blocks-"))
    storage = Storage.at(str(folder))
    storage.open().prepare()
    try:
        yield storage
    finally:
        shutil.rmtree(folder)


def _blocks(storage: Storage, table: Table, most: int) -> BlockTable:
    rows = Rows(np.arange(table.row_count), table)
    source = Source(storage, table.schema, most)
    return BlockTable(source, list(write_blocks(storage.open(), rows, most)), Apart(2))


def _border(found: NearDiscovered) -> dict[str, tuple[Context, int, int]]:
    """Return the border of what was found by constraints: context and target by number, and the lower bound."""
    return {
        str(found.constraint(NearMember(part.context, number, 0))): (part.context, number, least)
        for part in found.found.border
        for number, least in zip(part.numbers.tolist(), part.exceptions.tolist(), strict=True)
    }


@given(tables(max_rows=9), SHARES, st.integers(0, 3), st.integers(1, 4), FAMILIES)
def test_the_near_set_is_that_of_the_table_in_memory(
    both: tuple[OracleTable, Table], share: Fraction, bound: int, most: int, families: tuple[str, ...]
) -> None:
    _, table = both
    expected = discover_near(table, share, bound, families=families)
    with _storage() as storage:
        found = discover_near_blocks(_blocks(storage, table, most), share, bound, families=families).ranked()
    assert list(found) == list(expected)
    assert found.summary() == expected.summary()
    assert [one.exceptions for one in found] == [one.exceptions for one in expected]
    assert [(score, str(one)) for score, one in found.top(5)] == [(score, str(one)) for score, one in expected.top(5)]
    counter, ours, theirs = Counter(expected.rows, expected.targets), _border(found), _border(expected)
    assert ours.keys() == theirs.keys()
    for one, (context, number, _) in theirs.items():
        assert found.found.most < ours[one][2] <= counter.exceptions(context, number)


@given(tables(max_rows=9), st.integers(1, 4), st.integers(-1, 5), st.integers(0, 9))
def test_a_count_is_exact_or_a_lower_bound_that_is_enough(
    both: tuple[OracleTable, Table], block_rows: int, most: int, more: int
) -> None:
    _, table = both
    width = len(table.schema)
    targets = unordered_targets(np.arange(width)[::-1].copy())
    contexts = sorted(c for size in range(width + 1) for c in itertools.combinations(range(width), size))
    tasks = [(context, np.array([n for n in range(width + 1) if n - 1 not in context])) for context in contexts]
    codes = np.array([column_numbers(table.columns[c]) for c in targets.of_table]).reshape(width, -1)
    exact = Counter(
        near_tasks.unordered_rows(codes, targets.of_table, np.arange(codes.shape[1], dtype=np.int32)), targets
    )
    enough = max(most, 0) + more
    with _storage() as storage:
        counts = BlockCounts(_blocks(storage, table, block_rows), targets)
        found = list(counts.counted(tasks, most, enough))
        every = {(context, number) for context, numbers in tasks for number in numbers.tolist() if context or number}
        assert counts.exactly(every) == {one: exact.exceptions(*one) for one in every}
    assert [one.context for one in found] == contexts
    for one, (context, asked) in zip(found, tasks, strict=True):
        is_key = bool(context) and exact.exceptions(context, KEY) <= most
        assert one.numbers.tolist() == ([KEY] if is_key else asked.tolist())
        for number, count in zip(one.numbers.tolist(), one.exceptions.tolist(), strict=True):
            if context or number:
                assert count == exact.exceptions(context, number) or enough < count < exact.exceptions(context, number)
            else:
                assert count > enough


@pytest.fixture(scope="module")
def tiny_blocks() -> Iterator[None]:
    """Fold after two batches, let no resident stay that is not needed, and soon follow no former member."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live, "_MOST_YOUNG", 2)
        patch.setattr(live, "_MOST_MARKED", 2)
        patch.setattr(live, "_SORTED_BY_ONE", 1)
        patch.setattr(live, "_FEW", 0)
        patch.setattr(residents, "_FEW_RESIDENTS", 0)
        patch.setattr(maintainer, "_BATCHES_FOLLOWED", 3)
        yield


@pytest.mark.usefixtures("tiny_blocks")
@given(
    st.data(), tables(max_columns=4, max_rows=8), SHARES, st.integers(1, 3), st.integers(1, 4), st.sampled_from([0, 4])
)
def test_a_table_in_blocks_is_followed_as_one_in_memory(
    data: st.DataObject, both: tuple[OracleTable, Table], share: Fraction, bound: int, most: int, large: int
) -> None:
    like, _ = both
    keyed = data.draw(st.booleans())
    domains = [st.sampled_from([None, *DOMAINS[kind][2]]) for kind in kinds(like)]
    if keyed:
        domains[0] = st.sampled_from(DOMAINS[kinds(like)[0]][2])
    row = st.tuples(*domains)
    key = [like.columns[0].name] if keyed else []
    current = _one_each(data.draw(st.lists(row, max_size=8)), keyed=keyed)
    seed = table_like(like, current)
    asked: dict[str, Any] = {
        "key": key,
        "max_predicates": None,
        "space": PredicateSpace(seed.schema),
        "near": share,
        "near_context": bound,
        "near_orders": False,
        "threads": 1,
    }
    with _storage() as storage, pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting_blocks, "_LARGE", large)
        ours, theirs = (
            Maintainer.seed(WholeInBlocks(_blocks(storage, seed, most)), **asked),
            Maintainer.seed(seed, **asked),
        )
        for _ in range(data.draw(st.integers(1, 6))):
            assert list(ours.near) == list(theirs.near)
            inserted = _one_each(data.draw(st.lists(row, max_size=4)), keyed=keyed)
            goes = data.draw(st.sets(st.integers(0, 8), max_size=4))
            anew = data.draw(st.sampled_from([False, False, False, True]))
            deleted = [] if anew else [one for i, one in enumerate(current) if i in goes]
            operations = np.repeat(np.array([DELETE, INSERT], np.int8), [len(deleted), len(inserted)])
            records = Records(table_like(like, [*deleted, *inserted]), operations, truncated=anew)
            new = {_cell(one[0]) for one in inserted} if keyed else set()  # a row with a key takes its place
            left = [one for i, one in enumerate(current) if i not in goes and _cell(one[0]) not in new]
            current = inserted if anew else left + inserted
            if data.draw(st.booleans()):
                _fail(ours, records)
            changes = ours.apply_records(records).near
            assert changes == theirs.apply_records(records).near
            assert list(ours.near) == list(theirs.near)
            assert {str(one.constraint) for one in ours.near_examples} == {str(n) for n in ours.near if n.exceptions}
            if data.draw(st.booleans()):
                ours.committed()
                ours = Maintainer.restore(_saved(ours), 0, 1, (), BlockPlace(Apart(2), storage).restored)
                theirs = Maintainer.restore(_saved(theirs), threads=1)
            check_invariants(ours)
            _what_is_shown_is_an_exception(ours, table_like(like, current))
        expected = discover_near(table_like(like, current), share, bound, families=("key", "fd"))
        assert list(ours.near) == list(expected)


def _what_is_shown_is_an_exception(maintained: Maintainer, table: Table) -> None:
    rows = [repr(row) for row in table.rows(list(range(table.row_count)))]
    for example in maintained.near_examples:
        removed = exceptions_of(table, example.constraint)
        undecided = dict(zip(removed.rows.tolist(), removed.undecided.tolist(), strict=True))
        assert undecided[rows.index(repr(example.row.values))] == example.undecided, example


def _fail(maintained: Maintainer, records: Records) -> None:
    """Let a batch fail at its end: nothing is left of it."""
    before = list(maintained.near)
    with pytest.MonkeyPatch.context() as failing:
        failing.setattr(Maintainer, "_remember", interrupted)
        with pytest.raises(Interrupted):
            maintained.apply_records(records)
    assert list(maintained.near) == before
    check_invariants(maintained)


def _saved(maintained: Maintainer) -> MemoryStore:
    store = MemoryStore()
    for written in maintained.save(everything=True):
        store.write(written)
    return store


def _cell(value: object) -> str:
    """Return a key as values are equal."""
    return "0.0" if value == 0 and isinstance(value, float) else repr(value)


def _one_each(rows: Sequence[Row], *, keyed: bool) -> list[Row]:
    """Return rows, of a keyed table the last one of each key."""
    return list({_cell(one[0]): one for one in rows}.values()) if keyed else list(rows)


def test_order_compatibilities_are_refused() -> None:
    table = from_arrow(pa.table({"a": [1, 2], "b": [1, 2]}), "r")
    with _storage() as storage:
        with pytest.raises(UsageError, match=r"leave out od \(name key,fd\)"):
            discover_near_blocks(_blocks(storage, table, 1), Fraction(0), families=("od", "fd"))
        with pytest.MonkeyPatch.context() as before_a_search:
            before_a_search.setattr(WholeInBlocks, "seed", interrupted)
            with pytest.raises(UsageError, match=r"leave them out .*near_orders=False"):
                Maintainer.seed(WholeInBlocks(_blocks(storage, table, 1)), near="1%")
        found = discover_near_blocks(_blocks(storage, table, 1), Fraction(0))
        with pytest.raises(UsageError, match="holdfast exceptions FILE CONSTRAINT"):
            found.removals(found)
        with pytest.raises(UsageError, match="holdfast exceptions FILE CONSTRAINT"):
            found.concentrations(found)
