"""Oracle tests of constraints that nearly hold: the near set, its border, exceptions of all shapes, and laws."""

import itertools
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.constraints import (
    DenialKind,
    Family,
    NearConstraint,
    NearShape,
    PredicateSpace,
    UsageError,
)
from holdfast.constraints.columns import Column, Schema
from holdfast.discovery.discover import discover
from holdfast.discovery.kernels import near as kernels
from holdfast.discovery.near import lattice
from holdfast.discovery.near.counting import Counter
from holdfast.discovery.near.discover import discover_near, exceptions_of
from holdfast.discovery.near.lattice import allowed, counting, near_set
from holdfast.discovery.near.rows import NearRows
from holdfast.discovery.near.targets import NearTargets
from holdfast.tables import ReadOptions, Table, from_arrow, read_table
from tests.oracles import near as oracle
from tests.oracles.values import Table as OracleTable
from tests.properties.tables import tables
from tests.taxes import tax_records

DATA = Path(__file__).parents[3] / "shared" / "data"
SHARES = st.sampled_from([Fraction(0), Fraction(1, 7), Fraction(1, 4), Fraction(1, 3), Fraction(1, 2)])


def _found(table: Table, share: Fraction, bound: int, threads: int = 1) -> dict[str, int]:
    return {str(near): near.exceptions for near in discover_near(table, share, bound, threads=threads)}


@given(tables(max_rows=7), SHARES, st.integers(0, 3), st.integers(1, 2))
def test_the_near_set_is_that_of_the_definition(
    both: tuple[OracleTable, Table], share: Fraction, bound: int, threads: int
) -> None:
    theirs, ours = both
    expected = oracle.reported(theirs.rows, len(theirs.columns), share, bound)
    assert _found(ours, share, bound, threads) == {oracle.text(one, theirs.columns): n for one, n in expected.items()}


@given(tables(max_columns=3, max_rows=7))
def test_exceptions_of_every_constraint_are_those_of_trying_all_subsets_of_rows(
    both: tuple[OracleTable, Table],
) -> None:
    theirs, ours = both
    for one in oracle.candidates(len(theirs.columns)):
        context_names, target_names = (
            [theirs.columns[place].name for place in places] for places in (one.context, one.target)
        )
        near = NearConstraint(NearShape(one.shape), context_names, target_names)
        found = exceptions_of(ours, near)
        assert found.exceptions == oracle.exceptions(theirs.rows, one)
        assert dict(zip(found.rows.tolist(), found.undecided.tolist(), strict=True)) == oracle.removed(theirs.rows, one)
        if found.violating_pairs is not None:
            pairs = itertools.combinations(theirs.rows, 2)
            assert found.violating_pairs == 2 * sum(oracle.violates(t, s, one) for t, s in pairs)
        rows = NearRows.of(ours, ours.schema.names)
        targets = NearTargets(rows)
        at = {name: column for column, name in enumerate(rows.names(ours.schema))}
        columns = tuple(sorted(at[name] for name in near.target))
        (number,) = (n for n in range(len(targets)) if targets.form(n) == (near.shape, columns))
        context = tuple(sorted(at[name] for name in near.context))
        assert Counter(rows, targets).exceptions(context, number) == found.exceptions


@given(tables(max_columns=3, max_rows=7), SHARES, st.integers(1, 2), st.integers(0, 7))
def test_the_border_is_what_is_not_near_but_in_larger_contexts(
    both: tuple[OracleTable, Table], share: Fraction, bound: int, enough: int
) -> None:
    theirs, ours = both
    rows = NearRows.of(ours, ours.schema.names)
    targets = NearTargets(rows)
    found = near_set(targets, allowed(share, rows.count), bound, counting(rows, targets, enough=enough))
    names = rows.names(ours.schema)
    border = {}
    for part in found.border:
        for number, least in zip(part.numbers.tolist(), part.exceptions.tolist(), strict=True):
            shape, target = targets.form(number)
            context = [names[column] for column in part.context]
            near = NearConstraint(shape, context, [names[column] for column in target]).canonical(ours.schema)
            assert str(near) not in border
            border[str(near)] = least
    expected = oracle.border(theirs.rows, len(theirs.columns), share, bound)
    assert border.keys() == {oracle.text(one, theirs.columns) for one in expected}
    most = int(share * len(theirs.rows))
    for one, exact in expected.items():
        least = border[oracle.text(one, theirs.columns)]
        assert most < least <= exact
        assert least == exact or least > enough


@given(tables(max_columns=3, max_rows=6), SHARES)
def test_leaving_out_by_minimal_constraints_alone_is_the_same(both: tuple[OracleTable, Table], share: Fraction) -> None:
    rows, width = both[0].rows, len(both[0].columns)
    minimal = oracle.reported(rows, width, share)
    near = oracle.near(rows, width, share)
    assert {one for one in near if not any(oracle.leaves_out(strong, one) for strong in minimal)} == set(minimal)


