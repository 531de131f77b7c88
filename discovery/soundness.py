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
in these groups that satisfy the other predicates. An equality is the last predicate only if all predicates are
equalities and that one compares two columns. The strength of a key compares it with a table where one of its columns is
shuffled against the others (`near.ranking`).

Rates are measured on sampled pairs of distinct rows in groups. The sample depends on the rows and their order alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from holdfast.constraints import NearShape, PredicateSpace
from holdfast.constraints.operators import EQUAL, EVERY_OUTCOME
from holdfast.discovery.kernels.evidence import PairCodes
from holdfast.discovery.kernels.soundness import rates_kernel
from holdfast.discovery.near.counting import Context, Counter
from holdfast.discovery.near.lattice import NearMember
from holdfast.discovery.near.ranking import NearScores, needed
from holdfast.discovery.near.rows import NearRows
from holdfast.discovery.near.swaps import sampled_pairs
from holdfast.discovery.near.targets import KEY, NearTargets
from holdfast.discovery.threads import cut
from holdfast.indexes.masks import as_items, outcomes_of, words_of
from holdfast.indexes.threads import mapped
from holdfast.tables.arrays import Flags, Floats, Ints, Outcomes, Positions, Rows, Words

_MARGIN = 2
_PAIRS = 8_000


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


def soundness(masks: Words, codes: PairCodes, space: PredicateSpace, *, threads: int = 1) -> Soundness:
    """Return the soundness of constraints that hold.

    O(n) for the groups of each context and of each part of it, then O(s^2) counts on a sample for s predicates.
    """
    found = Soundness(np.zeros(len(masks)), np.zeros(len(masks)))
    if not len(masks) or codes.rows < 2:
        return found
    rows = _rows(codes, space)
    outcomes = outcomes_of(masks, space)
    constrained = outcomes != EVERY_OUTCOME
    agreeing = outcomes == EQUAL
    agreeing[len(space.schema) :] = False
    is_key = (constrained == agreeing).all(axis=0)
    _score_keys(found, np.flatnonzero(is_key), agreeing, rows)
    others = np.flatnonzero(~is_key)
    if len(others):
        questions = _questions(masks[others], outcomes[:, others], agreeing[:, others], space)
        _score(found, others, questions, _answers(questions, rows, codes, space, threads))
    return found


class _Questions(NamedTuple):
    """Questions: of the pairs that agree on some columns and satisfy some predicates, how many satisfy the last one.

    Parameters
    ----------
    number, place : (k,) the constraint of each question, and the column pair of its last predicate.
    is_whole : (k,) whether the question is about all other predicates of the constraint, not about a part of them.
    contexts, others, last : (k, W) masks: the columns to agree on, the predicates to satisfy, and the last one.
    """

    number: Positions
    place: Positions
    is_whole: Flags
    contexts: Words
    others: Words
    last: Words


def _questions(masks: Words, outcomes: Outcomes, agreeing: Flags, space: PredicateSpace) -> _Questions:
    """Return the questions whose answers say how strong constraints are."""
    nothing = np.array(space.words(space.every), np.uint64)
    free = np.array([space.words(pair.every) for pair in space.pairs], np.uint64)
    constrained = outcomes != EVERY_OUTCOME
    is_last = constrained & (outcomes != EQUAL)
    is_last |= constrained & ~agreeing & ~is_last.any(axis=0)
    number, place = np.nonzero(is_last.T)
    context = words_of(np.where(agreeing, EQUAL, EVERY_OUTCOME).astype(np.int8), space)[number]
    others, last = masks[number] | free[place], masks[number] | (nothing & ~free[place])
    empty = np.broadcast_to(nothing, context.shape)
    is_whole = np.ones(len(number), np.bool_)
    every = [_Questions(number, place, is_whole, context, others, last)]
    parts = np.flatnonzero(constrained.sum(axis=0)[number] > 1)
    every.append(_Questions(number[parts], place[parts], ~is_whole[parts], empty[parts], empty[parts], last[parts]))
    for without in range(len(space.pairs)):
        some = np.flatnonzero(constrained[without, number] & (place != without))
        opened = (words[some] | free[without] for words in (context, others))
        every.append(_Questions(number[some], place[some], ~is_whole[some], next(opened), next(opened), last[some]))
    joined: Any = map(np.concatenate, zip(*every, strict=True))
    return _Questions(*joined)


