"""One table in notebooks and programs: rows are data frames, and kernels are compiled before the first batch.

`Maintainer.seed` has more than eight parameters: they are the public options of a table, given by name.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa

from holdfast.constraints import PredicateSpace, Rule, UsageError, parse_share
from holdfast.discovery.denial.seeding import seed_denial
from holdfast.discovery.kernels.order import sort_groups_kernel
from holdfast.discovery.near.suspects import LEAST_SCORE
from holdfast.display.changes import Changes
from holdfast.display.suspects import LiveSuspects
from holdfast.indexes.masks import seen_in
from holdfast.indexes.rows import RowSet
from holdfast.indexes.table_index import TableIndex
from holdfast.state import codecs
from holdfast.state.memory import MemoryStore
from holdfast.streaming.incoming.netting import DELETE, INSERT, UPDATE, Records
from holdfast.streaming.maintainers.holdings.contract import WholeTable
from holdfast.streaming.maintainers.holdings.in_file import whole_of_file
from holdfast.streaming.maintainers.holdings.in_memory import WholeInMemory
from holdfast.streaming.maintainers.near.suspects import SuspectBatches
from holdfast.streaming.maintainers.rules.maintainer import MonitoredRule, monitored
from holdfast.streaming.maintainers.table.batch_result import BatchResult
from holdfast.streaming.maintainers.table.bounds import Bounds, NearBounds
from holdfast.streaming.maintainers.table.maintainer import TableMaintainer
from holdfast.tables import ReadOptions, Table, as_table, from_arrow
from holdfast.tables.columnar import encoded
from holdfast.tables.keys import arrow_type_of

__all__ = ["DELETE", "INSERT", "UPDATE", "BatchResult", "Bounds", "Maintainer", "Records"]


class Maintainer(TableMaintainer):
    """Keeps the constraints of one table.

    Examples
    --------
    >>> import pandas as pd
    >>> people = pd.DataFrame({"Zip": ["x1", "x1", "x2"], "City": ["a", "a", "b"]})
    >>> maintainer = Maintainer.seed(people, name="people")
    >>> for change in maintainer.apply(inserts=pd.DataFrame({"Zip": ["x2"], "City": ["a"]})):
    ...     print(change)
    - not(t.Zip != s.Zip and t.City = s.City) (violated)
    - not(t.Zip = s.Zip and t.City != s.City) (violated)
    >>> [str(change) for change in maintainer.apply(deletes=pd.DataFrame({"Zip": ["x2"], "City": ["b"]}))]
    ['+ not(t.City != s.City) (released)']

    With order dependencies, or order dependencies alone:

    >>> maintainer = Maintainer.seed(people, name="people", max_predicates=None, max_context=3)
    >>> [str(change) for change in maintainer.apply(inserts=pd.DataFrame({"Zip": ["x0"], "City": ["b"]}))]
    ['- {City}: [] -> Zip (violated)', '- {}: Zip ~ City (violated)']
    """

    @classmethod
    def seed(
        cls,
        data: Any,
        *,
        name: str = "table",
        key: Sequence[str] | str = (),
        max_predicates: int | None = 4,
        max_context: int | None = None,
        near: str | float | Fraction | None = None,
        near_context: int = 3,
        near_orders: bool = True,
        rules: Sequence[Rule | MonitoredRule | str] | Rule | MonitoredRule | str = (),
        space: PredicateSpace | None = None,
        threads: int | None = None,
        report: Callable[[str], object] = lambda _: None,
    ) -> Self:
        """Seed a maintainer with a table, and find the constraints that hold on it.

        Parameters
        ----------
        data : a `Table`, a pandas or Arrow table, the path of a file, or a `WholeTable` (`holdings/contract.py`).
        name : the name of a table that is given as a data frame.
        key : the columns, or the column, that identify a row; without a key a row is identified by all its columns.
        max_predicates : the most column pairs of a denial constraint; 0 for any number, None for no denial constraints.
        max_context : the most columns in the context of an order dependency; 0 for any number, None for none.
        near : the share of rows that may be exceptions of a constraint that nearly holds, such as "1%" or 0.01; None
            for no such constraints.
        near_context : the most columns in the context of such a constraint; 0 for any number.
        near_orders : whether order compatibilities are searched too, beside keys and functional dependencies;
            refused where rows are in blocks.
        rules : the declared rules whose violations are counted, or their texts such as `Zip -> City`; one or several.
        space : the column pairs that are compared; by default measured on the table.
        threads : by default as many as there are cores.
        report : called with a text at each step.
        """
        nearly = None if near is None else NearBounds(parse_share(near), near_context, near_orders)
        bounds = Bounds(max_predicates, max_context, nearly)
        if isinstance(data, WholeTable):
            whole = data
        else:
            is_path = isinstance(data, str | Path)
            whole = whole_of_file(Path(data), bounds) if is_path else WholeInMemory(as_table(data, name))
        key, known = [key] if isinstance(key, str) else key, monitored(rules, whole.schema)
        return cls.seeded(whole, key=key, bounds=bounds, rules=known, space=space, threads=threads, report=report)

    @classmethod
    def seeded(cls, whole: WholeTable, *, bounds: Bounds, rules: Sequence[MonitoredRule] = (), **given: Any) -> Self:
        """Compile the kernels, then seed a maintainer as `taken_over` does."""
        cls._prepare(bounds, rules)
        return cls.taken_over(whole, bounds=bounds, rules=rules, **given)

    @classmethod
    def _prepare(cls, bounds: Bounds, rules: Sequence[MonitoredRule]) -> None:
        """Compile the kernels of all families; those of rules and near constraints only if they are used."""
        _compile()
        if rules:
            _compile_rules()
        if bounds.near is not None:
            _compile_near()

    def apply(self, inserts: Any = None, deletes: Any = None) -> Changes:
        """Apply inserts and deletes as one step, and return the changed constraints.

        Deletes refer to rows that were in the table before. With a key, an insert of a live key replaces its row, and a
        delete needs only the key columns.
        """
        return Changes(self.step(inserts, deletes).changes)

    def suspects(self, min_score: float = LEAST_SCORE) -> LiveSuspects:
        """Return the cells of the current rows that are probably wrong, the surest first, as `holdfast.suspects` does.

        They are suggestions: nothing is changed. They need `near`, by whose functional dependencies cells are judged.
        O(n) a functional dependency that nearly holds.

        Parameters
        ----------
        min_score : the least probability that a cell is wrong.

        Examples
        --------
        >>> import pandas as pd
        >>> zips = pd.DataFrame({"id": range(80), "zip": [1] * 40 + [2] * 40, "city": ["a"] * 40 + ["b"] * 40})
        >>> zips["area"] = zips["zip"] + 6
        >>> maintainer = Maintainer.seed(zips, name="zips", key="id", near="5%", near_orders=False)
        >>> maintainer.apply(inserts=pd.DataFrame({"id": [7], "zip": [1], "city": ["b"], "area": [7]}))[:0]
        []
        >>> print(maintainer.suspects()[0])
        id=7, city: 'b', expected 'a' (1.000)
        """
        if self.near_maintainer is None:
            raise UsageError("suspects are found by constraints that nearly hold: seed the maintainer with near='1%'")
        _, found = self.near_maintainer.find_suspects(min_score)
        return LiveSuspects([one for _, one in found], self.name)

    def follow_suspects(self, batches: SuspectBatches | None) -> None:
        """Search for suspects with some batches from now on, for the output tables; with None not any more."""
        if self.near_maintainer is not None:
            self.near_maintainer.suspects.batches = batches

    def step(self, inserts: Any = None, deletes: Any = None) -> BatchResult:
        """Apply inserts and deletes as `apply` does, and return counts, changes and timings of the step."""
        parts = [(data, operation) for data, operation in ((deletes, DELETE), (inserts, INSERT)) if data is not None]
        tables = [self._arrow(data) for data, _ in parts]
        operations = [np.full(len(t), operation, np.int8) for t, (_, operation) in zip(tables, parts, strict=True)]
        arrays = pa.concat_tables(tables) if tables else self._arrow(pa.table({}))
        table = encoded(
            self.schema.table,
            self.schema.columns,
            {column.name: arrays.column(column.name) for column in self.schema.columns},
            len(arrays),
        )
        return self.apply_records(Records(table, np.concatenate([np.zeros(0, np.int8), *operations])))

    def _arrow(self, data: Any) -> pa.Table:
        """Return a data frame's rows with the columns of the monitored table; missing columns are null."""
        name = self.schema.table
        named = next((a for a in ("column_names", "columns") if hasattr(data, a)), None)
        given = self.schema.names if named is None else tuple(getattr(data, named))
        options = ReadOptions(types={c.name: c.type for c in self.schema.columns if c.name in given})
        table = as_table(data, name, options)
        unknown = [c for c in table.schema.names if c not in self.schema.names]
        if unknown:
            self.schema.index(unknown[0])  # raises an error that lists the columns
        arrays = table.to_arrow()
        return pa.table(
            {
                c.name: arrays.column(c.name)
                if c.name in table.schema.names
                else pa.nulls(table.row_count, arrow_type_of(c.type))
                for c in self.schema.columns
            }
        )


