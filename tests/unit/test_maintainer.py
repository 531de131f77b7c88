"""The maintainer on real tables where they are at hand, on bad input, and after exceptions."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from holdfast import Maintainer, ReadOptions, discover, from_arrow, read_table
from holdfast.constraints import InputError, PredicateSpace, UnknownColumn
from holdfast.discovery.denial.covers import Covers
from holdfast.discovery.order.contexts import Contexts
from holdfast.discovery.order.search import OrderSearch
from holdfast.indexes.rows import RowSet
from holdfast.indexes.table_index import TableIndex
from holdfast.streaming.maintainers.certified.denial import DenialMaintainer
from holdfast.streaming.maintainers.certified.order import OrderMaintainer
from holdfast.streaming.maintainers.holdings.in_memory import RowsInMemory
from holdfast.streaming.maintainers.maintainer import DELETE, INSERT, UPDATE, Records
from holdfast.streaming.maintainers.table.reasons import Reasons
from holdfast.tables import overlap
from holdfast.tables.arrays import Slots
from tests.invariants import check_invariants
from tests.taxes import tax_records

ORDER = {Contexts, OrderSearch, OrderMaintainer}
DENIAL = {Covers, DenialMaintainer}
SHARED = Path(__file__).parents[3] / "shared" / "data"
KNOWN = {3_000: 26, 6_000: 27, 9_000: 28, 14_418: 26}


def index_of(maintainer: Maintainer) -> TableIndex:
    """Return the index of a maintainer whose rows are in memory."""
    assert isinstance(maintainer.holding, RowsInMemory)
    return maintainer.holding.index


def _records(rows: pa.Table, operation: int, name: str = "tax") -> Records:
    return Records(from_arrow(rows, name), np.full(len(rows), operation, np.int8))


@pytest.mark.skipif(not (SHARED / "airport_original.csv.gz").exists(), reason="the real tables are not at hand")
def test_airports_have_the_published_numbers_after_each_part() -> None:
    seed = read_table(SHARED / "airport_original.csv.gz", ReadOptions(typed_header=True, encoding="latin-1"))
    space = PredicateSpace.build(seed.schema, "auto", lambda a, b: overlap(seed, a, b))
    options = ReadOptions(typed_header=True, encoding="latin-1", types={c.name: c.type for c in seed.schema})
    more = read_table(SHARED / "airport_incremental.csv.gz", options).to_arrow()
    maintainer = Maintainer.seed(seed, key=["ident"], max_predicates=0, space=space)
    assert len(maintainer.constraints) == 31
    known = {}
    for start in range(0, len(more), 1_500):
        maintainer.apply(inserts=more.slice(start, 1_500))
        known[min(start + 1_500, len(more))] = len(maintainer.constraints)
    assert {rows: known[rows] for rows in KNOWN} == KNOWN
    for start in range(0, len(more), 5_000):
        maintainer.apply(deletes=more.slice(start, 5_000).select(["ident"]))
    anew = discover(seed, space=space, max_predicates=0)
    assert {str(c) for c in maintainer.constraints} == {str(c) for c in anew}
    assert maintainer.row_count == seed.row_count


@pytest.mark.skipif(not (SHARED / "adult11.csv.gz").exists(), reason="the real tables are not at hand")
@pytest.mark.parametrize("bound", [0, 4])
def test_adults_through_random_batches_equal_a_discovery_anew(bound: int) -> None:
    table = read_table(SHARED / "adult11.csv.gz", ReadOptions(typed_header=True, limit=6_000))
    rows = table.to_arrow()
    space = PredicateSpace(table.schema)
    rng = np.random.default_rng(5)
    inside = np.arange(len(rows)) < 4_000
    maintainer = Maintainer.seed(from_arrow(rows.filter(pa.array(inside)), "adult"), max_predicates=bound, space=space)
    for size in (1, 300, 40, 700):
        coming = rng.choice(np.flatnonzero(~inside), size, replace=False)
        going = rng.choice(np.flatnonzero(inside), size, replace=False)
        maintainer.apply(inserts=rows.take(pa.array(coming)), deletes=rows.take(pa.array(going)))
        inside[coming], inside[going] = True, False
        anew = discover(from_arrow(rows.filter(pa.array(inside)), "adult"), space=space, max_predicates=bound)
        assert {str(c) for c in maintainer.constraints} == {str(c) for c in anew}
        assert maintainer.row_count == inside.sum()


@pytest.mark.parametrize("bound", [0, 1, 2, 4])
@pytest.mark.parametrize("crossing", [False, True])
def test_tax_records_through_inserts_updates_and_deletes(bound: int, crossing: bool) -> None:
    records = tax_records(3_000, error_rate=0.01)
    schema = from_arrow(records, "tax").schema
    names = schema.names
    pairs = ((names.index("ChildExemp"), names.index("Bonus")), (names.index("Salary"), names.index("Tax")))
    space = PredicateSpace(schema, pairs if crossing else ())
    bound = bound or (0 if not crossing else 3)
    maintainer = Maintainer.seed(
        from_arrow(records.slice(0, 1_500), "tax"), key=["AreaCode", "Phone"], max_predicates=bound, space=space
    )
    current = pa.concat_tables([records.slice(200, 1_300), records.slice(1_500, 500)])
    maintainer.apply(inserts=records.slice(1_500, 500), deletes=records.slice(0, 200).select(["AreaCode", "Phone"]))
    shifted = records.slice(200, 100).set_column(7, "Salary", records.slice(900, 100).column("Salary"))
    maintainer.apply_records(_records(shifted, UPDATE))
    check_invariants(maintainer)
    current = pa.concat_tables([shifted, current.slice(100)])
    anew = discover(from_arrow(current, "tax"), space=space, max_predicates=bound)
    assert {str(c) for c in maintainer.constraints} == {str(c) for c in anew}
    assert maintainer.row_count == len(current)


PEOPLE = pd.DataFrame(
    {"id": [1, 2, 3, 4], "city": ["Rome", "Rome", "Oslo", None], "rate": [1.0, 2.0, 2.0, float("nan")]}
)


@pytest.mark.parametrize(
    "broken",
    [
        (TableIndex, "remove"),
        (TableIndex, "insert"),
        (TableIndex, "probe"),
        (TableIndex, "hold"),
        (Covers, "extend"),
        (Covers, "shrink"),
        (Reasons, "of"),
        (DenialMaintainer, "_still_lost"),
        (DenialMaintainer, "_prove"),
        (Contexts, "add"),
        (Contexts, "remove"),
        (Contexts, "_change"),
        (OrderSearch, "find"),
        (OrderMaintainer, "_prove"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
@pytest.mark.parametrize("bounds", [(0, None), (2, None), (None, 0), (2, 2)], ids=str)
def test_an_exception_leaves_the_state_as_it_was(
    broken: tuple[type, str], bounds: tuple[int | None, int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, method = broken
    bound, context = bounds
    if (context is None and owner in ORDER) or (bound is None and owner in DENIAL):
        pytest.skip("nothing of this family is maintained")
    monkeypatch.setattr(TableIndex, "_pays", lambda *_: True)
    records = tax_records(300, error_rate=0.05)
    maintainer = Maintainer.seed(from_arrow(records.slice(0, 200), "tax"), max_predicates=bound, max_context=context)
    before = sorted(map(str, maintainer.constraints))
    original = getattr(owner, method)
    with monkeypatch.context() as patch:
        calls = []

        def fail(*given: object, **named: object) -> object:
            calls.append(method)
            if len(calls) == 1:
                original(*given, **named)  # half of the work is done
                raise MemoryError(method)
            return original(*given, **named)

        patch.setattr(owner, method, fail)
        with pytest.raises(MemoryError, match=method):
            maintainer.apply(inserts=records.slice(200, 60), deletes=records.slice(0, 60))
    assert sorted(map(str, maintainer.constraints)) == before
    assert maintainer.row_count == 200
    check_invariants(maintainer._rows)
    for family in maintainer._families:
        check_invariants(family.certificate)
    check_invariants(index_of(maintainer))
    maintainer.apply(inserts=records.slice(200, 60), deletes=records.slice(0, 60))
    anew = [
        str(c)
        for family, most in maintainer.bounds.families.items()
        for c in discover(
            from_arrow(records.slice(60, 200), "tax"),
            family=family,
            space=maintainer.space,
            max_predicates=most,
            max_context=most,
        )
    ]
    assert {str(c) for c in maintainer.constraints} == set(anew)


def test_a_table_that_was_seeded_empty_is_searched_like_any_other() -> None:
    records = tax_records(12_000)
    maintainer = Maintainer.seed(from_arrow(records.slice(0, 0), "tax"), max_predicates=2)
    assert not index_of(maintainer).is_used
    for start in range(0, 12_000, 3_000):
        maintainer.apply(inserts=records.slice(start, 3_000))
    index = index_of(maintainer)
    check_invariants(index)
    assert index.is_used
    assert 2 * index._measured_at + 1_000 >= maintainer.row_count
    grown = Maintainer.seed(from_arrow(records, "tax"), max_predicates=2, space=maintainer.space)
    assert set(map(str, grown.constraints)) == set(map(str, maintainer.constraints))
    before = index.effort.copy()
    maintainer.apply(inserts=tax_records(100, first_row=50_000))
    grown_before = index_of(grown).effort.copy()
    grown.apply(inserts=tax_records(100, first_row=50_000))
    assert (index.effort - before).sum() < 3 * (index_of(grown).effort - grown_before).sum()


def test_two_seed_rows_with_one_key_are_named() -> None:
    with pytest.raises(InputError, match=r"row 3.*the same key \(id\) as table, row 1.*expected each key once"):
        Maintainer.seed(pd.DataFrame({"id": [1, 2, 1]}), key=["id"])
    with pytest.raises(InputError, match="row 2: the key column id is null"):
        Maintainer.seed(pd.DataFrame({"id": pd.array([1, None], "Int64")}), key=["id"])
    with pytest.raises(UnknownColumn, match="no column 'ident'"):
        Maintainer.seed(pd.DataFrame({"id": [1, 2, 1]}), key=["ident"])


def test_bad_batches_change_nothing() -> None:
    keyed = Maintainer.seed(PEOPLE, name="people", key=["id"])
    keyless = Maintainer.seed(PEOPLE, name="people")
    before = sorted(map(str, keyed.constraints)), sorted(map(str, keyless.constraints))
    with pytest.raises(InputError, match="key column id is null"):
        keyed.apply(inserts=pd.DataFrame({"city": ["Rome"]}))
    with pytest.raises(InputError, match="column id"):
        keyed.apply(inserts=pd.DataFrame({"id": ["five"], "city": ["Rome"], "rate": [1.0]}))
    with pytest.raises(UnknownColumn, match="no column 'town'"):
        keyed.apply(inserts=pd.DataFrame({"id": [5], "town": ["Rome"]}))
    with pytest.raises(InputError, match="an update, but table people has no key"):
        keyless.apply_records(_records(pa.table({"id": [1], "city": ["x"], "rate": [1.0]}), UPDATE, "people"))
    assert (sorted(map(str, keyed.constraints)), sorted(map(str, keyless.constraints))) == before
    assert keyed.row_count == keyless.row_count == 4


def test_odd_batches_are_counted() -> None:
    keyed = Maintainer.seed(PEOPLE, name="people", key=["id"])
    row = {"city": ["Rome"], "rate": [1.0]}
    ignored = keyed.apply_records(_records(pa.table({"id": [9], **row}), DELETE, "people"))
    assert (ignored.ignored, ignored.rows, ignored.changes) == (1, 4, [])
    same = keyed.apply_records(_records(pa.table({"id": [1], **row}), INSERT, "people"))
    assert (same.inserted, same.updated, same.rows_in, same.rows) == (0, 0, 0, 4)
    table = from_arrow(pa.table({"id": [7, 7, 7], "city": ["a", "b", "c"], "rate": [1.0, 2.0, 3.0]}), "people")
    last = keyed.apply_records(Records(table, np.array([INSERT, DELETE, INSERT], np.int8)))
    assert (last.inserted, last.rows_in, last.rows) == (1, 1, 5)
    assert keyed.apply() == []
    empty = keyed.apply_records(_records(pa.table({"id": [1], **row}).slice(0, 0), INSERT, "people"))
    assert (empty.rows, empty.changes) == (5, [])
    keyless = Maintainer.seed(PEOPLE, name="people")
    owed = keyless.apply_records(_records(pa.table({"id": [9], **row}), DELETE, "people"))
    assert (owed.owed, owed.newly_owed, owed.rows, owed.changes) == (1, 1, 4, [])
    settled = keyless.apply_records(_records(pa.table({"id": [9], **row}), INSERT, "people"))
    assert (settled.owed, settled.inserted, settled.rows, settled.changes) == (0, 0, 4, [])


def test_the_rows_that_prove_the_changes_of_a_batch_are_read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading the values of one row costs as much as reading those of a hundred."""
    rng = np.random.default_rng(2)
    rows = pa.table({f"c{i}": rng.integers(0, 12, 120).astype(str) for i in range(6)})
    maintainer = Maintainer.seed(from_arrow(rows.slice(0, 60), "t"), max_predicates=3)
    read: list[list[int]] = []
    values = RowSet.values

    def counted(of: RowSet, slots: Slots) -> list[dict[str, Any]]:
        read.append(slots.tolist())
        return values(of, slots)

    monkeypatch.setattr(RowSet, "values", counted)
    changes = maintainer.apply(inserts=rows.slice(60))
    proven = [change.witness for change in changes if change.witness is not None]
    assert len(proven) > 10
    assert len(read) == 1
    assert len(read[0]) == len(set(read[0]))
    for witness in proven:
        assert all(image.values in rows.to_pylist() for image in witness.rows)
