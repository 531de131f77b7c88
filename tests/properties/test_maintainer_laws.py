"""Laws of the maintainer: after any history its constraints are those of the definition on the current rows.

Oracle tests, mostly as state machines over tiny tables, against `tests.oracles`: netting, counts, the reported set, each
change with its reason and its proof. A failure prints the steps that lead to it, and the line that repeats it.
"""

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from holdfast import Maintainer
from holdfast.constraints import PredicateSpace
from holdfast.discovery.discover import discover
from holdfast.indexes.table_index import TableIndex
from holdfast.state.memory import MemoryStore
from holdfast.tables import from_arrow
from tests.oracles import changes
from tests.oracles.values import Row, canonical_row
from tests.properties.maintained_tables import (
    CODES,
    Law,
    Record,
    Setting,
    batches_of,
    counted,
    rows_of,
    setting_and_seed,
    tiny_pieces,
)
from tests.taxes import tax_records

__all__ = ["tiny_pieces"]  # fixtures


class Histories(RuleBasedStateMachine):
    """Any history of batches, good and bad."""

    law: Law
    law_of: Callable[[Setting, Sequence[Row]], Law] = Law
    undoing: Callable[[], None] | None = None
    store: MemoryStore | None = None

    @initialize(drawn=setting_and_seed())
    def seed(self, drawn: tuple[Setting, list[Row]]) -> None:
        self.law = type(self).law_of(*drawn)

    def drawn(self, data: st.DataObject, max_size: int = 5) -> list[Record]:
        return data.draw(batches_of(self.law.setting, self.law.model.rows, max_size), label="batch")

    @rule(data=st.data())
    def batch(self, data: st.DataObject) -> None:
        batch = self.drawn(data)
        before, standing = self.law.model.versions, self.law.reported()
        self.law.apply(batch)
        self.remember(batch, before, standing)

    @rule(data=st.data())
    def anew(self, data: st.DataObject) -> None:
        self.law.start_anew(self.drawn(data))
        self.undoing = None

    @rule(data=st.data())
    def frames(self, data: st.DataObject) -> None:
        batch = [(name, row) for name, row in self.drawn(data) if name != "update"]
        deletes = [row for name, row in batch if name == "delete"]
        inserts = [row for name, row in batch if name == "insert"]
        before, standing = self.law.model.versions, self.law.reported()
        self.law.apply_frames(inserts, deletes)
        self.remember(batch, before, standing)

    def remember(self, batch: list[Record], before: changes.Versions, standing: set[str]) -> None:
        """Keep how to undo a batch: with a key by its rows, without one by its records."""
        after = self.law.model.versions
        if self.law.setting.key:
            changed = [name for name in {**before, **after} if before.get(name) != after.get(name)]
            inserts = [before[name] for name in changed if name in before]
            deletes = [after[name] for name in changed if name in after]
        else:
            inserts = [row for name, row in batch if name == "delete"]
            deletes = [row for name, row in batch if name == "insert"]

        def undo() -> None:
            self.law.apply_frames(inserts, deletes)
            assert self.law.reported() == standing
            assert len(self.law.model.rows) == len(before)

        self.undoing = undo

    @precondition(lambda self: self.undoing is not None)
    @rule()
    def undo(self) -> None:
        """Apply then undo restores the set."""
        assert self.undoing is not None
        self.undoing()
        self.undoing = None

    @rule(data=st.data())
    def bad_record(self, data: st.DataObject) -> None:
        setting = self.law.setting
        batch = self.drawn(data, 3)
        row = data.draw(rows_of(setting), label="bad row")
        if setting.key:
            null = data.draw(st.sampled_from(setting.key), label="null key column")
            row = tuple(None if i == null else cell for i, cell in enumerate(row))
            bad = (data.draw(st.sampled_from(sorted(CODES)), label="operation"), row)
        else:
            bad = ("update", row)
        batch.insert(data.draw(st.integers(0, len(batch)), label="place"), bad)
        self.law.refuses(batch)

    @rule()
    def save_and_restore(self) -> None:
        """What changed since the last time is saved; what is restored goes on as if nothing had happened."""
        for written in self.law.maintainer.save(everything=self.store is None):
            self.store = self.store or MemoryStore()
            self.store.write(written)
        assert self.store is not None
        self.law.maintainer._rows.check_saved()
        self.law.maintainer = self.law.restored(self.store)
        self.law.compare()


Histories.TestCase.settings = settings(max_examples=4 * settings().max_examples, stateful_step_count=15)
TestHistories = Histories.TestCase


@given(setting_and_seed(), st.data())
def test_one_batch_equals_many(drawn: tuple[Setting, list[Row]], data: st.DataObject) -> None:
    setting, seed = drawn
    batch = data.draw(batches_of(setting, seed, max_size=8), label="batch")
    cuts = sorted(data.draw(st.sets(st.integers(0, len(batch))), label="cuts") | {0, len(batch)})
    one, many = Law(setting, seed), Law(setting, seed)
    result = one.apply(batch)
    parts = [many.apply(batch[start:end]) for start, end in itertools.pairwise(cuts)]
    assert standing(one) == standing(many)
    net: dict[str, int] = {}
    for change in (change for part in parts for change in part.changes):
        net[str(change.constraint)] = net.get(str(change.constraint), 0) + (1 if change.appeared else -1)
    assert {c: sign for c, sign in net.items() if sign} == {
        str(change.constraint): 1 if change.appeared else -1 for change in result.changes
    }
    if parts:
        assert (parts[-1].rows, parts[-1].owed) == (result.rows, result.owed)


