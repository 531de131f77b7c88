"""The messages about a commit: a function of the rows that the commit publishes, and of nothing else.

Invariant: the same commit always has the same messages with the same keys, so that a receiver recognises a repeated
message. A message has at most `_MOST_BYTES`, however much has changed.
"""

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from typing import Any

from holdfast.constraints import Family, InclusionDependency, parse_constraint
from holdfast.constraints.mutes import Mutes
from holdfast.constraints.near import has_jumped
from holdfast.display.incidents import LOST, Incident
from holdfast.streaming.alerts.suspects import SUSPECT, surest_first, suspect_fields, suspects_body
from holdfast.streaming.commits.incidents import incidents_of
from holdfast.streaming.commits.output_rows import OutputRows, Row, as_json, rule_sentence
from holdfast.streaming.commits.rule_reports import Line
from holdfast.streaming.maintainers.near.changes import LEFT, VIOLATED
from holdfast.streaming.maintainers.rules.state import RuleExample, RuleState

BROKEN, RECOVERED = "broken", "recovered"
STATES = frozenset({BROKEN, RECOVERED})
CHANGES = frozenset({"appeared", "disappeared"})
NEARLY, RESTORED = "nearly", "restored"
NEAR = frozenset({NEARLY, RESTORED, LEFT})
"""A constraint has its first or many more exceptions; has none or many fewer; does not nearly hold any more."""

TABLES = ("constraint_changes", "near_changes", "suspect_changes")
"""The output tables whose rows alerts are about, beside rules."""
MOST_CHANGES = 100
NEAR_KEY, SUSPECTS_KEY = "\0near", "\0suspects"
"""The parts of the keys of the messages about near constraints and about suspects; no rule has these names."""
_DIRECTIONS = {"disappeared": LOST, NEARLY: LOST, LEFT: LOST, "appeared": RECOVERED, RESTORED: RECOVERED}
"""The direction of the incidents of a commit that belong to each kind of change."""
_MOST_BYTES = 256_000
_COUNTS = ("violating_pairs", "violating_rows", "missing_values")


@dataclass(frozen=True)
class Alert:
    """A configured alert: the changes that a receiver asks for.

    Parameters
    ----------
    on : words from `STATES`, `CHANGES` and `NEAR`, and `SUSPECT`.
    rule, table : only this rule, or this table; of an inclusion either of its tables.
    family, kind : only constraints of this family or kind.
    mutes : constraints that are left out.
    """

    on: frozenset[str]
    rule: str | None = None
    table: str | None = None
    family: str | None = None
    kind: str | None = None
    mutes: Mutes = field(default_factory=Mutes)

    @cached_property
    def content(self) -> str:
        """An id of the alert's conditions, independent of its place in the configuration and of its receiver."""
        return _hashed(sorted(self.on), self.rule, self.table, self.family, self.kind)[:32]

    def asks_for(self, change: Row) -> bool:
        """Whether the alert asks for a row of `constraint_changes`."""
        tables = (change["table_name"], change["referenced_table"])
        return (
            change["change"] in self.on
            and self.table in {None, *tables}
            and self.family in {None, change["family"]}
            and self.kind in {None, change["kind"]}
            and not self.mutes.covers(change["table_name"], change["constraint"])
        )

    def asks_for_near(self, change: Row) -> bool:
        """Whether the alert asks for a row of `near_changes`."""
        table = change["table_name"]
        asked = _near_word(change) in self.on and self.table in {None, table}
        return asked and not self.mutes.covers(table, change["constraint"])

    def asks_for_suspect(self, change: Row) -> bool:
        """Whether the alert asks for a row of `suspect_changes`: not if all constraints that it violates are muted."""
        table = change["table_name"]
        if SUSPECT not in self.on or change["change"] != "appeared" or self.table not in {None, table}:
            return False
        texts: list[str] = json.loads(change.get("constraints") or "[]")
        return not texts or not all(self.mutes.covers(table, text) for text in texts)

    def asks_for_rule(self, line: Line) -> bool:
        """Whether the alert asks for a rule that broke or recovered, given by its row of `rule_status`."""
        word = BROKEN if line["broken"] else RECOVERED
        return word in self.on and self.rule in {None, line["rule"]} and self.table in {None, line["table_name"]}


