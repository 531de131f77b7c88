"""What is published of monitored rules: a line for each when something about it changes, and from time to time.

    rule_status  name   the line that was published last, as JSON, with when that was

Invariant: what is remembered was published with a commit that is kept. The last line of a rule says what the state
knows of it, but for `rows_as_of`, which may be an earlier commit as of which `violating_rows` is right.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.constraints import Rule, parse_rule_body
from holdfast.constraints.sentences import sentence
from holdfast.state import codecs
from holdfast.state.store import Reader, WriteBatch
from holdfast.streaming.maintainers.rule_state import RuleState

Line = dict[str, Any]

STATUS = "rule_status"
_TOLD = (
    *("table_name", "constraint", "violating_pairs", "violating_rows", "missing_values"),
    *("holds", "broken", "threshold", "severity"),
)


@dataclass
class Reported:
    """What a commit is to publish of rules, and what is known of them once it is kept.

    Parameters
    ----------
    lines : to publish.
    last : those that take the place of earlier ones, by the rule's name.
    as_of : as of which commit rows were counted with it.
    gone : rules that are not declared any more.
    """

    lines: list[Line] = field(default_factory=list)
    last: dict[str, Line] = field(default_factory=dict)
    as_of: dict[str, int] = field(default_factory=dict)
    gone: frozenset[str] = frozenset()


class RuleReports:
    """The lines of one store's rules.

    Parameters
    ----------
    store : keeps the last ones.
    every : seconds after which a line is repeated.
    """

    def __init__(self, store: Reader, every: float = 300.0) -> None:
        self._every = every
        self._last = dict(published_lines(store))
        self._as_of = {name: line["rows_as_of"] for name, line in self._last.items()}

    @property
    def last(self) -> dict[str, Line]:
        """The last line of each rule, by its name."""
        return dict(self._last)

    @property
    def broken(self) -> frozenset[str]:
        """The rules that were broken when they were published last."""
        return frozenset(name for name, line in self._last.items() if line["broken"])

    def changed(self, state: RuleState) -> bool:
        """Whether what is known of a rule is not what was published last."""
        last = self._last.get(state.rule.name)
        return last is None or any(last[name] != value for name, value in _told(state).items())

    def lines(
        self, states: Sequence[RuleState], source: str | None, commit: int, now: float, change: WriteBatch
    ) -> Reported:
        """Return what to publish with a commit; add to the commit that it was. Nothing is remembered until `keep`.

        Parameters
        ----------
        source : the table whose batch it is; None where it is none's.
        now : in seconds.
        """
        found = Reported(as_of={state.rule.name: commit for state in states if state.is_recent})
        as_of = self._as_of | found.as_of
        for state in states:
            name = state.rule.name
            last = self._last.get(name)
            if not self.changed(state) and last is not None and 0 <= now - last["at"] < self._every:
                continue
            is_same = last is not None and (last["table_name"], last["constraint"]) == (
                state.rule.table,
                state.rule.text,
            )
            before = last["violating_pairs"] if last is not None and is_same else None
            pairs = state.violating_pairs
            line = {
                "rule": name,
                **_told(state),
                "source": source,
                "rows_as_of": as_of.get(name, commit),
                "change_in_pairs": None if pairs is None or before is None else pairs - before,
            }
            found.last[name] = {**line, "at": now, "commit": commit}
            change.put(STATUS, name.encode(), codecs.json_bytes(found.last[name]))
            found.lines.append(line)
        return found

    def forgotten(self, kept: Sequence[Rule], change: WriteBatch) -> Reported:
        """Return what to publish of rules that are not declared any more: lines without counts. As `lines` does."""
        gone = sorted(self._last.keys() - {rule.name for rule in kept})
        for name in gone:
            change.delete(STATUS, name.encode())
        lines = [{"rule": name, "table_name": self._last[name]["table_name"]} for name in gone]
        return Reported(lines, gone=frozenset(gone))

    def keep(self, *reported: Reported) -> None:
        """Remember what was published with a commit, once that is kept."""
        for one in reported:
            self._last = {**{name: line for name, line in self._last.items() if name not in one.gone}, **one.last}
            self._as_of |= one.as_of


def said(line: Line) -> str:
    """Return in plain words what must hold by a rule's line, which has the rule as a text."""
    return sentence(parse_rule_body(line["constraint"]))


def published_lines(store: Reader) -> list[tuple[str, Line]]:
    """Return the last line of each rule, by its name."""
    return [(key.decode(), codecs.read_json(line)) for key, line in store.scan(STATUS)]


def _told(state: RuleState) -> Line:
    rule = state.rule
    values = (
        *(rule.table, rule.text, state.violating_pairs, state.violating_rows, state.missing_values),
        *(state.holds, state.broken, rule.threshold, rule.severity.value),
    )
    return dict(zip(_TOLD, values, strict=True))
