"""Where the exceptions of constraints are, on the named columns of a table, with rules that hold elsewhere."""

from collections.abc import Callable, Collection, Sequence
from functools import cache

import numpy as np

from holdfast.constraints import NearConstraint, Schema, UsageError, Value
from holdfast.constraints.conditions import Literal
from holdfast.constraints.elsewhere import literal_of, rules_elsewhere
from holdfast.discovery.near.concentration import (
    FEWEST,
    ConcentratingValue,
    ConcentrationSearch,
    Excepted,
    totals_of,
)
from holdfast.discovery.near.counting import Candidate
from holdfast.discovery.near.removal import Removal
from holdfast.discovery.near.rows import NearRows
from holdfast.discovery.near.targets import NearTargets
from holdfast.discovery.threads import cut
from holdfast.display.concentrations import Concentration, Concentrations
from holdfast.indexes.threads import mapped
from holdfast.tables import Table
from holdfast.tables.arrays import Ints

_Task = tuple[int, Candidate, NearConstraint, Removal]


def concentrations(
    table: Table,
    rows: NearRows,
    constraints: Sequence[NearConstraint],
    removals: Sequence[Removal],
    *,
    threads: int = 1,
) -> list[Concentrations]:
    """Return for each constraint the values in which its exceptions are concentrated.

    O(columns x exceptions) for each constraint, and O(n) for each value that is found.

    Parameters
    ----------
    rows : the columns to search, among them those of the constraints.
    removals : the exceptions of each constraint.
    """
    targets = NearTargets(rows, frozenset(near.shape for near in constraints))
    names = rows.names(table.schema)
    pairs = zip(constraints, removals, strict=True)
    tasks = [(place, _candidate(near, targets, names), near, found) for place, (near, found) in enumerate(pairs)]
    places = np.empty(rows.count, np.int64)
    places[rows.order] = np.arange(rows.count)
    totals = totals_of(rows)

    def work(part: Sequence[_Task]) -> list[tuple[int, list[ConcentratingValue]]]:
        search = ConcentrationSearch(rows, targets, totals)
        return [(place, search.find(*task, Excepted.of(removal, places))) for place, task, _, removal in part]

    by_context = sorted(tasks, key=lambda task: task[1])
    found = dict(one for part in mapped(threads, work, cut(by_context, threads)) for one in part)
    texts = ConcentrationNames(rows, table.schema, table.taken, lambda column: _nulls(table, column))
    return texts.named([(near, removal.exceptions, found[place]) for place, _, near, removal in tasks])


def concentrations_of(
    table: Table, constraint: NearConstraint, removal: Removal, *, threads: int = 1
) -> Concentrations:
    """Return the values of a table in which the exceptions of a constraint are concentrated. O(columns x n)."""
    if removal.exceptions < FEWEST:
        return Concentrations([], constraint)
    rows = NearRows.of(table, table.schema.names, ordered=len(constraint.target) == 2, threads=threads)
    return concentrations(table, rows, [constraint], [removal])[0]


def _candidate(near: NearConstraint, targets: NearTargets, names: Sequence[str]) -> Candidate:
    """Return a constraint by the numbers of its columns and its target."""
    number = targets.number(near.shape, sorted(map(names.index, near.target)))
    if number is None:
        raise UsageError(f"{near}: its columns have no order here: search for the family od too")
    return tuple(sorted(map(names.index, near.context))), number


class ConcentrationNames:
    """Names values by columns of a table, and writes the rules that hold elsewhere.

    Parameters
    ----------
    rows : the columns that were searched.
    schema : the columns of the table.
    taken : returns rows of the table, numbered as `NearRows.order` has them.
    nulls : returns how many rows have a null in a column of the table.
    """

    def __init__(
        self, rows: NearRows, schema: Schema, taken: Callable[[Ints], Table], nulls: Callable[[int], int]
    ) -> None:
        self._rows = rows
        self._schema = schema
        self._taken = taken
        self._nulls = cache(nulls)

    def named(self, found: Sequence[tuple[NearConstraint, int, Sequence[ConcentratingValue]]]) -> list[Concentrations]:
        """Return the values in which the exceptions of constraints are concentrated, given their numbers. O(n) a value.

        Parameters
        ----------
        found : for each constraint the number of its exceptions, and the values.
        """
        values = self._values({(value.column, value.code) for _, _, some in found for value in some})
        return [
            Concentrations((self._named(near, exceptions, one, values[one.column, one.code]) for one in some), near)
            for near, exceptions, some in found
        ]

    def _named(
        self, near: NearConstraint, exceptions: int, found: ConcentratingValue, value: tuple[Value, Literal | None]
    ) -> Concentration:
        column, count = int(self._rows.columns[found.column]), self._rows.count
        texts: tuple[str, ...] = ()
        if found.holds_elsewhere:
            nulls = self._nulls(column)
            others = count - nulls - (found.rows if value[1] is not None else 0)
            name = self._schema.names[column]
            rules = rules_elsewhere(near, self._schema, name, value[1], nulls=nulls > 0, others=others > 0)
            texts = tuple(f"not({rule})" for rule in rules)
        return Concentration(
            self._schema.names[column],
            value[0],
            found.exceptions,
            exceptions,
            found.rows,
            count,
            found.significance,
            found.holds_elsewhere,
            texts,
        )

    def _values(self, wanted: Collection[tuple[int, int]]) -> dict[tuple[int, int], tuple[Value, Literal | None]]:
        """Return the values of codes, by column and code, each also as a literal; None for null."""
        rows = [int(self._rows.order[int(np.argmax(self._rows.codes[place] == code))]) for place, code in wanted]
        table = self._taken(np.array(rows, np.int64))
        found = {}
        for number, (place, code) in enumerate(wanted):
            column = table.columns[int(self._rows.columns[place])]
            value = column.values([number])[0].as_py()
            literal = None if value is None else literal_of(value, column.column, int(column.keys[number]) % 1_000)
            found[place, code] = value, literal
        return found


def _nulls(table: Table, column: int) -> int:
    """Return how many rows of a table have a null in a column."""
    valid = table.columns[column].valid
    return 0 if valid is None else table.row_count - int(np.count_nonzero(valid))
