"""Scores and ranks of constraints in the output table `constraints`.

    ranks  family NUL table   the published ranks by constraint id, as JSON

Constraints of one table and family are ranked among each other; inclusions, which are across tables, all together. The
score of a constraint is measured when it appears, on the rows of that moment, and published with its row: it is right
as of the `commit` of the row. After a restart the scores are measured again. Ranks are published from time to time, and
only where they changed; only the first ones, so that a constraint that appears at the front changes at most a thousand
rows.

Invariant: the remembered scores and ranks were published with written commits.
"""

import heapq
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from holdfast.constraints import Constraint, Family, constraint_id
from holdfast.constraints.inclusion import InclusionDependency
from holdfast.constraints.scores import Score
from holdfast.state import codecs
from holdfast.state.store import Reader
from holdfast.streaming.commits.draft import CommitDraft
from holdfast.streaming.commits.output_rows import Described, score_fields

PLACES = 1_000


class Scored(Protocol):
    """A maintainer of constraints that measures their scores: of a table, or of all inclusions."""

    @property
    def name(self) -> str:
        """The name of the table; empty for inclusions."""

    @property
    def constraints(self) -> Sequence[Any]:
        """The constraints that hold now."""

    def scores(self, constraints: Sequence[Any]) -> list[Score]:
        """Return the score of each constraint, from 0 to 1."""


@dataclass
class RankChanges:
    """The changes of the scores and ranks of one subject with a commit.

    Parameters
    ----------
    scores : the scores of the constraints published as appeared, by group and id.
    gone : the ids of the constraints published as disappeared, by group.
    ended : the scores that constraints of tables that ended have on the current rows, by id.
    is_seed : whether `scores` has all constraints of the subject.
    ranked : all scores after the commit of the groups whose ranks are published with it.
    at : the time, in seconds, if ranks are published; else None.
    """

    scores: Mapping[str, Mapping[str, Score]]
    gone: Mapping[str, Sequence[str]]
    ended: Mapping[str, Score] = field(default_factory=dict)
    is_seed: bool = False
    ranked: dict[str, dict[str, Score]] = field(default_factory=dict)
    at: float | None = None

    @property
    def score_of(self) -> Mapping[str, Score]:
        """The scores by constraint id."""
        return {name: score for found in self.scores.values() for name, score in found.items()}

    @property
    def groups(self) -> set[str]:
        """The groups with constraints that appeared or disappeared."""
        return {*self.scores, *self.gone}

    def renewed(self, group: str) -> set[str]:
        """Return the constraints of a group that appeared or disappeared: their rows, if any, have no rank."""
        return {*self.scores.get(group, ()), *self.gone.get(group, ())}


