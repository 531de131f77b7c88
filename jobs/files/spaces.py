"""A predicate space in a file (`--space`, `--write-space`): the types and column pairs that a table is searched in."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.constraints import Family, PredicateSpace, Schema, UsageError
from holdfast.jobs.terminal.output import results_to

if TYPE_CHECKING:
    from holdfast.tables import ReadOptions


def read_space(file: Path) -> PredicateSpace:
    """Read a space from a file."""
    try:
        return PredicateSpace.from_json(json.loads(file.read_text("utf-8")))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file}: {error}") from error


def write_space(file: Path, space: PredicateSpace) -> None:
    """Write a space to a file."""
    with results_to(file) as out:
        out.write(json.dumps(space.to_json(), ensure_ascii=False, indent=1) + "\n")


def space_for(
    given: PredicateSpace | None,
    schema: Schema,
    family: Family,
    measured: Callable[[str], PredicateSpace],
    *,
    cross_columns: str,
) -> PredicateSpace:
    """Return the space in which a family is searched: the given space where it fits the family, else a new one.

    A space of order dependencies has no pairs of different columns, so for denial constraints they are measured.
    """
    if given is not None and given.schema.names != schema.names:
        raise UsageError(
            f"the space has the columns {', '.join(given.schema.names)} in this order, table {schema.table} has "
            f"{', '.join(schema.names)}"
        )
    if family is Family.DENIAL and (given is None or given.family is not family):
        return measured(cross_columns)
    return (given or PredicateSpace(schema)).of_family(family)


def reading_in(space: PredicateSpace, reading: "ReadOptions") -> "ReadOptions":
    """Return the options that read a table with exactly the columns and types of a space."""
    columns = list(space.schema)
    return replace(
        reading,
        types={c.name: c.type for c in columns},
        ordered={c.name: c.ordered for c in columns if c.ordered is not None},
        include=[c.name for c in columns],
    )
