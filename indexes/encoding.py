"""Order-preserving 64-bit codes of values that never shift: what rows are stored and compared by.

Batch codes (`discovery/codes.py`) are ranks, which every new value would shift. Here a value keeps its code for as
long as it occurs. Columns that are compared with each other form one *domain* and share codes; null has the lowest
code of all.

    direct    the table's own keys (`tables/keys.py`), where one type covers the domain; not where the least 64-bit
              integer occurs, since that stands for null
    texts     a number for each distinct string: equality only, where no family of the space orders strings
    labels    numbers with gaps, in the order of the values: ordered strings, wide decimals, mixed number types

A new label is put into the middle of the gap where its value belongs. Where a gap is used up, all labels of the domain
are given anew, and whoever holds codes is told how to map them (`Relabelled`): after 2^40 or so values between two
neighbours at random, or 40 that each come right beside the one before.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdfast.constraints import Column, PredicateSpace, Value
from holdfast.indexes.texts import NULL, Texts
from holdfast.state import codecs
from holdfast.state.store import Store, WriteBatch
from holdfast.tables import EncodedColumn, Table
from holdfast.tables.columnar import encoded
from holdfast.tables.keys import Flags, arrow_type_of, floats, narrow_values, needs_dictionary

__all__ = ["NULL", "Codes", "Direct", "Encoding", "Labels", "Relabelled", "Texts"]

Codes = NDArray[np.int64]

_HIGHEST = 1 << 62
_NOT_A_NUMBER = _HIGHEST + 1
_STEP = 1 << 32
_SAVED_AT_ONCE = 50_000

Given = tuple[list[Any], list[int], dict[Any, int]]
"""Values in order, the label of each, and the label by value."""
_WIDE = Context(prec=80)


@dataclass(frozen=True)
class Relabelled:
    """How codes of some columns change: `old`, ascending, become `new`."""

    columns: tuple[int, ...]
    old: Codes
    new: Codes

    def apply(self, codes: Codes) -> Codes:
        """Return codes mapped; those that are no labels (null, NaN) stay."""
        if not len(self.old):
            return codes
        places = np.minimum(np.searchsorted(self.old, codes), len(self.old) - 1)
        return np.where(self.old[places] == codes, self.new[places], codes)


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
                domain = Labels(tuple(members))
            for c in members:
                self._domains[c] = domain

    def encode(self, table: Table, held: Callable[[], Codes]) -> tuple[Codes, list[Relabelled]]:
        """Return (k, C) codes of a table's rows, and what that did to the codes that are held. O(k) per column."""
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
        return list(self._domains), [(d, d.given) for d in labels]

    def take_back(self, memo: Any) -> None:
        """Give values the codes they had at the memo; values that came since may stay."""
        domains, labels = memo
        self._domains = list(domains)
        for domain, given in labels:
            domain.given = given

    def decode(self, codes: Codes) -> list[dict[str, Value]]:
        """Return the values of some rows by column name."""
        found = {column.name: self._domains[c].values(codes[:, c], column) for c, column in enumerate(self._columns)}
        return [{name: values[i] for name, values in found.items()} for i in range(len(codes))]

    def column(self, c: int, codes: Codes) -> EncodedColumn:
        """Return values of a column, given by their codes and none of them null, as tables have them. O(codes)."""
        column, domain = self._columns[c], self._domains[c]
        if isinstance(domain, Direct):
            return EncodedColumn(column, codes, None)
        if isinstance(domain, Texts):
            return EncodedColumn(column, np.arange(len(codes)), None, domain.array(codes))
        values = pa.chunked_array([pa.array(domain.values(codes, column), arrow_type_of(column.type))])
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

    def release(self, codes: Codes) -> None:
        """Forget the values that none of these rows has, once they are the most. Amortised O(1) a value."""
        for domain in dict.fromkeys(self._domains):
            if domain.is_wasteful:
                self._keep(domain, codes)

    def _keep(self, domain: "Direct | Texts | Labels", codes: Codes) -> None:
        if not isinstance(domain, Direct):
            domain.keep(codes[:, [c for c, other in enumerate(self._domains) if other is domain]])

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
        domain = Labels(tuple(members))
        for member in members:
            self._domains[member] = domain
        column = EncodedColumn(self._columns[c], direct, None)
        domain.add([column])
        return Relabelled(tuple(members), direct, domain.codes(column))

    def save(self, prefix: bytes, *, everything: bool = False) -> Iterator[WriteBatch]:
        """Yield what changed since it was last saved, or everything, in batches of bounded size."""
        kinds = [type(domain).__name__ for domain in self._domains]
        batch = WriteBatch()
        batch.put("meta", prefix + b"domains", codecs.json_bytes(kinds))
        yield batch
        for domain in dict.fromkeys(self._domains):
            yield from domain.save(prefix, everything=everything)

    def restore(self, store: Store, prefix: bytes, codes: Codes) -> None:
        """Take over what was saved, as far as the rows, which have these codes, have it."""
        kinds = codecs.read_json(store.get("meta", prefix + b"domains") or b"[]")
        for members in _domains(self._space):
            if kinds[members[0]] == Labels.__name__ and not isinstance(self._domains[members[0]], Labels):
                labels = Labels(tuple(members))
                for c in members:
                    self._domains[c] = labels
        for domain in dict.fromkeys(self._domains):
            domain.restore(store, prefix)
            self._keep(domain, codes)

    @property
    def can_waste(self) -> bool:
        """Whether `release` would do anything."""
        return any(domain.is_wasteful for domain in dict.fromkeys(self._domains))


