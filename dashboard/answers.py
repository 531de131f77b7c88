"""Answers the questions of the page with plain values, for the browser and for a report.

Invariant: parameters are checked before anything is read; a question has the same answer until a commit arrives.
"""

import datetime
import re
import threading
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any

from holdfast.constraints import ExternalError, UsageError
from holdfast.dashboard.actions import Actions
from holdfast.dashboard.reading.batches import BATCHES, METRICS, SPANS, batches, figures, rows_now, tables
from holdfast.dashboard.reading.changes import CHANGES, WORDS, ChangeFilter, ConstraintChanges
from holdfast.dashboard.reading.concentrations import concentrations_of
from holdfast.dashboard.reading.held import FILTERS, ORDERS, Held
from holdfast.dashboard.reading.incidents import Incidents
from holdfast.dashboard.reading.inclusions import NearInclusions, inclusion_parts
from holdfast.dashboard.reading.indexes import Indexes
from holdfast.dashboard.reading.muted import Muted
from holdfast.dashboard.reading.near_changes import NEAR_CHANGES, NearConstraintChanges
from holdfast.dashboard.reading.near_held import (
    NEAR_FILTERS,
    NEAR_ORDERS,
    NearHeld,
    exceptions_of,
    followed_on,
)
from holdfast.dashboard.reading.one_constraint import one_constraint
from holdfast.dashboard.reading.outputs import Outputs
from holdfast.dashboard.reading.proving import proof_query
from holdfast.dashboard.reading.quarantined import QUARANTINE, quarantined
from holdfast.dashboard.reading.rules import STATUS, Rules
from holdfast.dashboard.reading.since import missed
from holdfast.dashboard.reading.suspect_cells import SuspectCells
from holdfast.dashboard.reading.suspects import SUSPECT_FILTERS, new_suspects, suspects
from holdfast.dashboard.reading.twins import Twins
from holdfast.display.incidents import DIRECTIONS

Answer = dict[str, Any]
Parameters = Mapping[str, str]

MOST_AT_ONCE = 500
_FEW = 25
_RECENT = 5
_MOVERS = 8
_POINTS = 240
_LONGEST_WORD = 2_000
_MOST_MISSED = 5
_NEWEST_INCIDENTS = 5
_MOST_LOOKS = 8


