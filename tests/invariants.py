"""The invariants of structures, asserted by tests after every change.

A structure whose invariant is about its private state has a method `check_invariants`. The invariants of what a
structure shows are here, and so is the way from a structure to its parts.
"""

from functools import singledispatch
from typing import Any

import numpy as np
import pyarrow as pa

from holdfast.discovery.blocks.storage.block import table_of
from holdfast.discovery.blocks.storage.live import LiveBlocks
from holdfast.discovery.detection.partners import PartnerCounts
from holdfast.discovery.inclusion.clusters import Clusters
from holdfast.discovery.order.contexts import Contexts
from holdfast.indexes.kernels.zones import FANOUT
from holdfast.indexes.row_hash import first_equal
from holdfast.indexes.rows import RowSet
from holdfast.indexes.table_index import TableIndex
from holdfast.indexes.zone_tree import ZoneTree
from holdfast.streaming.incoming.key_versions import KeyVersions
from holdfast.streaming.maintainers.certified.denial import DenialMaintainer
from holdfast.streaming.maintainers.certified.order import OrderMaintainer
from holdfast.streaming.maintainers.holdings.contract import Holding
from holdfast.streaming.maintainers.holdings.in_memory import RowsInMemory
from holdfast.streaming.maintainers.holdings.residents import Residents
from holdfast.streaming.maintainers.inclusion.maintainer import InclusionMaintainer
from holdfast.streaming.maintainers.rules.counting import CountingInMemory
from holdfast.streaming.maintainers.rules.maintainer import RuleMaintainer
from holdfast.streaming.maintainers.table.maintainer import TableMaintainer
from holdfast.tables.arrays import Codes, Ints

_ONE_EACH = np.zeros(0, np.int64)


@singledispatch
def check_invariants(structure: Any) -> None:
    """Assert the invariants of a structure and of its parts. May be exponential in the columns."""
    structure.check_invariants()


@check_invariants.register
def _table(table: TableMaintainer) -> None:
    check_invariants(table.holding)
    for part, _ in table._parts:
        check_invariants(part)


@check_invariants.register
def _holding(holding: Holding) -> None:
    check_invariants(holding.rows)


@check_invariants.register
def _in_memory(holding: RowsInMemory) -> None:
    check_invariants(holding.rows)
    check_invariants(holding.index)


@check_invariants.register
def _versions(versions: KeyVersions) -> None:
    check_invariants(versions.holding.rows)


@check_invariants.register
def _denial(family: DenialMaintainer) -> None:
    """Assert the invariants, except that the covers hold."""
    check_invariants(family.certificate)
    check_invariants(family.covers)
    assert family.covers.proven.all()


@check_invariants.register
def _order(family: OrderMaintainer) -> None:
    """Assert the invariants, except that the dependencies hold."""
    check_invariants(family.certificate)
    check_invariants(family.contexts)
    assert all(proven.all() for proven in family.contexts.proven)
    anew = Contexts(family.contexts.targets, family.contexts.bound)
    held = family.certificate.held
    anew.add(family.certificate.words[held], lambda used: held[used])
    assert np.array_equal(np.unique(anew.masks, axis=0), np.unique(family.masks, axis=0))


@check_invariants.register
def _contexts(contexts: Contexts) -> None:
    """Assert that no edge of a target contains another, and that contexts are minimal."""
    for edges, sets in zip(contexts.edges, contexts.sets, strict=True):
        for one in (edges, sets):
            inside = ~(one[:, None] & ~one[None]).any(axis=2)
            assert np.count_nonzero(inside) == len(one)
        if len(edges):
            assert (sets[:, None] & edges[None]).any(axis=2).all()


@check_invariants.register
def _rules(rules: RuleMaintainer) -> None:
    """Assert that counts are right, and that the indexes of partners have the live rows."""
    rules.check_invariants()
    if isinstance(rules._counting, CountingInMemory):
        check_invariants(rules._counting._partners)


@check_invariants.register
def _partners(partners: PartnerCounts) -> None:
    for _, index in partners._asked.values():
        check_invariants(index)


@check_invariants.register
def _inclusion(inclusion: InclusionMaintainer) -> None:
    """Assert that the clusters are those of the values."""
    check_invariants(inclusion.clusters)
    inclusion._values.check_invariants(inclusion.clusters)