@dataclass(frozen=True)
class Turned:
    """A rule that broke or recovered.

    Parameters
    ----------
    line : the row of `rule_status`.
    examples : the examples of its violations.
    """

    line: Line
    examples: Sequence[RuleExample] = ()


@dataclass(frozen=True)
class Message:
    """A message to one receiver.

    Parameters
    ----------
    key : the id of the message, the same each time it is sent.
    body : the contents, as plain values.
    """

    key: str
    body: Mapping[str, Any]


def turned(states: Sequence[RuleState], lines: Sequence[Line], were_broken: Collection[str]) -> list[Turned]:
    """Return the rules that broke or recovered.

    Parameters
    ----------
    states, lines : the states of rules, and the lines that are published about them.
    were_broken : the names of the rules that were broken in their last line before.
    """
    examples = {state.rule.name: state.examples for state in states}
    return [
        Turned(line, examples.get(line["rule"], ()))
        for line in lines
        if line["broken"] != (line["rule"] in were_broken)
    ]


def messages(alerts: Sequence[Alert], rows: OutputRows, rules: Sequence[Turned]) -> list[Message]:
    """Return the messages about a commit, in the order of the alerts. O(alerts x changes).

    The constraints of a first seed are no changes, and are left out.

    Parameters
    ----------
    rows : the rows that the commit publishes.
    rules : the rules that broke or recovered with the commit.
    """
    changes, near, suspects = (
        [row for row in rows.payload.get(table, ()) if row["cause"] != "seed"] for table in TABLES
    )
    found = []
    incidents_without = cache(partial(incidents_of, rows))  # alerts share their mutes
    for alert in alerts:
        changed = [rule for rule in rules if alert.asks_for_rule(rule.line)]
        found += [_message(alert, rows, _of_rule(rule), rule.line["rule"]) for rule in changed]
        matching = [row for row in changes if alert.asks_for(row)]
        nearly = [row for row in near if alert.asks_for_near(row)]
        incidents = incidents_without(alert.mutes) if matching or nearly else ()
        if matching:
            kinds = ("appeared", "disappeared")
            body = _of_changes(matching, incidents, lambda row: row["change"], _change, kinds, "witness")
            body["sound"] = sum(row.get("sound") is True for row in matching)
            found.append(_message(alert, rows, body))
        if nearly:
            body = _of_changes(nearly, incidents, _near_word, _near_change, (NEARLY, RESTORED, LEFT), "examples")
            found.append(_message(alert, rows, body, NEAR_KEY))
        suspected = [row for row in suspects if alert.asks_for_suspect(row)]
        if suspected:
            first = [suspect_fields(row) for row in surest_first(suspected)[:MOST_CHANGES]]
            shown = list(_fitting(first, lambda suspect: {**suspect, "row": None}))
            body = {**suspects_body(rows.commit, suspected), "suspects": shown}
            found.append(_message(alert, rows, body, SUSPECTS_KEY))
    return found


def _message(alert: Alert, rows: OutputRows, about: Mapping[str, Any], part: str | None = None) -> Message:
    """Return a message of an alert; `part` distinguishes the messages of one alert about one commit."""
    common = rows.common
    key = _hashed(common["state_id"], rows.commit, alert.content, part)
    head = {name: common[name] for name in ("application", "state_id", "commit")}
    return Message(key, {**head, "committed_at": rows.at, **about})


def _of_rule(rule: Turned) -> dict[str, Any]:
    line = rule.line
    shown = [_example(example) for example in rule.examples]
    return {
        "alert": [BROKEN if line["broken"] else RECOVERED],
        "rule": line["rule"],
        "table": line["table_name"],
        "constraint": line["constraint"],
        "sentence": rule_sentence(line),
        **{name: line[name] for name in ("severity", "threshold", *_COUNTS)},
        "examples": list(_fitting(shown, lambda example: {"id": example["id"], "rows": None})),
    }