class Answers:
    """Answers questions about the outputs of one application.

    Parameters
    ----------
    outputs : the output tables.
    near_inclusions : returns the inclusions that nearly hold.
    every : the seconds between two checks for new commits.
    actions : what the page offers to do about a constraint.
    """

    def __init__(
        self,
        outputs: Outputs,
        near_inclusions: NearInclusions = lambda: None,
        every: float = 1.0,
        actions: Actions = Actions(),  # noqa: B008  (immutable)
    ) -> None:
        self.outputs = outputs
        self.every = every
        self._near_inclusions = near_inclusions
        self._changes = ConstraintChanges(outputs)
        self._held = Held(outputs)
        self._rules = Rules(outputs)
        self._near_held = NearHeld(outputs)
        self._near_changes = NearConstraintChanges(outputs)
        self._indexes = Indexes(outputs, self._changes, self._held, self._near_changes, self._near_held, Twins(outputs))
        self._incidents = Incidents(self._indexes)
        self._actions = actions
        self._muted = Muted(outputs, actions.mutes)
        self._missed: dict[tuple[Any, ...], Answer] = {}
        self._lock = threading.Lock()
        self._looked = -every
        self._questions: dict[str, Callable[[Parameters], Answer]] = {
            "overview": self._overview,
            "since": self._since,
            "incidents": self._incident_page,
            "incident": self._incident,
            "changes": self._change_page,
            "constraints": self._constraint_page,
            "rules": self._rule_list,
            "history": self._history,
            "constraint": self._constraint,
            "near": self._near_page,
            "near_constraint": self._near_constraint,
            "suspects": self._suspects,
            "inclusions": self._inclusions,
            "batches": self._batches,
            "quarantine": self._quarantine,
        }

    @property
    def questions(self) -> tuple[str, ...]:
        """The names of all questions."""
        return tuple(self._questions)

    def look(self) -> str:
        """Check for new commits, unless checked just before; return a text that changes when commits arrive."""
        with self._lock:
            if time.monotonic() - self._looked >= self.every:
                self.outputs.refresh()
                self._looked = time.monotonic()
        return "-".join(map(str, self.outputs.state))

    def ask(self, question: str, given: Parameters) -> Answer:
        """Answer a question as of the newest commit.

        Raises
        ------
        UsageError
            Where the question does not exist, or a parameter is not valid.
        """
        answer = self._questions.get(question)
        if answer is None:
            raise UsageError(f"no question '{question[:100]}': expected one of {', '.join(self._questions)}")
        state = self.look()
        try:
            found = self._answered(answer, given)
        except ExternalError:  # a file was removed while it was read; where the storage fails, the second try fails too
            self.outputs.reopen()
            found = self._answered(answer, given)
        return {**found, "application": self.outputs.application, "state": state}

    def _answered(self, answer: Callable[[Parameters], Answer], given: Parameters) -> Answer:
        for part in (self._changes, self._held, self._rules, self._near_held, self._near_changes):
            part.refresh()
        self._muted.refresh()
        self._incidents.mute(self._muted.numbers)
        return answer(given)

    def _overview(self, given: Parameters) -> Answer:
        span = _one_of(given, "span", tuple(SPANS), "day")
        until = self._newest()
        rules, now = self._rules.all, rows_now(self.outputs)
        return {
            "version": version("holdfast"),
            "until": None if until is None else until.isoformat(),
            "span": span,
            "changed": {} if until is None else self._changed(until, SPANS[span]),
            "held": self._held.total,
            "by_family": self._held.counts("family"),
            "by_kind": self._held.counts("kind"),
            "by_table": self._held.counts("table_name"),
            "tables": [{**row, "rows": now.get(row["table_name"], row["rows"])} for row in tables(self.outputs)],
            "rules": {
                "all": len(rules),
                "broken": [rule for rule in rules if rule["broken"]],
                "violated": sum(not rule["broken"] and not rule["holds"] for rule in rules),
            },
            "recent": self._naming_near(
                self._changes.page(ChangeFilter({"cause": "data"}, muted=self._muted.numbers), 0, _RECENT)["rows"]
            ),
            "near": self._near_overview(SPANS[span]),
            "quarantined": self.outputs.count(QUARANTINE),
        }

    def _since(self, given: Parameters) -> Answer:
        """Return what changed since a commit, or in a span of time, with the newest incidents of these commits."""
        span = _one_of(given, "span", tuple(SPANS), "day")
        until, newest = self._newest(), max(self._changes.last_commit, self._near_changes.last_commit, 0)
        after = _number(given, "commit", None)
        if after is None or after > newest:  # the outputs begin anew
            first = 0 if until is None else _within(until, SPANS[span])[0]
            after = max(index.last_before(first) for index in (self._changes, self._near_changes))
            given = {}
        return {
            "span": None if given.get("commit") else span,
            "after": after,
            "newest": newest,
            "has_near": bool(self._near_held.total or self._near_changes.total),
            "until": None if until is None else until.isoformat(),
            "muted": len(self._muted) > 0,
            "mutes_problem": self._muted.problem,
            "suspects": new_suspects(self.outputs, self._near_held, after, _MOST_MISSED),
            **self._missed_since(after),
        }

    def _missed_since(self, after: int) -> Answer:
        """Return what was missed since a commit; known until a commit arrives or mutes change."""
        muted = self._muted.numbers
        key = (after, *self._indexes.versions, self.outputs.version(BATCHES), muted.tobytes())
        found = self._missed.get(key)
        if found is None:
            found = missed(self._indexes, after, _MOST_MISSED, muted)
            found["incidents"] = self._incidents.newest(after, _NEWEST_INCIDENTS)
            others = {other: known for other, known in self._missed.items() if other[1:] == key[1:]}
            self._missed = {**dict(list(others.items())[-_MOST_LOOKS:]), key: found}
        return found

    def _incident_page(self, given: Parameters) -> Answer:
        direction = _one_of(given, "direction", ("", *DIRECTIONS), "") or None
        until = _number(given, "until", None)
        tables = sorted({*self._changes.tables, *self._near_changes.tables})
        found = self._incidents.page(given.get("table_name") or None, direction, until, *_slice(given))
        return {**found, "tables": tables, "left_out": self._changes.left_out}

    def _incident(self, given: Parameters) -> Answer:
        commit = _number(given, "commit", None)
        if commit is None:
            raise UsageError("commit is missing: expected the number of a commit")
        direction = _one_of(given, "direction", DIRECTIONS, DIRECTIONS[0])
        return self._incidents.one(commit, given.get("table_name") or "", direction, *_slice(given))

    def _change_page(self, given: Parameters) -> Answer:
        wanted = ChangeFilter(
            {name: given[name] for name in WORDS if given.get(name)},
            _text(given, "q"),
            _identity(given),
            _number(given, "until", None),
            _day(given, "day"),
        )
        page = self._changes.page(wanted, *_slice(given))
        return {
            **self._muted.marked({**page, "rows": self._naming_near(page["rows"])}),
            "known": self._changes.total,
            "left_out": self._changes.left_out,
            "values": {name: self._changes.values(name) for name in WORDS},
        }

    def _constraint_page(self, given: Parameters) -> Answer:
        filters = {name: given[name] for name in FILTERS if given.get(name)}
        order = _one_of(given, "order", tuple(ORDERS), "score")
        every = _one_of(given, "every", ("no", "yes"), "no") == "yes"
        page = self._held.sound_page(filters, _text(given, "q"), order, _slice(given), every=every)
        values = {name: self._held.counts(name) for name in FILTERS}
        return {**self._muted.marked(page), "held": self._held.total, "values": values}

    def _rule_list(self, _given: Parameters) -> Answer:
        return {"rows": self._rules.all}

    def _history(self, given: Parameters) -> Answer:
        filters = {name: given[name] for name in ("table_name", "kind") if given.get(name)}
        now = self._held.counts("family", filters)
        return {"families": self._changes.history(filters, now, _POINTS)}

    def _constraint(self, given: Parameters) -> Answer:
        identity = _identity(given)
        if identity is None:
            raise UsageError("id is missing: expected the constraint_id of a constraint")
        found = one_constraint(self._indexes, identity, _POINTS)
        if found is None:
            return {"found": None}
        about = found["table_name"], found["constraint"]
        actions = self._actions
        found["muted"] = self._muted.has(identity)
        found["query"] = proof_query(self.outputs, *about, near=found["is_near"])
        found["rule"] = None if actions.rule_line is None else actions.rule_line(*about)
        found["mute"] = None if actions.mute_line is None else actions.mute_line(*about)
        return {"found": {**found, "mutes_file": actions.mutes_file}}

    def _near_page(self, given: Parameters) -> Answer:
        filters = {name: given[name] for name in NEAR_FILTERS if given.get(name)}
        order = _one_of(given, "order", tuple(NEAR_ORDERS), "strength")
        span = _one_of(given, "span", tuple(SPANS), "day")
        every = _one_of(given, "every", ("no", "yes"), "no") == "yes"
        page = self._near_held.sound_page(filters, _text(given, "q"), order, _slice(given), every=every)
        return {
            **self._muted.marked(page),
            **self._near_totals(SPANS[span]),
            "values": {name: self._near_held.counts(name) for name in NEAR_FILTERS},
            "span": span,
            "followed": followed_on(self.outputs),
            "left_out": self._near_changes.left_out,
        }

    def _near_constraint(self, given: Parameters) -> Answer:
        """Return a near constraint: its current counts, its exceptions over time, its changes, and example rows."""
        identity = _identity(given)
        if identity is None:
            raise UsageError("id is missing: expected the constraint_id of a near constraint")
        held = self._near_held.row(identity)
        changes = self._near_changes.page(identity, _number(given, "until", None), *_slice(given))
        exceptions = None if held is None else exceptions_of(self.outputs, identity, held["constraint"])
        rows = changes["rows"]
        if held is not None:
            cells = SuspectCells.of(self.outputs, held["table_name"], [held["constraint"]])
            exceptions = cells.marked(exceptions)
            rows = [{**row, "examples": cells.marked(row["examples"])} for row in rows]
        return {
            **changes,
            "rows": rows,
            "held": held,
            "course": self._near_changes.course(identity, _POINTS),
            "exceptions": exceptions,
            "where": concentrations_of(self.outputs, identity, self._actions.rule_line),
        }

    def _suspects(self, given: Parameters) -> Answer:
        filters = {name: given[name] for name in SUSPECT_FILTERS if given.get(name)}
        return suspects(self.outputs, self._near_held, filters, *_slice(given))

    def _near_overview(self, span: datetime.timedelta) -> Answer | None:
        """Return the number of near constraints, and those whose exceptions changed most; None without any."""
        return self._near_totals(span) if self._near_held.total or self._near_changes.total else None

    def _near_totals(self, span: datetime.timedelta) -> Answer:
        until = self._newest()
        moved = None
        if until is not None:
            moved = self._near_changes.moved(*_within(until, span), _MOVERS, self._muted.numbers)
        return {"near": self._near_held.total, "with_exceptions": self._near_held.with_exceptions, "moved": moved}

    def _naming_near(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Add to changes of near constraints their current identity and exceptions; None where they left."""
        for row in rows:
            held = None if row["exceptions"] is None else self._near_held.of(row["table_name"], row["constraint"])
            row["near"] = None if held is None else {name: held[name] for name in ("constraint_id", "exceptions")}
        return rows

    def _inclusions(self, _given: Parameters) -> Answer:
        return inclusion_parts(self._changes, self._held, self._rules, self._near_inclusions)

    def _batches(self, given: Parameters) -> Answer:
        span = _one_of(given, "span", tuple(SPANS), "day")
        return {
            **batches(self.outputs, span, given.get("table_name") or None),
            "figures": figures(self.outputs),
            "tables": tables(self.outputs),
        }

    def _quarantine(self, given: Parameters) -> Answer:
        return quarantined(self.outputs, given.get("table_name") or None, given.get("reason") or None, *_slice(given))

    def _newest(self) -> datetime.datetime | None:
        """Return the time of the newest commit in any table."""
        places = ((CHANGES, "committed_at"), (BATCHES, "committed_at"), (STATUS, "committed_at"))
        others = ((METRICS, "committed_at"), (NEAR_CHANGES, "committed_at"))
        known = [self.outputs.newest(*place) for place in (*places, *others)]
        return max((moment for moment in known if moment is not None), default=None)

    def _changed(self, until: datetime.datetime, span: datetime.timedelta) -> Answer:
        return self._changes.since(*_within(until, span), self._muted.numbers)


def _within(until: datetime.datetime, span: datetime.timedelta) -> tuple[int, int]:
    """Return the first and the last microsecond of a span; statistics of files are truncated to milliseconds."""
    return _microseconds(until - span), _microseconds(until) + 1_000


def _microseconds(moment: datetime.datetime) -> int:
    return (moment - _EPOCH) // datetime.timedelta(microseconds=1)


_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def _slice(given: Parameters) -> tuple[int, int]:
    limit = _number(given, "limit", _FEW)
    assert limit is not None
    if limit > MOST_AT_ONCE:
        raise UsageError(f"limit is {limit}: expected at most {MOST_AT_ONCE}")
    return _number(given, "offset", 0) or 0, limit


def _number(given: Parameters, name: str, otherwise: int | None) -> int | None:
    text = given.get(name)
    if not text:
        return otherwise
    if not (text.isascii() and text.isdigit() and len(text) <= 15):
        raise UsageError(f"{name} is '{text[:100]}': expected a whole number")
    return int(text)


def _day(given: Parameters, name: str) -> datetime.date | None:
    text = given.get(name)
    if not text:
        return None
    try:
        day = datetime.date.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{name} is '{text[:100]}': expected a day such as 2026-03-31") from None
    if not _FIRST_DAY <= day <= _LAST_DAY:
        raise UsageError(f"{name} is {day}: expected a day from {_FIRST_DAY} to {_LAST_DAY}")
    return day


_FIRST_DAY, _LAST_DAY = datetime.date(1970, 1, 1), datetime.date(9999, 12, 30)


def _one_of(given: Parameters, name: str, expected: tuple[str, ...], otherwise: str) -> str:
    text = given.get(name) or otherwise
    if text not in expected:
        raise UsageError(f"{name} is '{text[:100]}': expected one of {', '.join(expected)}")
    return text


def _identity(given: Parameters) -> str | None:
    text = given.get("id")
    if not text:
        return None
    if not _IDENTITY.fullmatch(text):
        raise UsageError(f"id is '{text[:100]}': expected the 64 hexadecimal digits of a constraint_id")
    return text


_IDENTITY = re.compile("[0-9a-f]{64}")


def _text(given: Parameters, name: str) -> str:
    text = given.get(name) or ""
    if len(text) > _LONGEST_WORD:
        raise UsageError(f"{name} has {len(text):,} characters: expected at most {_LONGEST_WORD:,}")
    return text
