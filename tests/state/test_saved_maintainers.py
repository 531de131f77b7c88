"""A maintainer that is saved and restored at any batch goes on as if nothing had happened."""

import random
from pathlib import Path

import pyarrow as pa
import pytest

from holdfast.constraints import Family, PredicateSpace, StateRefused
from holdfast.discovery.discover import discover
from holdfast.indexes.encoding import Labels
from holdfast.state import codecs, pieces
from holdfast.state.memory import MemoryStore
from holdfast.state.rocks import RocksStore
from holdfast.state.store import Store, WriteBatch
from holdfast.streaming.maintainers.maintainer import Maintainer
from holdfast.streaming.maintainers.table.stored_definition import (
    family_prefix,
    near_prefix,
    table_prefix,
    versions_prefix,
)
from holdfast.tables import ReadOptions, Table, from_arrow, space_of
from tests.invariants import check_invariants

Rows = list[tuple[object, ...]]

TYPES = (pa.int64(), pa.float64(), pa.string(), pa.decimal128(30, 1))
DOMAINS = ([0, 1, 5, -(2**63), None], [0.0, 1.0, float("nan"), None], ["x", "y", "z", None], [None, 0, 10**25])


def _table(rows: Rows) -> Table:
    columns = {f"c{i}": pa.array([row[i] for row in rows], kind) for i, kind in enumerate(TYPES)}
    return from_arrow(pa.table(columns), "r", ReadOptions(ordered={"c2": True}))


@pytest.mark.parametrize("seed", range(60))
def test_saving_and_restoring_changes_nothing(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a store of either kind, with pieces of a few rows, which are cleaned all the time, and of the usual size."""
    dice = random.Random(seed)
    key = ["c0"] if seed % 3 == 0 else []
    if seed % 4:
        monkeypatch.setattr(pieces, "PIECE", dice.choice([1, 2, 5]))
        monkeypatch.setattr(pieces, "_SLACK", dice.choice([0, 4]))

    def row() -> tuple[object, ...]:
        return tuple(dice.choice(domain) for domain in DOMAINS)

    current: Rows = []
    if not key:
        current = [row() for _ in range(dice.randint(0, 6))]
    table = _table(current)
    space = space_of(table) if seed % 2 else PredicateSpace(table.schema, ((0, 3),))
    bound = dice.choice([0, 2])
    maintainer = Maintainer.seed(table, key=key, max_predicates=bound, space=space, threads=1)
    store: Store = RocksStore(tmp_path / "state") if seed % 5 == 0 else MemoryStore()
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
            maintainer._rows.check_saved()
            if dice.random() < 0.7:
                if isinstance(store, RocksStore):
                    store.close()
                    store = RocksStore(tmp_path / "state")
                maintainer = Maintainer.restore(store, 7, threads=1)
                maintainer._rows.check_saved()
        check_invariants(maintainer)
        expected = discover(_table(current), space=space, max_predicates=bound, threads=1)
        assert {str(c) for c in maintainer.constraints} == {str(c) for c in expected}, step
        assert maintainer.row_count == len(current)
    store.close()


@pytest.mark.parametrize("size", [1, 3, 512])
def test_owed_copies_freed_slots_and_relabelled_columns_are_as_they_were(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "PIECE", size)
    monkeypatch.setattr(pieces, "_SLACK", 0)
    store = MemoryStore()
    running = Maintainer.seed(_table([(i, 1.0, "x", i) for i in range(9)]), max_predicates=2, threads=1)

    def saved(*, everything: bool = False) -> None:
        for batch in running.save(everything=everything):
            store.write(batch)
        running._rows.check_saved()
        again = Maintainer.restore(store, threads=1)
        check_invariants(again)
        again._rows.check_saved()
        assert _state(again) == _state(running)

    saved(everything=True)
    rows: Rows = [(i, 1.0, "x", i) for i in range(9)]
    running.apply(deletes=_table([(77, 1.0, "x", 77), (78, 2.0, "owed", None), *rows[2:5]]))
    saved()
    assert running._rows.owed_copies == 2
    running.apply(inserts=_table([(-(2**63), float("nan"), "new", 5), (77, 1.0, "x", 77)]))  # the column gets labels
    saved()
    running.apply(inserts=_table([(50, 1.0, f"m{i}", 10**20 + i) for i in range(90)]))  # all labels are given anew
    saved()
    running.apply(deletes=_table([(50, 1.0, f"m{i}", 10**20 + i) for i in range(90)]))
    running.apply(inserts=_table([(51, 1.0, f"n{i}", i) for i in range(40)]))  # takes slots that were freed
    saved()
    live = running._rows.values(running._rows.live())
    running.apply(deletes=_table([tuple(row.values()) for row in live]))
    assert running.row_count == 0
    saved()
    running = Maintainer.restore(store, threads=1)
    running.apply(inserts=_table([*rows, (78, 2.0, "owed", None)]))
    assert running._rows.owed_copies == 0
    saved()
    for _ in range(5):
        running = Maintainer.restore(store, threads=1)
        saved()
    saved(everything=True)
    assert running.row_count == 9


def _state(maintainer: Maintainer) -> object:
    """Return all that has to survive: rows by slot, copies, constraints, evidences and their witnesses."""
    rows, certificate = maintainer._rows, maintainer._families[0].certificate
    used = rows._in_use()
    pairs = zip(certificate.words[certificate.held].tolist(), certificate.pairs[certificate.held].tolist(), strict=True)
    return (
        used.tolist(),
        rows.copies[used].tolist(),
        repr(rows.values(used)),
        rows.codes[used].tolist(),
        (rows.live_copies, rows.owed_copies),
        sorted(map(str, maintainer.constraints)),
        sorted((words, sorted(some)) for words, some in pairs),
    )


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
    assert len(labels) <= 20_000


def test_parts_of_tables_have_ranges_of_their_own() -> None:
    parts = [table_prefix, versions_prefix, lambda table: family_prefix(Family.ORDER, table), near_prefix]
    for number_range, prefix in enumerate(parts):
        assert [prefix(table) for table in (0, 1)] == [codecs.number(number_range * 2**32 + table) for table in (0, 1)]
    assert family_prefix(Family.DENIAL, 1) == table_prefix(1)
    for family in (Family.INCLUSION, Family.NEAR):
        with pytest.raises(KeyError):  # no certificate, and not in the range of another family
            family_prefix(family, 0)
