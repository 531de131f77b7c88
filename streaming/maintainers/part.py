"""A part of a table's maintainer: the constraints of one family, the rules, or the versions of keys.

begin      remember the state before the batch
...        apply the batch, each part by a method of its own
undo       restore the state that `begin` remembered, once the rows are restored; or
save       yield the changes of the batch, for its commit
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np

from holdfast.state.store import WriteBatch
from holdfast.tables.arrays import Slots

NO_SLOTS: Slots = np.zeros(0, np.int64)


class TablePart(ABC):
    """A part that follows the batches of one table, and takes a batch back that fails."""

    @property
    def held(self) -> Slots:
        """The slots of the rows that the part refers to between batches; -1 stands for none."""
        return NO_SLOTS

    @abstractmethod
    def begin(self) -> None:
        """Begin a batch: `undo` leads back to here."""

    @abstractmethod
    def undo(self) -> None:
        """Take a batch back, after the rows are as they were before it."""

    def rebuild(self) -> None:  # noqa: B027 (many parts derive nothing from codes)
        """Derive everything anew from the codes of the rows, which were relabelled."""

    @abstractmethod
    def save(self, prefix: bytes, *, everything: bool = False) -> Iterator[WriteBatch]:
        """Yield what changed since the last save, or everything, in batches of bounded size."""
