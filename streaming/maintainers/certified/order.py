"""Order dependencies kept exact from batch to batch (see `maintainer.py`).

The minimal contexts of every target follow from the evidences alone, so only evidences are stored. Contexts that a
constant hides are kept too, and hold like the others: a pair that violates one violates the constant first. So a search
for the reported contexts is enough, and a context that a violated constant no longer hides needs no search.

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
from holdfast.streaming.maintainers.certified.maintainer import BatchEvidences, CertifiedMaintainer
from holdfast.streaming.maintainers.holdings.contract import Holding
from holdfast.tables.arrays import Numbers, Pairs, Words


class OrderMaintainer(CertifiedMaintainer):
    """The minimal contexts of one table.

    Parameters
    ----------
    holding, space : the rows of the table, and its columns with their order.
    bound : the most columns of a context; 0 for any number.
    certificate : evidences, all of whose minimal contexts hold.
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
        """Return a maintainer of the dependencies that a discovery found; the witnesses of `found` are slots."""
        certificate = Certificate(space.word_count)
        certificate.add(found.evidences, found.witnesses[:, None, :])
        made = cls(holding, space, bound, certificate)
        made._find_more_witnesses()
        made.begin()
        return made

    @property
    def masks(self) -> Words:
        """The boxes of the reported dependencies."""
        return self.contexts.masks

    @property
    def boxes(self) -> Words:
        """The boxes of the reported dependencies, with mirror images."""
        masks = self.contexts.masks
        if self._boxes_of is not masks:
            turned = mirrored(masks, self.space)
            self._boxes_of = masks
            self._boxes = np.concatenate([masks, turned[(turned != masks).any(axis=1)]])
        return self._boxes

    def save(self, prefix: bytes, *, everything: bool = False) -> Iterator[WriteBatch]:
        """Yield what changed since the last save, or everything, in batches of bounded size."""
        yield from self.certificate.save(prefix, everything=everything)

    @classmethod
    def restore(
        cls, holding: Holding, space: PredicateSpace, bound: int, store: Store, prefix: bytes
    ) -> "OrderMaintainer":
        """Return the maintainer that was saved. O(E) for each target."""
        certificate = Certificate(space.word_count)
        certificate.restore(store, prefix)
        return cls(holding, space, bound, certificate)

    def _memo(self) -> Any:
        return self.contexts.memo()

    def _take_back(self, memo: Any) -> None:
        self.contexts.take_back(memo)

    def _kept(self, words: Words, pairs: Pairs) -> tuple[Words, Pairs]:
        """Return one of two mirror images: both mean the same."""
        return one_way(self.space, words, pairs)

    def _mirrored(self, words: Words, pairs: Pairs) -> tuple[Words, Pairs]:
        return np.concatenate([words, mirrored(words, self.space)]), np.concatenate([pairs, pairs[:, ::-1]])

    def _take(self, words: Words, pairs: Pairs, batch: BatchEvidences) -> None:
        words, pairs = self._fresh(words, pairs)
        if len(words):
            self.contexts.add(words, lambda used: self._enter(words[used], pairs[used], batch))

    def _sought(self, lost: Numbers, batch: BatchEvidences) -> Numbers:  # noqa: ARG002
        """Search nothing: where another pair still has an evidence, the search of the new contexts finds it."""
        return lost

    def _dropped(self, numbers: Numbers) -> None:
        held = self.certificate.held
        self.contexts.remove(numbers, self.certificate.words[held], held)

    def _prove(self, batch: BatchEvidences) -> None:
        while True:
            targets, places, sets = self.contexts.doubtful()
            if not len(targets):
                self.contexts.trust()
                return
            self.effort["candidates"] += len(targets)
            broken, pairs = self._search(batch).find_orders(self._targets, targets, sets, PAIRS)
            self.effort["refuted"] += len(broken)
            self.contexts.prove(np.delete(targets, broken), np.delete(places, broken))
            if len(pairs):
                self._take(*self._noted(pairs), batch)
