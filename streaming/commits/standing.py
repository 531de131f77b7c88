"""Scores and places of constraints, beside the commits that change them.

    ranks  family NUL table   the places that rows of `constraints` have, by the constraint's id, as JSON

Constraints of one table and family are ranked among each other; inclusions, which are across tables, all together. A
constraint gets its score with its row; places are given in commits from time to time, where the order has
changed since (`sinks/ranks.py` says what they mean).

Invariant: what is remembered was written with a commit that is kept.
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
    """What knows constraints and how much each tells: a table's maintainer, or that of all inclusions."""

    @property
    def name(self) -> str:
        """The table; of inclusions, none."""

    @property
    def constraints(self) -> Sequence[Any]:
        """All that hold now."""

    def scores(self, constraints: Sequence[Any]) -> list[float]:
        """Return how much each of some constraints tells, from 0 to 1."""


@dataclass
class Moves:
    """What a commit does to the scores and places of one subject.

    Parameters
    ----------
    scores : of the constraints that it publishes as appeared, by group and id.
    gone : the ids of those that it publishes as disappeared, by group.
    ranks : the groups whose places are written with it.
    at : in seconds, when they are; None where none are.
    """

    scores: Mapping[str, Mapping[str, float]]
    gone: Mapping[str, Sequence[str]]
    ranks: dict[str, Ranks] = field(default_factory=dict)
    at: float | None = None

    @property
    def score_of(self) -> Mapping[str, float]:
        """The scores by the constraints' ids."""
        return {name: score for found in self.scores.values() for name, score in found.items()}

    @property
    def groups(self) -> set[str]:
        """The groups that constraints enter or leave."""
        return {*self.scores, *self.gone}

    def move(self, group: str, ranks: Ranks) -> Ranks:
        """Bring a group to where the commit brings it."""
        ranks.disappeared(self.gone.get(group, ()))
        ranks.appeared(self.scores.get(group, {}).items())
        return ranks


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

    def seeded(self, subject: Scored) -> Moves:
        """Return the score of each constraint of a new table. O(constraints)."""
        moves = Moves(_scores(subject, subject.constraints), {})
        moves.ranks = {group: moves.move(group, Ranks()) for group in moves.groups}
        return moves

    def scored(self, subject: Scored, due: Sequence[Described]) -> Moves:
        """Return the score of each constraint that is told to have appeared, on the rows there are now."""
        gone: dict[str, list[str]] = defaultdict(list)
        for one in due:
            if one.row["change"] == "disappeared":
                gone[_group(one.about["family"], subject.name)].append(one.about["constraint_id"])
        return Moves(_scores(subject, [one.constraint for one in due if one.row["change"] == "appeared"]), gone)

    def publish(self, subject: Scored, due: Sequence[Described], draft: CommitDraft) -> None:
        """Add changes to a commit, with the scores of what appeared, and places when it is time."""
        moves = self.scored(subject, due)
        scores = moves.score_of
        for one in due:
            draft.rows.change(one.row, one.about, scores.get(one.about["constraint_id"]))
        self.place(subject, moves, draft)

    def place(self, subject: Scored, moves: Moves, draft: CommitDraft) -> None:
        """Add to a commit the rows that bring places to where they are, when it is time. O(constraints)."""
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
    """Return scores by group and id."""
    found: dict[str, dict[str, float]] = defaultdict(dict)
    if not constraints:
        return found
    for constraint, score in zip(constraints, subject.scores(constraints), strict=True):
        table = constraint.dependent.table if isinstance(constraint, InclusionDependency) else subject.name
        found[_group(constraint.family.value, subject.name)][constraint_id(constraint, table)] = round(score, 6)
    return found
