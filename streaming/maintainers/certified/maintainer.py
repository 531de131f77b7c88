"""The common part of the two families whose constraints a certificate proves complete: denial and order.

    deleted rows remove their witnesses; an evidence without a witness is *lost*
    inserted rows were searched for pairs that violate a constraint: the new evidences among them enter the certificate
    each lost evidence is searched again; the certificate keeps an evidence that is found, and drops the others
    constraints that appeared in these ways are searched on the whole table, until all hold

A subclass defines how evidences are kept, which constraints follow from them, and how new constraints are proved. The
rows and their index belong to the table (`table/maintainer.py`), as several families share them.
"""

from abc import abstractmethod
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from holdfast.constraints import PredicateSpace
from holdfast.discovery.evidence.certificate import Certificate
from holdfast.discovery.evidence.current import evidences_with
from holdfast.indexes.evidence_table import WITNESSES, EvidenceTable
from holdfast.indexes.masks import as_items
from holdfast.indexes.rows import RowDelta
from holdfast.streaming.maintainers.holdings.contract import Holding, TableSearch
from holdfast.streaming.maintainers.part import TablePart
from holdfast.tables.arrays import Numbers, Pairs, Slots, Words, as_slots

_PARTNER_PAIRS = 100_000
_MANY_LOST = 256
_RANDOM_PAIRS = 100_000
_MOST_RARE, _MOST_SEARCHED = 60_000, 100_000_000


@dataclass(frozen=True)
class FamilyChanges:
    """The effect of a batch on one family's constraints.

    Parameters
    ----------
    disappeared, appeared : reported boxes that disappeared, or appeared; the box of everything included.
    found, found_pairs : the evidences that appeared, and a live pair (slots) of each.
    lost, lost_pairs : the evidences that disappeared, and a former pair of each. An evidence may be in both.
    """

    disappeared: Words
    appeared: Words
    found: Words
    found_pairs: Pairs
    lost: Words
    lost_pairs: Pairs


@dataclass
class BatchEvidences:
    """The evidences found and lost while a batch is applied, and the search of the whole table, made at most once."""

    found: list[Numbers] = field(default_factory=list)
    lost: list[Words] = field(default_factory=list)
    lost_pairs: list[Pairs] = field(default_factory=list)
    search: TableSearch | None = None


