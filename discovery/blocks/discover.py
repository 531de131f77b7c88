"""Discovery on tables in blocks, as `discover` and `discover_inclusions` on tables in memory."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, partial
from typing import Any

import numpy as np

from holdfast.constraints import InclusionDependency, NearConstraint, NearShape, PredicateSpace, UsageError, Value
from holdfast.constraints.near import DEFAULT_CONTEXT
from holdfast.discovery.blocks.counting.near import SHAPES, BlockCounts, unordered_targets
from holdfast.discovery.blocks.search.seeding import seed_blocks
from holdfast.discovery.blocks.storage.block import Block, rows_of, table_of
from holdfast.discovery.blocks.storage.table import BlockTable, Report, Source
from holdfast.discovery.blocks.values.shared import clusters_of, missing_values, overlaps_of
from holdfast.discovery.discover import Discovered
from holdfast.discovery.explained import Explained
from holdfast.discovery.inclusion.discover import DiscoveredInclusions
from holdfast.discovery.inclusion.result import Inclusions
from holdfast.discovery.near.counting import CountedContext
from holdfast.discovery.near.discover import NearDiscovered, shapes_of
from holdfast.discovery.near.lattice import Tasks, allowed, near_set
from holdfast.discovery.near.ranking import NearScores, needed
from holdfast.discovery.near.removal import Removal
from holdfast.discovery.near.suspects import LEAST_SCORE
from holdfast.discovery.reported import ReportedSet
from holdfast.discovery.soundness.measured import Measured
from holdfast.display.concentrations import Concentrations
from holdfast.display.suspects import Suspects
from holdfast.tables import related_space

_RANKED_ON = 1 << 17


@dataclass(frozen=True, repr=False)
class DiscoveredInBlocks(Discovered):
    """The constraints that hold on a table in blocks.

    Parameters
    ----------
    measured : what constraints are ranked by.
    """

    measured: Measured = field(kw_only=True)

    def _measured(self) -> Measured:
        return self.measured


def space_of_blocks(table: BlockTable, cross_columns: str | Collection[tuple[str, str]] = "auto") -> PredicateSpace:
    """Return the predicate space of a table. Crossing pairs are measured on its rows, relations on a sample."""
    if cross_columns not in ("auto", "related"):
        return PredicateSpace.build(table.schema, cross_columns)
    overlaps = overlaps_of(table)
    space = PredicateSpace.build(table.schema, "auto", lambda a, b: overlaps[a, b])
    return related_space(table_of(table.sample, table.schema), space) if cross_columns == "related" else space


def discover_blocks(
    table: BlockTable,
    space: PredicateSpace,
    bound: int,
    *,
    threads: int = 1,
    report: Report = lambda _: None,
) -> DiscoveredInBlocks:
    """Find all constraints of the space's family that hold on a table and that no other constraint implies."""
    seed = seed_blocks(table, space, bound, threads=threads, report=report)
    measured = _measured_of(table, space)
    return DiscoveredInBlocks(
        table.without_rows(), space, ReportedSet(space, seed.masks), seed.explained, measured=measured
    )


def _measured_of(table: BlockTable, space: PredicateSpace) -> Measured:
    """Return rows of the first blocks."""
    rows = np.cumsum([0, *(block.rows for block in table.base.blocks)])
    some = tuple(block for block, before in zip(table.base.blocks, rows, strict=False) if before < _RANKED_ON)
    return next(iter(table.executors.run(partial(_coded, table.source, space, table.row_count), [some])))


def _coded(source: Source, space: PredicateSpace, rows: int, blocks: tuple[Block, ...]) -> Measured:
    return Measured.of_table(rows_of(source.read_all(blocks), source.schema).table, space, rows)


_NOT_LISTED = (
    "which rows are the exceptions is not listed of tables in blocks: run holdfast exceptions FILE CONSTRAINT, "
    "where one process can hold the table, or holdfast check FILE --rule CONSTRAINT --spark"
)
NEAR_FAMILIES = ("key", "fd")
"""The families of near constraints that are counted in blocks."""


