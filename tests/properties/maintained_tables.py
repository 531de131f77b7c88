"""Tables with a maintainer and a model of it, for the laws of maintainers."""

import itertools
import json
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import note
from hypothesis import strategies as st

from holdfast import Maintainer
from holdfast.constraints import ConstraintChange, InputError, PredicateSpace, RowImage
from holdfast.state import pieces
from holdfast.state.memory import MemoryStore
from holdfast.streaming.maintainers.maintainer import DELETE, INSERT, UPDATE, BatchResult, Records
from holdfast.tables import Table, from_arrow, space_of
from tests.invariants import check_invariants
from tests.oracles import changes, denial, order
from tests.oracles.changes import Counts, KeyedChange, KeylessChange
from tests.oracles.values import Column, Row, canonical, canonical_row, same_row
from tests.properties.tables import DOMAINS

COUNTS = ("rows_in", "rows_out", "inserted", "deleted", "updated", "ignored", "newly_owed", "owed", "rows")


def counted(counts: BatchResult | Counts) -> dict[str, int]:
    return {name: getattr(counts, name) for name in COUNTS}


CODES = {"insert": INSERT, "update": UPDATE, "delete": DELETE}


MANY_ROWS = 9


BOUNDS = [*((n, None) for n in (0, 1, 2, 4)), *((None, n) for n in (0, 0, 1)), (0, 0), (2, 0), (1, 1)]


"""Of denial constraints and of order dependencies: each family alone, and both."""


Record = tuple[str, Row]


T = TypeVar("T")