class Ranking:
    """The scores and ranks of the constraints of one store.

    Parameters
    ----------
    store : has the published ranks.
    every : the seconds between two publications of ranks.
    """

    def __init__(self, store: Reader, every: float = 300.0) -> None:
        self._store = store
        self._every = every
        self._scores: dict[str, dict[str, Score]] = {}
        self._renewed: dict[str, set[str]] = defaultdict(set)  # since the last publication of ranks
        self._at: dict[str, float] = {}

    def seeded(self, subject: Scored) -> RankChanges:
        """Return the changes of a seeded subject: all constraints appeared. O(constraints)."""
        return RankChanges(_scores(subject, subject.constraints), {}, is_seed=True)

    def scored(self, subject: Scored, due: Sequence[Described]) -> RankChanges:
        """Return the changes of a commit; scores are measured on the current rows."""
        gone: dict[str, list[str]] = defaultdict(list)
        for one in due:
            if one.row["change"] == "disappeared":
                gone[_group(one.about["family"], subject.name)].append(one.about["constraint_id"])
        asked = [one for one in due if one.row["change"] == "appeared" or one.about["family"] != Family.INCLUSION.value]
        appeared: dict[str, dict[str, Score]] = defaultdict(dict)
        ended: dict[str, Score] = {}
        for one, score in zip(asked, subject.scores([one.constraint for one in asked]) if asked else (), strict=True):
            is_new = one.row["change"] == "appeared"
            found = appeared[_group(one.about["family"], subject.name)] if is_new else ended
            found[one.about["constraint_id"]] = score.rounded()
        return RankChanges(appeared, gone, ended)

    def publish(self, subject: Scored, due: Sequence[Described], draft: CommitDraft) -> None:
        """Add changed constraints to a commit, with scores of those that appeared, and ranks when it is time."""
        moves = self.scored(subject, due)
        scores = {**moves.ended, **moves.score_of}
        for one in due:
            draft.rows.change(one.row, one.about, scores.get(one.about["constraint_id"]))
        self.place(subject, moves, draft)

    def place(self, subject: Scored, moves: RankChanges, draft: CommitDraft) -> None:
        """Add the changed ranks to a commit, when it is time. O(constraints)."""
        draft.when_kept(partial(self._keep, subject, moves))
        groups = moves.groups | {group for group in self._renewed if group.partition("\0")[2] == subject.name}
        if not groups or 0 <= draft.seconds - self._at.get(subject.name, 0.0) < self._every:
            return
        is_known = moves.is_seed or groups <= self._scores.keys()
        every = self._scores if is_known else _scores(subject, subject.constraints) | self._scores
        moves.at = draft.seconds
        for group in sorted(groups):
            gone, appeared = set(moves.gone.get(group, ())), moves.scores.get(group, {})
            scores = {**{name: score for name, score in every.get(group, {}).items() if name not in gone}, **appeared}
            renewed = self._renewed.get(group, set()) | moves.renewed(group)
            stored = codecs.read_json(self._store.get("ranks", group.encode()) or b"{}")
            ranks, changed = ranked(scores, {name: rank for name, rank in stored.items() if name not in renewed})
            moves.ranked[group] = scores
            draft.change.put("ranks", group.encode(), codecs.json_bytes(ranks))
            for name, score, rank in changed:
                row = {"constraint_id": name, **score_fields(score), "rank": rank, "_amends": True}
                draft.rows.add("constraints", row)

    def _keep(self, subject: Scored, moves: RankChanges) -> None:
        self._scores |= moves.ranked
        if moves.at is not None:
            self._at[subject.name] = moves.at
            for group in moves.ranked:
                self._renewed.pop(group, None)
            return
        for group in moves.groups:
            self._renewed[group] |= moves.renewed(group)
            if group in self._scores:
                for name in moves.gone.get(group, ()):
                    self._scores[group].pop(name, None)
                self._scores[group].update(moves.scores.get(group, {}))


def ranked(
    scores: Mapping[str, Score], published: Mapping[str, int], places: int = PLACES
) -> tuple[dict[str, int], list[tuple[str, Score, int | None]]]:
    """Return the ranks by constraint id, and (id, score, rank) of each row whose rank changed. O(n).

    Sound constraints come first; equal scores are ordered by id.

    Parameters
    ----------
    scores : the scores of all constraints of one table and family, by id.
    published : the ranks of their rows; rows that are not in it have none.
    places : how many ranks are published.

    Examples
    --------
    >>> ranked({"a": Score(0.5), "b": Score(0.9)}, {})
    ({'b': 1, 'a': 2}, [('b', 0.9, 1), ('a', 0.5, 2)])
    >>> ranked({"a": Score(0.5)}, {"a": 2})
    ({'a': 1}, [('a', 0.5, 1)])
    """
    best = heapq.nsmallest(places, scores.items(), key=lambda item: (item[1].place(), item[0]))
    ranks = {constraint_id: rank for rank, (constraint_id, _) in enumerate(best, 1)}
    moved: list[tuple[str, Score, int | None]] = [
        (name, scores[name], rank) for name, rank in ranks.items() if published.get(name) != rank
    ]
    moved += [(name, scores[name], None) for name in published if name in scores and name not in ranks]
    return ranks, moved


def _group(family: str, name: str) -> str:
    return f"{family}\0{name}"


def _scores(subject: Scored, constraints: Sequence[Constraint]) -> dict[str, dict[str, Score]]:
    """Return the scores of constraints by group and id."""
    found: dict[str, dict[str, Score]] = defaultdict(dict)
    if not constraints:
        return found
    for constraint, score in zip(constraints, subject.scores(constraints), strict=True):
        table = constraint.dependent.table if isinstance(constraint, InclusionDependency) else subject.name
        found[_group(constraint.family.value, subject.name)][constraint_id(constraint, table)] = score.rounded()
    return found
