"""A predicate space in a file (`--space`, `--write-space`): the types and column pairs that a table is searched in."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.constraints import PredicateSpace, UsageError

if TYPE_CHECKING:
    from holdfast.tables import ReadOptions


def read_space(file: Path) -> PredicateSpace:
    """Return the space that a file holds."""
    try:
        return PredicateSpace.from_json(json.loads(file.read_text("utf-8")))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file}: {error}") from error


def reading_in(space: PredicateSpace, reading: "ReadOptions") -> "ReadOptions":
    """Return how a table is read that is to have the columns of a space."""
    columns = list(space.schema)
    return replace(
        reading,
        types={c.name: c.type for c in columns},
        ordered={c.name: c.ordered for c in columns if c.ordered is not None},
        include=[c.name for c in columns],
    )