def _table(rng: np.random.Generator, rows: int, distinct: list[int]) -> Table:
    columns = {
        f"c{i}": pa.array(rng.integers(0, most, rows), mask=rng.random(rows) < 0.02) for i, most in enumerate(distinct)
    }
    return from_arrow(pa.table(columns), "r")


@pytest.mark.parametrize("seed", range(4))
def test_without_exceptions_it_is_what_the_exact_families_find(seed: int) -> None:
    """Keys by denial constraints without an order, the others by order dependencies, less those that a key hides."""
    table = _table(np.random.default_rng(seed), 40, [3, 5, 20, 40, 9])
    unordered = Schema("r", tuple(Column(c.name, c.type, ordered=False) for c in table.schema))
    same = discover(table, space=PredicateSpace(unordered, (), Family.DENIAL), max_predicates=3)
    keys = [frozenset(constraint.columns) for constraint in same if constraint.kind is DenialKind.KEY]
    exact = {
        str(dependency)
        for dependency in discover(table, family=Family.ORDER, max_context=3)
        if not any(key <= set(dependency.context) for key in keys)  # type: ignore[union-attr]
    }
    found = discover_near(table, Fraction(0), 3)
    assert {frozenset(near.context) for near in found if near.shape is NearShape.KEY} == set(keys)
    assert {str(near) for near in found if near.shape is not NearShape.KEY} == exact
    assert len(keys) > 1
    assert len(exact) > 1


def _naive(table: Table, near: NearConstraint) -> int:
    """Count exceptions by dictionaries of groups, and the longest subsequence by its quadratic recurrence."""
    values = {name: [(v is not None, v) for v in table[name].values().to_pylist()] for name in near.columns}
    groups: dict[tuple[object, ...], list[tuple[object, ...]]] = {}
    for i in range(table.row_count):
        context, target = (tuple(values[name][i] for name in names) for names in (near.context, near.target))
        groups.setdefault(context, []).append(target)
    found = 0
    for group in groups.values():
        if near.shape is NearShape.KEY:
            found += len(group) - 1
        elif near.shape is NearShape.CONSTANT:
            found += len(group) - max(group.count(value) for value in set(group))
        else:
            codes = [[sorted({row[side] for row in group}).index(row[side]) for row in group] for side in (0, 1)]  # type: ignore[type-var]
            sign = -1 if near.shape is NearShape.ORDER_DESC else 1
            best: list[int] = []
            ordered = sorted(zip(codes[0], (sign * b for b in codes[1]), strict=True))
            for i, (_, b) in enumerate(ordered):
                best.append(1 + max((best[j] for j in range(i) if ordered[j][1] <= b), default=0))
            found += len(group) - max(best, default=0)
    return found