def _example(example: RuleExample) -> dict[str, Any]:
    violation = example.violation
    if violation.rows:
        return {"id": example.example_id, "rows": violation.to_json()}
    return {"id": example.example_id, "value": violation.to_json()[0]}


def _of_changes(
    rows: Sequence[Row],
    incidents: Sequence[Incident],
    kind_of: Callable[[Row], str | None],
    described: Callable[[Row], dict[str, Any]],
    counted: Sequence[str],
    proof: str,
) -> dict[str, Any]:
    """Return the body of a message about rows of a table of changes; `proof` is left out where it has no room.

    Of the incidents of the commit it has those of the tables and in the directions of these rows.
    """
    tables = {row["table_name"] for row in rows}
    kinds = [kind_of(row) for row in rows]
    asked = {(row["table_name"], _DIRECTIONS.get(kind or "")) for row, kind in zip(rows, kinds, strict=True)}
    telling = sorted(rows, key=lambda row: (not row.get("sound"), -(row.get("score") or 0)))
    shown = [described(row) for row in telling[:MOST_CHANGES]]
    return {
        "alert": sorted({kind for kind in kinds if kind is not None}),
        "table": tables.pop() if len(tables) == 1 else None,
        "count": len(rows),
        **{kind: kinds.count(kind) for kind in counted},
        "changes": list(_fitting(shown, lambda change: {**change, proof: None})),
        "incidents": [str(one) for one in incidents if (one.table, one.direction) in asked],
    }


def _change(row: Row) -> dict[str, Any]:
    return {
        "change": row["change"],
        "table": row["table_name"],
        "referenced_table": row["referenced_table"],
        **_named(row),
        **{name: row[name] for name in ("family", "kind", "constraint_id", "constraint", "sentence")},
        "sound": row.get("sound"),
        "score": row.get("score"),
        "reason": row.get("reason"),
        "by": row.get("by"),
        "witness": json.loads(row.get("witness") or "[]"),
    }


def _near_word(row: Row) -> str | None:
    """Return the word for a row of `near_changes`; None if a few exceptions were added or removed."""
    if row["change"] == LEFT:
        return LEFT if row["reason"] == VIOLATED else None
    had, has = row["exceptions_before"] or 0, row["exceptions"]
    return NEARLY if has_jumped(had, has) else RESTORED if has_jumped(has, had) else None


def _near_change(row: Row) -> dict[str, Any]:
    names = ("shape", "constraint_id", "constraint", "sentence", "exceptions", "exceptions_before", "rows", "share")
    return {
        "change": _near_word(row),
        "table": row["table_name"],
        **{name: row[name] for name in names},
        "examples": json.loads(row.get("examples") or "[]"),
    }


def _named(row: Row) -> dict[str, str]:
    """Return the tables and columns of an inclusion by name; the row has the columns only in its text."""
    constraint = parse_constraint(row["constraint"]) if row["family"] == Family.INCLUSION.value else None
    return constraint.named if isinstance(constraint, InclusionDependency) else {}


def _fitting(
    shown: Sequence[dict[str, Any]], without_rows: Callable[[dict[str, Any]], dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield as many entries as have room, without their rows where these do not fit."""
    bare = [without_rows(full) for full in shown]
    sizes = [len(as_json(one).encode()) for one in bare]
    left = max(0, _MOST_BYTES - sum(sizes))
    whole = 0
    for full, one, size in zip(shown, bare, sizes, strict=True):
        whole += size
        if whole > _MOST_BYTES:
            return
        more = len(as_json(full).encode()) - size
        if more <= left:
            left -= more
            yield full
        else:
            yield one


def _hashed(*parts: Any) -> str:
    return hashlib.sha256(as_json(parts).encode()).hexdigest()
