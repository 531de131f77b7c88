"""A predicate space in a file (`--space`, `--write-space`): the types and column pairs that a table is searched in."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.constraints import Family, PredicateSpace, UsageError

if TYPE_CHECKING:
    from holdfast.tables import ReadOptions, Table


def read_space(file: Path) -> PredicateSpace:
    """Return the space that a file holds."""
    try:
        return PredicateSpace.from_json(json.loads(file.read_text("utf-8")))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file}: {error}") from error


def space_for(given: PredicateSpace | None, table: "Table", family: Family, *, cross_columns: bool) -> PredicateSpace:
    """Return the space in which a family is looked for: the one given, as far as it speaks of that family.

    One of order dependencies says nothing of columns that are crossed, so these are measured for denial constraints.
    """
    from holdfast.tables import space_of

    if given is not None and given.schema.names != table.schema.names:
        raise UsageError(
            f"the space has the columns {', '.join(given.schema.names)} in this order, table {table.schema.table} has "
            f"{', '.join(table.schema.names)}"
        )
    if family is Family.DENIAL and (given is None or given.family is not family):
        return space_of(table, "auto" if cross_columns else "none")
    return (given or PredicateSpace(table.schema)).of_family(family)


def reading_in(space: PredicateSpace, reading: "ReadOptions") -> "ReadOptions":
    """Return how a table is read that is to have the columns of a space."""
    columns = list(space.schema)
    return replace(
        reading,
        types={c.name: c.type for c in columns},
        ordered={c.name: c.ordered for c in columns if c.ordered is not None},
        include=[c.name for c in columns],
    )
