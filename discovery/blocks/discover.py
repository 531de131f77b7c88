"""Discovery on tables in blocks: what `discover` and `discover_inclusions` are on tables in memory."""

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from holdfast.constraints import InclusionDependency, PredicateSpace, Value
from holdfast.discovery.blocks.block import Block, rows_of
from holdfast.discovery.blocks.seeding import seed_blocks
from holdfast.discovery.blocks.table import BlockTable, Report, Source
from holdfast.discovery.blocks.values import clusters_of, missing_values, overlaps_of
from holdfast.discovery.codes import pair_codes
from holdfast.discovery.discover import Discovered
from holdfast.discovery.explained import Explained
from holdfast.discovery.inclusion.discover import DiscoveredInclusions
from holdfast.discovery.inclusion.result import Inclusions
from holdfast.discovery.ranking import PairSample
from holdfast.discovery.reported import ReportedSet

_RANKED_ON = 1 << 17


@dataclass(frozen=True)
class DiscoveredInBlocks(Discovered):
    """What holds on a table in blocks.

    Parameters
    ----------
    sample : pairs of its rows, by which constraints are ranked.
    """

    sample: PairSample = field(kw_only=True)

    def _sample(self) -> PairSample:
        return self.sample


def space_of_blocks(table: BlockTable, cross_columns: str | Collection[tuple[str, str]] = "auto") -> PredicateSpace:
    """Return the predicate space of a table, crossing pairs measured on its rows."""
    if cross_columns != "auto":
        return PredicateSpace.build(table.schema, cross_columns)
    overlaps = overlaps_of(table)
    return PredicateSpace.build(table.schema, cross_columns, lambda a, b: overlaps[a, b])


def discover_blocks(
    table: BlockTable,
    space: PredicateSpace,
    bound: int,
    *,
    threads: int = 1,
    report: Report = lambda _: None,
) -> DiscoveredInBlocks:
    """Find all constraints of the space's family that hold on a table and that no other one implies."""
    seed = seed_blocks(table, space, bound, threads=threads, report=report)
    sample = _sample_of(table, space)
    return DiscoveredInBlocks(
        table.without_rows(), space, ReportedSet(space, seed.masks), seed.explained, sample=sample
    )


def _sample_of(table: BlockTable, space: PredicateSpace) -> PairSample:
    """Return pairs of rows of the first blocks."""
    rows = np.cumsum([0, *(block.rows for block in table.base.blocks)])
    some = tuple(block for block, before in zip(table.base.blocks, rows, strict=False) if before < _RANKED_ON)
    return next(iter(table.executors.run(partial(_paired, table.source, space), [some])))


def _paired(source: Source, space: PredicateSpace, blocks: tuple[Block, ...]) -> PairSample:
    return PairSample.of(pair_codes(rows_of(source.read_all(blocks), source.schema).table, space), space)


@dataclass(frozen=True)
class InclusionsInBlocks(DiscoveredInclusions):
    """What holds among some tables in blocks."""

    tables: Mapping[str, BlockTable] = field(kw_only=True)
    texts: bool = field(kw_only=True)

    def missing(self, dependency: InclusionDependency, most: int = 3) -> list[Value]:
        """Return some values of the left column that are no values of the right one. Reads the values again."""
        sides = {dependency.dependent.table, dependency.referenced.table}
        some = {name: table for name, table in self.tables.items() if name in sides}
        return missing_values(some, [dependency], most, texts=self.texts)[dependency]


def discover_inclusions_in_blocks(
    tables: Mapping[str, BlockTable], *, texts: bool = False, report: Callable[[str], Any] = lambda _: None
) -> InclusionsInBlocks:
    """Find all unary inclusion dependencies among all columns of some tables."""
    explained = Explained()
    started = time.perf_counter()
    report(f"clustering the values of {len(tables):,} tables")
    clusters = clusters_of(tables, texts=texts)
    explained.add(f"{len(clusters):,} clusters", started)
    return InclusionsInBlocks(Inclusions(clusters), (), explained, tables=tables, texts=texts)
