"""`holdfast run` with suspects: they leave with their rows, come with searches, and go when they are switched off."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pandas as pd

import holdfast
from tests.near_outputs import SUSPECT_TABLES, check_suspect_changes
from tests.streams import Application
from tests.unit.test_suspects_of_a_state import people

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

NEAR = {"share": "2%", "max_context": 1, "orders": False}
TABLE: dict[str, Any] = {
    "name": "people",
    "key": ["id"],
    "columns": {"id": "integer", **dict.fromkeys(("zip", "city", "state", "area"), "string")},
    "seed": {"path": "people.csv"},
    "source": {"format": "files", "path": "./changes", "encoding": "json"},
}


def test_suspects_come_and_go(spark: SparkSession, tmp_path: Path) -> None:
    people().to_csv(tmp_path / "people.csv", index=False)
    rows: dict[int, dict[str, Any]] = {row["id"]: row for row in people().to_dict("records")}  # type: ignore[misc]
    one, other = (next(row for row in rows.values() if row["zip"] == f"z{number}") for number in (4, 12))
    app = Application(tmp_path, [{**TABLE, "near": {**NEAR, "suspects": 3}}], constraints={})

    def drained(row: int, column: str, value: str) -> str:
        rows[row][column] = value
        app.put(f"{app.written:04}.json", json.dumps(rows[row]).encode())
        return app.drain()

    def held() -> set[tuple[int, str]]:
        check_suspect_changes({name: app.output(name) for name in SUSPECT_TABLES})
        return {(json.loads(row["row_key"])["id"], row["column"]) for row in app.output("suspects")}

    said = drained(4, "zip", rows[4]["area"][1:])  # corrected
    assert held() == {(701, "zip")} == searched(rows)
    assert "suspects: 1 disappeared: see suspect_changes" in said
    app.configure(tables=[{**TABLE, "near": {**NEAR, "suspects": 1}}])
    said = drained(one["id"], "zip", "z12")
    assert held() == {(701, "zip"), (one["id"], "zip")} == searched(rows)
    assert f'? id={one["id"]}: zip is "z12", expected "z4"' in said
    assert {row["as_of_commit"] for row in app.output("suspects")} == {3}
    about = app.status()["people"]
    assert (about["suspects"], about["suspects_found"], about["suspects_commit"]) == (2, 2, 3)

    app.configure(tables=[{**TABLE, "near": {**NEAR, "suspects": "off"}}])
    drained(other["id"], "city", "nowhere")
    assert held() == set()
    assert app.status()["people"]["suspects"] is None
    app.configure(tables=[{**TABLE, "near": {**NEAR, "share": "3%"}}])  # a table that is made anew is searched
    app.drain()
    assert held() == {(701, "zip"), (one["id"], "zip"), (other["id"], "city")} == searched(rows, "3%")
    changes = [(row["change"], row["reason"], row["cause"]) for row in app.output("suspect_changes")]
    assert changes == [
        *[("appeared", None, "seed")] * 2,
        ("disappeared", "changed", "data"),
        ("appeared", None, "data"),
        *[("disappeared", None, "data")] * 2,
        *[("appeared", None, "config")] * 3,
    ]


def searched(rows: dict[int, dict[str, Any]], share: str = "2%") -> set[tuple[int, str]]:
    """Return the key and the column of each suspect that a search of the rows finds."""
    every = list(rows.values())
    found = holdfast.suspects(pd.DataFrame(every), near=share, max_context=1)
    return {(every[one.row]["id"], one.column) for one in found if one.row is not None}
