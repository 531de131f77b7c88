"""A table under another definition: other columns, key, bounds or rules, over the same rows.

The table is seeded anew with its stored rows; deletes that were owed to the old rows are owed to the new rows. So the
constraints afterwards are those that a discovery on these rows finds.

Invariant: the existing table is not changed.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from holdfast.constraints import Column, PredicateSpace, Schema
from holdfast.streaming.maintainers.maintainer import Maintainer
from holdfast.streaming.maintainers.rules.maintainer import MonitoredRule
from holdfast.streaming.maintainers.table.bounds import Bounds
from holdfast.tables import Table
from holdfast.tables.columnar import encoded
from holdfast.tables.frames import converted
from holdfast.tables.keys import arrow_type_of


@dataclass(frozen=True)
class EvolvedColumn:
    """A column of the new definition.

    Parameters
    ----------
    column : its name and type.
    was : the name of the old column with its values; None for a column that is null everywhere.
    """

    column: Column
    was: str | None = None


@dataclass(frozen=True)
class Definition:
    """The new definition of a table.

    Parameters
    ----------
    columns : the columns in their order.
    key : the names of the key columns.
    bounds : the families that are maintained.
    cross_columns : the column pairs to compare, as `space_of` takes them; None for the pairs that were compared before.
    rules : the monitored rules.
    """

    columns: Sequence[EvolvedColumn]
    key: Sequence[str]
    bounds: Bounds
    cross_columns: str | Collection[tuple[str, str]] | None
    rules: Sequence[MonitoredRule] = ()


def evolved(old: Maintainer, definition: Definition, report: Callable[[str], object] = lambda _: None) -> Maintainer:
    """Return the maintainer of a table under another definition. Costs as much as seeding the table.

    Raises `InputError` where a value does not fit its column's new type, or rows would share a key.
    """
    columns = tuple(definition.columns)
    schema = Schema(old.name, tuple(made.column for made in columns))
    whole = old.holding.whole().made_anew(schema, partial(_in_columns, columns))
    maintainer = Maintainer.seeded(
        whole,
        key=definition.key,
        bounds=definition.bounds,
        rules=definition.rules,
        space=_space(old, whole.space, definition),
        report=report,
    )
    owed = _table(old.schema, old.holding.rows.owed(), definition.columns)
    if owed.row_count:
        maintainer.apply(deletes=owed)
    return maintainer


def _in_columns(columns: Sequence[EvolvedColumn], rows: Table) -> Table:
    return _table(rows.schema, rows.to_arrow(), columns)


def _table(old: Schema, rows: pa.Table, columns: Sequence[EvolvedColumn]) -> Table:
    """Return stored rows with the columns of the new definition."""
    arrays = {}
    for made in columns:
        column = made.column
        if made.was is None:
            arrays[column.name] = pa.chunked_array([pa.nulls(len(rows), arrow_type_of(column.type))])
            continue
        own, values = old[made.was].type, rows.column(made.was)
        same = own == column.type
        arrays[column.name] = values if same else converted(values, own, column, f"table {old.table}")
    return encoded(old.table, [made.column for made in columns], arrays, len(rows))


def _space(
    old: Maintainer, measured: Callable[[str | Collection[tuple[str, str]]], PredicateSpace], definition: Definition
) -> PredicateSpace:
    """Return the space of the new definition; `measured` makes a space of the new rows."""
    if definition.bounds.max_predicates is None:
        return measured("none")
    if definition.cross_columns is not None:
        return measured(definition.cross_columns)
    names = {made.was: made.column for made in definition.columns}
    before = old.schema.names
    pairs = [(names.get(before[a]), names.get(before[b])) for a, b in old.space.crossing]
    return measured([(a.name, b.name) for a, b in pairs if a and b and a.type.group is b.type.group])