class Direct:
    """Values whose keys are codes already."""

    is_wasteful = False

    def codes(self, column: EncodedColumn) -> Codes:
        """Return codes of a column of the domain."""
        return column.keys

    def values(self, codes: Codes, column: Column) -> list[Value]:
        """Return the values of codes, as ones of `column`."""
        return _narrow_values(codes, column)

    def keep(self, codes: Codes) -> None:
        """Nothing is kept that could be forgotten."""

    def save(self, prefix: bytes, *, everything: bool) -> Iterator[WriteBatch]:  # noqa: ARG002 (as of all domains)
        """Nothing is kept that would have to be saved."""
        return iter(())

    def restore(self, store: Store, prefix: bytes) -> None:
        """Nothing was saved."""


class Labels:
    """Values in order, whatever their type: each has a label between those of its neighbours.

    Invariant: labels ascend as the values do and lie within (-2^62, 2^62); NaN has a code of its own above them.
    """

    def __init__(self, columns: tuple[int, ...]) -> None:
        self.columns = columns
        self.given: Given = ([], [], {})
        self._changed: set[int] = set()
        self._kept = 10_000

    @property
    def is_wasteful(self) -> bool:
        """Whether as many have come as there were before."""
        return len(self._values) > 2 * self._kept

    def add(self, columns: Sequence[EncodedColumn]) -> Relabelled | None:
        """Give labels to the values of some columns that have none."""
        new = {value for column in columns for value in _distinct(column) if not _is_nan(value)} - self._of.keys()
        if not new:
            return None
        if len(new) > 64 and len(new) > len(self._values) // 8:
            return self._spread_out(sorted([*self._values, *new]))
        for value in sorted(new):
            if not self._insert(value):
                return self._spread_out(sorted({*self._values, *new}))
        return None

    def codes(self, column: EncodedColumn) -> Codes:
        """Return codes of a column whose values were added."""
        used, places = np.unique(column.keys, return_inverse=True)
        values = _values_of(used, column)
        if not values:
            return np.zeros(len(column), np.int64)
        labels = [_NOT_A_NUMBER if _is_nan(v) else self._of.get(v, 0) for v in values]
        return np.asarray(np.array(labels, np.int64)[places])

    def values(self, codes: Codes, column: Column) -> list[Value]:
        """Return the values of codes, as ones of `column`."""
        return [self._value(code, column) for code in codes.tolist()]

    def keep(self, codes: Codes) -> None:
        """Forget all values but those of some codes; their labels stay."""
        kept = set(np.unique(codes).tolist())
        self._changed |= set(self._labels) - kept
        pairs = [(v, code) for v, code in zip(self._values, self._labels, strict=True) if code in kept]
        self.given = [v for v, _ in pairs], [code for _, code in pairs], dict(pairs)
        self._kept = max(len(pairs), 10_000)

    def save(self, prefix: bytes, *, everything: bool) -> Iterator[WriteBatch]:
        """Yield labels that changed with their values, or all; a label that was given back is deleted."""
        if not everything and not self._changed:
            return
        values = dict(zip(self._labels, self._values, strict=True))
        changed = self._labels if everything else sorted(self._changed)
        for start in range(0, len(changed), _SAVED_AT_ONCE):
            batch = WriteBatch()
            for label in changed[start : start + _SAVED_AT_ONCE]:
                key = prefix + self._key + codecs.number(label + _HIGHEST)
                if label in values:
                    batch.put("values", key, codecs.value(values[label]))
                else:
                    batch.delete("values", key)
            yield batch
        self._changed.clear()

    def restore(self, store: Store, prefix: bytes) -> None:
        """Take over what was saved."""
        found = list(store.scan("values", prefix + self._key))
        labels = [codecs.read_number(key) - _HIGHEST for key, _ in found]
        values = [codecs.read_value(value) for _, value in found]
        self.given = values, labels, dict(zip(values, labels, strict=True))
        self._kept = max(len(found), 10_000)

    @property
    def _values(self) -> list[Any]:
        return self.given[0]

    @property
    def _labels(self) -> list[int]:
        return self.given[1]

    @property
    def _of(self) -> dict[Any, int]:
        return self.given[2]

    @property
    def _key(self) -> bytes:
        return b"l" + codecs.number(self.columns[0])

    def _insert(self, value: Any) -> bool:
        """Put a value into its gap; say whether there was room."""
        values, labels, of = self.given
        place = bisect_left(values, value)
        below = labels[place - 1] if place else None
        above = labels[place] if place < len(labels) else None
        if below is None:
            label = 0 if above is None else above - _STEP
        else:
            label = below + _STEP if above is None else (below + above) // 2
        if label == below or not -_HIGHEST < label < _HIGHEST:
            return False
        values.insert(place, value)
        labels.insert(place, label)
        of[value] = label
        self._changed.add(label)
        return True

    def _spread_out(self, values: list[Any]) -> Relabelled:
        """Give all values labels anew, at even distances."""
        old = [(v, self._of[v]) for v in values if v in self._of]
        self._changed.update(self._labels)
        gap = _HIGHEST // (len(values) + 1)  # half of the range stays free at either end
        labels = [gap * (i + 1) - _HIGHEST // 2 for i in range(len(values))]
        self.given = values, labels, dict(zip(values, labels, strict=True))
        self._changed.update(self._labels)
        return Relabelled(
            self.columns,
            np.array([label for _, label in old], np.int64),
            np.array([self._of[v] for v, _ in old], np.int64),
        )

    def _value(self, code: int, column: Column) -> Value:
        if code == NULL:
            return None
        if code == _NOT_A_NUMBER:
            return float("nan")
        value = self._values[bisect_left(self._labels, code)]
        match column.type.name:
            case "string":
                return str(value)
            case "float":
                return float(value)
            case "integer":
                return int(value)
            case "decimal":
                return Decimal(value).quantize(Decimal(1).scaleb(-column.type.scale), context=_WIDE)
        key = value // 1000 if column.type.name == "timestamp" and column.type.precision != 9 else value
        return _narrow_values(np.array([key], np.int64), column)[0]


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _domains(space: PredicateSpace) -> list[list[int]]:
    """Return the columns in groups that are compared with each other."""
    group = list(range(len(space.schema)))
    for a, b in space.crossing:
        group = [group[a] if g == group[b] else g for g in group]
    return [[c for c, g in enumerate(group) if g == one] for one in dict.fromkeys(group)]


def _one_type(columns: Sequence[Column]) -> bool:
    """Whether the tables' keys of all columns compare as they are."""
    first = columns[0].type
    whole = {"integer", "decimal"}
    return all(
        not needs_dictionary(c.type)
        and (c.type == first or ({c.type.name, first.name} <= whole and c.type.scale == first.scale))
        for c in columns
    )


def _distinct(column: EncodedColumn) -> list[Any]:
    """Return the distinct values of a column as ones that compare exactly across types."""
    return _values_of(column.counts[0], column)


def _values_of(keys: Codes, column: EncodedColumn) -> list[Any]:
    kind = column.column.type
    if column.dictionary is not None:
        within = np.minimum(keys, len(column.dictionary) - 1)
        return column.dictionary.take(pa.array(within)).to_pylist() if len(column.dictionary) else []
    if kind.name == "float":
        return list(floats(keys).tolist())
    if kind.name == "decimal":
        return [Decimal(key).scaleb(-kind.scale, context=_WIDE) for key in keys.tolist()]
    if kind.name == "timestamp" and kind.precision != 9:
        return [key * 1000 for key in keys.tolist()]
    return list(keys.tolist())


def _narrow_values(codes: Codes, column: Column) -> list[Value]:
    valid: Flags = codes != NULL
    keys = np.where(valid, codes, 0)
    if not len(codes):
        return list(pa.array([], arrow_type_of(column.type)).to_pylist())
    return list(narrow_values(keys, valid, column.type).to_pylist())
