"""What must be true of the output tables about constraints that nearly hold, given the rows of a table."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from holdfast.constraints import constraint_id, json_value
from holdfast.discovery.discover import discover
from holdfast.discovery.near.discover import exceptions_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.tables import Table

Row = dict[str, Any]


def check_near(
    table: Table,
    bounds: Mapping[str, Any] | None,
    outputs: Mapping[str, Sequence[Row]],
) -> None:
    """Assert that the tables say of one table what a discovery on its rows finds.

    Parameters
    ----------
    bounds : of near constraints, as `NearBounds.fields` has them; None where none are kept.
    outputs : the rows of `near_constraints`, `near_changes` and `exceptions`.
    """
    name = table.schema.table
    expected = {}
    if bounds is not None:
        family = "key,fd,od" if bounds["orders"] else "key,fd"
        share = Fraction(bounds["share"])
        found = discover(table, family=family, near=share, max_context=bounds["max_context"], threads=1)
        expected = {str(one): one for one in found}
    counts = {text: one.exceptions for text, one in expected.items()}
    held, changes, shown = (
        [row for row in outputs[which] if row["table_name"] == name]
        for which in ("near_constraints", "near_changes", "exceptions")
    )
    assert {row["constraint"]: row["exceptions"] for row in held} == counts
    assert len(held) == len(expected)
    for row in held:
        one = expected[row["constraint"]]
        said = (row["shape"], json.loads(row["context"]), json.loads(row["target"]), row["constraint_id"])
        assert said == (one.shape.value, list(one.context), list(one.target), constraint_id(one, name))
        assert row["share"] == (round(row["exceptions"] / row["rows"], 9) if row["rows"] else 0)
        assert row["since_commit"] <= row["commit"]
    summed: dict[str, int] = {}
    for change in sorted(changes, key=lambda row: int(row["commit"])):
        assert summed.pop(change["constraint"], None) == change["exceptions_before"], change
        if change["change"] != "left":
            summed[change["constraint"]] = change["exceptions"]
    assert summed == counts
    assert {row["constraint"] for row in shown} == {text for text, count in counts.items() if count}
    images = [{c: json_value(value) for c, value in row.items()} for row in table.rows(list(range(table.row_count)))]
    for row in shown:
        removed = exceptions_of(table, expected[row["constraint"]])
        undecided = dict(zip(removed.rows.tolist(), removed.undecided.tolist(), strict=True))
        assert undecided[images.index(json.loads(row["row"]))] == row["undecided"], row
    assert len({row["example_id"] for row in shown}) == len(shown)
