"""The rows of a commit about values in which the exceptions of near constraints are concentrated: for `concentrations`.

Invariant: the table has the values of the last search of each constraint that nearly holds now; rows that an earlier
state published are not repeated.
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from holdfast.constraints import NearConstraint, constraint_id
from holdfast.streaming.commits.output_rows import OutputRows, Row, as_json
from holdfast.streaming.maintainers.maintainer import Maintainer
from holdfast.streaming.maintainers.near.concentrations import ConcentrationChanges

_TABLE = "concentrations"
_COUNTS = ("exceptions", "of_exceptions", "rows", "of_rows", "significance", "holds_elsewhere")


def concentrations_of_batch(rows: OutputRows, table: str, changes: ConcentrationChanges) -> None:
    """Add the rows about the values that a batch found, or that are not followed any more."""
    for constraint, value in changes.gone:
        rows.add(_TABLE, {"concentration_id": _id(constraint, table, value), "_gone": True})
    for constraint, values in changes.searched:
        for row in _rows(constraint, table, values):
            rows.add(_TABLE, {**row, "as_of_commit": rows.commit})


def concentrations_of_seed(
    rows: OutputRows, maintainers: Sequence[Maintainer], known: Sequence[Row], searched: Mapping[str, int | None]
) -> None:
    """Add the rows about the values of seeded tables: the difference from the rows published already.

    Parameters
    ----------
    known : the published rows of `concentrations`.
    searched : by table, the commit of the last search.
    """
    left = {row["concentration_id"]: row for row in known}
    for maintainer in maintainers:
        near, table = maintainer.near_maintainer, maintainer.name
        for constraint, values in () if near is None else near.concentrations.found:
            for row in _rows(constraint, table, values):
                before = left.pop(row["concentration_id"], {})
                if any(before.get(name) != value for name, value in row.items()):
                    rows.add(_TABLE, {**row, "as_of_commit": searched.get(table) or rows.commit})
    for name in left:
        rows.add(_TABLE, {"concentration_id": name, "_gone": True})


def _rows(constraint: NearConstraint, table: str, values: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Return the columns that describe the values of a constraint, in their order."""
    about = {
        "constraint_id": constraint_id(constraint, table),
        "table_name": table,
        "constraint": str(constraint),
    }
    return [
        {
            "concentration_id": _id(constraint, table, value),
            **about,
            "place": place,
            "column": value["column"],
            "value": as_json(value["value"]),
            **{name: value[name] for name in _COUNTS},
            "rules": as_json(value["rules"]),
        }
        for place, value in enumerate(values, 1)
    ]


def _id(constraint: NearConstraint, table: str, value: Mapping[str, Any]) -> str:
    """Return an id of a value: the same value of the same constraint has the same id in every state."""
    text = as_json([table, str(constraint), value["column"], value["value"]])
    return sha256(text.encode()).hexdigest()
