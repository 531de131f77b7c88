"""Scores and places of constraints, beside the commits that change them.

    ranks  family NUL table   the places that rows of `constraints` have, by the constraint's id, as JSON

Constraints of one table and family are ranked among each other; inclusions, which are across tables, all together. A
constraint gets its score with its row; places are given in commits from time to time, where the order has
changed since (`sinks/ranks.py` says what they mean).
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from holdfast.constraints import Constraint, constraint_id, parse_constraint
from holdfast.constraints.inclusion import InclusionDependency
from holdfast.state import codecs
from holdfast.state.store import Reader, WriteBatch
from holdfast.streaming.output_rows import Described, Row
from holdfast.streaming.sinks.ranks import Ranks


class Scored(Protocol):
    """What knows constraints and how much each tells: a table's maintainer, or that of all inclusions."""

    @property
    def name(self) -> str:
        """The table; of inclusions, none."""

    @property
    def constraints(self) -> Sequence[Any]:
        """All that hold now."""

    def scores(self, constraints: Sequence[Any]) -> list[float]:
        """Return how much each of some constraints tells, from 0 to 1."""


class Standing:
    """The scores of one store's constraints.

    Parameters
    ----------
    store : keeps the places that were written.
    every : seconds between two rewritings of places.
    """

    def __init__(self, store: Reader, every: float = 300.0) -> None:
        self._store = store
        self._every = every
        self._ranks: dict[str, Ranks] = {}
        self._at: dict[str, float] = {}
        self._changed: dict[str, set[str]] = defaultdict(set)

    def seeded(self, subject: Scored) -> Mapping[str, float]:
        """Return the score of each constraint of a new table, by its id. O(constraints)."""
        found: dict[str, float] = {}
        for group, scores in _scores(subject, subject.constraints).items():
            self._ranks[group] = Ranks()
            self._ranks[group].appeared(scores.items())
            self._changed[subject.name].add(group)
            found |= scores
        return found

    def scored(self, subject: Scored, told: Sequence[Described]) -> Mapping[str, float]:
        """Return the score of each constraint that is told to have appeared, by its id, on the rows there are now."""
        texts = [about["constraint"] for row, about in told if row["change"] == "appeared"]
        scores = _scores(subject, [parse_constraint(text) for text in texts])
        for _, about in told:
            self._changed[subject.name].add(_group(about["family"], subject.name))
        for group in self._changed[subject.name] & self._ranks.keys():
            gone = [
                about["constraint_id"]
                for row, about in told
                if row["change"] == "disappeared" and _group(about["family"], subject.name) == group
            ]
            self._ranks[group].disappeared(gone)
            self._ranks[group].appeared(scores.get(group, {}).items())
        return {name: score for found in scores.values() for name, score in found.items()}

    def places(self, subject: Scored, change: WriteBatch, now: float) -> list[Row]:
        """Return the rows that bring places to where they are, when it is time; add to the commit what they are.

        O(constraints) the first time after a start.
        """
        if not self._changed[subject.name] or 0 <= now - self._at.get(subject.name, 0.0) < self._every:
            return []
        unknown = [group for group in self._changed[subject.name] if group not in self._ranks]
        if unknown:
            scores = _scores(subject, subject.constraints)
            for group in unknown:
                stored = self._store.get("ranks", group.encode())
                self._ranks[group] = Ranks({} if stored is None else codecs.read_json(stored))
                self._ranks[group].restored(scores.get(group, {}).items())
        moved = []
        for group in sorted(self._changed.pop(subject.name)):
            moved += self._ranks[group].changed()
            change.put("ranks", group.encode(), codecs.json_bytes(dict(self._ranks[group].written)))
        self._at[subject.name] = now
        return [{"constraint_id": name, "score": score, "rank": place, "_amends": True} for name, score, place in moved]


def _group(family: str, name: str) -> str:
    return f"{family}\0{name}"


def _scores(subject: Scored, constraints: Sequence[Constraint]) -> dict[str, dict[str, float]]:
    """Return scores by group and id."""
    found: dict[str, dict[str, float]] = defaultdict(dict)
    if not constraints:
        return found
    for constraint, score in zip(constraints, subject.scores(constraints), strict=True):
        table = constraint.dependent.table if isinstance(constraint, InclusionDependency) else subject.name
        found[_group(constraint.family.value, subject.name)][constraint_id(constraint, table)] = round(score, 6)
    return found
