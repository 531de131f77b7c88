"""The current suspects, cells that are probably wrong, from the table `suspects`: each with its row and constraints.

Invariant: a suspect is shown as of the last search of its table, whose commit is with it.
"""

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from holdfast.dashboard.reading.near_held import NearHeld
from holdfast.dashboard.reading.outputs import Outputs
from holdfast.dashboard.reading.wording import cell, in_words, named_columns

SUSPECTS = "suspects"
SUSPECT_FILTERS = ("table_name", "column")

_INDEXED = ("suspect_id", *SUSPECT_FILTERS, "value", "expected", "score", "since", "since_commit", "as_of_commit")
_ORDER = [("score", "descending"), ("since_commit", "descending"), ("suspect_id", "ascending")]
_MOST_COLUMNS = 60


def suspects(outputs: Outputs, near: NearHeld, filters: Mapping[str, str], offset: int, limit: int) -> dict[str, Any]:
    """Return a page of suspects, the surest first, and their number by table and column. O(suspects)."""
    found = outputs.read(SUSPECTS, _INDEXED)
    values = {name: _counts(found[name]) for name in SUSPECT_FILTERS}
    as_of = found.group_by("table_name").aggregate([("as_of_commit", "max")]).to_pylist()
    total = len(found)
    for name, wanted in filters.items():
        found = found.filter(pc.equal(found[name], wanted))
    page = found.take(pc.sort_indices(found, sort_keys=_ORDER).slice(offset, limit)).to_pylist()
    return {
        "all": total,
        "total": len(found),
        "rows": _with_rows(outputs, near, page),
        "values": values,
        "as_of": {row["table_name"]: row["as_of_commit_max"] for row in as_of},
    }


def new_suspects(outputs: Outputs, near: NearHeld, after: int, limit: int) -> dict[str, Any]:
    """Return the surest suspects that came after a commit, and the number of all of them. O(suspects)."""
    found = outputs.read(SUSPECTS, _INDEXED)
    found = found.filter(pc.greater(found["since_commit"], after))
    page = found.take(pc.sort_indices(found, sort_keys=_ORDER).slice(0, limit)).to_pylist()
    return {"total": len(found), "rows": _with_rows(outputs, near, page)}


def _counts(column: pa.ChunkedArray) -> dict[str, int]:
    return {row["values"]: row["counts"] for row in pc.value_counts(column.combine_chunks()).to_pylist()}


def _with_rows(outputs: Outputs, near: NearHeld, page: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return suspects with their rows and constraints, which are read for these suspects alone."""
    if not page:
        return []
    wanted = ds.field("suspect_id").cast(pa.string()).isin([row["suspect_id"] for row in page])
    about = {row["suspect_id"]: row for row in outputs.read(SUSPECTS, ("suspect_id", *_ROW), wanted).to_pylist()}
    return [_shown(row, about[row["suspect_id"]], near) for row in page]


_ROW = ("row_key", "row", "constraints")


def _shown(found: dict[str, Any], about: Mapping[str, Any], near: NearHeld) -> dict[str, Any]:
    key, values = (json.loads(about[name]) if about[name] else {} for name in ("row_key", "row"))
    texts: list[str] = json.loads(about["constraints"])
    named = dict.fromkeys([found["column"], *(name for text in texts for name in named_columns(text)[0])])
    names = [*named, *(name for name in {**key, **values} if name not in named)]
    there = [name for name in names if name in values][:_MOST_COLUMNS]
    expected = found["expected"]
    return {
        **found,
        "value": cell(json.loads(found["value"])),
        "expected": None if expected is None else {"value": cell(json.loads(expected))},
        "since": found["since"].isoformat(),
        "columns": [{"name": name, "key": name in key, "named": name in named} for name in there],
        "cells": [cell(values[name]) for name in there],
        "left_out": len(values) - len(there),
        "constraints": [_constraint(text, found["table_name"], near) for text in texts],
    }


def _constraint(text: str, table: str, near: NearHeld) -> dict[str, Any]:
    """Return a violated constraint in words, with its identity where it nearly holds now."""
    held = near.of(table, text)
    return {
        "constraint": text,
        "sentence": in_words(text),
        "constraint_id": None if held is None else held["constraint_id"],
        "exceptions": None if held is None else held["exceptions"],
    }
