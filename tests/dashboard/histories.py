"""Histories of constraints and near constraints, drawn by lot and written as a pipeline would: for tests of incidents."""

from __future__ import annotations

import datetime
import json
import random
from typing import TYPE_CHECKING, Any

from holdfast.constraints import parse_rule_body
from holdfast.constraints.forms import simplest_form
from tests.dashboard.tables import FIRST, Written, constraint, near_constraint, stamp

if TYPE_CHECKING:
    from pathlib import Path

Row = dict[str, Any]

COLUMNS = ("Id", "City", "Zip", "State", "Salary", "Rate")
EXACT = (
    "not(t.City != s.City and t.Zip = s.Zip)",
    "{Zip}: [] -> City",
    "not(t.Id = s.Id)",
    "not(t.City = s.City and t.State = s.State)",
    "{State}: Salary ~ Rate",
    "not(t.State = s.State and t.Salary < s.Salary and t.Rate > s.Rate)",
    "not(t.State = s.State and t.Salary <= s.Salary and t.Rate > s.Rate)",
)
NEAR = ("{Zip}: [] -> City", "key(Id)", "key(City, State)", "{State}: Salary ~ Rate")
TABLES = ("tax", "orders")
_CAUSES = ("data", "data", "data", "data", "data", "data", "config", "rebuild")


class History:
    """A history of some commits.

    Parameters
    ----------
    seed : of the lot.
    commits : how many there are.
    """

    def __init__(self, seed: int, commits: int = 40) -> None:
        self.chance = random.Random(seed)
        self.changes: list[Row] = []
        self.near_changes: list[Row] = []
        self.batches: list[Row] = []
        self.held: dict[tuple[str, str], Row] = {}
        self.near: dict[tuple[str, str], Row] = {}
        for commit in range(1, commits + 1):
            cause = "seed" if commit == 1 else self.chance.choice(_CAUSES)
            for table in TABLES if commit == 1 else self.chance.sample(TABLES, self.chance.randrange(1, 3)):
                self._commit(commit, table, cause)

    def write(self, folder: Path) -> Written:
        """Write the output tables."""
        written = Written(folder)
        last = max(row["commit"] for row in self.batches)
        columns = json.dumps(dict.fromkeys(COLUMNS, "string"))
        tables = [{"commit": 1, "table_name": table, "columns": columns} for table in TABLES]
        for name, rows in (
            ("constraint_changes", self.changes),
            ("near_changes", self.near_changes),
            ("batches", self.batches),
            ("tables", tables),
            ("constraints", list(self.held.values())),
            ("near_constraints", list(self.near.values())),
        ):
            if rows:
                written.put_many(name, [{**written.common(), **row} for row in rows], last)
        return written

    def _commit(self, commit: int, table: str, cause: str) -> None:
        at = stamp(FIRST + datetime.timedelta(seconds=60 * commit))
        about = {"commit": commit, "source": table, "batch_id": commit, "committed_at": at, "date": at[:10]}
        files = json.dumps([f"/in/{table}-{commit}.json"])
        self.batches.append({"commit": commit, "source": table, "batch_id": commit, "files": files, "committed_at": at})
        rows = [{"Id": number, "Zip": str(number % 3)} for number in self.chance.sample(range(5), 3)]
        counts = self._near(table, cause, about)
        for text in EXACT:
            form = simplest_form(parse_rule_body(text))
            same = None if form is None else counts.get(str(form), (None, None))
            if cause == "seed" or self.chance.random() < 0.25:
                self._turn(table, text, {**about, "cause": cause}, rows, same)

    def _turn(
        self, table: str, text: str, about: Row, rows: list[Row], near: tuple[int | None, int | None] | None
    ) -> None:
        """Let a constraint end or appear, not against what its near constraint does in the same commit."""
        known = constraint(text, table)
        place, appears = (table, text), (table, text) not in self.held
        before, now = near or (None, None)
        if (near is not None and now is not None and appears != (now == 0)) or (before == now and before is not None):
            return
        measured = {"score": round(self.chance.random(), 3), "sound": self.chance.choice([True, False, None])}
        if appears:
            reason = "released" if about["cause"] == "data" and self.chance.random() < 0.8 else "weakened"
            self.held[place] = {
                **known,
                "since_commit": about["commit"],
                "since": about["committed_at"],
                **measured,
            }
            self.held[place]["commit"] = about["commit"]
            row: Row = {"change": "appeared", "reason": reason, "witness": _images(rows[:1])}
        else:
            del self.held[place]
            reason = "violated" if about["cause"] == "data" and self.chance.random() < 0.8 else "implied"
            row = {"change": "disappeared", "reason": reason, "exceptions": now or None, "witness": _images(rows[1:])}
        self.changes.append({**known, **about, **row, **measured})

    def _near(self, table: str, cause: str, about: Row) -> dict[str, tuple[int | None, int | None]]:
        """Let near constraints change; return their exceptions before and after."""
        counts: dict[str, tuple[int | None, int | None]] = {}
        for text in NEAR:
            known = self.near.get((table, text))
            before = None if known is None else known["exceptions"]
            counts[text] = (before, before)
            if cause != "seed" and self.chance.random() < 0.6:
                continue
            now = self.chance.choice([0, 0, 1, 4, 33, None])
            if now == before:
                continue
            counts[text] = (before, now)
            change = "entered" if before is None else "left" if now is None else "exceptions"
            row = near_constraint(text, before or 0 if now is None else now, table_name=table)
            reason = self.chance.choice(["violated", "implied"]) if change == "left" else None
            more = {"change": change, "reason": reason, "exceptions_before": before, "cause": cause}
            self.near_changes.append({**row, **about, **more})
            if now is None:
                del self.near[table, text]
            else:
                since = {"since_commit": about["commit"], "since": about["committed_at"], "commit": about["commit"]}
                self.near[table, text] = {**row, **since, "strength": round(self.chance.random(), 3)}
        return counts


def _images(rows: list[Row]) -> str:
    return json.dumps([{"key": {"Id": row["Id"]}, "row": row} for row in rows])
