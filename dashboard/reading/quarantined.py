"""Records that could not be read, newest first, and their number by reason.

Invariant: a record is shown as its text, truncated where it is long.
"""

import datetime
from functools import reduce
from operator import and_
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.dataset as ds

from holdfast.dashboard.reading.outputs import Outputs, any_of
from holdfast.dashboard.reading.wording import cut

QUARANTINE = "quarantine"
LONGEST_RECORD = 4_000
_DAYS = 30
_MOST_REASONS = 50
_LONGEST_REASON = 500
_INDEXED = ("commit", "table_name", "record_id", "reason", "seen_at")


def quarantined(outputs: Outputs, table: str | None, reason: str | None, offset: int, limit: int) -> dict[str, Any]:
    """Return a page of the records of the last 30 days before the newest, and counts. O(records of these days).

    Parameters
    ----------
    reason : a part of the reason.
    """
    newest = outputs.newest(QUARANTINE, "seen_at")
    if newest is None:
        return {"total": 0, "rows": [], "reasons": [], "tables": {}, "from": None}
    first = newest.date() - datetime.timedelta(days=_DAYS)
    recent = ds.field("date") >= first
    found = outputs.read(QUARANTINE, _INDEXED, recent)
    tables = pc.value_counts(found["table_name"].combine_chunks()).to_pylist()
    reasons = pc.value_counts(found["reason"].combine_chunks()).to_pylist()
    if table is not None:
        found = found.filter(pc.equal(found["table_name"], table))
    if reason is not None:
        found = found.filter(pc.match_substring(found["reason"], reason))
    order = pc.sort_indices(found, sort_keys=[("commit", "descending"), ("record_id", "ascending")])
    page = found.take(order.slice(offset, limit)).to_pylist()
    return {
        "total": len(found),
        "from": first.isoformat(),
        "rows": _with_records(outputs, page),
        "tables": {row["values"]: row["counts"] for row in tables},
        "reasons": [
            {"reason": cut(row["values"] or "", _LONGEST_REASON), "count": row["counts"]}
            for row in sorted(reasons, key=lambda row: -row["counts"])[:_MOST_REASONS]
        ],
    }


def _with_records(outputs: Outputs, page: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of a page with their records, which are read for these rows alone."""
    if not page:
        return []
    commits = np.unique([row["commit"] for row in page]).tolist()
    days = sorted({row["seen_at"].date() for row in page})
    where = reduce(and_, (any_of("commit", commits), any_of("date", days)))
    where &= ds.field("record_id").isin([row["record_id"] for row in page])
    raw: dict[tuple[Any, ...], Any] = {}
    for row in outputs.read(QUARANTINE, ("commit", "table_name", "record_id", "raw"), where).to_pylist():
        raw[row["commit"], row["table_name"], row["record_id"]] = row["raw"]
    shown = []
    for row in page:
        text = raw.get((row["commit"], row["table_name"], row["record_id"]))
        record = None if text is None else cut(text, LONGEST_RECORD)
        reason = cut(row["reason"] or "", LONGEST_RECORD)
        shown.append({**row, "seen_at": row["seen_at"].isoformat(), "reason": reason, "raw": record})
    return shown
