"""Declared rules about values: inclusions across tables, whose violations are read from the clusters of values.

Clusters know how many values and occurrences of one column another column lacks, so counts cost nothing. Examples are
missing values; a batch tells of each value that it changed whether the value is missing now.

    rules  <number of no table> name   the rule's text, and the canonical bytes of the examples
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from holdfast.constraints import InclusionDependency, StateRefused, Violation
from holdfast.state import codecs
from holdfast.state.store import Store, WriteBatch
from holdfast.streaming.maintainers.inclusion.maintainer import InclusionMaintainer
from holdfast.streaming.maintainers.rules.maintainer import MOST_EXAMPLES, RULES, MonitoredRule
from holdfast.streaming.maintainers.rules.state import RuleExample, RuleState
from holdfast.tables.canonical import shown

_PREFIX = codecs.number(3 << 32)


@dataclass
class _Watch:
    monitored: MonitoredRule
    left: int
    right: int
    examples: dict[bytes, RuleExample] = field(default_factory=dict)
    added: dict[bytes, RuleExample] = field(default_factory=dict)
    removed: dict[bytes, RuleExample] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.monitored.rule.name

    def show(self, value: bytes) -> None:
        if value not in self.examples and len(self.examples) < MOST_EXAMPLES:
            self.examples[value] = self.added[value] = _example(self.name, value)

    def drop(self, value: bytes) -> None:
        if value in self.examples:
            self.removed[value] = self.examples.pop(value)


class ValueRules:
    """The declared inclusions.

    Parameters
    ----------
    inclusion : keeps the clusters; None if no values are followed.
    rules : the rules that are inclusions.
    """

    def __init__(self, inclusion: InclusionMaintainer | None, rules: Sequence[MonitoredRule]) -> None:
        self._inclusion = inclusion
        self._watches: list[_Watch] = []
        self._saved: dict[str, bytes] = {}
        self.gone: list[tuple[str, RuleExample]] = []
        for monitored in rules:
            body = monitored.rule.body
            assert isinstance(body, InclusionDependency)
            numbers = [None if inclusion is None else inclusion.number_of(c) for c in (body.dependent, body.referenced)]
            left, right = numbers
            if left is None or right is None:
                raise StateRefused(
                    f"rule {monitored.rule.name} ({body}): the state was seeded without the values of these columns: "
                    "leave the rule out, or seed anew with it: holdfast seed --replace"
                )
            self._watches.append(_Watch(monitored, left, right))

    def forget_changes(self) -> None:
        """Forget which examples were added and removed: a commit has published them."""
        self.gone = []
        for watch in self._watches:
            watch.added, watch.removed = {}, {}

    def follow(self) -> None:
        """Apply the last batch of the inclusions, before it is in the store. O(values it changed)."""
        if self._inclusion is None:
            return
        for watch in self._watches:
            touched: dict[bytes, bool] = {}
            for moved in self._inclusion.moved:
                missing = moved.after[:, watch.left] & ~moved.after[:, watch.right]
                touched.update(zip(moved.keys, missing.tolist(), strict=True))
            for value, is_missing in touched.items():
                if is_missing:
                    watch.show(value)
                else:
                    watch.drop(value)
            if watch.left in self._inclusion.truncated:
                for value in watch.examples.keys() - touched.keys():
                    watch.drop(value)
            if touched and not watch.examples:
                self._show_others(watch, touched)

    def states(self, rows: Callable[[str], int]) -> list[RuleState]:
        """Return the state of each rule; `rows` returns the number of rows of a table."""
        found = []
        for watch in self._watches:
            assert self._inclusion is not None
            clusters, rule = self._inclusion.clusters, watch.monitored.rule
            found.append(
                RuleState(
                    rule,
                    rows(rule.table),
                    None,
                    clusters.missing_occurrences_of(watch.left, watch.right),
                    missing_values=int(clusters.missing[watch.left, watch.right]),
                    added=tuple(watch.added.values()),
                    removed=tuple(watch.removed.values()),
                    examples=tuple(watch.examples.values()),
                )
            )
        return found

    def restore(self, store: Store) -> None:
        """Restore the saved examples; search for examples of rules that are new or were reworded."""
        self._saved = {key[len(_PREFIX) :].decode(): value for key, value in store.scan(RULES, _PREFIX)}
        stored = {name: codecs.read_json(value) for name, value in self._saved.items()}
        for watch in self._watches:
            known = stored.get(watch.name)
            if known is not None and known["text"] == watch.monitored.rule.text:
                for value in stored.pop(watch.name)["examples"]:
                    watch.show(bytes.fromhex(value))
                watch.added = {}
            else:
                self._show_others(watch, {})
        self.gone = [
            (name, _example(name, bytes.fromhex(value)))
            for name, known in stored.items()
            for value in known["examples"]
        ]

    def save(self) -> Iterator[WriteBatch]:
        """Yield what changed since the last save."""
        batch = WriteBatch()
        stored = {
            watch.name: codecs.json_bytes(
                {"text": watch.monitored.rule.text, "examples": [value.hex() for value in watch.examples]}
            )
            for watch in self._watches
        }
        for name in self._saved.keys() - stored.keys():
            batch.delete(RULES, _PREFIX + name.encode())
        for name, value in stored.items():
            if self._saved.get(name) != value:
                batch.put(RULES, _PREFIX + name.encode(), value)
        self._saved = stored
        if len(batch):
            yield batch

    def _show_others(self, watch: _Watch, touched: dict[bytes, bool]) -> None:
        """Add missing values that the last batch did not change, and that are therefore in the store."""
        assert self._inclusion is not None
        for value in self._inclusion.lacking(watch.left, watch.right, MOST_EXAMPLES, but=touched):
            watch.show(value)


def _example(rule: str, value: bytes) -> RuleExample:
    return RuleExample.of(rule, Violation(value=shown(value)))
