"""Scores and ranks of constraints in the output table `constraints`.

    ranks  family NUL table   the published ranks by constraint id, as JSON

Constraints of one table and family are ranked among each other; inclusions, which are across tables, all together. The
score of a constraint is published with its row; ranks are published from time to time, where the order has changed
(see `sinks/ranks.py`).

Invariant: the remembered scores and ranks were published with written commits.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from holdfast.constraints import Constraint, constraint_id
from holdfast.constraints.inclusion import InclusionDependency
from holdfast.state import codecs
from holdfast.state.store import Reader
from holdfast.streaming.commits.draft import CommitDraft
from holdfast.streaming.commits.output_rows import Described
from holdfast.streaming.sinks.ranks import Ranks


class Scored(Protocol):
    """A maintainer of constraints that measures their scores: of a table, or of all inclusions."""

    @property
    def name(self) -> str:
        """The name of the table; empty for inclusions."""

    @property
    def constraints(self) -> Sequence[Any]:
        """The constraints that hold now."""

    def scores(self, constraints: Sequence[Any]) -> list[float]:
        """Return the score of each constraint, from 0 to 1."""


@dataclass
class Moves:
    """The changes of the scores and ranks of one subject with a commit.

    Parameters
    ----------
    scores : the scores of the constraints published as appeared, by group and id.
    gone : the ids of the constraints published as disappeared, by group.
    ranks : the groups whose ranks are published with the commit.
    at : the time, in seconds, if ranks are published; else None.
    """

    scores: Mapping[str, Mapping[str, float]]
    gone: Mapping[str, Sequence[str]]
    ranks: dict[str, Ranks] = field(default_factory=dict)
    at: float | None = None

    @property
    def score_of(self) -> Mapping[str, float]:
        """The scores by constraint id."""
        return {name: score for found in self.scores.values() for name, score in found.items()}

    @property
    def groups(self) -> set[str]:
        """The groups with constraints that appeared or disappeared."""
        return {*self.scores, *self.gone}

    def move(self, group: str, ranks: Ranks) -> Ranks:
        """Apply the changes of a group to its ranks."""
        ranks.disappeared(self.gone.get(group, ()))
        ranks.appeared(self.scores.get(group, {}).items())
        return ranks


class Standing:
    """The scores and ranks of the constraints of one store.

    Parameters
    ----------
    store : has the published ranks.
    every : the seconds between two publications of ranks.
    """

    def __init__(self, store: Reader, every: float = 300.0) -> None:
        self._store = store
        self._every = every
        self._ranks: dict[str, Ranks] = {}
        self._at: dict[str, float] = {}
        self._changed: dict[str, set[str]] = defaultdict(set)

    def seeded(self, subject: Scored) -> Moves:
        """Return the changes of a seeded subject: all constraints appeared. O(constraints)."""
        moves = Moves(_scores(subject, subject.constraints), {})
        moves.ranks = {group: moves.move(group, Ranks()) for group in moves.groups}
        return moves

    def scored(self, subject: Scored, due: Sequence[Described]) -> Moves:
        """Return the changes of a commit; scores are measured on the current rows."""
        gone: dict[str, list[str]] = defaultdict(list)
        for one in due:
            if one.row["change"] == "disappeared":
                gone[_group(one.about["family"], subject.name)].append(one.about["constraint_id"])
        return Moves(_scores(subject, [one.constraint for one in due if one.row["change"] == "appeared"]), gone)

    def publish(self, subject: Scored, due: Sequence[Described], draft: CommitDraft) -> None:
        """Add changed constraints to a commit, with scores of those that appeared, and ranks when it is time."""
        moves = self.scored(subject, due)
        scores = moves.score_of
        for one in due:
            draft.rows.change(one.row, one.about, scores.get(one.about["constraint_id"]))
        self.place(subject, moves, draft)

    def place(self, subject: Scored, moves: Moves, draft: CommitDraft) -> None:
        """Add the changed ranks to a commit, when it is time. O(constraints)."""
        draft.when_kept(partial(self._keep, subject, moves))
        groups = self._changed[subject.name] | moves.groups
        if not groups or 0 <= draft.seconds - self._at.get(subject.name, 0.0) < self._every:
            return
        unknown = groups - self._ranks.keys() - moves.ranks.keys()
        known = _scores(subject, subject.constraints) if unknown else {}
        moved = []
        for group in sorted(groups):
            if group in unknown:
                stored = self._store.get("ranks", group.encode())
                ranks = Ranks({} if stored is None else codecs.read_json(stored))
                ranks.restored(known.get(group, {}).items())
                moves.move(group, ranks)
            else:
                ranks = moves.ranks.get(group) or moves.move(group, self._ranks[group].copy())
            moved += ranks.changed()
            moves.ranks[group] = ranks
            draft.change.put("ranks", group.encode(), codecs.json_bytes(dict(ranks.written)))
        moves.at = draft.seconds
        for name, score, place in moved:
            row = {"constraint_id": name, "score": score, "rank": place, "_amends": True}
            draft.rows.add("constraints", row)

    def _keep(self, subject: Scored, moves: Moves) -> None:
        for group in moves.groups & (self._ranks.keys() - moves.ranks.keys()):
            moves.move(group, self._ranks[group])
        self._ranks |= moves.ranks
        if moves.at is None:
            self._changed[subject.name] |= moves.groups
        else:
            self._changed[subject.name] = set()
            self._at[subject.name] = moves.at


def _group(family: str, name: str) -> str:
    return f"{family}\0{name}"


def _scores(subject: Scored, constraints: Sequence[Constraint]) -> dict[str, dict[str, float]]:
    """Return the scores of constraints by group and id."""
    found: dict[str, dict[str, float]] = defaultdict(dict)
    if not constraints:
        return found
    for constraint, score in zip(constraints, subject.scores(constraints), strict=True):
        table = constraint.dependent.table if isinstance(constraint, InclusionDependency) else subject.name
        found[_group(constraint.family.value, subject.name)][constraint_id(constraint, table)] = round(score, 6)
    return found
