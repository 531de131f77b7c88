"""Declared rules: the current counts of each rule, its violations over time, and examples of violations.

Invariant: the last row of a rule in `rule_status` has its counts; an example is shown if its last change is `added`.
"""

import datetime
import json
import threading
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from holdfast.dashboard.reading.outputs import Outputs, any_of
from holdfast.dashboard.reading.wording import cell, cut, in_words, side_by_side

STATUS, VIOLATIONS = "rule_status", "violations"

_POINTS = 120
_MOST_EXAMPLES = 20
_LINE = (
    *("commit", "rule", "table_name", "constraint", "source", "violating_pairs", "violating_rows", "rows_as_of"),
    *("missing_values", "change_in_pairs", "holds", "broken", "threshold", "severity", "committed_at"),
)
_PASSED = ("commit", "rule", "violating_pairs", "violating_rows", "missing_values", "broken", "committed_at")
_EXAMPLE_CHANGE = ("commit", "rule", "example_id", "change")
_EXAMPLE = (*_EXAMPLE_CHANGE, "left_key", "left_row", "right_key", "right_row", "committed_at")


class Rules:
    """The rules of one application.

    Parameters
    ----------
    outputs : the output tables.
    """

    def __init__(self, outputs: Outputs) -> None:
        self._outputs = outputs
        self._lock = threading.Lock()
        self._versions = (-2, -2)
        self._last_commits = [-1, -1]
        self._passed = pa.table({})
        self._shown: dict[tuple[str, str], tuple[int, str]] = {}
        self._rules: list[dict[str, Any]] = []

    def refresh(self) -> None:
        """Read new rows. O(rows) where there are any."""
        with self._lock:
            versions = (self._outputs.version(STATUS), self._outputs.version(VIOLATIONS))
            if versions == self._versions:
                return
            self._read_lines()
            self._read_examples()
            self._rules = self._made()
            self._versions = versions

    @property
    def all(self) -> list[dict[str, Any]]:
        """All declared rules: first broken rules, then violated ones."""
        return self._rules

    def _read_lines(self) -> None:
        found = self._outputs.read(STATUS, _PASSED, ds.field("commit") > self._last_commits[0])
        self._passed = pa.concat_tables([self._passed, found]) if len(self._passed) else found
        self._last_commits[0] = pc.max(self._passed["commit"]).as_py() or -1

    def _read_examples(self) -> None:
        found = self._outputs.read(VIOLATIONS, _EXAMPLE_CHANGE, ds.field("commit") > self._last_commits[1])
        order = pc.sort_indices(found["commit"])
        for row in found.take(order).to_pylist():
            key = (row["rule"], row["example_id"])
            earlier = self._shown.get(key)
            if earlier is not None and earlier[0] == row["commit"] and row["change"] == "removed":
                continue  # in one commit an example may be removed and added, in any order of rows
            self._shown[key] = row["commit"], row["change"]
            self._last_commits[1] = max(self._last_commits[1], row["commit"])
        self._shown = {key: last for key, last in self._shown.items() if last[1] == "added"}

    def _made(self) -> list[dict[str, Any]]:
        if not len(self._passed):
            return []
        last = self._passed.group_by("rule").aggregate([("commit", "max")])["commit_max"]
        found = self._outputs.read(STATUS, _LINE, any_of("commit", pc.unique(last).to_pylist()))
        lines: dict[str, dict[str, Any]] = {}
        for line in sorted(found.to_pylist(), key=lambda line: int(line["commit"])):
            lines[line["rule"]] = line
        examples = self._examples({name: line["constraint"] for name, line in lines.items()})
        made = []
        for name, line in lines.items():
            if line["holds"] is None:  # the rule is not declared any more
                continue
            line["committed_at"] = line["committed_at"].isoformat()
            line["sentence"] = in_words(line["constraint"])
            passed, since = self._passage(name)
            made.append({**line, "passed": passed, "since": since, "examples": examples.get(name, [])})
        return sorted(made, key=_urgency)

    def _passage(self, rule: str) -> tuple[list[list[Any]], str | None]:
        """Return the violations of a rule over time, and the time since which it has been broken, or not broken."""
        lines = self._passed.filter(pc.equal(self._passed["rule"], rule)).sort_by("commit").to_pylist()
        lines = lines[_after_the_last([line["broken"] is None for line in lines]) :]
        turned = _after_the_last([line["broken"] != lines[-1]["broken"] for line in lines])
        kept = lines[:: max(1, -(-len(lines) // _POINTS))]
        points = [[_ms(line["committed_at"]), _violations(line)] for line in (*kept, lines[-1])]
        return points, lines[turned]["committed_at"].isoformat()

    def _examples(self, texts: dict[str, str]) -> dict[str, list[dict[str, Any]]]:
        wanted = {key for key in self._shown if key[0] in texts}
        if not wanted:
            return {}
        commits = sorted({self._shown[key][0] for key in wanted})
        found = self._outputs.read(VIOLATIONS, _EXAMPLE, any_of("commit", commits))
        made: dict[str, list[dict[str, Any]]] = {}
        for row in sorted(found.to_pylist(), key=lambda row: (-row["commit"], row["example_id"])):
            key = (row["rule"], row["example_id"])
            if key not in wanted or row["change"] != "added":
                continue
            wanted.discard(key)
            if len(made.setdefault(row["rule"], [])) < _MOST_EXAMPLES:
                made[row["rule"]].append(_example(row, texts[row["rule"]]))
        return made


def _example(row: dict[str, Any], text: str) -> dict[str, Any]:
    keys = [_read(row[f"{side}_key"]) or {} for side in ("left", "right")]
    rows = [_read(row[f"{side}_row"]) for side in ("left", "right")]
    shown: dict[str, Any]
    if not isinstance(rows[0], dict):
        shown = {"columns": [], "rows": [], "value": cell(rows[0])}
    else:
        there = [(key, cells) for key, cells in zip(keys, rows, strict=True) if isinstance(cells, dict)]
        shown = side_by_side([key for key, _ in there], [cells for _, cells in there], text)
    return {"id": row["example_id"][:16], "at": row["committed_at"].isoformat(), "witness": shown}


def _read(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def _urgency(rule: dict[str, Any]) -> tuple[Any, ...]:
    return not rule["broken"], rule["severity"] != "error", rule["holds"], cut(rule["rule"])


def _violations(line: dict[str, Any]) -> int:
    """Return the number of violating pairs, else of missing values, else of violating rows."""
    known = (line[name] for name in ("violating_pairs", "missing_values", "violating_rows"))
    return next((count for count in known if count is not None), 0)


def _after_the_last(marks: Sequence[bool]) -> int:
    return max((place + 1 for place, mark in enumerate(marks) if mark), default=0)


def _ms(moment: datetime.datetime) -> int:
    return int(moment.timestamp() * 1_000)
