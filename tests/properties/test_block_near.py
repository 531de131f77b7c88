"""Laws of near constraints over blocks: they are those of the table in memory, found at once and batch by batch.

Differential tests: discovery and its border against `discover_near`, counts of candidates against those of all rows, and a
maintainer of a table in blocks of a few rows beside one in memory.
"""

import itertools
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from holdfast.discovery.blocks import near as in_blocks
from holdfast.discovery.blocks.block import Rows, write_blocks
from holdfast.discovery.blocks.discover import discover_near_blocks
from holdfast.discovery.blocks.near import BlockCounts, unordered_targets
from holdfast.discovery.blocks.storage import Storage
from holdfast.discovery.blocks.table import BlockTable, Source
from holdfast.discovery.codes import column_numbers
from holdfast.discovery.near.counting import Context, Counter
from holdfast.discovery.near.discover import NearDiscovered, discover_near
from holdfast.discovery.near.lattice import Member
from holdfast.discovery.near.targets import KEY
from holdfast.tables import Table
from tests.executors import ExecutorsHere
from tests.oracles.values import Table as OracleTable
from tests.properties.tables import tables

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
    return BlockTable(source, list(write_blocks(storage.open(), rows, most)), ExecutorsHere(None))


def _border(found: NearDiscovered) -> dict[str, tuple[Context, int, int]]:
    """Return the border of what was found by constraints: context and target by number, and the lower bound."""
    return {
        str(found.constraint(Member(part.context, number, 0))): (part.context, number, least)
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
        found = discover_near_blocks(_blocks(storage, table, most), share, bound, families=families)
    assert list(found) == list(expected)
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
    exact = Counter(in_blocks._near_rows(codes, targets.of_table, np.arange(codes.shape[1], dtype=np.int32)), targets)
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
