"""One table whose rows are in blocks on a storage, kept exact by executors: as `Maintainer` keeps one in memory.

The same netting, certificates and reasons; what differs is who holds rows (`spread_rows.py`), and so who is asked for
what the whole table has to say. What is here, and in the state, is small: evidences and their witnesses, the rows of a
batch, and the manifest of the blocks.

Invariant: after every batch constraints and counts are those that `Maintainer` would have.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.constraints import ExternalError, PredicateSpace, Rule
from holdfast.constraints.denial import key as denial_key
from holdfast.discovery.blocks.block import Block, table_of
from holdfast.discovery.blocks.checking import check_blocks
from holdfast.discovery.blocks.discover import space_of_blocks
from holdfast.discovery.blocks.executors import Executors
from holdfast.discovery.blocks.live import LiveBlocks
from holdfast.discovery.blocks.lookup import rows_numbered
from holdfast.discovery.blocks.seeding import seed_blocks
from holdfast.discovery.blocks.storage import Storage
from holdfast.discovery.blocks.table import BlockTable, Order, Source
from holdfast.discovery.codes import pair_codes
from holdfast.discovery.explained import Explained
from holdfast.discovery.ranking import PairSample
from holdfast.indexes.encoding import Codes
from holdfast.indexes.rows import RowDelta, RowSet, Slots
from holdfast.state import codecs
from holdfast.state.store import Store, WriteBatch
from holdfast.streaming.maintainers.batch_result import BatchResult
from holdfast.streaming.maintainers.bounds import Bounds
from holdfast.streaming.maintainers.counting_blocks import InBlocks
from holdfast.streaming.maintainers.inclusion import ColumnChange
from holdfast.streaming.maintainers.maintainer import MAINTAINERS, Maintainer, monitored, versions_prefix
from holdfast.streaming.maintainers.rules import MonitoredRule, RuleMaintainer, coding_space
from holdfast.streaming.maintainers.shared_index import SpreadIndex
from holdfast.streaming.maintainers.spread_rows import SpreadRows
from holdfast.streaming.netting import Netted, Records, key_twice, null_in_key

if TYPE_CHECKING:
    from holdfast.streaming.maintainers.certified import CertifiedMaintainer

_MORE_RESIDENTS = 4_000


@dataclass(frozen=True)
class Spread:
    """Where a table's blocks are, and who works on them."""

    executors: Executors
    storage: Storage


