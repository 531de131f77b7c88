"""A maintainer that is saved and restored at any batch goes on as if nothing had happened."""

import random

import pyarrow as pa
import pytest

from holdfast.constraints import PredicateSpace, StateRefused
from holdfast.discovery.discover import discover
from holdfast.indexes.encoding import Labels
from holdfast.state import codecs
from holdfast.state.memory import MemoryStore
from holdfast.state.store import WriteBatch
from holdfast.streaming.maintainers.maintainer import Maintainer
from holdfast.tables import ReadOptions, Table, from_arrow, space_of

Rows = list[tuple[object, ...]]

TYPES = (pa.int64(), pa.float64(), pa.string(), pa.decimal128(30, 1))
DOMAINS = ([0, 1, 5, -(2**63), None], [0.0, 1.0, float("nan"), None], ["x", "y", "z", None], [None, 0, 10**25])


def _table(rows: Rows) -> Table:
    columns = {f"c{i}": pa.array([row[i] for row in rows], kind) for i, kind in enumerate(TYPES)}
    return from_arrow(pa.table(columns), "r", ReadOptions(ordered={"c2": True}))


@pytest.mark.parametrize("seed", range(40))
def test_saving_and_restoring_changes_nothing(seed: int) -> None:
    dice = random.Random(seed)
    key = ["c0"] if seed % 3 == 0 else []

    def row() -> tuple[object, ...]:
        return tuple(dice.choice(domain) for domain in DOMAINS)

    current: Rows = []
    if not key:
        current = [row() for _ in range(dice.randint(0, 6))]
    table = _table(current)
    space = space_of(table) if seed % 2 else PredicateSpace(table.schema, ((0, 3),))
    bound = dice.choice([0, 2])
    maintainer = Maintainer.seed(table, key=key, max_predicates=bound, space=space, threads=1)
    store = MemoryStore()
    for batch in maintainer.save(7, everything=True):
        store.write(batch)
    for step in range(8):
        inserts = [row() for _ in range(dice.randint(0, 3))]
        if key:
            inserts = list({r[0]: r for r in inserts if r[0] is not None}.values())
            current = [r for r in current if r[0] not in {i[0] for i in inserts}]
        deletes = dice.sample(current, dice.randint(0, len(current)))
        for gone in deletes:
            current.remove(gone)
        current += inserts
        maintainer.apply(inserts=_table(inserts), deletes=_table(deletes))
        if dice.random() < 0.7:
            for batch in maintainer.save(7):
                store.write(batch)
            if dice.random() < 0.7:
                maintainer = Maintainer.restore(store, 7, threads=1)
        maintainer.check_invariants()
        expected = discover(_table(current), space=space, max_predicates=bound, threads=1)
        assert {str(c) for c in maintainer.constraints} == {str(c) for c in expected}, step
        assert maintainer.row_count == len(current)


def test_what_is_written_is_proportional_to_the_batch() -> None:
    rows: Rows = [(i, float(i % 7), f"text {i}", i) for i in range(2_000)]
    maintainer = Maintainer.seed(_table(rows), key=["c0"], threads=1)
    for _ in maintainer.save(everything=True):
        pass
    maintainer.apply(inserts=_table([(5_000, 1.0, "text 5000", 5_000)]))
    written = sum(len(batch) for batch in maintainer.save())
    assert 0 < written < 20


def test_a_store_without_the_table_or_of_another_format_is_refused() -> None:
    store = MemoryStore()
    with pytest.raises(StateRefused, match="holds no table number 0: seed one first"):
        Maintainer.restore(store)
    for batch in Maintainer.seed(_table([])).save(everything=True):
        store.write(batch)
    change = WriteBatch()
    change.put("meta", codecs.number(0) + b"table", codecs.json_bytes({"format": 99}))
    store.write(change)
    with pytest.raises(StateRefused, match="format 99"):
        Maintainer.restore(store)


def test_values_do_not_pile_up_where_it_is_restored_often() -> None:
    def rows(batch: int) -> Table:
        return _table([(i, 0.5, f"text {batch} {i}", batch * 1_000 + i) for i in range(900)])

    maintainer = Maintainer.seed(rows(0), key=["c0"], max_predicates=1, threads=1)
    store = MemoryStore()
    for part in maintainer.save(everything=True):
        store.write(part)
    for batch in range(1, 40):
        maintainer.apply(inserts=rows(batch))
        for part in maintainer.save():
            store.write(part)
        if batch % 9 == 0:
            maintainer = Maintainer.restore(store, threads=1)
    assert len(list(store.scan("values"))) < 50_000
    labels = maintainer._rows.encoding._domains[2]
    assert isinstance(labels, Labels)
    assert len(labels._labels) <= 20_000
