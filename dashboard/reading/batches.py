"""Batches in a span of time: their records, seconds and lag; and the last figures.

Invariant: a span ends with the newest batch, not now, so that a stopped pipeline shows its last batches.
"""

import datetime
import json
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.dataset as ds

from holdfast.dashboard.reading.outputs import Outputs, lately

BATCHES, METRICS, TABLES = "batches", "metrics", "tables"
SPANS = {
    "hour": datetime.timedelta(hours=1),
    "day": datetime.timedelta(days=1),
    "week": datetime.timedelta(days=7),
    "month": datetime.timedelta(days=30),
}
_POINTS = 120
_MOST_TIMED = 20_000
_NEWEST = 30
_COUNTS = ("rows_in", "inserted", "deleted", "updated", "ignored", "owed", "late", "quarantined")
_COLUMNS = (
    *("commit", "source", "batch_id", "committed_at", "lag_records", "lag_seconds", "table_rows", "constraints"),
    *("end_offsets", "seconds", *_COUNTS),
)


def batches(outputs: Outputs, span: str, source: str | None) -> dict[str, Any]:
    """Return the batches of a span: sums, at most `_POINTS` points over time, the newest. O(batches of the span)."""
    newest = outputs.newest(BATCHES, "committed_at")
    where = lately("committed_at", None if newest is None else newest - SPANS[span])
    if source is not None:
        of_source = ds.field("source") == source
        where = of_source if where is None else where & of_source
    found = outputs.read(BATCHES, _COLUMNS, where)
    found = found.take(pc.sort_indices(found["commit"]))
    every = max(1, -(-len(found) // _MOST_TIMED))
    timed = np.arange(len(found) - 1, -1, -every)  # all batches, unless there are very many
    took = np.full(len(found), np.nan)
    took[timed] = [_whole(text) for text in found["seconds"].take(timed).to_pylist()]
    return {
        "span": span,
        "batches": len(found),
        "from": None if newest is None else (newest - SPANS[span]).isoformat(),
        "until": None if newest is None else newest.isoformat(),
        "sums": {name: pc.sum(found[name]).as_py() or 0 for name in _COUNTS},
        "seconds": _quantiles(took[timed]),
        "course": _course(found, took),
        "newest": [_shown(row) for row in found.slice(max(0, len(found) - _NEWEST)).to_pylist()[::-1]],
    }


def rows_now(outputs: Outputs) -> dict[str, int]:
    """Return the number of rows of each table after its last batch, of tables with a batch in the last week."""
    newest = outputs.newest(BATCHES, "committed_at")
    where = lately("committed_at", None if newest is None else newest - SPANS["week"])
    found = outputs.read(BATCHES, ("commit", "source", "table_rows"), where)
    last = found.group_by("source").aggregate([("commit", "max")])
    rows = last.join(found, ["source", "commit_max"], ["source", "commit"]).to_pylist()
    return {row["source"]: row["table_rows"] for row in rows if row["table_rows"] is not None}


def figures(outputs: Outputs) -> list[dict[str, Any]]:
    """Return the last value of each figure and table."""
    newest = outputs.newest(METRICS, "committed_at")
    where = None
    if newest is not None:
        first = newest - datetime.timedelta(hours=1)
        where = lately("committed_at", first)
        assert where is not None
        where &= ds.field("date") >= first.date()
    rows = outputs.read(METRICS, ("commit", "metric", "value", "labels", "committed_at"), where).to_pylist()
    last = {(row["metric"], row["labels"]): row for row in sorted(rows, key=lambda row: int(row["commit"]))}
    return [
        {
            "metric": row["metric"],
            "value": row["value"],
            "source": (json.loads(row["labels"]) if row["labels"] else {}).get("source"),
            "at": row["committed_at"].isoformat(),
        }
        for _, row in sorted(last.items())
    ]


def tables(outputs: Outputs) -> list[dict[str, Any]]:
    """Return the monitored tables, with their columns and the bounds of their constraints."""
    columns = ("table_name", "columns", "excluded", "rows", "bounds", "nulls_rule", "commit")
    found = outputs.read(TABLES, columns).to_pylist()
    for row in found:
        for name in ("columns", "excluded", "bounds"):
            row[name] = json.loads(row[name]) if row[name] else None
    return sorted(found, key=lambda row: str(row["table_name"]))


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    steps = json.loads(row["seconds"]) if row["seconds"] else {}
    return {**row, "committed_at": row["committed_at"].isoformat(), "seconds": _whole(row["seconds"]), "steps": steps}


def _whole(text: str | None) -> float:
    """Return the seconds of a batch: the sum of its steps."""
    return float(sum(json.loads(text).values())) if text else 0.0


def _quantiles(took: Any) -> dict[str, float] | None:
    if not len(took):
        return None
    return {name: round(float(np.quantile(took, share)), 6) for name, share in _SHARES.items()}


_SHARES = {"half": 0.5, "most": 0.95, "longest": 1.0}


def _course(found: Any, took: Any) -> list[dict[str, Any]]:
    """Return the records, the longest time and the largest lag in equal parts of the span."""
    if not len(found):
        return []
    at = np.asarray(found["committed_at"].cast("int64").to_numpy()) // 1_000
    at = np.maximum.accumulate(at)
    width = max(1_000, -(-int(at[-1] - at[0] + 1) // _POINTS))
    starts = np.flatnonzero(np.append(True, np.diff((at - at[0]) // width) > 0))
    records = np.asarray(found["rows_in"].fill_null(0).to_numpy())
    lag = np.asarray(found["lag_seconds"].fill_null(np.nan).to_numpy(), float)
    behind = np.asarray(found["lag_records"].cast("float64").fill_null(np.nan).to_numpy(), float)
    named = {"at": at[starts], "records": np.add.reduceat(records, starts)}
    named |= {"seconds": np.fmax.reduceat(took, starts)}
    named |= {"lag": np.fmax.reduceat(lag, starts), "behind": np.fmax.reduceat(behind, starts)}
    return [
        {name: _known(number) for name, number in zip(named, numbers, strict=True)}
        for numbers in zip(*(column.tolist() for column in named.values()), strict=True)
    ]


def _known(number: float) -> float | None:
    return None if np.isnan(number) else round(number, 6)
