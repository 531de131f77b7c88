"""The whole table, searched for pairs of rows that violate constraints: in memory, or in blocks on executors.

Invariant: a constraint that is not among the broken ones has no violating pair in the table.
"""

from typing import Protocol

import numpy as np

from holdfast.constraints import PredicateSpace
from holdfast.discovery.certificate import Numbers, Pairs, Words
from holdfast.discovery.current import current_codes
from holdfast.discovery.order.search import OrderSearch
from holdfast.discovery.order.targets import Targets
from holdfast.discovery.violations import ViolationSearch
from holdfast.indexes.rows import RowSet
from holdfast.streaming.maintainers.spread_rows import SpreadRows, SpreadSearch


class Search(Protocol):
    """Searches the rows as they are."""

    def find(self, masks: Words, limit: int) -> tuple[Numbers, Pairs]:
        """Return the positions of constraints that are violated, and up to `limit` or so pairs of slots for each."""

    def find_orders(self, targets: Targets, which: Numbers, sets: Words, limit: int) -> tuple[Numbers, Pairs]:
        """Return the same for order dependencies, each a target and the columns of its context."""


class MemorySearch:
    """Searches rows that are all in memory.

    Parameters
    ----------
    rows, space : the table, and what is compared.
    threads : how many to use.
    """

    def __init__(self, rows: RowSet, space: PredicateSpace, threads: int) -> None:
        self._codes = current_codes(rows, space)
        self._space = space
        self._threads = threads
        self._denials: ViolationSearch | None = None
        self._orders: OrderSearch | None = None

    def find(self, masks: Words, limit: int) -> tuple[Numbers, Pairs]:
        """Return which constraints are violated, and some pairs for each."""
        self._denials = self._denials or ViolationSearch(self._codes, self._space, self._threads)
        found = self._denials.find(masks, limit)
        return np.unique(found.constraint), self._codes.table_rows(found.pairs)

    def find_orders(self, targets: Targets, which: Numbers, sets: Words, limit: int) -> tuple[Numbers, Pairs]:
        """Return the same for order dependencies."""
        self._orders = self._orders or OrderSearch(self._codes, targets, self._threads)
        broken, pairs = self._orders.find(which, sets, limit)
        return np.unique(broken), self._codes.table_rows(pairs)


def search_of(rows: RowSet, space: PredicateSpace, threads: int) -> Search:
    """Return what searches a table's rows as they are, wherever they are."""
    return SpreadSearch(rows, space) if isinstance(rows, SpreadRows) else MemorySearch(rows, space, threads)