@cache
def _compile() -> None:
    """Run every kernel once on a small table, so that no batch waits for a compiler."""
    rows = pa.table({"a": [1, 1, 2, 3], "b": ["x", "y", "y", None], "c": [0.5, 1.5, 1.5, 2.5]})
    _compile_meaning(from_arrow(pa.table({"a": [1, 1, 2], "b": [1, 2, 2], "c": [2, 1, 2]}), "rows"))
    for bounds in (Bounds(0, 0), Bounds(2)):
        maintainer = Maintainer.taken_over(WholeInMemory(from_arrow(rows, "rows")), bounds=bounds, threads=1)
        index = TableIndex(maintainer._rows)
        boxes = [seen_in(family.boxes, family.space, maintainer.space) for family in maintainer._families]
        index.hold(np.concatenate(boxes), trees=True)
        live = maintainer._rows.live()
        index.remove(live[:1])
        index.insert(live[:1])
        index.probe(live)
        for part in (rows.slice(0, 2), rows.slice(2, 1)):
            maintainer.apply(inserts=part)
            maintainer.apply(deletes=part)
            maintainer.apply(deletes=part, inserts=rows.slice(3, 1))
        store = MemoryStore()
        for written in maintainer.save(everything=True):
            store.write(written)
        RowSet(maintainer.space).restore(store, codecs.number(0))
    two, codes = np.zeros(2, np.int32), np.zeros(1, np.int32)  # a kernel that small tables do not need
    sort_groups_kernel(two, np.array([0, 2]), codes, two.copy())