class BlockMaintainer(Maintainer):
    """Keeps the constraints of one table whose rows are in blocks."""

    _rows: SpreadRows

    def __init__(
        self,
        rows: SpreadRows,
        families: Sequence["CertifiedMaintainer"],
        bounds: Bounds,
        explained: Explained,
        threads: int = 1,
    ) -> None:
        super().__init__(rows, families, bounds, explained, threads)
        rows.held = self._held

    @classmethod
    def seed(  # type: ignore[override]  # (takes blocks over, not rows)
        cls,
        data: BlockTable,
        *,
        key: Sequence[str] = (),
        max_predicates: int | None = 4,
        max_context: int | None = None,
        rules: Sequence[Rule | MonitoredRule | str] = (),
        space: PredicateSpace | None = None,
        threads: int | None = None,
        report: Callable[[str], object] = lambda _: None,
        locate: Callable[[int], str] = lambda row: f"row {row + 1}",
    ) -> Self:
        """Take a table in blocks over, and find what holds on it; the blocks are this maintainer's from now on."""
        bounds, schema = Bounds(max_predicates, max_context), data.schema
        known = monitored(rules, schema)
        space = space or space_of_blocks(data, "none" if max_predicates is None else "auto")
        columns = tuple(schema.index(column) for column in key)
        no_key_is_twice(data, columns, locate)
        order = _order_for_lookup(data, columns)
        data.arranged(order)
        seeds = {
            family: seed_blocks(data, space.of_family(family), bound, threads=threads or 1, report=report)
            for family, bound in bounds.families.items()
        }
        widest = bounds.widest(space)
        names = [schema.names[c] for c in columns]
        rows = SpreadRows(widest, names, coding_space(widest, known), LiveBlocks.of(data, order), threads or 1)
        rows.begin()
        witnesses = [seed.witnesses.ravel() for seed in seeds.values()]
        rows.bring(rows_numbered(data, np.concatenate([np.zeros(0, np.int64), *witnesses])))
        rows.bring(_some(data.sample, _MORE_RESIDENTS))  # for further witnesses; the others of them go again
        families: list[CertifiedMaintainer] = []
        explained = Explained("blocks")
        for family, seed in seeds.items():
            slots = rows.slots_numbered(seed.witnesses.ravel()).reshape(seed.witnesses.shape)
            theirs = replace(seed, witnesses=slots)
            made = MAINTAINERS[family].seed(
                rows, space.of_family(family), bounds.families[family], theirs, threads or 1
            )
            families.append(made)
            explained.steps += seed.explained.steps
        maintainer = cls(rows, families, bounds, explained, threads or 1)
        maintainer._monitor(known, report)
        return maintainer

    @classmethod
    def restored(
        cls,
        store: Store,
        table: int,
        spread: Spread,
        threads: int | None = None,
        rules: Sequence[MonitoredRule] = (),
    ) -> Self:
        """Take a table over from a store, as `restore` does, and its blocks from where they are."""

        def rows(
            prefix: bytes, space: PredicateSpace, key: Sequence[str], coding: PredicateSpace | None = None
        ) -> RowSet:
            if prefix == versions_prefix(table) and not LiveBlocks.are_stored(store, prefix):
                return RowSet(space, key)
            blocks = LiveBlocks.restore(store, prefix, spread.storage, space.schema, spread.executors)
            return SpreadRows(space, key, coding, blocks, threads or 1)

        return cls.restore(store, table, threads, rules, rows)

    def remember_keys(self, keys: BlockTable, retention: float | None = None) -> None:
        """Remember what `remember` does in blocks, which are this maintainer's from now on: those of the first rows."""
        order = _order_for_lookup(keys, tuple(range(len(self._rows.key))))
        keys.arranged(order)
        blocks = LiveBlocks.of(keys, order)
        self.remember(retention, lambda space, key: SpreadRows(space, key, None, blocks, self._threads))

    @property
    def _has_emptied(self) -> bool:
        return self._rows.starts_anew

    @property
    def blocks(self) -> LiveBlocks:
        """The rows."""
        return self._rows.blocks

    @property
    def all_blocks(self) -> list[LiveBlocks]:
        """The rows, and what is known of their keys, if that is in blocks."""
        known = None if self._versions is None else self._versions.rows
        return [self.blocks, *([known.blocks] if isinstance(known, SpreadRows) else [])]

    def committed(self) -> None:
        """Remove the files that no block is in any more: the last batch is where no start goes back behind it."""
        with suppress(OSError):  # what is left is removed at the next start
            for blocks in self.all_blocks:
                blocks.source.storage.open().remove(blocks.retired())

    def save_rules(self, table: int = 0) -> Iterator[WriteBatch]:
        """Yield what changed of rules, and the rows that their examples made resident."""
        yield from self._rows.save(codecs.number(table))
        yield from super().save_rules(table)

    def apply_records(self, records: Records) -> BatchResult:
        """Net a batch of records, and follow what is left of it, as `Maintainer` does."""
        try:
            return super().apply_records(records)
        except OSError as error:
            raise ExternalError(
                f"rows of table {self.name} cannot be read or written in {self.blocks.source.storage.open()}: {error}. "
                "Nothing of the batch was applied: see whether there is room, and who may write there; start again"
            ) from error

    def _begin(self, records: Records) -> None:
        super()._begin(records)
        self._rows.starts_anew = records.from_nothing

    def _held(self) -> Slots:
        """Return the rows that have to be resident."""
        found = [family.certificate.pairs[family.certificate.held].ravel() for family in self._families]
        held = np.unique(np.concatenate([self._rules.held, *found]))
        return held[held >= 0]

    def _netted(self, records: Records, codes: Codes) -> tuple[Netted, RowDelta]:
        netted, delta = super()._netted(records, codes)
        if records.from_nothing and self._rows.key:
            netted = replace(netted, deleted=delta.copies_out - netted.updated)
        return netted, delta

    def _values(self, delta: RowDelta) -> Sequence[ColumnChange]:
        if self._rows.starts_anew:  # nobody knows the values of the rows that went; those that are there are resident
            live = self._rows.live()
            delta = replace(delta, changed=live, copies=self._rows.copies[live])
        return super()._values(delta)

    def _ruled(self, rules: Sequence[MonitoredRule]) -> RuleMaintainer:
        counting = partial(InBlocks, whole=self._rows.all_rows, bring=self._rows.bring)
        return RuleMaintainer(self._rows, rules, counting=counting)

    def _indexed(self) -> SpreadIndex:
        return SpreadIndex(self._rows, self._families)

    def _sample(self, space: PredicateSpace) -> PairSample:
        sample = table_of(self.blocks.measured.sample, self.schema)
        return PairSample.of(pair_codes(sample, space), space)


def _some(rows: pa.Table, most: int) -> pa.Table:
    """Return at most so many rows, evenly spread."""
    return rows.take(pa.array(np.unique(np.linspace(0, max(len(rows) - 1, 0), min(most, len(rows))).astype(np.int64))))


def no_key_is_twice(table: BlockTable, key: Order, locate: Callable[[int], str]) -> None:
    """Refuse a seed with two rows of one key, or with a null in it."""
    if not key:
        return
    name = table.schema.table
    for c in key:
        null = first_null(table, c)
        if null is not None:
            raise null_in_key(locate(null), table.schema.names[c])
    names = [table.schema.names[c] for c in key]
    rule = Rule("key", name, denial_key(names))
    (checked,) = check_blocks({name: table}, [rule], exists=True, examples=1)
    if not checked.holds:
        (example,) = checked.examples
        one, other = sorted(example.rows)
        raise key_twice(locate(other), locate(one), names)


def first_null(table: BlockTable, column: int) -> int | None:
    """Return the number of the first row that has a null in a column."""
    having = [block for block in table.base.blocks if block.ranges[column].low is None]
    return min(table.executors.run(partial(_first_null, table.source, column), having), default=None)


def _first_null(source: Source, column: int, block: Block) -> int:
    rows = source.read(block)
    found: int = pc.min(rows.column("row").filter(pc.is_null(rows.column(str(column))))).as_py()
    return found


def _order_for_lookup(table: BlockTable, key: Order) -> Order:
    """Return the order of rows in which those of a batch are looked up: by the column that tells most of them apart."""
    columns = key or range(len(table.schema))
    return (min(columns, key=lambda c: (table.heaviest[c], c)),)
