"""Whether constraints say something about the data, or hold by chance: their *strength* and their *support*.

    not(t.Zip = s.Zip and t.Salary > s.Salary and t.Rate < s.Rate)        does it need the zip? the salary?

Take one predicate of a constraint as the last. No pair of rows that satisfies the other predicates satisfies the last
one. If pairs that satisfy only a part of the others satisfy the last one much more often, each predicate matters, and
the constraint is sound. Two rates say how much:

    whole   how often pairs that satisfy all other predicates satisfy the last one
    part    the least rate of pairs that satisfy the others but one, or that need not satisfy any; 1 where there is no
            other predicate

Strength is 1 - whole / part, the least over the choices of the last predicate. The rate `whole` is not taken as 0: none
of m rows is taken as 2 / (m + 4), so a constraint that almost no pair of rows could break has no strength. Here m is
the *support*: the rows besides the first one of each group that agrees on the equalities, times the share of the pairs
in these groups that satisfy the other predicates. Copies of a row are rows of their own. The strength of a key compares
it with a table where one of its columns is shuffled against the others (`near.ranking`).

Rates are measured on sampled pairs of rows, with bounds. Where the strength could be on either side of `SOUND` within
these bounds, the rates that decide are counted on all rows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from holdfast.constraints import NearShape, PredicateSpace
from holdfast.constraints.operators import EQUAL, EVERY_OUTCOME
from holdfast.constraints.scores import SOUND
from holdfast.discovery.near.lattice import NearMember
from holdfast.discovery.near.ranking import NearScores, needed
from holdfast.discovery.near.targets import KEY, NearTargets
from holdfast.discovery.soundness.exact import EveryRow, count_exactly, count_informative
from holdfast.discovery.soundness.measured import Measured
from holdfast.discovery.soundness.questions import Bounds, PairRates, Questions
from holdfast.discovery.soundness.sampled import sampled
from holdfast.indexes.masks import outcomes_of
from holdfast.tables.arrays import Flags, Floats, Positions, Words

_MARGIN = 2


@dataclass(frozen=True, eq=False)
class Soundness:
    """How much each of some constraints says.

    Parameters
    ----------
    strength : from 0 to 1.
    support : the rows that could have broken it, but for one.
    """

    strength: Floats
    support: Floats


def soundness(
    masks: Words, measured: Measured, space: PredicateSpace, *, decided: Flags | None = None, threads: int = 1
) -> Soundness:
    """Return the soundness of constraints that hold.

    O(n) for each context of a constraint, then O(s^2) counts on a sample for s predicates, and O(n log n) for each of
    these counts where a decision is close.

    Parameters
    ----------
    decided : the constraints that are not sound whatever their strength; None for no constraints.
    """
    found = Soundness(np.zeros(len(masks)), np.zeros(len(masks)))
    if not len(masks) or measured.at_hand < 2:
        return found
    outcomes = outcomes_of(masks, space)
    constrained = outcomes != EVERY_OUTCOME
    agreeing = outcomes == EQUAL
    agreeing[len(space.schema) :] = False
    is_key = (constrained == agreeing).all(axis=0)
    grouping = np.flatnonzero(agreeing[: len(space.schema)].any(axis=1))
    every = cache(lambda: EveryRow(measured, grouping))
    _score_keys(found, np.flatnonzero(is_key), agreeing, every)
    others = np.flatnonzero(~is_key)
    if not len(others):
        return found
    questions = Questions.about(masks[others], outcomes[:, others], agreeing[:, others], space)
    answers = sampled(questions, measured, space, threads)
    if not measured.is_whole:
        count_informative(answers, questions, every(), space, threads)
    close = _close(questions, answers, None if decided is None else decided[others])
    if len(close):
        count_exactly(answers, questions, close, every(), space, threads)
    found.strength[others], found.support[others] = _of_constraints(questions, answers)
    return found


class _Strengths(NamedTuple):
    """What answers say about constraints.

    Parameters
    ----------
    whole : the questions about all other predicates of a constraint: one for each choice of its last predicate.
    choice : (k,) for each question the question of `whole` that it is a part of, by its place there.
    least : (3, w) the least rate of the parts of each choice.
    of_choices : (3, w) the strength by each choice.
    of_constraints : (3, c) the least of these.
    """

    whole: Positions
    choice: Positions
    least: Bounds
    of_choices: Bounds
    of_constraints: Bounds

    @classmethod
    def of(cls, questions: Questions, answers: PairRates) -> "_Strengths":
        """Compare the rates of parts with those of whole constraints."""
        whole = np.flatnonzero(questions.is_whole)
        constraints = int(questions.number.max()) + 1
        of = np.full((constraints, int(questions.place.max()) + 1), -1)
        of[questions.number[whole], questions.place[whole]] = np.arange(len(whole))
        choice = of[questions.number, questions.place]
        is_part = ~questions.is_whole
        least, weakest = np.ones((3, len(whole))), np.ones((3, constraints))
        for bound in range(3):
            np.minimum.at(least[bound], choice[is_part], answers.rate[bound, is_part])
        unseen = _MARGIN / (answers.applies[:, whole] + 2 * _MARGIN)
        strength = np.maximum(0.0, 1 - unseen / np.maximum(least, unseen))
        for bound in range(3):
            np.minimum.at(weakest[bound], questions.number[whole], strength[bound])
        return cls(whole, choice, least, strength, weakest)


def _close(questions: Questions, answers: PairRates, decided: Flags | None) -> Positions:
    """Return the questions whose exact answers decide whether constraints are sound."""
    strengths = _Strengths.of(questions, answers)
    is_close = _is_close(strengths.of_constraints)
    if decided is not None:
        is_close &= ~decided
    asked = is_close[questions.number] & _is_close(strengths.of_choices)[strengths.choice]
    low, _, high = np.where(questions.is_whole, answers.share, answers.rate)
    matters = questions.is_whole | (low < strengths.least[2, strengths.choice])
    return np.flatnonzero(asked & matters & (low < high))


def _is_close(strength: Bounds) -> Flags:
    """Return which strengths could be on either side of what makes a constraint sound."""
    low, _, high = strength
    return np.asarray((low < SOUND) & (high >= SOUND))


def _of_constraints(questions: Questions, answers: PairRates) -> tuple[Floats, Floats]:
    """Return the strength and the support of each constraint."""
    strengths = _Strengths.of(questions, answers)
    fewest = np.full(strengths.of_constraints.shape[1], np.inf)
    np.minimum.at(fewest, questions.number[strengths.whole], answers.applies[1, strengths.whole])
    return strengths.of_constraints[1], fewest


def _score_keys(found: Soundness, numbers: Positions, agreeing: Flags, every: Callable[[], EveryRow]) -> None:
    """Score keys by the rows that agree on all columns but one. O(n) for each key and each column less."""
    if not len(numbers):
        return
    rows = every().rows
    targets = NearTargets(rows, frozenset({NearShape.KEY}))
    place = np.zeros(len(agreeing), np.int64)
    place[rows.columns] = np.arange(len(rows.columns))
    members = [NearMember(tuple(sorted(place[np.flatnonzero(agreeing[:, k])].tolist())), KEY, 0) for k in numbers]
    counter = every().counter()
    counts = {one: counter.groups(one[0]).key_exceptions for one in sorted(needed(members, targets))}
    scores = NearScores(rows.count, targets, counts)
    for number, member in zip(numbers.tolist(), members, strict=True):
        found.strength[number] = scores.strength(member)
        others = [tuple(c for c in member.context if c != column) for column in member.context]
        fewest = min(counts[part, KEY] if part else rows.count - 1 for part in others)
        found.support[number] = fewest * every().scale
