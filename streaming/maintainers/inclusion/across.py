"""The inclusions across several tables in memory, kept exact from batch to batch: for replays and Python."""

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.constraints import InclusionDependency, UsageError, Value
from holdfast.constraints.columns import unknown_name
from holdfast.discovery.inclusion.result import Inclusions
from holdfast.discovery.inclusion.seeding import clustering, column_values
from holdfast.display.changes import Changes
from holdfast.display.constraints import Constraints
from holdfast.state.memory import MemoryStore
from holdfast.streaming.maintainers.inclusion.held_values import HeldValues
from holdfast.streaming.maintainers.inclusion.maintainer import InclusionMaintainer
from holdfast.streaming.maintainers.maintainer import BatchResult, Maintainer
from holdfast.tables import Table, as_table


class InclusionsAcross:
    """Keeps the inclusion dependencies among all columns of several tables.

    Examples
    --------
    >>> import pandas as pd
    >>> orders = pd.DataFrame({"id": [1, 2], "customer": [10, 12]})
    >>> customers = pd.DataFrame({"id": [10, 11]})
    >>> across = InclusionsAcross.seed({"orders": orders, "customers": customers}, keys={"customers": ["id"]})
    >>> [str(change) for change in across.apply("customers", inserts=pd.DataFrame({"id": [12]}))]
    ['+ orders.customer in customers.id (released)']
    >>> [str(change) for change in across.apply("customers", deletes=pd.DataFrame({"id": [10]}))]
    ['- orders.customer in customers.id (violated)']
    >>> [(str(near.dependency), across.missing(near.dependency)) for near in across.inclusions.near(0.5)]
    [('orders.customer in customers.id', [10]), ('customers.id in orders.customer', [11])]
    """

    def __init__(self, maintainers: Mapping[str, Maintainer], tables: Sequence[Table], *, texts: bool = False) -> None:
        self._maintainers = dict(maintainers)
        for maintainer in self._maintainers.values():
            maintainer.follow_values(texts=texts)
        self._store = MemoryStore()
        clusters, parts = clustering([c for table in tables for c in column_values(table, texts=texts)])
        self._store.write(InclusionMaintainer.seed(clusters, parts, self._store.load, texts=texts))
        self._inclusion = InclusionMaintainer(HeldValues(self._store), clusters, texts=texts)

    @classmethod
    def seed(
        cls, tables: Mapping[str, Any], *, keys: Mapping[str, Sequence[str]] | None = None, texts: bool = False
    ) -> "InclusionsAcross":
        """Seed maintainers of the tables, and find the inclusions among them.

        Parameters
        ----------
        tables : by name: a pandas or Arrow frame, a `Table`, or the path of a file.
        keys : the key columns of the tables that have a key.
        texts : whether all values are compared as texts.
        """
        keys = keys or {}
        for name in keys:
            if name not in tables:
                raise UsageError(unknown_name("no table", name, tables))
        read = {name: as_table(data, name) for name, data in tables.items()}
        maintainers = {
            name: Maintainer.seed(table, name=name, key=keys.get(name, ()), max_predicates=None)
            for name, table in read.items()
        }
        return cls(maintainers, list(read.values()), texts=texts)

    @property
    def inclusions(self) -> Inclusions:
        """The inclusions that hold now, and those that nearly hold."""
        return self._inclusion.inclusions

    @property
    def constraints(self) -> Constraints[InclusionDependency]:
        """The inclusions that hold now."""
        return Constraints(self._inclusion.constraints)

    def missing(self, dependency: InclusionDependency, most: int = 3) -> list[Value]:
        """Return up to `most` values of the left column that the right column does not have."""
        refs = [column.ref for column in self._inclusion.clusters.columns]
        return self._inclusion.examples(refs.index(dependency.dependent), refs.index(dependency.referenced), most)

    def apply(self, table: str, inserts: Any = None, deletes: Any = None) -> Changes:
        """Apply inserts and deletes to one table as `Maintainer.apply` does; return the changed inclusions."""
        if table not in self._maintainers:
            raise UsageError(unknown_name("no table", table, self._maintainers))
        return self.follow([self._maintainers[table].step(inserts, deletes)])

    def follow(self, results: Sequence[BatchResult]) -> Changes:
        """Apply the changed values of batches of several tables as one step; return the changed inclusions."""
        changes = Changes(self._inclusion.apply([change for result in results for change in result.values]))
        self._store.write(self._inclusion.save())
        return changes