@dataclass(frozen=True, repr=False)
class NearInBlocks(NearDiscovered):
    """The near constraints of a table in blocks.

    Parameters
    ----------
    counter : counts exceptions, while the blocks are there.
    """

    counter: BlockCounts = field(kw_only=True)

    def ranked(self) -> "NearInBlocks":
        """Count what constraints are ranked by: `top` works from now on without the blocks. One job."""
        _ = self.ranking
        return self

    @cached_property
    def ranking(self) -> NearScores:
        """What members are ranked by. One job."""
        counts = self.counter.exactly(needed(self.found.members, self.targets))
        return NearScores(self.table.row_count, self.targets, counts)

    def suspects(self, least: float = LEAST_SCORE) -> Suspects:  # noqa: ARG002 (refused)
        """Refuse: suspects are found among rows in memory."""
        raise UsageError(
            "cells that are probably wrong are not searched for in blocks: run holdfast suspects FILE, where one "
            "process can hold the table, or a part of it (--limit)"
        )

    def removals(self, constraints: Iterable[NearConstraint]) -> list[Removal]:  # noqa: ARG002 (refused)
        """Raise `UsageError`: exceptions are listed of rows in memory only."""
        raise UsageError(_NOT_LISTED)

    def concentrations(
        self,
        constraints: Iterable[NearConstraint],  # noqa: ARG002 (refused)
        removals: Sequence[Removal] | None = None,  # noqa: ARG002
    ) -> list[Concentrations]:
        """Raise `UsageError`: exceptions are listed of rows in memory only."""
        raise UsageError(_NOT_LISTED)


def counted_shapes(families: Iterable[str]) -> frozenset[NearShape]:
    """Return the shapes of families, or raise `UsageError` for families that are not counted in blocks."""
    families = list(families)
    shapes = shapes_of(families)
    if not shapes <= SHAPES:
        raise UsageError(
            f"family '{','.join(families)}': order compatibilities that nearly hold are found where one process holds "
            f"the rows, and these are in blocks: leave out od (name {','.join(NEAR_FAMILIES)})"
        )
    return shapes


def discover_near_blocks(
    table: BlockTable,
    share: Fraction,
    max_context: int | None = DEFAULT_CONTEXT,
    *,
    families: Iterable[str] = NEAR_FAMILIES,
    report: Report = lambda _: None,
) -> NearInBlocks:
    """Find all near constraints of families on a table, as `discover_near` does, except order compatibilities.

    Parameters
    ----------
    share : the share of rows that may be exceptions.
    max_context : the most columns of a context; 0 for any number; None for three, or as many as are feasible.
    """
    shapes = counted_shapes(families)
    explained = Explained("blocks")
    heaviest = table.heaviest
    columns = np.array(sorted(range(len(table.schema)), key=lambda c: (heaviest[c], c)), np.int64)
    explained.add("sample")
    targets = unordered_targets(columns, shapes)
    counts = BlockCounts(table, targets)
    most = allowed(share, table.row_count)

    def count(tasks: Tasks, most: int) -> Iterator[CountedContext]:
        return counts.counted(tasks, most, most)

    found = near_set(targets, most, max_context, count, explained=explained, report=report)
    return NearInBlocks(table.without_rows(), share, found.max_context, targets, found, explained, counter=counts)


@dataclass(frozen=True, repr=False)
class InclusionsInBlocks(DiscoveredInclusions):
    """The inclusions among tables in blocks."""

    tables: Mapping[str, BlockTable] = field(kw_only=True)
    texts: bool = field(kw_only=True)

    def missing(self, dependency: InclusionDependency, most: int = 3) -> list[Value]:
        """Return values of the left column that the right column lacks. Reads the values again."""
        sides = {dependency.dependent.table, dependency.referenced.table}
        some = {name: table for name, table in self.tables.items() if name in sides}
        return missing_values(some, [dependency], most, texts=self.texts)[dependency]


def discover_inclusions_in_blocks(
    tables: Mapping[str, BlockTable], *, texts: bool = False, report: Callable[[str], Any] = lambda _: None
) -> InclusionsInBlocks:
    """Find all unary inclusion dependencies among all columns of tables."""
    explained = Explained()
    report(f"clustering the values of {len(tables):,} tables")
    clusters = clusters_of(tables, texts=texts)
    explained.add(f"{len(clusters):,} clusters")
    return InclusionsInBlocks(Inclusions(clusters), (), explained, tables=tables, texts=texts)
