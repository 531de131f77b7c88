"""The number of partners of rows by each rule, as needed for rows that change.

Rules with the same tests of the other row alone share an index of the rows that pass (`indexes/counting_index.py`).

Invariant: between changes the indexes have all live rows, copies included.
"""

from collections.abc import Callable, Collection, Sequence
from functools import partial

import numpy as np

from holdfast.constraints.conditions import Atom
from holdfast.constraints.operators import EVERY_OUTCOME
from holdfast.discovery.detection.columns import Columns, RowColumns
from holdfast.discovery.detection.forms import Compared, PairForm, space_with
from holdfast.indexes.boxes import Tests
from holdfast.indexes.counting_index import CountingIndex
from holdfast.indexes.rows import RowDelta, RowSet
from holdfast.tables.arrays import Ints, Outcomes, Slots


class PartnerCounts:
    """Counts the partners of rows.

    Parameters
    ----------
    rows : the table.
    forms : the rules, each of them possible.
    threads : the number of threads to use.
    """

    def __init__(self, rows: RowSet, forms: Sequence[PairForm], threads: int = 1) -> None:
        self._rows = rows
        self._forms = forms
        space = space_with(rows.space, forms)
        tests = Tests.of(space)
        asked: dict[tuple[Atom, ...], list[tuple[int, bool, Outcomes]]] = {}
        for number, form in enumerate(forms):
            asked.setdefault(form.s_tests, []).append((number, True, _box(form.compared, tests)))
            if not form.is_symmetric:
                turned = tuple(compared.mirror for compared in form.compared)
                asked.setdefault(form.t_tests, []).append((number, False, _box(turned, tests)))
        self._asked = {
            atoms: (
                [(number, as_t) for number, as_t, _ in boxes],
                CountingIndex(rows, space, np.array([box for *_, box in boxes]), self._among(atoms), threads),
            )
            for atoms, boxes in asked.items()
        }

    def follow(self, delta: RowDelta) -> None:
        """Apply a batch to the indexes, before the slots of its vanished rows are freed."""
        for _, index in self._asked.values():
            index.follow(delta)

    def rebuild(self) -> None:
        """Build the indexes again."""
        for _, index in self._asked.values():
            index.rebuild()

    def count(
        self, slots: Slots, columns: Columns, numbers: Collection[int]
    ) -> tuple[dict[int, Ints], dict[int, float]]:
        """Return, per rule, the number of partners of each given row, as t and as s together.

        The row itself is counted where it would break the rule with itself, and is in the table. Also returns the
        seconds of one thread that each rule took.

        Parameters
        ----------
        columns : the same rows as columns, for tests.
        """
        partners = {number: np.zeros(len(slots), np.int64) for number in numbers}
        seconds = dict.fromkeys(numbers, 0.0)
        for boxes, index in self._asked.values():
            asked = [box for box, (number, _) in enumerate(boxes) if number in partners]
            for box, (found, took) in index.count(slots, asked).items():
                number, as_t = boxes[box]
                form = self._forms[number]
                passes = columns.passing(form.t_tests if as_t else form.s_tests)
                partners[number] += (2 if form.is_symmetric else 1) * (found if passes is None else found * passes)
                seconds[number] += took
        return partners, seconds

    def _among(self, atoms: tuple[Atom, ...]) -> Callable[[Slots], Slots] | None:
        return partial(_chosen, self._rows, atoms) if atoms else None


def _box(compared: Sequence[Compared], tests: Tests) -> Outcomes:
    """Return the outcomes that a rule allows in each test of a space, for a row as t and other rows as s."""
    box = np.full(len(tests), EVERY_OUTCOME, np.int8)
    for c in compared:
        (test,) = np.flatnonzero((tests.x_column == c.left) & (tests.row_column == c.right))
        box[test] &= c.allowed
    return box


def _chosen(rows: RowSet, atoms: tuple[Atom, ...], slots: Slots) -> Slots:
    passes = RowColumns(rows, slots).passing(atoms)
    return slots if passes is None else slots[passes]
