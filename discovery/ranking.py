"""Scores of denial constraints and order dependencies, from 0 to 1: two thirds *strength*, one third *succinctness*.

- *strength*: how much rarer violations are than chance would have them (`discovery.soundness`).
- *succinctness*: four symbols, the fewest possible (two rows, an operator, a column), divided by the distinct symbols
  of this constraint [FASTDC, 5]. Short constraints overfit least.

Sound constraints come first, whatever the scores. Strength is measured on at most 32,768 rows that are drawn by lot. A
constraint that compares columns whose values have nothing to do with each other (`tables.comparable`) is not sound.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from holdfast.constraints import DenialConstraint, PredicateSpace
from holdfast.constraints.operators import EVERY_OUTCOME
from holdfast.constraints.scores import Score
from holdfast.discovery.evidence.codes import pair_codes
from holdfast.discovery.evidence.current import codes_of
from holdfast.discovery.kernels.evidence import PairCodes
from holdfast.discovery.reported import Reported
from holdfast.discovery.soundness import soundness
from holdfast.indexes.masks import outcomes_of
from holdfast.indexes.rows import RowSet
from holdfast.indexes.texts import NULL
from holdfast.tables import EncodedColumn, Table, related
from holdfast.tables.arrays import Flags, Floats, Positions, Words

_ROWS = 1 << 15
_FEWEST_SYMBOLS = 4


class Measured(NamedTuple):
    """What scores are measured on.

    Parameters
    ----------
    codes : of some rows, drawn by lot.
    related : of each column pair whether it compares values of one meaning: a column with itself, or two columns that
        have values in common beyond chance.
    """

    codes: PairCodes
    related: Flags

    @classmethod
    def of_table(cls, table: Table, space: PredicateSpace) -> "Measured":
        """Draw rows of a table."""
        codes = pair_codes(table, space)
        return cls(codes.taken(_drawn(codes.rows)), _related(space, lambda column: table.columns[column]))

    @classmethod
    def of_rows(cls, rows: RowSet, space: PredicateSpace) -> "Measured":
        """Draw live rows of a maintained table. O(n), nanoseconds a row."""
        live = rows.live()
        live = live[_drawn(len(live))]

        def column(number: int) -> EncodedColumn:
            codes = rows.codes[live, number]
            distinct, places = np.unique(codes[codes != NULL], return_inverse=True)
            return rows.encoding.column(number, distinct).at(places)

        return cls(codes_of(rows, space, live), _related(space, column))


def scores_on(masks: Words, measured: Measured, space: PredicateSpace, *, threads: int = 1) -> list[Score]:
    """Return the score of each constraint."""
    found = soundness(masks, measured.codes, space, threads=threads)
    scores = (2 * found.strength + succinctness(masks, space)) / 3
    unrelated = (outcomes_of(masks, space)[~measured.related] != EVERY_OUTCOME).any(axis=0)
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


def _drawn(rows: int) -> Positions:
    """Return the places of the rows that are measured, of a number of rows."""
    if rows <= _ROWS:
        return np.arange(rows)
    return np.sort(np.random.default_rng(0).choice(rows, _ROWS, replace=False))


def _related(space: PredicateSpace, column: Callable[[int], EncodedColumn]) -> Flags:
    """Return for each column pair whether its values are of one meaning."""
    return np.array([a == b or related(column(a), column(b)) for a, b in ((p.left, p.right) for p in space.pairs)])


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
