"""What the families have in common whose constraints a certificate proves complete: denial and order.

    rows that vanished take their witnesses along; evidences left without one are *lost*
    new rows were searched for pairs that break a constraint: what is new among their evidences is taken in
    a lost evidence is looked for once more; found, it stays, else it goes
    constraints that came so are searched on the whole table, until all hold

The family says how evidences are kept, which constraints they leave, and how those that came are proved. The rows and
their index belong to the table (`maintainer.py`), as several families share them.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from holdfast.constraints import PredicateSpace
from holdfast.discovery.evidence.certificate import Certificate
from holdfast.discovery.evidence.current import evidences_with
from holdfast.indexes.evidence_table import WITNESSES, EvidenceTable
from holdfast.indexes.masks import as_items
from holdfast.indexes.rows import RowDelta
from holdfast.state.store import WriteBatch
from holdfast.streaming.maintainers.holdings.contract import Holding, Search
from holdfast.tables.arrays import Numbers, Pairs, Slots, Words, as_slots

_PARTNER_PAIRS = 100_000
_MANY_LOST = 256
_RANDOM_PAIRS = 100_000
_MOST_RARE, _MOST_SEARCHED = 60_000, 100_000_000


@dataclass
class Effort:
    """What batches cost, for people: counts since the seed."""

    evidences_found: int = 0
    evidences_lost: int = 0
    evidences_found_again: int = 0
    candidates: int = 0
    refuted: int = 0


@dataclass(frozen=True)
class Step:
    """What a batch did to one family's constraints.

    Parameters
    ----------
    gone, come : reported boxes that are reported no more, and those that are reported now; the box of everything too.
    found, found_pairs : evidences that came, and a live pair (slots) for each; one that went and came is in both.
    lost, lost_pairs : evidences that are gone, and a pair for each that had it and is no more.
    """

    gone: Words
    come: Words
    found: Words
    found_pairs: Pairs
    lost: Words
    lost_pairs: Pairs


@dataclass
class Batch:
    """What is collected while a batch is applied; the whole table is made searchable once, where it is needed."""

    found: list[Numbers] = field(default_factory=list)
    lost: list[Words] = field(default_factory=list)
    lost_pairs: list[Pairs] = field(default_factory=list)
    search: Search | None = None


class CertifiedMaintainer(ABC):
    """One family's constraints of one table.

    Parameters
    ----------
    holding, space : the rows of the table, and what is compared.
    certificate : evidences with their witnesses.
    """

    def __init__(self, holding: Holding, space: PredicateSpace, certificate: Certificate) -> None:
        self._holding = holding
        self._rows = holding.rows
        self.space = space
        self._threads = holding.threads
        self._every = np.array(space.words(space.every), np.uint64)
        self.certificate = certificate
        self.effort = Effort()

    # What a family says

    @property
    @abstractmethod
    def masks(self) -> Words:
        """The reported boxes. The same array while they do not change."""

    @property
    def standing(self) -> Words:
        """The reported boxes, and the box of everything where it holds. The same array while they do not change."""
        return self.masks

    @property
    @abstractmethod
    def boxes(self) -> Words:
        """The boxes whose violations change something. The same array while they do not change."""

    @abstractmethod
    def _kept(self, words: Words, pairs: Pairs) -> tuple[Words, Pairs]:
        """Return evidences, with their pairs, as the certificate keeps them."""

    @abstractmethod
    def _images(self, words: Words, pairs: Pairs) -> tuple[Words, Pairs]:
        """Return evidences of the certificate, and their mirror images where it keeps one of the two."""

    @abstractmethod
    def _take(self, words: Words, pairs: Pairs, batch: Batch) -> None:
        """Let evidences of live pairs in that change something."""

    @abstractmethod
    def _dropped(self, numbers: Numbers) -> None:
        """Follow the loss of evidences that the certificate has just let go."""

    @abstractmethod
    def _sought(self, lost: Numbers, batch: Batch) -> Numbers:
        """Return those of some lost evidences that are not to be found, as far as the family has to know."""

    @abstractmethod
    def _prove(self, batch: Batch) -> None:
        """Search for violations of constraints that are not known to hold, until all are."""

    @abstractmethod
    def _memo(self) -> Any:
        """Return what `_take_back` needs."""

    @abstractmethod
    def _take_back(self, memo: Any) -> None:
        """Be again what it was, with the certificate as it was."""

    # What they share

    def begin(self) -> None:
        """Begin a batch: `undo` leads back to here."""
        self.certificate.begin()
        self._before = self._memo()

    def undo(self) -> None:
        """Take a batch back, after the rows are as they were. O(E)."""
        self.certificate.rollback()
        self._take_back(self._before)

    def apply(self, delta: RowDelta, words: Words, pairs: Pairs) -> Step:
        """Follow what a batch did to the rows.

        Parameters
        ----------
        words, pairs : the evidences of pairs with a new row, at least of all that violate one of `boxes` (of `masks`,
            where rows were searched on both sides), and witnesses of them.
        """
        before = self.standing
        batch = Batch()
        lost, dead = self.certificate.kill(delta.vanished, delta.single)
        newcomers = np.concatenate([delta.appeared, delta.doubled])
        self._take(words, pairs, batch)
        lost = self._without_witness(lost)
        if len(lost):
            still = self._sought(self._still_lost(lost, dead, newcomers), batch)
            self.effort.evidences_found_again += len(lost) - len(still)
            self._let_go(still, dead, batch)
        self._prove(batch)
        found = np.concatenate([lost[:0], *batch.found])
        found = found[self.certificate.witnesses_left(found) > 0]
        gone, come = differences(before, self.standing)
        none = np.zeros((0, 2), np.int64)
        return Step(
            gone,
            come,
            *self._images(self.certificate.words[found], self.certificate.a_witness(found)),
            *self._images(
                np.concatenate([self._every[None][:0], *batch.lost]), np.concatenate([none, *batch.lost_pairs])
            ),
        )

    def wider(self, mask: Words, boxes: Words) -> Words | None:
        """Return one of some boxes, or its mirror image, that implies a box; None where no box does."""
        wider = boxes[~(mask & ~boxes).any(axis=1)]
        return wider[0] if len(wider) else None

    @abstractmethod
    def save(self, prefix: bytes, *, everything: bool = False) -> Iterator[WriteBatch]:
        """Yield what changed since it was last saved, or everything, in batches of bounded size."""

    @abstractmethod
    def check_invariants(self) -> None:
        """Assert what the class promises but that constraints hold. Exponential."""

    def _enter(self, words: Words, pairs: Pairs, batch: Batch) -> Numbers:
        """Let evidences into the certificate that it does not have; return their numbers."""
        new = self.certificate.add(words, pairs)
        self.effort.evidences_found += len(new)
        batch.found.append(new)
        return new

    def _fresh(self, words: Words, pairs: Pairs) -> tuple[Words, Pairs]:
        """Return evidences as they are kept, those that the certificate does not have; give the others witnesses."""
        words, pairs = self._kept(words, pairs)
        _, first = np.unique(as_items(words), return_index=True)
        numbers = self.certificate.find(words[first])
        held = np.flatnonzero(numbers >= 0)
        bare = held[self.certificate.witnesses_left(numbers[held]) == 0]
        self.certificate.witness(numbers[bare], pairs[first[bare]])
        first = first[numbers < 0]
        return words[first], pairs[first]

    def _still_lost(self, lost: Numbers, dead: Pairs, newcomers: Slots) -> Numbers:
        """Look for lost evidences among pairs of new rows with the partners of dead witnesses."""
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

    def _let_go(self, lost: Numbers, dead: Pairs, batch: Batch) -> None:
        """Drop evidences that no live pair has."""
        if not len(lost):
            return
        words = self.certificate.words[lost].copy()
        where = np.searchsorted(lost, dead[:, 0])
        one = np.full((len(lost), 2), -1, np.int64)
        within = np.minimum(where, len(lost) - 1)
        of_lost = lost[within] == dead[:, 0]
        one[within[of_lost]] = dead[of_lost, 2:]
        self.effort.evidences_lost += len(lost)
        self.certificate.drop(lost)
        self._dropped(lost)
        batch.lost.append(words)
        batch.lost_pairs.append(one)

    def _find_more_witnesses(self) -> None:
        """Look for further pairs of each evidence, so that few are lost when rows go.

        First random pairs, which see what is frequent. Then a witness with one row replaced by the next one in the
        order of some column, which often has the same outcomes. What is rare still is searched for, if that is quick.
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
            self._witness(self._with_evidences(rare, Batch()))

    def _rarely_witnessed(self) -> Numbers:
        held = self.certificate.held
        few: Numbers = held[self.certificate.witnesses_left(held) < WITNESSES - 1]
        return few

    def _beside(self, pairs: Pairs, live: Slots) -> Pairs:
        """Return pairs with one of their rows replaced by a neighbour of it in the order of each column."""
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
        """Give evidences of the certificate witnesses among live pairs."""
        words, witnesses = self._kept(*self._noted(pairs))
        numbers = self.certificate.find(words)
        self.certificate.witness(numbers[numbers >= 0], witnesses[numbers >= 0])

    def _noted(self, pairs: Pairs) -> tuple[Words, Pairs]:
        """Return the evidences of listed pairs, and a few pairs for each."""
        noted = EvidenceTable(self.space)
        noted.add_pairs(self._rows.codes, pairs.astype(np.int32))
        return noted.entries()

    def _with_evidences(self, numbers: Numbers, batch: Batch) -> Pairs:
        """Search the table for pairs that have evidences of the certificate: as boxes of one point each."""
        _, pairs = self._search(batch).find(self._points(numbers), WITNESSES)
        return pairs

    def _points(self, numbers: Numbers) -> Words:
        """Return evidences of the certificate as boxes, each once."""
        return self.certificate.words[numbers]

    def _search(self, batch: Batch) -> Search:
        """Return what searches the whole table, made once a batch."""
        if batch.search is None:
            batch.search = self._holding.search(self.space)
        return batch.search


def differences(before: Words, after: Words) -> tuple[Words, Words]:
    """Return the rows of one array that are not in the other, both ways. O(1) where they are the same array."""
    if before is after:
        return before[:0], after[:0]
    old, new = as_items(before), as_items(after)
    return before[~np.isin(old, new)], after[~np.isin(new, old)]


def _listed(found: tuple[Words, Pairs]) -> tuple[Words, Pairs]:
    """Return evidences with a list of one pair each."""
    words, pairs = found
    return words, pairs[:, None, :]
