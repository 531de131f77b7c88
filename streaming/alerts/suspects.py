"""Suspects that appeared with a commit, in a message: a sentence with the first suspect, and the surest ones.

3 cells of tax are probably wrong since commit 118, first City of Id 3 is "Lynn", expected "Cambridge"
"""

import json
from collections.abc import Sequence
from typing import Any

from holdfast.display.incidents import row_in_words
from holdfast.display.texts import counted, shown_value
from holdfast.streaming.commits.output_rows import Row

SUSPECT = "suspect"
"""The event of alerts that cells are suspects."""
_LONGEST = 200


def suspects_body(commit: int, rows: Sequence[Row]) -> dict[str, Any]:
    """Return the body of a message about rows of `suspect_changes`, but for the suspects themselves."""
    tables = {row["table_name"] for row in rows}
    table = tables.pop() if len(tables) == 1 else None
    return {"alert": [SUSPECT], "table": table, "count": len(rows), "sentence": sentence_of(commit, table, rows)}


def surest_first(rows: Sequence[Row]) -> list[Row]:
    """Return rows of `suspect_changes`, the surest suspects first."""
    return sorted(rows, key=lambda row: (-row["score"], row["table_name"], row["suspect_id"]))


def sentence_of(commit: int, table: str | None, rows: Sequence[Row]) -> str:
    """Return a sentence with the number of suspects and the surest one.

    >>> row = {"table_name": "tax", "suspect_id": "s", "score": 0.95, "column": "City", "value": '"Lynn"'}
    >>> row |= {"row_key": '{"Id":3}', "row": '{"Id":3,"City":"Lynn"}', "expected": '"Cambridge"'}
    >>> sentence_of(118, "tax", [row])
    '1 cell of tax is probably wrong since commit 118: City of Id 3 is "Lynn", expected "Cambridge"'
    """
    first = surest_first(rows)[0]
    where = table or f"{len({row['table_name'] for row in rows}):,} tables"
    number = f"{counted(len(rows), 'cell')} of {where} {'is' if len(rows) == 1 else 'are'} probably wrong"
    described = suspect_fields(first)
    row = row_in_words({"key": described["key"], "row": described["row"]})
    own = "" if table else f" of {first['table_name']}"
    expected = f", expected {_cell(described['expected'])}" if described["is_expected"] else ""
    start = ": " if len(rows) == 1 else ", first "
    cell = f"{first['column']} of {row}{own} is {_cell(described['value'])}{expected}"
    return f"{number} since commit {commit:,}{start}{cell}"


def suspect_fields(row: Row) -> dict[str, Any]:
    """Return a row of `suspect_changes` as plain values."""
    return {
        "table": row["table_name"],
        "suspect_id": row["suspect_id"],
        "key": json.loads(row.get("row_key") or "{}"),
        "row": json.loads(row["row"]),
        "column": row["column"],
        "value": json.loads(row["value"]),
        "is_expected": row["expected"] is not None,
        "expected": json.loads(row["expected"] or "null"),
        "score": row["score"],
        "constraints": json.loads(row.get("constraints") or "[]"),
    }


def _cell(value: Any) -> str:
    text = shown_value(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