@pytest.fixture(autouse=True, scope="module")
def tiny_pieces() -> Iterator[None]:
    """Save rows in pieces of two, so that every piece is cleaned sooner or later."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "PIECE", 2)
        patch.setattr(pieces, "_SLACK", 0)
        yield


@dataclass(frozen=True)
class Setting:
    """A table's columns, key, bounds and space, as the oracle and as the product see them.

    Parameters
    ----------
    bound, context : of denial constraints and of order dependencies; None where there are none.
    """

    kinds: tuple[str, ...]
    key: tuple[int, ...]
    bound: int | None
    context: int | None
    crossing: str

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(Column(f"{kind}{i}", DOMAINS[kind][1]) for i, kind in enumerate(self.kinds))

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    def arrow(self, rows: Sequence[Row], only: Sequence[int] | None = None) -> pa.Table:
        """Return rows as a frame, of all columns or some."""
        places = range(len(self.kinds)) if only is None else only
        arrays = {
            self.names[i]: pa.array([row[i] for row in rows], DOMAINS[self.kinds[i]][0], from_pandas=False)
            for i in places
        }
        return pa.table(arrays)

    def table(self, rows: Sequence[Row]) -> Table:
        return from_arrow(self.arrow(rows), "r")

    def records(self, batch: Sequence[Record]) -> Records:
        return Records(self.table([row for _, row in batch]), np.array([CODES[name] for name, _ in batch], np.int8))

    def expected_space(self, seed: Sequence[Row]) -> denial.Space:
        if self.crossing == "auto":
            return denial.automatic_space(self.columns, seed)
        return denial.listed_space(self.columns, self._pairs() if self.crossing == "all" else [])

    def maintainer(self, seed: Sequence[Row]) -> Maintainer:
        table = self.table(seed)
        return Maintainer.seed(table, **self.asked(table))

    def asked(self, table: Table) -> dict[str, Any]:
        """Return how a table is seeded."""
        pairs = tuple(self._pairs()) if self.crossing == "all" else ()
        space = space_of(table) if self.crossing == "auto" else PredicateSpace(table.schema, pairs)
        key = [self.names[i] for i in self.key]
        bounds = {"max_predicates": self.bound, "max_context": self.context}
        return {"key": key, **bounds, "space": space, "threads": 1}

    def reported(self, rows: Sequence[Row], space: denial.Space) -> set[str]:
        """Return the texts of all constraints of the families by the definition."""
        found: set[str] = set()
        if self.bound is not None:
            found |= denial.reported(rows, space, self.columns, self.bound).keys()
        if self.context is not None:
            dependencies = order.reported(rows, len(self.columns), self.context)
            found |= {order.text(dependency, self.columns) for dependency in dependencies}
        return found

    def changes(
        self, before: changes.Versions, after: changes.Versions, space: denial.Space
    ) -> dict[str, changes.Change]:
        """Return the change between two states by the definition, by the texts of the constraints."""
        found: set[changes.Change] = set()
        if self.bound is not None:
            found |= changes.denial_changes(before, after, space, self.columns, self.bound)
        if self.context is not None:
            found |= changes.order_changes(before, after, self.columns, self.context)
        return {change.constraint: change for change in found}

    def _pairs(self) -> list[tuple[int, int]]:
        groups = [column.group for column in self.columns]
        return [(a, b) for a, b in itertools.combinations(range(len(groups)), 2) if groups[a] == groups[b]]

    def key_of(self, row: Row) -> Hashable:
        return tuple(canonical(row[i]) for i in self.key)


@st.composite
def setting_and_seed(draw: st.DrawFn) -> tuple[Setting, list[Row]]:
    if draw(st.integers(0, 3)):
        kinds = tuple(draw(listed(st.sampled_from(sorted(DOMAINS)), 1, draw(st.sampled_from([3, 3, 4])))))
    else:  # three columns that are compared across: some constraints no table can break
        kinds = tuple(draw(listed(st.sampled_from(["boolean", "float", "integer"]), 3, 3)))
    keys = [()] * 3 + [c for n in (1, 2, 3) for c in itertools.permutations(range(len(kinds)), n)]
    bound, context = draw(st.sampled_from(BOUNDS))
    crossing = draw(st.sampled_from(["all", "auto", "none"]))
    setting = Setting(kinds, draw(st.sampled_from(keys)), bound, context, crossing)
    rows = draw(listed(rows_of(setting), 0, 6))
    return setting, list({setting.key_of(row): row for row in rows}.values()) if setting.key else rows


def listed(elements: st.SearchStrategy[T], least: int, most: int) -> st.SearchStrategy[list[T]]:
    """Draw lists whose lengths are equally likely; Hypothesis alone makes most of them empty."""
    return st.integers(least, most).flatmap(lambda size: st.lists(elements, min_size=size, max_size=size))


@cache
def rows_of(setting: Setting) -> st.SearchStrategy[Row]:
    """Draw rows with nulls outside of the key."""
    cells = [
        st.sampled_from(DOMAINS[kind][2] if i in setting.key else [None, *DOMAINS[kind][2]])
        for i, kind in enumerate(setting.kinds)
    ]
    return st.tuples(*cells)


@st.composite
def batches_of(draw: st.DrawFn, setting: Setting, live: Sequence[Row] = (), max_size: int = 5) -> list[Record]:
    """Draw batches whose rows, or keys, are often those of live rows; the more rows there are, the more go."""
    operations = ("insert", "delete", "update") if setting.key else ("insert", "delete")
    is_full = len(live) > MANY_ROWS
    batch = []
    for _ in range(draw(st.integers(0, max_size))):
        operation = "delete" if is_full else draw(st.sampled_from(operations))
        origin = "live" if is_full else draw(st.sampled_from(_ORIGINS if live else _ORIGINS[:1]))
        row = () if origin == "live" else draw(rows_of(setting))
        if origin != "new":
            known = live[draw(st.integers(0, len(live) - 1))]
            row = tuple((known if origin == "live" or i in setting.key else row)[i] for i in range(len(known)))
        batch.append((operation, row))
    return batch


_ORIGINS = ("new", "live", "rewritten")


"""Of a row in a batch: drawn, one that is live, or one that is live with other values beside the key."""


class Model:
    """The table by its definition."""

    def __init__(self, setting: Setting, seed: Sequence[Row]) -> None:
        self.setting = setting
        self.keyed = {setting.key_of(row): row for row in seed} if setting.key else {}
        inserts = [KeylessChange("insert", row) for row in seed]
        self.sums = [] if setting.key else changes.apply_keyless([], inserts)[0]

    def apply(self, batch: Sequence[Record]) -> Counts:
        if self.setting.key:
            key_of = self.setting.key_of
            keyed = [
                KeyedChange(name, key_of(row), None if name == "delete" else row, i)
                for i, (name, row) in enumerate(batch)
            ]
            self.keyed, _, counts = changes.apply_keyed(self.keyed, keyed)
        else:
            self.sums, counts = changes.apply_keyless(self.sums, [KeylessChange(name, row) for name, row in batch])
        return counts

    @property
    def versions(self) -> dict[Hashable, Row]:
        """The rows by name: their keys, or their values and which copy they are."""
        if self.setting.key:
            return dict(self.keyed)
        return {(canonical_row(row), copy): row for row, count in self.sums for copy in range(count)}

    @property
    def rows(self) -> list[Row]:
        return list(self.versions.values())


class Law:
    """A maintainer beside its model, and what must be true of every step."""

    def __init__(self, setting: Setting, seed: Sequence[Row]) -> None:
        self.setting = setting
        self.space = setting.expected_space(seed)
        self.model = Model(setting, seed)
        self.maintainer = self.seeded(seed)
        self.compare()

    def seeded(self, seed: Sequence[Row]) -> Maintainer:
        return self.setting.maintainer(seed)

    def restored(self, store: MemoryStore) -> Maintainer:
        return Maintainer.restore(store, threads=1)

    def reported(self) -> set[str]:
        return self.setting.reported(self.model.rows, self.space)

    def compare(self) -> None:
        """The set equals the oracle's on the current rows."""
        expected = self.reported()
        found = [str(constraint) for constraint in self.maintainer.constraints]
        note(f"rows: {self.model.rows}")
        assert len(found) == len(set(found)) == len(self.maintainer.constraints)
        assert set(found) == expected
        assert self.maintainer.count == len(found)
        assert self.maintainer.row_count == len(self.model.rows)
        check_invariants(self.maintainer)

    def apply(self, batch: Sequence[Record]) -> BatchResult:
        before = self.model.versions
        counts = self.model.apply(batch)
        result = self.maintainer.apply_records(self.setting.records(batch))
        self.compare()
        self.check_changes(before, result.changes)
        assert counted(result) == counted(counts)
        assert result.constraints == len(self.maintainer.constraints)
        assert result.seconds >= 0
        return result

    def start_anew(self, batch: Sequence[Record]) -> None:
        """Apply a batch to the table that was emptied before."""
        before = self.model.versions
        self.model = Model(self.setting, ())
        self.model.apply(batch)
        result = self.maintainer.apply_records(replace(self.setting.records(batch), truncated=True))
        self.compare()
        self.check_changes(before, result.changes)
        after = self.model.versions
        if self.setting.key:
            gone, come = before.keys() - after.keys(), after.keys() - before.keys()
            updated = sum(not same_row(before[key], after[key]) for key in before.keys() & after.keys())
            assert (result.deleted, result.inserted, result.updated) == (len(gone), len(come), updated)
        assert result.rows_in - result.rows_out == len(after) - len(before)

    def apply_frames(self, inserts: Sequence[Row], deletes: Sequence[Row]) -> list[ConstraintChange]:
        """Apply a netted step by frames, deletes by their keys alone where there are keys; None for no rows."""
        before = self.model.versions
        self.model.apply([*(("delete", row) for row in deletes), *(("insert", row) for row in inserts)])
        gone = self.setting.arrow(deletes, self.setting.key or None) if deletes else None
        found = self.maintainer.apply(self.setting.table(inserts) if inserts else None, gone)
        self.compare()
        self.check_changes(before, found)
        return found

    def check_changes(self, before: changes.Versions, found: Sequence[ConstraintChange]) -> None:
        """The changes are the difference of the sets, each with an admissible reason and a proof that checks."""
        after = self.model.versions
        expected = self.setting.changes(before, after, self.space)
        assert [change.appeared for change in found] == sorted(change.appeared for change in found)
        assert sorted(str(change.constraint) for change in found) == sorted(expected)
        for change in found:
            theirs = expected[str(change.constraint)]
            assert (change.appeared, change.reason.value) == (theirs.change == "appeared", theirs.reason), theirs
            assert change.table == "r"
            assert (change.by is not None) == bool(theirs.by)
            assert change.by is None or str(change.by) in theirs.by
            json.dumps(change.fields(), allow_nan=False)
            if change.reason.value == "violated":
                assert change.witness is not None
                t, s = (self.names_of(image, after) for image in change.witness.rows)
                assert not theirs.witnesses.isdisjoint(itertools.product(t, s)), "no live pair that violates it"
            elif change.reason.value == "released":
                for image in () if change.witness is None else change.witness.rows:
                    assert not theirs.witnesses.isdisjoint(self.names_of(image, before)), "did not hold it back"
            else:
                assert change.witness is None

    def names_of(self, image: RowImage, versions: changes.Versions) -> list[Hashable]:
        """Return the rows that an image shows."""
        assert list(image.values) == self.setting.names
        assert image.key == {name: image.values[name] for name in (self.setting.names[i] for i in self.setting.key)}
        return [name for name, row in versions.items() if same_row(row, tuple(image.values.values()))]

    def refuses(self, batch: Sequence[Record]) -> None:
        """A bad record changes nothing."""
        with pytest.raises(InputError):
            self.maintainer.apply_records(self.setting.records(batch))
        self.compare()
