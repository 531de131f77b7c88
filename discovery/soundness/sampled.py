"""Answers to questions from sampled pairs of rows, with bounds that hardly any answer exceeds.

The square root of a number of sampled pairs has a standard deviation of one half; bounds are three of these away. Where
the rows were drawn by lot, their pairs are no independent draws: pairs count as no more than half the rows that they
are made of.
"""

from collections.abc import Sequence

import numpy as np

from holdfast.constraints import NearShape, PredicateSpace
from holdfast.discovery.kernels.evidence import PairCodes
from holdfast.discovery.kernels.soundness import outcomes_kernel, rates_kernel
from holdfast.discovery.near.counting import Context, Counter
from holdfast.discovery.near.rows import NearRows
from holdfast.discovery.near.swaps import sampled_pairs
from holdfast.discovery.near.targets import NearTargets
from holdfast.discovery.soundness.measured import Measured
from holdfast.discovery.soundness.questions import Bounds, PairRates, Questions
from holdfast.discovery.threads import cut
from holdfast.indexes.threads import mapped
from holdfast.tables.arrays import Ints, Positions, Rows, Words

_PAIRS = 8_000
_DEVIATIONS = 3


def sampled(questions: Questions, measured: Measured, space: PredicateSpace, threads: int) -> PairRates:
    """Return answers from the rows that are drawn by lot. O(rows) for each context, and a sample of its pairs."""
    codes = measured.codes
    rows = NearRows.of_codes(codes.left[: len(space.schema)], np.arange(len(space.schema)), codes.rows)
    answers = PairRates.unknown(len(questions.number))

    def answer(some: Sequence[tuple[Context, Positions]]) -> None:
        counter = Counter(rows, NearTargets(rows, frozenset({NearShape.KEY})))
        for context, numbers in some:
            groups = counter.groups(context)
            left, right = sampled_pairs(groups, _PAIRS)
            words = _evidences(codes, space, left, right)
            counts = np.zeros((len(numbers), 2), np.int64)
            rates_kernel(words, questions.others[numbers], questions.last[numbers], counts)
            satisfied, with_last = counts.T
            independent = 1.0
            if not measured.is_whole and len(left):
                independent = min(1.0, len(groups.rows) / (2 * len(left)))
            elif measured.is_whole and groups.pairs == len(left):
                independent = np.inf
            answers.informative[numbers] = groups.key_exceptions
            answers.share[:, numbers] = _bounds(satisfied, np.full(len(numbers), len(left)), independent)
            answers.rate[:, numbers] = _bounds(with_last, satisfied, independent)

    tasks = questions.by_context(np.arange(len(questions.number)), rows.columns, space)
    mapped(threads, answer, cut(tasks, threads))
    return answers


def _bounds(counted: Ints, of: Ints, independent: float) -> Bounds:
    """Return what part of some pairs was counted: at least, as found, at most.

    Parameters
    ----------
    independent : for how many independent pairs each pair stands; infinite if these are all pairs.
    """
    one = 1 / independent
    error = _DEVIATIONS / 2 * np.sqrt(one)
    low, high = np.maximum(0.0, np.sqrt(counted) - error) ** 2, (np.sqrt(counted + one) + error) ** 2
    found = np.stack([low, counted, high]) / np.maximum(of, 1)
    if one:
        found[2, of == 0] = 1.0
    return np.asarray(np.minimum(found, 1.0))


def _evidences(codes: PairCodes, space: PredicateSpace, left: Rows, right: Rows) -> Words:
    """Return the evidences of pairs of rows."""
    every = np.zeros((space.word_count, len(left)), np.uint64)
    for place, pair in enumerate(space.pairs):
        word, shift = divmod(pair.offset, 64)
        outcomes_kernel(codes.left[place], codes.right[place], left, right, pair.ordered, shift, every[word])
    return np.ascontiguousarray(every.T)