@pytest.mark.parametrize("seed", range(3))
def test_groups_of_all_sizes_are_counted(seed: int) -> None:
    """Groups that are sorted in each of the three ways, cut for a first count, or not."""
    rng = np.random.default_rng(seed)
    n = 400
    a = rng.integers(0, 60, n)
    columns = {
        "g": rng.integers(0, [1, 4, 60][seed], n),
        "a": a,
        "b": np.where(rng.random(n) < 0.05, rng.integers(0, 60, n), a // 2),
        "c": rng.integers(0, 3, n),
        "y": np.where(rng.random(n) < 0.06, rng.integers(1, 5, n), 0),
        "z": np.where(rng.random(n) < 0.06, rng.integers(1, 5, n), 0),
    }
    table = from_arrow(pa.table(columns), "r")
    for share in (Fraction(1, 1000), Fraction(1, 20), Fraction(1, 2)):
        found = discover_near(table, share, 1)
        for near in found:
            assert near.exceptions == _naive(table, near) <= share * n
        known = {str(near) for near in found}
        for target, sign in itertools.product(
            (("a", "b"), ("b", "c"), ("y", "z")), (NearShape.ORDER, NearShape.ORDER_DESC)
        ):
            near = NearConstraint(sign, ("g",), target)
            if _naive(table, near) > share * n:
                assert str(near) not in known
            assert exceptions_of(table, near).exceptions == _naive(table, near)


@given(tables(max_columns=4, max_rows=9), SHARES, st.randoms(use_true_random=False))
def test_neither_the_order_of_rows_nor_copies_of_the_table_matter(
    both: tuple[OracleTable, Table], share: Fraction, random: Random
) -> None:
    ours = both[1]
    found = _found(ours, share, 2)
    order = list(range(ours.row_count))
    random.shuffle(order)
    assert _found(ours.taken(np.array(order, np.int64)), share, 2) == found
    every = np.tile(np.arange(ours.row_count), 3)
    for near in discover_near(ours, share, 2):
        if near.shape is not NearShape.KEY:
            assert exceptions_of(ours.taken(every), near).exceptions == 3 * near.exceptions


@given(tables(max_columns=4, max_rows=8))
def test_exceptions_never_grow_with_the_context_nor_exceed_those_of_what_hides(both: tuple[OracleTable, Table]) -> None:
    ours = both[1]
    names = ours.schema.names
    if len(names) < 3:
        return
    count = {
        size: [
            exceptions_of(ours, NearConstraint(shape, names[2 : 2 + size], target)).exceptions
            for shape, target in _shapes(names)
        ]
        for size in range(len(names) - 1)
    }
    for size in range(1, len(count)):
        assert all(more <= less for more, less in zip(count[size], count[size - 1], strict=True))
        key = exceptions_of(ours, NearConstraint(NearShape.KEY, names[2 : 2 + size], ())).exceptions
        assert max(count[size]) <= key
    for first, second, same, opposite in count.values():
        assert max(same, opposite) <= min(first, second)


def _shapes(names: Sequence[str]) -> list[tuple[NearShape, Sequence[str]]]:
    return [
        (NearShape.CONSTANT, names[:1]),
        (NearShape.CONSTANT, names[1:2]),
        (NearShape.ORDER, names[:2]),
        (NearShape.ORDER_DESC, names[:2]),
    ]


def test_families_are_parts_of_one_set() -> None:
    table = from_arrow(tax_records(400, error_rate=0.02), "tax")
    whole = {str(near): near.exceptions for near in discover_near(table, Fraction(1, 50), 2)}
    parts: dict[str, int] = {}
    for family in ("key", "fd", "od"):
        part = {str(near): near.exceptions for near in discover_near(table, Fraction(1, 50), 2, families=[family])}
        assert part
        parts |= part
    assert parts == whole
    assert "{AreaCode}: [] -> State" in whole


@pytest.mark.parametrize("rows", [0, 1])
def test_a_table_of_no_rows_or_one(rows: int) -> None:
    table = from_arrow(pa.table({"a": pa.array([1] * rows, pa.int64()), "b": pa.array(["x"] * rows, pa.string())}), "r")
    assert _found(table, Fraction(1, 2), 3) == {"{}: [] -> a": 0, "{}: [] -> b": 0, "key(a)": 0, "key(b)": 0}


def test_a_column_of_nulls_is_constant() -> None:
    table = from_arrow(pa.table({"a": pa.array([1, 2, 2]), "n": pa.nulls(3, pa.string())}), "r")
    assert _found(table, Fraction(0), 3) == {"{}: [] -> n": 0}
    assert _found(table, Fraction(1, 3), 3) == {"{}: [] -> n": 0, "{}: [] -> a": 1, "key(a)": 1}


def test_a_table_without_columns_has_no_constraints() -> None:
    assert _found(from_arrow(pa.table({}), "r"), Fraction(1, 2), 3) == {}


def test_a_column_without_an_order_is_compared_for_equality_alone() -> None:
    data = pa.table({"a": [1, 2, 3, 3], "b": [3, 1, 2, 2], "c": ["x", "y", "z", "z"]})
    table = from_arrow(data, "r", ReadOptions(ordered={"b": False}))
    found = _found(table, Fraction(0), 3)
    assert {text for text in found if "~" in text} == {"{}: a ~ c"}
    with pytest.raises(UsageError, match="b is declared to have no order"):
        exceptions_of(table, NearConstraint(NearShape.ORDER, (), ("a", "b")))


def test_an_explosion_ends_with_a_count_so_far_and_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    table = _table(np.random.default_rng(1), 60, [4] * 10)
    for name in ("MOST_CONTEXTS", "MOST_CANDIDATES"):
        with monkeypatch.context() as patch:
            patch.setattr(lattice, name, 40)
            with pytest.raises(UsageError, match=r"more than [0-9,]+ candidates in [0-9]+ contexts of .*--max-context"):
                discover_near(table, Fraction(0), 0)


def test_without_a_bound_the_largest_feasible_context_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    table = _table(np.random.default_rng(1), 60, [4] * 10)
    monkeypatch.setattr(lattice, "MOST_CONTEXTS", 50)
    found = discover_near(table, Fraction(1, 10), None)
    assert found.max_context == 2
    assert "contexts of at most 2 columns are searched" in found.left_out
    assert set(map(str, found)) == set(map(str, discover_near(table, Fraction(1, 10), 2)))
    with pytest.raises(UsageError, match="--max-context"):
        discover_near(table, Fraction(1, 10), 3)
    monkeypatch.setattr(lattice, "MOST_CONTEXTS", 9)
    with pytest.raises(UsageError, match="--max-context"):
        discover_near(table, Fraction(1, 10), None)
    monkeypatch.undo()
    assert (discover_near(table, Fraction(1, 10), None).max_context, found.share) == (3, Fraction(1, 10))


def test_tens_of_thousands_of_members_are_all_given() -> None:
    rng = np.random.default_rng(0)
    columns = {f"c{i:02}": np.where(rng.random(60) < 0.1, rng.integers(1, 3, 60), 0) for i in range(26)}
    found = discover_near(from_arrow(pa.table(columns), "r"), Fraction(1, 12), 3, threads=2)
    assert len(found) > 10_000
    assert len({str(near) for near in found}) == len(found)


def test_rows_of_the_removal_are_certain_or_undecided() -> None:
    data = pa.table({"zip": ["1", "1", "1", "2", "2", "3"], "city": ["a", "a", "b", "c", "d", "e"]})
    found = exceptions_of(from_arrow(data, "r"), NearConstraint(NearShape.CONSTANT, ("zip",), ("city",)))
    assert (found.exceptions, found.rows.tolist()) == (2, [2, 3, 4])
    assert found.undecided.tolist() == [False, True, True]
    assert found.first(2) == [(2, False), (3, True)]


def test_the_dirty_tax_table_has_the_keys_and_dependencies_of_a_naive_count() -> None:
    path = DATA / "tax55k_dirty.csv.gz"
    if not path.exists():
        pytest.skip(f"{path.name} is not beside this checkout")
    table = read_table(path, ReadOptions(strings="all"))
    found = discover_near(table, Fraction(1, 100), 3, families=["key", "fd"], threads=2)
    assert found.counts() == {NearShape.KEY: 11, NearShape.CONSTANT: 125}
    best = [str(near) for _, near in found.top(14)]
    assert {"{zip}: [] -> city", "{area_code}: [] -> state"} <= set(best)


def test_top_puts_what_could_have_most_exceptions_and_has_few_first() -> None:
    table = from_arrow(tax_records(2_000, error_rate=0.01), "tax")
    found = discover_near(table, Fraction(1, 100), 2, threads=2)
    best = found.top(len(found))
    assert [score for score, _ in best] == sorted((score for score, _ in best), reverse=True)
    assert all(0 <= score <= 1 for score, _ in best)
    assert {str(near) for _, near in best} == {str(near) for near in found}
    texts = [str(near) for _, near in best]
    assert texts.index("{AreaCode}: [] -> State") < len(texts) / 4


@pytest.mark.parametrize("seed", range(5))
def test_disjoint_pairs_that_swap_are_lower_bounds(seed: int) -> None:
    """On groups of all sizes, of columns with many values and with one frequent value."""
    rng = np.random.default_rng(seed)
    n = 300
    starts = np.unique(np.concatenate([[0, n], rng.integers(2, n - 2, [0, 3, 40, 5, 1][seed])]))
    starts = starts[np.concatenate([[True], np.diff(starts) > 1])]
    starts[-1] = n
    rows = rng.permutation(n).astype(np.int32)
    dense, rare = rng.integers(0, 30, n), np.where(rng.random((2, n)) < 0.1, rng.integers(1, 4, (2, n)), 0)
    pairs = [(dense, dense // 3), (dense, rare[0]), (rare[0], rare[1]), (dense, rng.integers(0, 2, n))]
    for a, b in [(left.astype(np.int32), right.astype(np.int32)) for left, right in pairs]:
        exact = [0, 0]
        for first, last in itertools.pairwise(starts.tolist()):
            group = [(int(a[row]), int(b[row])) for row in rows[first:last]]
            for way in (0, 1):
                best: list[int] = []
                ordered = sorted((x, -y if way else y) for x, y in group)
                for i, (_, y) in enumerate(ordered):
                    best.append(1 + max((best[j] for j in range(i) if ordered[j][1] <= y), default=0))
                exact[way] += len(group) - max(best)
        for found in (
            kernels.neighbours_kernel(rows, starts, a, b, 3, n),
            *(kernels.across_kernel(rows, starts, a, b, int(m), int(k), 3, n) for m in (0, 9, 20) for k in (0, 1, 3)),
        ):
            assert found[0] <= exact[0]
            assert found[1] <= exact[1]
    only = [np.count_nonzero((rare[side] > 0) & (rare[1 - side] == 0)) for side in (0, 1)]
    one, other = rare.astype(np.int32)
    enough = int(min(only)) // 2
    same, _ = kernels.across_kernel(rows, np.array([0, n]), one, other, 0, 0, kernels.SAME, enough)
    assert enough < same <= min(only)