@check_invariants.register
def _clusters(clusters: Clusters) -> None:
    """Assert the invariants, and that `missing` follows from the clusters."""
    numbers = np.arange(clusters.count)
    members = clusters.flags(numbers)
    assert len(clusters._sets) == clusters.count == len({row.tobytes() for row in members})
    assert (clusters.numbers(clusters.bits(numbers)) == numbers).all()
    assert members.any(axis=1).all()
    assert (clusters.values >= 0).all()
    cluster, column = np.nonzero(members)
    assert np.array_equal(column, clusters.entries)
    assert np.array_equal(clusters.starts, np.searchsorted(cluster, np.arange(clusters.count + 1)))
    assert ((clusters.occurrences > 0) == (clusters.values[cluster] > 0)).all()
    inside = members.astype(np.int64)
    assert (clusters.missing == (inside * clusters.values[:, None]).T @ (1 - inside)).all()
    assert (clusters.totals == clusters.values @ inside).all()


@check_invariants.register
def _residents(rows: Residents) -> None:
    """Assert that each resident with copies is a row of the blocks."""
    rows.check_invariants()
    check_invariants(rows.blocks)
    table = rows.blocks.table()
    codes, _ = RowSet.encode(rows, table_of(table.source.read_all(table.base.blocks), rows.space.schema))
    first, copies = np.unique(first_equal(codes, range(codes.shape[1])), return_counts=True)
    slots = rows.slots_of(codes[first])
    known = slots >= 0
    assert (rows.copies[slots[known]] <= copies[known]).all()
    assert (rows.copies[slots[known]] > 0).all()
    assert set(rows.live().tolist()) <= set(slots.tolist())


@check_invariants.register
def _blocks(blocks: LiveBlocks) -> None:
    """Assert that every arrangement has the same rows, and that all files are there."""
    manifest, source = blocks.manifest, blocks.source
    base = source.read_all([*(block for run in manifest.runs[()] for block in run), *manifest.young])
    numbers = base.column("row").to_numpy()
    assert len(np.unique(numbers)) == len(numbers) == manifest.rows
    assert (numbers < manifest.following).all()
    in_order = _by_number(base)
    for order in manifest.runs:
        assert _by_number(source.read_all(blocks.table().arranged(order).blocks)) == in_order, order
    for name in manifest.names:
        assert source.storage.open().size(name) is not None


@check_invariants.register
def _index(index: TableIndex) -> None:
    live = index._live()
    for served in index._served.values():
        check_tree(served.tree, index._rows.codes, index._copies())
        assert len(served.tree) == len(live)


def check_tree(index: ZoneTree, codes: Codes, copies: Ints = _ONE_EACH) -> None:
    """Assert the order, the depth, the zones and the weights of a whole tree."""
    seen: list[tuple[int, int]] = []
    depths = set()
    tree = index.nodes

    def check(node: int, depth: int) -> None:
        assert 0 < tree.size[node] < FANOUT or (node == tree.root[0] and tree.size[node] == 0)
        keys = [(int(tree.key[node, i]), int(tree.first[node, i])) for i in range(tree.size[node])]
        below = tree.entry[node, : tree.size[node]]
        assert keys == sorted(keys)
        if tree.leaf[node]:
            depths.add(depth)
            seen.extend(keys)
            weight = copies[below].sum() if len(copies) else tree.size[node]
            assert [slot for _, slot in keys] == below.tolist()
            low, high = codes[below].min(axis=0, initial=2**63 - 1), codes[below].max(axis=0, initial=-(2**63))
        else:
            low, high = tree.zone[below, 0].min(axis=0), tree.zone[below, 1].max(axis=0)
            weight = tree.weight[below].sum()
            for key, child in zip(keys, below.tolist(), strict=True):
                assert key == (tree.key[child, 0], tree.first[child, 0])
                check(child, depth + 1)
        assert tree.weight[node] == weight
        if tree.size[node]:
            assert (tree.zone[node, 0] == low).all()
            assert (tree.zone[node, 1] == high).all()

    check(int(tree.root[0]), 0)
    assert seen == sorted(seen)
    assert len(seen) == len(index)
    assert len(depths) == 1


def _by_number(rows: pa.Table) -> list[str]:
    return sorted(map(repr, rows.to_pylist()))
