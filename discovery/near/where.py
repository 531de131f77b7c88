"""Where the exceptions of constraints are, on the named columns of a table, with rules that hold elsewhere."""

from collections.abc import Sequence

import numpy as np

from holdfast.constraints import NearConstraint, UsageError, Value
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
    named = _Naming(table, rows)
    return [Concentrations((named(near, removal, value) for value in found[i]), near) for i, _, near, removal in tasks]


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


class _Naming:
    """Names values by columns of a table, and writes the rules that hold elsewhere."""

    def __init__(self, table: Table, rows: NearRows) -> None:
        self._table = table
        self._rows = rows
        self._known: dict[tuple[int, int], tuple[Value, Literal | None]] = {}

    def __call__(self, near: NearConstraint, removal: Removal, found: ConcentratingValue) -> Concentration:
        """Return a value in which the exceptions of a constraint are concentrated."""
        column = self._table.columns[int(self._rows.columns[found.column])]
        value, literal = self._value(found.column, found.code)
        name, count = column.column.name, self._rows.count
        texts: tuple[str, ...] = ()
        if found.holds_elsewhere:
            nulls = 0 if column.valid is None else count - int(np.count_nonzero(column.valid))
            others = count - nulls - (found.rows if literal is not None else 0)
            rules = rules_elsewhere(near, self._table.schema, name, literal, nulls=nulls > 0, others=others > 0)
            texts = tuple(f"not({rule})" for rule in rules)
        return Concentration(
            name,
            value,
            found.exceptions,
            removal.exceptions,
            found.rows,
            count,
            found.significance,
            found.holds_elsewhere,
            texts,
        )

    def _value(self, place: int, code: int) -> tuple[Value, Literal | None]:
        """Return the value of a code, and the same as a literal; None for null."""
        if (place, code) not in self._known:
            row = int(self._rows.order[int(np.argmax(self._rows.codes[place] == code))])
            column = self._table.columns[int(self._rows.columns[place])]
            value = column.values([row])[0].as_py()
            literal = None if value is None else literal_of(value, column.column, int(column.keys[row]) % 1_000)
            self._known[place, code] = value, literal
        return self._known[place, code]