def _answers(
    questions: _Questions, rows: NearRows, codes: PairCodes, space: PredicateSpace, threads: int
) -> tuple[Floats, Floats]:
    """Return for each question the rows to which it applies, and the rate at which they satisfy the last predicate."""
    _, first, of = np.unique(as_items(questions.contexts), return_index=True, return_inverse=True)
    place = np.argsort(rows.columns)
    agreed = outcomes_of(questions.contexts[first], space)[: len(rows.columns)] == EQUAL
    contexts = [tuple(sorted(place[flags].tolist())) for flags in agreed.T]
    order = np.argsort(of, kind="stable")
    asked = np.split(order, np.searchsorted(of[order], np.arange(1, len(contexts))))
    applies, rate = np.zeros((2, len(of)))

    def answer(some: Sequence[tuple[Context, Positions]]) -> None:
        counter = Counter(rows, NearTargets(rows, frozenset({NearShape.KEY})))
        for context, numbers in some:
            groups = counter.groups(context)
            left, right = sampled_pairs(groups, _PAIRS)
            words, repeated = _evidences(codes, space, left, right)
            counts = np.zeros((len(numbers), 2), np.int64)
            rates_kernel(words, repeated, questions.others[numbers], questions.last[numbers], counts)
            satisfied, with_last = counts.T
            applies[numbers] = groups.key_exceptions * satisfied / max(len(left), 1)
            rate[numbers] = with_last / np.maximum(satisfied, 1)

    tasks = sorted(zip(contexts, asked, strict=True), key=lambda task: task[0])
    mapped(threads, answer, cut(tasks, threads))
    return applies, rate


def _evidences(codes: PairCodes, space: PredicateSpace, left: Rows, right: Rows) -> tuple[Words, Ints]:
    """Return the distinct evidences of pairs of rows, and the number of pairs with each."""
    every = np.zeros((len(left), space.word_count), np.uint64)
    for place, pair in enumerate(space.pairs):
        a, b = codes.left[place][left], codes.right[place][right]
        outcome = np.where(a == b, 2, np.where(a < b, 1, 4)) if pair.ordered else np.where(a == b, 1, 2)
        every[:, pair.offset // 64] |= outcome.astype(np.uint64) << np.uint64(pair.offset % 64)
    words, counts = np.unique(every, axis=0, return_counts=True)
    return words, counts.astype(np.int64)


def _score(found: Soundness, numbers: Positions, questions: _Questions, answers: tuple[Floats, Floats]) -> None:
    """Score the constraints that questions are about, by the answers."""
    applies, rate = answers
    whole = np.flatnonzero(questions.is_whole)
    of = np.full((len(numbers), int(questions.place.max(initial=0)) + 1), -1)
    of[questions.number[whole], questions.place[whole]] = np.arange(len(whole))
    choice = of[questions.number, questions.place]
    least = np.ones(len(whole))
    np.minimum.at(least, choice[~questions.is_whole], rate[~questions.is_whole])
    unseen = _MARGIN / (applies[whole] + 2 * _MARGIN)
    strength = np.maximum(0.0, 1 - unseen / np.maximum(least, unseen))
    weakest, fewest = np.ones(len(numbers)), np.full(len(numbers), np.inf)
    np.minimum.at(weakest, questions.number[whole], strength)
    np.minimum.at(fewest, questions.number[whole], applies[whole])
    found.strength[numbers], found.support[numbers] = weakest, fewest


def _score_keys(found: Soundness, numbers: Positions, agreeing: Flags, rows: NearRows) -> None:
    """Score keys by the rows that agree on all columns but one."""
    targets = NearTargets(rows, frozenset({NearShape.KEY}))
    place = np.argsort(rows.columns)
    members = [NearMember(tuple(sorted(place[np.flatnonzero(agreeing[:, k])].tolist())), KEY, 0) for k in numbers]
    counter = Counter(rows, targets)
    counts = {one: counter.groups(one[0]).key_exceptions for one in sorted(needed(members, targets))}
    scores = NearScores(rows.count, targets, counts)
    for number, member in zip(numbers.tolist(), members, strict=True):
        found.strength[number] = scores.strength(member)
        others = [tuple(c for c in member.context if c != column) for column in member.context]
        found.support[number] = min(counts[part, KEY] if part else rows.count - 1 for part in others)


def _rows(codes: PairCodes, space: PredicateSpace) -> NearRows:
    """Return the distinct rows as codes of their columns, the most selective column first."""
    own = codes.left[: len(space.schema)]
    sizes = [np.bincount(column) for column in own]
    order = np.argsort([float((size.astype(np.float64) ** 2).sum()) for size in sizes], kind="stable")
    rows = np.arange(codes.rows)
    distinct = np.array([len(sizes[column]) for column in order], np.int64)
    is_ordered = tuple(False for _ in order)
    middles = np.zeros(len(order), np.int64)
    return NearRows(own[order], distinct, middles, order, is_ordered, rows.astype(np.int32), rows)