class CertifiedMaintainer(TablePart):
    """One family's constraints of one table.

    Parameters
    ----------
    holding, space : the rows of the table, and the column pairs that are compared.
    certificate : evidences with their witnesses.

    Attributes
    ----------
    effort : counts since the seed of evidences that were found, lost, and found again, and of candidates that were
        searched, and refuted.
    """

    def __init__(self, holding: Holding, space: PredicateSpace, certificate: Certificate) -> None:
        self._holding = holding
        self._rows = holding.rows
        self.space = space
        self._threads = holding.threads
        self._every = np.array(space.words(space.every), np.uint64)
        self.certificate = certificate
        self.effort = Counter[str]()

    # Defined by each family

    @property
    @abstractmethod
    def masks(self) -> Words:
        """The reported boxes. The same array as long as they do not change."""

    @property
    def standing(self) -> Words:
        """The reported boxes, and the box of everything if it holds. The same array as long as they are the same."""
        return self.masks

    @property
    @abstractmethod
    def boxes(self) -> Words:
        """The boxes whose violations change the constraints. The same array as long as they do not change."""

    @abstractmethod
    def _kept(self, words: Words, pairs: Pairs) -> tuple[Words, Pairs]:
        """Return evidences and their pairs in the form in which the certificate keeps them."""

    @abstractmethod
    def _mirrored(self, words: Words, pairs: Pairs) -> tuple[Words, Pairs]:
        """Return evidences of the certificate, with their mirror images where it keeps only one of the two."""

    @abstractmethod
    def _take(self, words: Words, pairs: Pairs, batch: BatchEvidences) -> None:
        """Add evidences of live pairs to the certificate, as far as they change the constraints."""

    @abstractmethod
    def _dropped(self, numbers: Numbers) -> None:
        """Update the constraints after the certificate dropped evidences."""

    @abstractmethod
    def _sought(self, lost: Numbers, batch: BatchEvidences) -> Numbers:
        """Return the lost evidences that no live pair has.

        A family may skip evidences that cannot change its constraints.
        """

    @abstractmethod
    def _prove(self, batch: BatchEvidences) -> None:
        """Search for violations of the constraints that are not proved yet, until all constraints hold."""

    @abstractmethod
    def _memo(self) -> Any:
        """Return the state that `_take_back` restores."""

    @abstractmethod
    def _take_back(self, memo: Any) -> None:
        """Restore the state that `_memo` returned; the certificate is restored already."""

    # The same for all families

    @property
    def held(self) -> Slots:
        """The slots of all witnesses; -1 stands for none."""
        return as_slots(self.certificate.pairs[self.certificate.held].ravel())

    def begin(self) -> None:
        """Begin a batch: `undo` leads back to here."""
        self.certificate.begin()
        self._before = self._memo()

    def undo(self) -> None:
        """Take a batch back, after the rows are as they were before it. O(E)."""
        self.certificate.rollback()
        self._take_back(self._before)

    def apply(self, delta: RowDelta, words: Words, pairs: Pairs) -> FamilyChanges:
        """Apply a batch to the constraints, after the rows changed.

        Parameters
        ----------
        words, pairs : the evidences of pairs with a new row, at least those that violate one of `boxes` (one of
            `masks`, where rows were searched on both sides), and their witnesses.
        """
        before = self.standing
        batch = BatchEvidences()
        lost, dead = self.certificate.kill(delta.vanished, delta.single)
        newcomers = np.concatenate([delta.appeared, delta.doubled])
        self._take(words, pairs, batch)
        lost = self._without_witness(lost)
        if len(lost):
            still = self._sought(self._still_lost(lost, dead, newcomers), batch)
            self.effort["evidences_found_again"] += len(lost) - len(still)
            self._let_go(still, dead, batch)
        self._prove(batch)
        found = np.concatenate([lost[:0], *batch.found])
        found = found[self.certificate.witnesses_left(found) > 0]
        disappeared, appeared = differences(before, self.standing)
        none = np.zeros((0, 2), np.int64)
        return FamilyChanges(
            disappeared,
            appeared,
            *self._mirrored(self.certificate.words[found], self.certificate.a_witness(found)),
            *self._mirrored(
                np.concatenate([self._every[None][:0], *batch.lost]), np.concatenate([none, *batch.lost_pairs])
            ),
        )

    def wider(self, mask: Words, boxes: Words) -> Words | None:
        """Return the first of `boxes`, or its mirror image, that implies the box `mask`; None where no box does."""
        wider = boxes[~(mask & ~boxes).any(axis=1)]
        return wider[0] if len(wider) else None

    def _enter(self, words: Words, pairs: Pairs, batch: BatchEvidences) -> Numbers:
        """Add new evidences to the certificate; return their numbers."""
        new = self.certificate.add(words, pairs)
        self.effort["evidences_found"] += len(new)
        batch.found.append(new)
        return new

    def _fresh(self, words: Words, pairs: Pairs) -> tuple[Words, Pairs]:
        """Return the evidences that the certificate does not have; give the others witnesses where they have none."""
        words, pairs = self._kept(words, pairs)
        _, first = np.unique(as_items(words), return_index=True)
        numbers = self.certificate.find(words[first])
        held = np.flatnonzero(numbers >= 0)
        bare = held[self.certificate.witnesses_left(numbers[held]) == 0]
        self.certificate.witness(numbers[bare], pairs[first[bare]])
        first = first[numbers < 0]
        return words[first], pairs[first]

    def _still_lost(self, lost: Numbers, dead: Pairs, newcomers: Slots) -> Numbers:
        """Search for lost evidences in pairs of new rows with former partners; return the evidences still lost."""
        partners = np.unique(dead[np.isin(dead[:, 0], lost), 2:])
        partners = partners[self._rows.copies[partners] > 0]
        if len(partners) and len(newcomers) and len(partners) * len(newcomers) <= _PARTNER_PAIRS:
            t, s = (side.ravel() for side in np.meshgrid(newcomers, partners))
            pairs = np.column_stack([t, s])
            self._witness(pairs[pairs[:, 0] != pairs[:, 1]])
            lost = self._without_witness(lost)
        if len(lost) > _MANY_LOST and len(partners):
            words, pairs = self._kept(
                *_listed(evidences_with(self._rows, self.space, as_slots(partners), self._threads))
            )
            numbers = self.certificate.find(words)
            self.certificate.witness(numbers[numbers >= 0], pairs[numbers >= 0])
            lost = self._without_witness(lost)
        return lost

    def _without_witness(self, numbers: Numbers) -> Numbers:
        bare: Numbers = numbers[self.certificate.witnesses_left(numbers) == 0]
        return bare

    def _let_go(self, lost: Numbers, dead: Pairs, batch: BatchEvidences) -> None:
        """Drop evidences that no live pair has."""
        if not len(lost):
            return
        words = self.certificate.words[lost].copy()
        where = np.searchsorted(lost, dead[:, 0])
        one = np.full((len(lost), 2), -1, np.int64)
        within = np.minimum(where, len(lost) - 1)
        of_lost = lost[within] == dead[:, 0]
        one[within[of_lost]] = dead[of_lost, 2:]
        self.effort["evidences_lost"] += len(lost)
        self.certificate.drop(lost)
        self._dropped(lost)
        batch.lost.append(words)
        batch.lost_pairs.append(one)

    def _find_more_witnesses(self) -> None:
        """Search for further witnesses of each evidence, so that deletes lose few evidences.

        First random pairs, which have the frequent evidences. Then each witness with one row replaced by its
        neighbour in the order of some column, which often has the same outcomes. Evidences with few witnesses are then
        searched on the whole table, if that is quick.
        """
        live = self._rows.live()
        if len(live) < 2:
            return
        rng = np.random.default_rng(1)
        pairs = rng.choice(live, (_RANDOM_PAIRS, 2))
        self._witness(pairs[pairs[:, 0] != pairs[:, 1]])
        rare = self._rarely_witnessed()
        if len(rare) * self._rows.codes.shape[1] <= _MOST_RARE:
            self._witness(self._beside(self.certificate.a_witness(rare), live))
        rare = self._rarely_witnessed()
        if len(rare) * self._rows.codes.shape[1] <= _MOST_RARE and len(rare) * len(self._rows) <= _MOST_SEARCHED:
            self._witness(self._with_evidences(rare, BatchEvidences()))

    def _rarely_witnessed(self) -> Numbers:
        held = self.certificate.held
        few: Numbers = held[self.certificate.witnesses_left(held) < WITNESSES - 1]
        return few

    def _beside(self, pairs: Pairs, live: Slots) -> Pairs:
        """Return the pairs with one of their rows replaced by its neighbour in the order of each column."""
        found = [pairs[:0]]
        place = np.empty(len(self._rows.copies), np.int64)
        for codes in self._rows.codes[live].T:
            order = live[np.argsort(codes, kind="stable")]
            place[order] = np.arange(len(order))
            for side, step in ((0, -1), (0, 1), (1, -1), (1, 1)):
                at = place[pairs[:, side]] + step
                inside = (at >= 0) & (at < len(order))
                turned = pairs[inside]
                turned[:, side] = order[at[inside]]
                found.append(turned[turned[:, 0] != turned[:, 1]])
        return np.concatenate(found)

    def _witness(self, pairs: Pairs) -> None:
        """Add live pairs to the certificate as witnesses of their evidences."""
        words, witnesses = self._kept(*self._noted(pairs))
        numbers = self.certificate.find(words)
        self.certificate.witness(numbers[numbers >= 0], witnesses[numbers >= 0])

    def _noted(self, pairs: Pairs) -> tuple[Words, Pairs]:
        """Return the evidences of the given pairs, and a few of these pairs for each."""
        noted = EvidenceTable(self.space)
        noted.add_pairs(self._rows.codes, pairs.astype(np.int32))
        return noted.entries()

    def _with_evidences(self, numbers: Numbers, batch: BatchEvidences) -> Pairs:
        """Search the whole table for pairs with the given evidences, each as a box of one point."""
        _, pairs = self._search(batch).find(self._points(numbers), WITNESSES)
        return pairs

    def _points(self, numbers: Numbers) -> Words:
        """Return evidences of the certificate as boxes, without duplicates."""
        return self.certificate.words[numbers]

    def _search(self, batch: BatchEvidences) -> TableSearch:
        """Return the search of the whole table, made at most once a batch."""
        if batch.search is None:
            batch.search = self._holding.search(self.space)
        return batch.search


def differences(before: Words, after: Words) -> tuple[Words, Words]:
    """Return the rows of `before` that `after` does not have, and vice versa. O(1) if both are the same array."""
    if before is after:
        return before[:0], after[:0]
    old, new = as_items(before), as_items(after)
    return before[~np.isin(old, new)], after[~np.isin(new, old)]


def _listed(found: tuple[Words, Pairs]) -> tuple[Words, Pairs]:
    """Return evidences, each with a list of one pair."""
    words, pairs = found
    return words, pairs[:, None, :]
