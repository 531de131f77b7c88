"""Order-preserving 64-bit codes of values that never shift; rows are stored and compared as codes.

Batch codes (`discovery/evidence/codes.py`) are ranks, which every new value would shift. Here a value keeps its code
for as long as it occurs. Columns that are compared with each other form one *domain* and share codes; null has the
lowest code of all.

    direct    the table's own keys (`tables/keys.py`), where one type covers the domain; not where the least 64-bit
              integer occurs, since that stands for null
    texts     a number for each distinct string: equality only, where no family of the space orders strings
    labels    numbers with gaps, in the order of the values (`labels.py`): ordered strings, wide decimals, mixed number
              types
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from holdfast.constraints import Column, PredicateSpace, Value
from holdfast.indexes.labels import Labels, Relabelled
from holdfast.indexes.order_keys import NumberKeys, TextKeys
from holdfast.indexes.texts import NULL, Texts
from holdfast.state import codecs
from holdfast.state.store import Reader, WriteBatch
from holdfast.tables import EncodedColumn, Table
from holdfast.tables.arrays import Codes, Flags
from holdfast.tables.columnar import encoded
from holdfast.tables.keys import arrow_type_of, narrow_values, needs_dictionary

__all__ = ["NULL", "Codes", "Direct", "Encoding", "Labels", "Relabelled", "Texts"]


class Encoding:
    """Codes of one table's values.

    Parameters
    ----------
    space : columns, types, and which columns are compared with each other.
    """

    def __init__(self, space: PredicateSpace) -> None:
        self._space = space
        self._columns = space.schema.columns
        texts = Texts()
        self._domains: list[Direct | Texts | Labels] = [Direct()] * len(self._columns)
        for members in _domains(space):
            columns = [self._columns[c] for c in members]
            domain: Direct | Texts | Labels
            if all(column.type.name == "string" and not column.ordered_in(space.family) for column in columns):
                domain = texts
            elif _one_type(columns):
                domain = Direct()
            else:
                domain = self._labels(members)
            for c in members:
                self._domains[c] = domain

    def encode(self, table: Table, held: Callable[[], Codes]) -> tuple[Codes, list[Relabelled]]:
        """Return (k, C) codes of a table's rows, and how the codes of other rows have changed. O(k) per column."""
        codes = np.empty((table.row_count, len(self._columns)), np.int64)
        changed = [self._labelled(c, held()) for c, column in enumerate(table.columns) if self._needs_labels(c, column)]
        labels = list(dict.fromkeys(d for d in self._domains if isinstance(d, Labels)))
        relabelled = changed + [r for d in labels if (r := d.add([table.columns[c] for c in d.columns])) is not None]
        for c, column in enumerate(table.columns):
            codes[:, c] = self._domains[c].codes(column)
            if column.valid is not None:
                codes[~column.valid, c] = NULL
        return codes, relabelled

    def memo(self) -> Any:
        """Return what `take_back` needs. O(columns)."""
        labels = [d for d in dict.fromkeys(self._domains) if isinstance(d, Labels)]
        return list(self._domains), [(d, d.memo()) for d in labels]

    def take_back(self, memo: Any) -> None:
        """Give values the codes that they had at the last memo. Texts that were added since may stay.

        `release` may not have been called since the memo.
        """
        domains, labels = memo
        self._domains = list(domains)
        for domain, before in labels:
            domain.take_back(before)

    def decode(self, codes: Codes) -> list[dict[str, Value]]:
        """Return the values of some rows by column name."""
        found = {column.name: self._domains[c].values(codes[:, c], column) for c, column in enumerate(self._columns)}
        return [{name: values[i] for name, values in found.items()} for i in range(len(codes))]

    def column(self, c: int, codes: Codes) -> EncodedColumn:
        """Return the values of codes, none of them null, as a column of a table. O(codes)."""
        column, domain = self._columns[c], self._domains[c]
        if isinstance(domain, Direct):
            return EncodedColumn(column, codes, None)
        if isinstance(domain, Texts):
            return EncodedColumn(column, np.arange(len(codes)), None, domain.array(codes))
        if column.type.name == "string":
            return EncodedColumn(column, np.arange(len(codes)), None, domain.array(codes, column))
        values = pa.chunked_array([domain.array(codes, column)])
        return encoded("values", [column], {column.name: values}, len(codes)).columns[0]

    def arrow(self, codes: Codes) -> pa.Table:
        """Return rows as an Arrow table. O(k), Python for each distinct value of a column without direct codes."""
        arrays = {}
        for c, column in enumerate(self._columns):
            used, places = np.unique(codes[:, c], return_inverse=True)
            is_null = used == NULL
            kind = arrow_type_of(column.type)
            values = pa.nulls(1, kind) if len(used) else pa.nulls(0, kind)
            if not is_null.all():
                there = self.column(c, used[~is_null]).values()
                there = there.combine_chunks() if isinstance(there, pa.ChunkedArray) else there
                values = pa.concat_arrays([pa.nulls(int(is_null.sum()), kind), there.cast(kind)])
            arrays[column.name] = values.take(pa.array(places.astype(np.int64)))
        return pa.table(arrays)

    def let_go(self) -> None:
        """Release the last table that was encoded."""
        for domain in dict.fromkeys(self._domains):
            if isinstance(domain, Texts):
                domain.let_go()

    def release(self, codes: Codes) -> None:
        """Forget the values that none of these rows has, once these are most values. Amortised O(1) a value."""
        for domain in dict.fromkeys(self._domains):
            if domain.is_wasteful:
                self._keep(domain, codes)

    def check_invariants(self) -> None:
        """Assert the invariants of labels. O(n)."""
        for domain in dict.fromkeys(self._domains):
            if isinstance(domain, Labels):
                domain.check_invariants()

    def _keep(self, domain: "Direct | Texts | Labels", codes: Codes) -> None:
        if not isinstance(domain, Direct):
            domain.keep([codes[:, c] for c, other in enumerate(self._domains) if other is domain])

    def _labels(self, members: Sequence[int]) -> Labels:
        is_text = self._columns[members[0]].type.name == "string"
        return Labels(tuple(members), TextKeys() if is_text else NumberKeys())

    def _needs_labels(self, c: int, column: EncodedColumn) -> bool:
        """Whether a column brings the least 64-bit integer to a domain of direct codes."""
        if not isinstance(self._domains[c], Direct):
            return False
        least = column.keys == NULL
        return bool((least if column.valid is None else least & column.valid).any())

    def _labelled(self, c: int, held: Codes) -> Relabelled:
        """Give a domain of direct codes labels."""
        members = next(members for members in _domains(self._space) if c in members)
        direct = np.unique(held[:, members])
        direct = direct[direct != NULL]
        domain = self._labels(members)
        for member in members:
            self._domains[member] = domain
        column = EncodedColumn(self._columns[c], direct, None)
        domain.add([column])
        return Relabelled(tuple(members), direct, domain.codes(column))

    def save(self, prefix: bytes, *, everything: bool = False) -> Iterator[WriteBatch]:
        """Yield changes since the last save, or everything, in batches of bounded size."""
        kinds = [type(domain).__name__ for domain in self._domains]
        batch = WriteBatch()
        batch.put("meta", prefix + b"domains", codecs.json_bytes(kinds))
        yield batch
        for domain in dict.fromkeys(self._domains):
            yield from domain.save(prefix, everything=everything)

    def restore(self, store: Reader, prefix: bytes, codes: Codes) -> None:
        """Read what was saved of the values that rows with these codes have."""
        kinds = codecs.read_json(store.get("meta", prefix + b"domains") or b"[]")
        for members in _domains(self._space):
            if kinds[members[0]] == Labels.__name__ and not isinstance(self._domains[members[0]], Labels):
                labels = self._labels(members)
                for c in members:
                    self._domains[c] = labels
        for domain in dict.fromkeys(self._domains):
            domain.restore(store, prefix)
            self._keep(domain, codes)

    @property
    def can_waste(self) -> bool:
        """Whether `release` may have values to forget."""
        return any(domain.is_wasteful for domain in dict.fromkeys(self._domains))


