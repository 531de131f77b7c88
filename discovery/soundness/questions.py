"""The questions whose answers say how strong constraints are.

    not(t.Zip = s.Zip and t.Salary > s.Salary and t.Rate < s.Rate), with t.Rate < s.Rate as the last predicate

    whole   of the pairs that satisfy both other predicates, how many satisfy the last one? None: the constraint holds
    parts   of the pairs that satisfy t.Zip = s.Zip; t.Salary > s.Salary; nothing

Each question has a *context*: the columns on which its pairs agree.
"""

from typing import Any, NamedTuple

import numpy as np

from holdfast.constraints import PredicateSpace
from holdfast.constraints.operators import EQUAL, EVERY_OUTCOME
from holdfast.indexes.masks import as_items, outcomes_of, words_of
from holdfast.tables.arrays import Flags, Floats, Ints, Outcomes, Positions, Words

Bounds = Floats
"""Numbers as they are at least, as they were found, and as they are at most: an array with three rows."""


class Questions(NamedTuple):
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

    @classmethod
    def about(cls, masks: Words, outcomes: Outcomes, agreeing: Flags, space: PredicateSpace) -> "Questions":
        """Return the questions about constraints, given the outcomes they allow and the columns they agree on.

        An equality is the last predicate only if all predicates are equalities and that one compares two columns.
        """
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
        every = [cls(number, place, is_whole, context, others, last)]
        parts = np.flatnonzero(constrained.sum(axis=0)[number] > 1)
        every.append(cls(number[parts], place[parts], ~is_whole[parts], empty[parts], empty[parts], last[parts]))
        for without in range(len(space.pairs)):
            some = np.flatnonzero(constrained[without, number] & (place != without))
            opened = (words[some] | free[without] for words in (context, others))
            every.append(cls(number[some], place[some], ~is_whole[some], next(opened), next(opened), last[some]))
        joined: Any = map(np.concatenate, zip(*every, strict=True))
        return cls(*joined)

    def by_context(
        self, some: Positions, columns: Ints, space: PredicateSpace
    ) -> list[tuple[tuple[int, ...], Positions]]:
        """Return contexts in ascending order, each with those of some questions that have this context.

        Parameters
        ----------
        columns : the columns that a context numbers from 0 on, by their positions in the schema.
        """
        masks = self.contexts[some]
        _, first, of = np.unique(as_items(masks), return_index=True, return_inverse=True)
        number = np.zeros(len(space.schema), np.int64)
        number[columns] = np.arange(len(columns))
        agreed = outcomes_of(masks[first], space)[: len(space.schema)] == EQUAL
        contexts = [tuple(sorted(number[flags].tolist())) for flags in agreed.T]
        order = np.argsort(of, kind="stable")
        asked = np.split(some[order], np.searchsorted(of[order], np.arange(1, len(contexts))))
        return sorted(zip(contexts, asked, strict=True), key=lambda task: task[0])


class PairRates(NamedTuple):
    """Answers to k questions.

    Parameters
    ----------
    informative : (k,) the rows besides the first one of each group that agrees on the context.
    share : (3, k) the share of the pairs in these groups that satisfy the other predicates.
    rate : (3, k) how often these pairs satisfy the last predicate.
    """

    informative: Floats
    share: Bounds
    rate: Bounds

    @classmethod
    def unknown(cls, questions: int) -> "PairRates":
        """Return answers that are still to be found."""
        return cls(np.zeros(questions), np.zeros((3, questions)), np.zeros((3, questions)))

    @property
    def applies(self) -> Bounds:
        """The rows to which the other predicates of each question apply."""
        return self.informative * self.share
