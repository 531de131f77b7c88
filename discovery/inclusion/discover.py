"""Inclusion dependencies among all columns of tables, and the values that near inclusions lack."""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.constraints import Family, InclusionDependency, UsageError, Value
from holdfast.discovery.explained import Explained
from holdfast.discovery.found import FoundConstraints
from holdfast.discovery.inclusion.result import Inclusions
from holdfast.discovery.inclusion.seeding import ColumnValues, GroupValues, clustering, column_values, file_values
from holdfast.display.constraints import NOUNS, Constraints, Ranked
from holdfast.display.listing import MOST
from holdfast.display.texts import counted
from holdfast.tables import ReadOptions, Table, as_table, table_name
from holdfast.tables.arrays import Ints
from holdfast.tables.canonical import shown


@dataclass(frozen=True, repr=False)
class DiscoveredInclusions(FoundConstraints[InclusionDependency]):
    """The inclusions among tables.

    Parameters
    ----------
    constraints : all inclusions that hold.
    values : the values of the tables.
    explained : the time that each step took.
    """

    constraints: Inclusions
    values: tuple[GroupValues, ...]
    explained: Explained

    def __len__(self) -> int:
        return len(self.constraints)

    def summary(self) -> str:
        """Return the number of inclusions, and the tables among which they hold."""
        columns = self.constraints.clusters.columns
        tables = counted(len({column.ref.table for column in columns}), "table")
        return f"{tables}, {counted(len(columns), 'column')}; {counted(len(self), *NOUNS[Family.INCLUSION])}"

    def _repr_mimebundle_(self, **_asked: object) -> dict[str, str]:
        return self[:MOST].bundle(len(self), self.summary())

    def top(self, count: int) -> Ranked[InclusionDependency]:
        """Return the likeliest foreign keys, best first, each with its score."""
        return self.constraints.top(count)

    def _at(self, place: int) -> InclusionDependency:
        return self.constraints[place]

    def _listed(self, some: Iterable[InclusionDependency]) -> Constraints[InclusionDependency]:
        return Constraints(some)

    def missing(self, dependency: InclusionDependency, most: int = 3) -> list[Value]:
        """Return values of the left column that the right column lacks. O(clusters)."""
        refs = [column.ref for column in self.constraints.clusters.columns]
        left, right = refs.index(dependency.dependent), refs.index(dependency.referenced)
        lacking = self.constraints.clusters.lacking(left, right).tolist()
        found: list[Value] = []
        for group, (order, starts) in zip(self.values, self._by_cluster, strict=True):
            for cluster in lacking:
                some = order[starts[cluster] : starts[cluster + 1]][: most - len(found)]
                found += [shown(group.values[place].as_py()) for place in some.tolist()]
        return found

    @cached_property
    def _by_cluster(self) -> list[tuple[Ints, Ints]]:
        """For each group its values in the order of their clusters, and where each cluster begins."""
        numbers = np.arange(self.constraints.clusters.count + 1)
        orders = [np.argsort(group.clusters, kind="stable") for group in self.values]
        return [
            (order, np.searchsorted(group.clusters[order], numbers))
            for group, order in zip(self.values, orders, strict=True)
        ]


def discover_inclusions(
    tables: Mapping[str, Any] | Iterable[Any],
    *,
    texts: bool = False,
    options: ReadOptions | None = None,
    report: Callable[[str], object] = lambda _: None,
    warn: Callable[[str], object] = lambda _: None,
) -> DiscoveredInclusions:
    """Find all unary inclusion dependencies among all columns of tables.

    Parameters
    ----------
    tables : pandas or Arrow frames by name; or tables of ours and paths of files, which have names.
    texts : compare all values by their text, as one group.
    options : how files are read.
    report, warn : receive what is being done, and warnings of a file's reader.

    Examples
    --------
    >>> import pandas as pd
    >>> orders = pd.DataFrame({"id": [1, 2, 3], "customer": [10, 10, 12]})
    >>> customers = pd.DataFrame({"id": [10, 11, 12]})
    >>> found = discover_inclusions({"orders": orders, "customers": customers})
    >>> [str(dependency) for dependency in found]
    ['orders.customer in customers.id']
    >>> [(str(near.dependency), near.missing_values) for near in found.constraints.near(0.5)]
    [('customers.id in orders.customer', 1)]
    """
    named = list(tables.items()) if isinstance(tables, Mapping) else [(_name_of(table), table) for table in tables]
    names = [name for name, _ in named]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise UsageError(f"two tables are called '{twice[0]}': give them different names")
    explained = Explained()
    columns: list[ColumnValues] = []
    for name, table in named:
        report(f"the values of {name}")
        if isinstance(table, str | os.PathLike):
            columns += file_values(Path(table), options, texts=texts, warn=warn)
        else:
            columns += column_values(as_table(table, name), texts=texts)
        explained.add(f"read the values of {name}")
    report(f"clustering the values of {len(columns):,} columns")
    ranges = [column.range for column in columns if column.range is not None]
    clusters, parts = clustering(columns)
    values = tuple(parts)
    total = sum(len(part.values) for part in values)
    explained.add(f"{len(clusters):,} clusters of {total:,} values")
    return DiscoveredInclusions(Inclusions(clusters, ranges), values, explained)


def _name_of(table: Any) -> str:
    if isinstance(table, str | os.PathLike):
        return table_name(Path(table))
    if isinstance(table, Table):
        return table.schema.table
    raise UsageError("frames have no names: give them as {name: frame}")
