"""Kernels of groups against their plain twin: tables that are full but for one place, copies that go, groups asked for."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from holdfast.indexes.kernels.groups import (
    GroupTable,
    RequestedSizes,
    SortedRows,
    broken_groups_kernel,
    change_groups_kernel,
    group_sizes_kernel,
    rehash_groups_kernel,
)
from tests.oracles.groups import PlainGroups

VALUES = (0, 1, -1, 2**63 - 1, -(2**63))
ROWS = st.lists(st.tuples(*(st.sampled_from(VALUES) for _ in range(3))), max_size=12, unique=True)
SHAPES = st.sampled_from([((), None), ((0,), None), ((1, 0), None), ((), 2), ((0,), 2), ((1, 0), 2)])

Shape = tuple[tuple[int, ...], int | None]


@given(ROWS, SHAPES, st.lists(st.lists(st.tuples(st.integers(0, 11), st.integers(-2, 3)), max_size=8), max_size=5))
def test_rows_come_and_go(rows: list[tuple[int, ...]], shape: Shape, batches: list[list[tuple[int, int]]]) -> None:
    codes = np.array(rows, np.int64).reshape(len(rows), 3)
    columns, dependent = shape
    all_columns = columns if dependent is None else (*columns, dependent)
    groups, parts = _table(_room(codes, columns), columns), _table(_room(codes, all_columns), all_columns)
    totals = np.zeros(4, np.int64)
    copies = [0] * len(rows)
    seen: set[int] = set()
    for batch in batches:
        changes = [(slot, max(amount, -copies[slot])) for slot, amount in batch if slot < len(rows)]
        changes = list(dict(changes).items())
        for slot, amount in changes:
            copies[slot] += amount
            seen.add(slot)
        slots, amounts = (np.array([change[i] for change in changes], np.int64) for i in (0, 1))
        change_groups_kernel(codes, slots, amounts, groups, parts, totals)
        plain = PlainGroups([row for row, n in zip(rows, copies, strict=True) for _ in range(n)], columns, dependent)
        assert totals[0] == plain.pairs()
        assert totals[1] == plain.breaking()
        assert totals[2] == len({plain.group(rows[slot]) for slot in seen})
        assert totals[3] == (
            0 if dependent is None else len({(plain.group(rows[s]), rows[s][dependent]) for s in seen})
        )
        assert _live(groups) == plain.sizes()
        kept = np.flatnonzero(groups.counts[:, 0])
        larger = _table(2 * len(groups.used), tuple(range(len(columns))))
        rehash_groups_kernel(kept, groups, larger)
        larger = larger._replace(columns=groups.columns)
        assert _live(larger) == plain.sizes()
        assert larger.used.sum() == len(kept)
        for table in (groups, larger):
            out = np.ones(len(rows), np.bool_)
            every = np.arange(len(rows))
            broken_groups_kernel(codes, every, table, dependent is not None, out)
            assert out.tolist() == [plain.breaks(plain.group(row)) for row in rows]


@given(st.sampled_from([0, 1, 2, 8, 30]), st.integers(0, 8), SHAPES, st.integers(0, 2**32 - 1))
def test_sizes_of_groups_that_are_asked_for(held_count: int, others: int, shape: Shape, seed: int) -> None:
    rng = np.random.default_rng(seed)
    columns, dependent = shape
    codes = np.array(VALUES)[np.column_stack([rng.integers(0, n, held_count + others) for n in (2, 2, 5)])]
    rows = codes.tolist()
    held, copies = rows[:held_count], rng.integers(0, 3, held_count).tolist()
    keys = [*columns, *([] if dependent is None else [dependent])]
    ordered = sorted(range(len(held)), key=lambda slot: [rows[slot][c] for c in keys])
    before = np.cumsum([0, *(copies[slot] for slot in ordered)])
    plain = PlainGroups([row for row, n in zip(held, copies, strict=True) for _ in range(n)], columns, dependent)
    some = rng.permutation(len(rows))[: rng.integers(0, len(rows) + 1)].tolist()  # a row of each part, held or not
    parts = {tuple(rows[slot][c] for c in keys): slot for slot in some}
    by_group: dict[tuple[int, ...], list[int]] = {}
    for key in sorted(parts):
        by_group.setdefault(plain.group(rows[parts[key]]), []).append(parts[key])
    asked = np.array([slot for slots in by_group.values() for slot in slots], np.int64)
    starts = np.cumsum([0, *map(len, by_group.values())])
    groups, beside, other = np.full((3, len(by_group)), 99)
    sizes = np.full(len(asked), 99)
    wanted = np.array([] if dependent is None else [dependent], np.int64)
    listed = SortedRows(np.array(ordered, np.int32), before, np.array(columns, np.int64), wanted)
    group_sizes_kernel(codes, listed, asked, starts, RequestedSizes(groups, sizes, beside, other))
    for g, (group, slots) in enumerate(by_group.items()):
        assert groups[g] == len(plain.members(group))
        if dependent is None:
            assert beside[g] == 0
            continue
        dependents = plain.dependents(group)
        assert sizes[starts[g] : starts[g + 1]].tolist() == [dependents[rows[slot][dependent]] for slot in slots]
        more = dependents.keys() - {rows[slot][dependent] for slot in slots}
        assert beside[g] == min(len(more), 2)
        if more:
            assert plain.group(rows[other[g]]) == group
            assert rows[other[g]][dependent] in more


def _room(codes: Any, columns: tuple[int, ...]) -> int:
    """Return the smallest table that the groups leave one place free in."""
    groups, size = len({tuple(row[list(columns)]) for row in codes}), 1
    while size <= groups:
        size *= 2
    return size


def _table(size: int, columns: tuple[int, ...]) -> GroupTable:
    keys, counts = np.zeros((size, len(columns)), np.int64), np.zeros((size, 2), np.int64)
    return GroupTable(np.array(columns, np.int64), keys, counts, np.zeros(size, np.bool_))


def _live(table: GroupTable) -> dict[tuple[int, ...], tuple[int, int]]:
    _, keys, counts, used = table
    assert not counts[~used].any()
    found = [(tuple(keys[i].tolist()), (int(counts[i, 0]), int(counts[i, 1]))) for i in np.flatnonzero(counts[:, 0])]
    assert len(dict(found)) == len(found)
    return dict(found)