@given(setting_and_seed(), st.data())
def test_the_order_of_changes_to_different_rows_does_not_matter(
    drawn: tuple[Setting, list[Row]], data: st.DataObject
) -> None:
    setting, seed = drawn
    batch = data.draw(batches_of(setting, seed, max_size=6), label="batch")
    name = setting.key_of if setting.key else canonical_row
    turns = data.draw(st.permutations([name(row) for _, row in batch]), label="turns")
    waiting = {turn: iter([record for record in batch if name(record[1]) == turn]) for turn in turns}
    other = [next(waiting[turn]) for turn in turns]
    one, two = Law(setting, seed), Law(setting, seed)
    first, second = one.apply(batch), two.apply(other)
    assert counted(first) == counted(second)
    assert {(str(c.constraint), c.reason) for c in first.changes} == {
        (str(c.constraint), c.reason) for c in second.changes
    }
    assert standing(one) == standing(two)


def standing(law: Law) -> list[str]:
    return [str(constraint) for constraint in law.maintainer.constraints]


def test_pandas_frames_and_what_may_be_left_out() -> None:
    people = pd.DataFrame({"id": [1, 2, 3], "zip": ["01907", "01907", "10001"], "city": ["Lynn", "Lynn", "New York"]})
    maintainer = Maintainer.seed(people, name="people", key=["id"])
    fd = "not(t.zip = s.zip and t.city != s.city)"
    assert fd in {str(c) for c in maintainer.constraints}
    (gone,) = [
        c for c in maintainer.apply(inserts=pd.DataFrame({"zip": ["01907"], "id": [4]})) if str(c.constraint) == fd
    ]
    assert gone.witness is not None
    assert {image.values["city"] for image in gone.witness.rows} == {"Lynn", None}
    assert fd in {str(c.constraint) for c in maintainer.apply(deletes=pd.DataFrame({"id": [4]})) if c.appeared}
    assert maintainer.apply() == []
    assert maintainer.apply(people.head(0), people.head(0)) == []
    assert maintainer.row_count == 3
    for bad in (pd.DataFrame({"zip": ["x"]}), pd.DataFrame({"id": [4], "town": ["x"]}), pd.DataFrame({"id": ["x"]})):
        with pytest.raises(ValueError, match=r"id|town"):
            maintainer.apply(inserts=bad)
    assert maintainer.row_count == 3


@pytest.mark.parametrize(("seed", "trees"), [(0, False), (1, False), (2, False), (3, True)])
@pytest.mark.parametrize(
    ("bound", "context", "keyed"), [(0, None, False), (4, None, True), (None, 0, False), (None, 2, True), (2, 0, True)]
)
def test_larger_tables_agree_with_discovery(
    seed: int, trees: bool, bound: int | None, context: int | None, keyed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Differential: hundreds of rows in and out, at several sizes of batches, against `discover` on what is there.

    Trees are searched where they are wanted, although tables of this size are compared faster without.
    """
    if trees:
        monkeypatch.setattr(TableIndex, "_pays", lambda *_: True)
    rng = np.random.default_rng(seed)
    names = ["AreaCode", "Phone", "State", "Zip", "HasChild", "Salary", "Rate"]
    everything = tax_records(900, seed=seed, error_rate=0.02).select(names)
    everything = everything.append_column("id", pa.array(range(len(everything))))
    table = from_arrow(everything.slice(0, 400), "tax")
    space = PredicateSpace(table.schema, ((names.index("Salary"), names.index("Rate")),))
    maintainer = Maintainer.seed(
        table, key=["id"] if keyed else (), max_predicates=bound, max_context=context, space=space, threads=2
    )
    live = set(range(400))
    for size in (1, 7, 60, 200, 1, 150):
        dead = rng.choice(sorted(live), size // 2, replace=False)
        born = rng.choice(sorted(set(range(900)) - live), size - size // 2, replace=False)
        found = {str(c) for c in maintainer.constraints}
        for change in maintainer.apply(inserts=everything.take(born), deletes=everything.take(dead)):
            assert (str(change.constraint) in found) != change.appeared
            found ^= {str(change.constraint)}
        live = live - set(dead.tolist()) | set(born.tolist())
        current = from_arrow(everything.take(sorted(live)), "tax")
        expected: set[str] = set()
        if bound is not None:
            expected |= {str(c) for c in discover(current, max_predicates=bound, space=space)}
        if context is not None:
            expected |= {str(c) for c in discover(current, family="od", max_context=context)}
        assert {str(c) for c in maintainer.constraints} == expected == found, f"seed {seed}, batch of {size}"
        assert maintainer.row_count == len(live)


@pytest.mark.parametrize("row", [(100, -1), (-1, 100)])
@pytest.mark.parametrize("trees", [False, True])
def test_a_row_breaks_an_order_from_either_end(
    row: tuple[int, int], trees: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TableIndex, "_pays", lambda *_: trees)
    rows = pd.DataFrame({"a": range(50), "b": range(50)})
    maintainer = Maintainer.seed(rows, name="r", max_predicates=None, max_context=0, threads=1)
    assert "{}: a ~ b" in {str(c) for c in maintainer.constraints}
    broken = maintainer.apply(inserts=pd.DataFrame({"a": [row[0]], "b": [row[1]]}))
    assert "{}: a ~ b" in {str(change.constraint) for change in broken if not change.appeared}