class Direct:
    """Values whose keys are codes already."""

    is_wasteful = False

    def codes(self, column: EncodedColumn) -> Codes:
        """Return codes of a column of the domain."""
        return column.keys

    def values(self, codes: Codes, column: Column) -> list[Value]:
        """Return the values of codes, as those of `column`."""
        return _narrow_values(codes, column)

    def keep(self, codes: Iterable[Codes]) -> None:
        """Do nothing: no values are kept."""

    def save(self, prefix: bytes, *, everything: bool) -> Iterator[WriteBatch]:  # noqa: ARG002 (as of all domains)
        """Yield nothing: no values are kept."""
        return iter(())

    def restore(self, store: Reader, prefix: bytes) -> None:
        """Do nothing: no values were saved."""


def _domains(space: PredicateSpace) -> list[list[int]]:
    """Return the domains: groups of columns that are compared with each other."""
    group = list(range(len(space.schema)))
    for a, b in space.crossing:
        group = [group[a] if g == group[b] else g for g in group]
    return [[c for c, g in enumerate(group) if g == one] for one in dict.fromkeys(group)]


def _one_type(columns: Sequence[Column]) -> bool:
    """Whether the keys of all columns compare with each other."""
    first = columns[0].type
    whole = {"integer", "decimal"}
    return all(
        not needs_dictionary(c.type)
        and (c.type == first or ({c.type.name, first.name} <= whole and c.type.scale == first.scale))
        for c in columns
    )


def _narrow_values(codes: Codes, column: Column) -> list[Value]:
    valid: Flags = codes != NULL
    keys = np.where(valid, codes, 0)
    if not len(codes):
        return list(pa.array([], arrow_type_of(column.type)).to_pylist())
    return list(narrow_values(keys, valid, column.type).to_pylist())
