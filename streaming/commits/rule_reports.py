"""The rows of `rule_status`: a line for each rule when its state changes, and from time to time.

    rule_status  name   the last published line, as JSON, with the time and the commit

Invariant: the remembered lines were published with written commits. The last line of a rule agrees with its state,
except that `rows_as_of` may be an earlier commit, as of which `violating_rows` is right.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from holdfast.constraints import Rule
from holdfast.state import codecs
from holdfast.state.store import Reader
from holdfast.streaming.commits.draft import CommitDraft
from holdfast.streaming.maintainers.rules.state import RuleState

Line = dict[str, Any]

STATUS = "rule_status"
_PUBLISHED = (
    *("table_name", "constraint", "violating_pairs", "violating_rows", "missing_values"),
    *("holds", "broken", "threshold", "severity"),
)


class RuleReports:
    """The published lines of the rules of one store.

    Parameters
    ----------
    store : has the last lines.
    every : the seconds after which a line is repeated.
    """

    def __init__(self, store: Reader, every: float = 300.0) -> None:
        self._every = every
        self._last = dict(published_lines(store))
        self._as_of = {name: line["rows_as_of"] for name, line in self._last.items()}

    @property
    def last(self) -> dict[str, Line]:
        """The last line of each rule, by the rule's name."""
        return dict(self._last)

    @property
    def broken(self) -> frozenset[str]:
        """The names of the rules that were broken in their last line."""
        return frozenset(name for name, line in self._last.items() if line["broken"])

    def changed(self, state: RuleState) -> bool:
        """Whether the state of a rule differs from its last line."""
        last = self._last.get(state.rule.name)
        return last is None or any(last[name] != value for name, value in _published(state).items())

    def publish(self, states: Sequence[RuleState], source: str | None, draft: CommitDraft) -> list[Line]:
        """Add the lines that are due to a commit, and return them.

        Parameters
        ----------
        source : the table of the batch; None for a commit without a batch.
        """
        recent = {state.rule.name: draft.number for state in states if state.is_recent}
        as_of, lines, lasts = self._as_of | recent, [], {}
        for state in states:
            name = state.rule.name
            last = self._last.get(name)
            if not self.changed(state) and last is not None and 0 <= draft.seconds - last["at"] < self._every:
                continue
            is_same = last is not None and (last["table_name"], last["constraint"]) == (
                state.rule.table,
                state.rule.text,
            )
            before = last["violating_pairs"] if last is not None and is_same else None
            pairs = state.violating_pairs
            line = {
                "rule": name,
                **_published(state),
                "source": source,
                "rows_as_of": as_of.get(name, draft.number),
                "change_in_pairs": None if pairs is None or before is None else pairs - before,
            }
            lasts[name] = {**line, "at": draft.seconds, "commit": draft.number}
            draft.change.put(STATUS, name.encode(), codecs.json_bytes(lasts[name]))
            draft.rows.rule(line)
            lines.append(line)
        draft.when_kept(partial(self._keep, lasts, recent))
        return lines

    def forget(self, declared: Sequence[Rule], draft: CommitDraft) -> None:
        """Add a line without counts for each rule that is not declared any more."""
        gone = sorted(self._last.keys() - {rule.name for rule in declared})
        for name in gone:
            draft.change.delete(STATUS, name.encode())
            draft.rows.rule({"rule": name, "table_name": self._last[name]["table_name"]})
        draft.when_kept(partial(self._keep, {}, {}, gone))

    def _keep(self, lasts: Mapping[str, Line], recent: Mapping[str, int], gone: Sequence[str] = ()) -> None:
        self._last = {**{name: line for name, line in self._last.items() if name not in gone}, **lasts}
        self._as_of |= recent


def published_lines(store: Reader) -> list[tuple[str, Line]]:
    """Return the name of each rule, and its last line."""
    return [(key.decode(), codecs.read_json(line)) for key, line in store.scan(STATUS)]


def _published(state: RuleState) -> Line:
    rule = state.rule
    values = (
        *(rule.table, rule.text, state.violating_pairs, state.violating_rows, state.missing_values),
        *(state.holds, state.broken, rule.threshold, rule.severity.value),
    )
    return dict(zip(_PUBLISHED, values, strict=True))