def _compile_meaning(table: Table) -> None:
    """Run the kernels that are needed only where three columns are compared with each other."""
    space = PredicateSpace(table.schema, ((0, 1), (0, 2), (1, 2)))
    seed_denial(table, space, 4)


@cache
def _compile_rules() -> None:
    """Run the kernels of rules once, as the first batch and later batches need them."""
    rows = pa.table({"a": [1, 1, 2, 3], "b": ["x", "y", "y", None], "c": [0.5, 1.5, 1.5, 2.5]})
    table = from_arrow(rows, "rows")
    texts = ("key(b)", "b -> a", "not(t.b = s.b and t.a < s.a and t.c > s.c)", "not(t.a <= s.a and t.c > s.c)")
    rules = monitored([*texts, "not(t.a != s.c and t.b = s.b)", "not(t.a <= 0)"], table.schema)
    maintainer = Maintainer.taken_over(WholeInMemory(table), bounds=Bounds(None), rules=rules, threads=1)
    for part in (rows, rows, rows.slice(1, 2)):
        maintainer.apply(inserts=part)
        maintainer.apply(deletes=part.slice(0, 1))
    maintainer.apply(deletes=rows)


@cache
def _compile_near() -> None:
    """Run the kernels of constraints that nearly hold once."""
    rows = pa.table({"a": [1, 1, 2, 3], "b": ["x", "y", "y", None], "c": [0.5, 1.5, 1.5, 2.5]})
    bounds = Bounds(None, None, NearBounds(Fraction(1, 4), 2))
    maintainer = Maintainer.taken_over(WholeInMemory(from_arrow(rows, "rows")), bounds=bounds, threads=1)
    for part in (rows.slice(1, 2), rows.slice(3, 1)):
        maintainer.apply(inserts=part)
        maintainer.apply(deletes=part)
    zips = pa.table({"zip": [1] * 20 + [2] * 20, "city": [1] * 19 + [2] * 21})
    Maintainer.taken_over(WholeInMemory(from_arrow(zips, "zips")), bounds=bounds, threads=1).suspects(0.5)
