"""Order dependencies kept exact from batch to batch (`certified.py`).

The minimal contexts of every target follow from the evidences alone, so nothing but these is stored. Contexts that a
constant hides are kept too, and hold like the others: whatever breaks one breaks the constant first. That is why a
search for the reported ones is enough, and why a context that a fallen constant reveals needs none.

Invariant: after `apply` every minimal context of the certificate holds on the live rows.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from holdfast.constraints import PredicateSpace
from holdfast.discovery.evidence.certificate import Certificate
from holdfast.discovery.evidence.evidences import mirrored
from holdfast.discovery.order.contexts import Contexts
from holdfast.discovery.order.seeding import PAIRS
from holdfast.discovery.order.targets import Targets, one_way
from holdfast.discovery.seed import Seed
from holdfast.state.store import Store, WriteBatch
from holdfast.streaming.maintainers.certified.maintainer import Batch, CertifiedMaintainer
from holdfast.streaming.maintainers.holdings.contract import Holding
from holdfast.tables.arrays import Numbers, Pairs, Words


class OrderMaintainer(CertifiedMaintainer):
    """The minimal contexts of one table.

    Parameters
    ----------
    rows, space : the table, as seeded, and its columns with their order.
    bound : contexts have at most so many columns; 0 for any number.
    certificate : evidences whose minimal contexts all hold.
    """

    def __init__(self, holding: Holding, space: PredicateSpace, bound: int, certificate: Certificate) -> None:
        super().__init__(holding, space, certificate)
        self._targets = Targets(space)
        self.contexts = Contexts(self._targets, bound, holding.threads)
        held = certificate.held
        self.contexts.add(certificate.words[held], lambda used: held[used])
        self.contexts.trust()
        self._boxes_of = self._boxes = certificate.words[:0]
        self.begin()

    @classmethod
    def seed(cls, holding: Holding, space: PredicateSpace, bound: int, found: Seed) -> "OrderMaintainer":
        """Begin with what a batch discovery found; its witnesses are slots."""
        certificate = Certificate(space.word_count)
        certificate.add(found.evidences, found.witnesses[:, None, :])
        made = cls(holding, space, bound, certificate)
        made._find_more_witnesses()
        made.begin()
        return made

    @property
    def masks(self) -> Words:
        """The reported dependencies as boxes."""
        return self.contexts.masks

    @property
    def boxes(self) -> Words:
        """Their boxes, mirror images too."""
        masks = self.contexts.masks
        if self._boxes_of is not masks:
            turned = mirrored(masks, self.space)
            self._boxes_of = masks
            self._boxes = np.concatenate([masks, turned[(turned != masks).any(axis=1)]])
        return self._boxes

    def save(self, prefix: bytes, *, everything: bool = False) -> Iterator[WriteBatch]:
        """Yield what changed since it was last saved, or everything, in batches of bounded size."""
        yield from self.certificate.save(prefix, everything=everything)

    @classmethod
    def restore(
        cls, holding: Holding, space: PredicateSpace, bound: int, store: Store, prefix: bytes
    ) -> "OrderMaintainer":
        """Take over what was saved. O(E) for each target."""
        certificate = Certificate(space.word_count)
        certificate.restore(store, prefix)
        return cls(holding, space, bound, certificate)

    def check_invariants(self) -> None:
        """Assert what the class promises but the validity of dependencies. O(E) for each target."""
        self.certificate.check_invariants()
        self.contexts.check_invariants()
        assert all(proven.all() for proven in self.contexts.proven)
        anew = Contexts(self._targets, self.contexts.bound)
        held = self.certificate.held
        anew.add(self.certificate.words[held], lambda used: held[used])
        assert np.array_equal(np.unique(anew.masks, axis=0), np.unique(self.masks, axis=0))

    def _memo(self) -> Any:
        return self.contexts.memo()

    def _take_back(self, memo: Any) -> None:
        self.contexts.take_back(memo)

    def _kept(self, words: Words, pairs: Pairs) -> tuple[Words, Pairs]:
        """Keep one of two images: both say the same."""
        return one_way(self.space, words, pairs)

    def _images(self, words: Words, pairs: Pairs) -> tuple[Words, Pairs]:
        return np.concatenate([words, mirrored(words, self.space)]), np.concatenate([pairs, pairs[:, ::-1]])

    def _take(self, words: Words, pairs: Pairs, batch: Batch) -> None:
        words, pairs = self._fresh(words, pairs)
        if len(words):
            self.contexts.add(words, lambda used: self._enter(words[used], pairs[used], batch))

    def _sought(self, lost: Numbers, batch: Batch) -> Numbers:  # noqa: ARG002
        """Where some other pair still breaks what an evidence broke, the search of what comes finds it."""
        return lost

    def _dropped(self, numbers: Numbers) -> None:
        held = self.certificate.held
        self.contexts.remove(numbers, self.certificate.words[held], held)

    def _prove(self, batch: Batch) -> None:
        while True:
            targets, places, sets = self.contexts.doubtful()
            if not len(targets):
                self.contexts.trust()
                return
            self.effort.candidates += len(targets)
            broken, pairs = self._search(batch).find_orders(self._targets, targets, sets, PAIRS)
            self.effort.refuted += len(broken)
            self.contexts.prove(np.delete(targets, broken), np.delete(places, broken))
            if len(pairs):
                self._take(*self._noted(pairs), batch)
