"""What must be true of the output tables about constraints that nearly hold, given the rows of a table."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import holdfast
from holdfast.constraints import constraint_id, json_value
from holdfast.discovery.discover import discover
from holdfast.discovery.near.discover import exceptions_of
from holdfast.discovery.near.where import concentrations_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.streaming.maintainers.table.bounds import NearBounds
    from holdfast.tables import Table

Row = dict[str, Any]
SUSPECT_TABLES = ("suspects", "suspect_changes")


def check_suspects(table: Table, bounds: NearBounds, outputs: Mapping[str, Sequence[Row]], least: float) -> None:
    """Assert that the tables say of one table what a search of its rows finds, all of whose batches searched.

    Parameters
    ----------
    outputs : the rows of `SUSPECT_TABLES`.
    least : the least score of a suspect.
    """
    check_suspect_changes(outputs)
    found = holdfast.suspects(table, near=bounds.share, max_context=bounds.max_context, min_score=least, threads=1)
    images = [{c: json_value(value) for c, value in row.items()} for row in table.rows(list(range(table.row_count)))]
    expected = {}
    for one in found:
        assert one.row is not None
        wanted = json_value(one.expected) if one.is_expected else "not certain"
        about = (json_value(one.value), wanted, round(one.score, 4), list(map(str, one.constraints)))
        expected[json.dumps(images[one.row]), one.column] = about
    held = {
        (json.dumps(json.loads(row["row"])), row["column"]): (
            json.loads(row["value"]),
            "not certain" if row["expected"] is None else json.loads(row["expected"]),
            row["score"],
            json.loads(row["constraints"]),
        )
        for row in outputs["suspects"]
    }
    assert held == expected
    assert len({row["as_of_commit"] for row in outputs["suspects"]}) <= 1


def check_suspect_changes(outputs: Mapping[str, Sequence[Row]]) -> None:
    """Assert that the sum of `suspect_changes` is `suspects`."""
    summed: dict[str, int] = {}
    for change in sorted(outputs["suspect_changes"], key=lambda row: (int(row["commit"]), row["change"] == "appeared")):
        if change["change"] == "appeared":
            assert change["suspect_id"] not in summed, change
            summed[change["suspect_id"]] = change["commit"]
        else:
            del summed[change["suspect_id"]]
    assert summed == {row["suspect_id"]: row["since_commit"] for row in outputs["suspects"]}
    for row in outputs["suspects"]:
        assert row["since_commit"] <= row["as_of_commit"] <= row["commit"], row
        assert json.loads(row["row"])[row["column"]] == json.loads(row["value"])


def check_concentrations(table: Table, bounds: NearBounds, rows: Sequence[Row]) -> None:
    """Assert that a table says where exceptions are as a search of the rows does, after batches that searched all.

    Parameters
    ----------
    rows : of the output table `concentrations`.
    """
    family = "key,fd,od" if bounds.orders else "key,fd"
    expected = {}
    for one in discover(table, family=family, near=bounds.share, max_context=bounds.max_context, threads=1):
        found = concentrations_of(table, one, exceptions_of(table, one))
        for place, value in enumerate(found, 1):
            fields = {**value.fields(), "of_exceptions": value.of_exceptions, "of_rows": value.of_rows}
            del fields["share_of_rows"]
            expected[str(one), place] = fields
    held = {
        (row["constraint"], row["place"]): {
            **{name: row[name] for name in ("column", "exceptions", "of_exceptions", "rows", "of_rows")},
            **{name: row[name] for name in ("significance", "holds_elsewhere")},
            **{name: json.loads(row[name]) for name in ("value", "rules")},
        }
        for row in rows
    }
    assert held == expected
    assert len({row["concentration_id"] for row in rows}) == len(rows) == len(held)
    assert all(row["as_of_commit"] == row["commit"] for row in rows)


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
