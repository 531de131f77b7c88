"""Scores of denial constraints and order dependencies, from 0 to 1: two thirds *strength*, one third *succinctness*.

- *strength*: how much rarer violations are than chance would have them (`discovery.soundness`).
- *succinctness*: four symbols, the fewest possible (two rows, an operator, a column), divided by the distinct symbols
  of this constraint [FASTDC, 5]. Short constraints overfit least.

Sound constraints come first, whatever the scores. A constraint that compares columns whose values have nothing to do
with each other (`tables.comparable`) is not sound.
"""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from holdfast.constraints import DenialConstraint, PredicateSpace
from holdfast.constraints.operators import EVERY_OUTCOME
from holdfast.constraints.scores import Score
from holdfast.discovery.reported import Reported
from holdfast.discovery.soundness.measured import Measured
from holdfast.discovery.soundness.strength import soundness
from holdfast.indexes.masks import outcomes_of
from holdfast.tables.arrays import Flags, Floats, Words

_FEWEST_SYMBOLS = 4


def scores_on(masks: Words, measured: Measured, space: PredicateSpace, *, threads: int = 1) -> list[Score]:
    """Return the score of each constraint."""
    unrelated = _unrelated(masks, measured, space)
    found = soundness(masks, measured, space, decided=unrelated, threads=threads)
    scores = (2 * found.strength + succinctness(masks, space)) / 3
    every = zip(*(part.tolist() for part in (scores, found.strength, found.support, unrelated)), strict=True)
    return [Score(score, strength, support, compares_unrelated=flag) for score, strength, support, flag in every]


def scores_of(
    constraints: Sequence[Reported], spaces: Iterable[PredicateSpace], measured: Callable[[PredicateSpace], Measured]
) -> list[Score]:
    """Return the score of each constraint; 0, not measured, of those that are in none of the spaces.

    Parameters
    ----------
    measured : returns what the constraints of a space are measured on.
    """
    found: dict[int, Score] = {}
    for space in spaces:
        denials = {i: _as_denial(c) for i, c in enumerate(constraints) if c.family is space.family}
        masks = {i: space.words(space.mask(denial)) for i, denial in denials.items() if space.has(denial)}
        if masks:
            scores = scores_on(np.array([*masks.values()], np.uint64), measured(space), space)
            found.update(zip(masks, scores, strict=True))
    return [found.get(i, Score(0)) for i in range(len(constraints))]


def _as_denial(constraint: Reported) -> DenialConstraint:
    return constraint if isinstance(constraint, DenialConstraint) else constraint.as_denial()


def _unrelated(masks: Words, measured: Measured, space: PredicateSpace) -> Flags:
    """Return which constraints compare columns that have values in common by chance alone."""
    found, names = np.zeros(len(masks), np.bool_), space.schema.names
    for pair, allowed in zip(space.pairs, outcomes_of(masks, space), strict=True):
        constrained = allowed != EVERY_OUTCOME
        if constrained.any() and not measured.are_related(names[pair.left], names[pair.right]):
            found |= constrained
    return found


def succinctness(masks: Words, space: PredicateSpace) -> Floats:
    """Return the succinctness of each constraint: 1 for one predicate on one column."""
    operators = np.zeros((8, len(masks)), np.bool_)
    columns = np.zeros((len(space.schema), len(masks)), np.bool_)
    for pair, outcomes in zip(space.pairs, outcomes_of(masks, space), strict=True):
        constrained = outcomes != EVERY_OUTCOME
        columns[pair.left] |= constrained
        columns[pair.right] |= constrained
        operators[outcomes, np.arange(len(masks))] = True
    symbols = 2 + operators[:EVERY_OUTCOME].sum(axis=0) + columns.sum(axis=0)
    return np.asarray(np.minimum(1.0, _FEWEST_SYMBOLS / symbols))
