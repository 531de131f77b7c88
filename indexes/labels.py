"""Numbers with gaps for values in order: a value keeps its label whatever values are added later.

    values    "ash"    "birch"    "oak"         "cedar" gets (20 + 30) / 2
    labels      10        20        30

Values are bytes in their order (`order_keys.py`), each with a code (`interned.py`). A *run* is a list of codes in the
order of their values, with their labels: the main run has nearly all values, the recent run the values added since the
runs were last merged. A run is never changed, only replaced, so that an undo restores the runs before.

New values of a batch that fall into one gap share the gap evenly. Where a gap is too small, all values of the domain
get new labels, and whoever holds codes maps them (`Relabelled`): after some 40 batches that each have one value between
the same two neighbours, or 2^40 values at random.

Invariant: labels ascend as the values do and lie within (-2^62, 2^62); NaN has a code of its own above them. Every
value with a label is in one of the runs.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.constraints import Column, Value
from holdfast.indexes.growing import with_room
from holdfast.indexes.interned import Interned
from holdfast.indexes.kernels.order import places_kernel
from holdfast.indexes.kernels.texts import FREE
from holdfast.indexes.order_keys import OrderKeys
from holdfast.indexes.texts import NULL
from holdfast.state import codecs
from holdfast.state.store import Reader, WriteBatch
from holdfast.tables import EncodedColumn
from holdfast.tables.arrays import Codes
from holdfast.tables.keys import floats

_HIGHEST = 1 << 62
_NOT_A_NUMBER = _HIGHEST + 1
_STEP = 1 << 32
_SAVED_AT_ONCE = 50_000
_FEW_KEPT = 10_000
_FEW_RECENT = 1 << 10
_RECENT_SHARE = 16
_DENSE = 12
_NO_LABEL = NULL


@dataclass(frozen=True)
class Relabelled:
    """How codes of some columns change: `old`, ascending, become `new`."""

    columns: tuple[int, ...]
    old: Codes
    new: Codes

    def apply(self, codes: Codes) -> Codes:
        """Return the new codes; codes that are no labels (null, NaN) stay."""
        if not len(self.old):
            return codes
        places = np.minimum(np.searchsorted(self.old, codes), len(self.old) - 1)
        return np.where(self.old[places] == codes, self.new[places], codes)


@dataclass(frozen=True)
class _Run:
    """Codes in the order of their values, and the label of each."""

    codes: Codes
    labels: Codes

    def __len__(self) -> int:
        return len(self.codes)

    def merged(self, codes: Codes, labels: Codes) -> "_Run":
        """Return the run with more codes, given in order. O(n)."""
        places = np.searchsorted(self.labels, labels)
        return _Run(np.insert(self.codes, places, codes), np.insert(self.labels, places, labels))

    def find(self, labels: Codes) -> Codes:
        """Return the code of each label, -1 where the run does not have it. O(labels log n)."""
        if not len(self):
            return np.full(len(labels), -1, np.int64)
        places = np.minimum(np.searchsorted(self.labels, labels), len(self) - 1)
        return np.where(self.labels[places] == labels, self.codes[places], -1)


_EMPTY = _Run(np.zeros(0, np.int64), np.zeros(0, np.int64))
Memo = tuple[_Run, _Run]


class Labels:
    """Values of any type in order, each with a label between the labels of its neighbours.

    - Looking up: `codes`, `values`, `array`
    - Changing: `add`, `keep`, `memo`, `take_back`
    - Storing: `save`, `restore`
    - Checking: `check_invariants`

    Parameters
    ----------
    columns : the columns that have these values.
    keys : converts values to bytes in order.
    """

    def __init__(self, columns: tuple[int, ...], keys: OrderKeys) -> None:
        self.columns = columns
        self._keys = keys
        self._interned = Interned()
        self._label_of: Codes = np.zeros(0, np.int64)
        self._main, self._recent = _EMPTY, _EMPTY
        self._given: list[Codes] = []  # codes that got a label since the memo
        self._is_relabelled = False  # whether all values got a new label since the memo
        self._added: list[tuple[EncodedColumn, Codes, Codes]] = []
        self._changed: list[Codes] = []
        self._kept = _FEW_KEPT

    def __len__(self) -> int:
        """Return the number of values with a label."""
        return len(self._main) + len(self._recent)

    @property
    def is_wasteful(self) -> bool:
        """Whether the number of values has doubled since values were last forgotten."""
        return len(self._interned) > 2 * self._kept

    def add(self, columns: Sequence[EncodedColumn]) -> Relabelled | None:
        """Give labels to the new values of columns. O(k log n) for k values, amortised."""
        self._added = [(column, *self._interned_of(column)) for column in columns]
        self._label_of = with_room(self._label_of, len(self._interned.start), _NO_LABEL)
        used = np.unique(np.concatenate([np.zeros(0, np.int64), *(codes for _, _, codes in self._added)]))
        new = used[self._label_of[used] == _NO_LABEL]
        if not len(new):
            return None
        new = new[pc.sort_indices(self._interned.binaries(new)).to_numpy().astype(np.int64)]
        labels = self._between_neighbours(new)
        if labels is None:
            return self._relabelled_evenly(new)
        self._given.append(new)  # before any label is set: `take_back` works wherever the rest stops
        self._changed.append(labels)
        self._label_of[new] = labels
        self._recent = self._recent.merged(new, labels)
        if _RECENT_SHARE * len(self._recent) > len(self._main) + _FEW_RECENT:
            self._main, self._recent = self._all, _EMPTY
        return None

    def codes(self, column: EncodedColumn) -> Codes:
        """Return the labels of a column whose values were added. O(rows), and O(d log d) for d distinct values."""
        known = next((added for added in self._added if added[0] is column), None)
        self._added = [added for added in self._added if added[0] is not column]
        keys, interned = known[1:] if known is not None else self._interned_of(column)
        if not len(keys):
            codes = np.zeros(len(column), np.int64)
        elif column.dictionary is not None and len(column.dictionary) <= _DENSE * len(column):
            labels = np.zeros(len(column.dictionary), np.int64)
            labels[keys] = self._label_of[interned]
            codes = labels[column.keys]
        else:
            places = np.minimum(np.searchsorted(keys, column.keys), len(keys) - 1)
            codes = self._label_of[interned][places]
        if column.column.type.name == "float":
            codes[np.isnan(floats(column.keys))] = _NOT_A_NUMBER
        return codes

    def array(self, codes: Codes, column: Column) -> pa.Array:
        """Return the values of codes, none of them null, as those of `column`. O(codes log n)."""
        is_number = codes != _NOT_A_NUMBER
        values = self._keys.values(self._interned.binaries(self._find(codes[is_number])), column)
        if is_number.all():
            return values
        whole = np.full(len(codes), np.nan)
        whole[is_number] = values.to_numpy()
        return pa.array(whole, from_pandas=False)

    def values(self, codes: Codes, column: Column) -> list[Value]:
        """Return the values of codes, as those of `column`. O(codes log n)."""
        found: list[Value] = [None] * len(codes)
        present = np.flatnonzero(codes != NULL)
        for place, value in zip(present.tolist(), self.array(codes[present], column).to_pylist(), strict=True):
            found[place] = value
        return found

    def keep(self, codes: Iterable[Codes]) -> None:
        """Forget all values but those of the given codes, which keep their labels. O(n), O(c log c) for c codes.

        An earlier memo may not be taken back any more.
        """
        everything, used = self._all, np.concatenate(list(codes))
        used.sort()
        places = np.minimum(np.searchsorted(used, everything.labels), max(len(used) - 1, 0))
        is_kept = used[places] == everything.labels if len(used) else np.zeros(len(everything), np.bool_)
        self._changed.append(everything.labels[~is_kept])
        self._main, self._recent = _Run(everything.codes[is_kept], everything.labels[is_kept]), _EMPTY
        self._added = []
        is_gone = self._interned.size[: self._interned.used] != FREE
        is_gone[self._main.codes] = False
        gone = np.flatnonzero(is_gone)
        self._label_of[gone] = _NO_LABEL
        self._interned.free(gone)
        self._kept = max(len(self), _FEW_KEPT)

    def memo(self) -> Memo:
        """Return the argument of `take_back`. O(1). Only the last memo can be taken back."""
        self._given, self._is_relabelled = [], False
        return self._main, self._recent

    def take_back(self, memo: Memo) -> None:
        """Give all values the labels, or no label, that they had at the memo.

        O(k) for k values added since; O(n) where values got new labels.
        """
        given = np.concatenate([np.zeros(0, np.int64), *self._given])
        labels = self._label_of[given]
        self._changed.append(labels[labels != _NO_LABEL])  # they may have been saved meanwhile
        if self._is_relabelled:
            self._changed.append(self._all.labels)
        self._main, self._recent = memo
        self._added = []
        self._label_of[given] = _NO_LABEL
        if self._is_relabelled:
            for run in memo:
                self._changed.append(run.labels)
                self._label_of[run.codes] = run.labels
        self.memo()

    def save(self, prefix: bytes, *, everything: bool) -> Iterator[WriteBatch]:
        """Yield the labels that changed, or all labels, with their values; labels that no value has are deleted."""
        all_labels = self._all.labels
        changed = all_labels if everything else np.unique(np.concatenate([all_labels[:0], *self._changed]))
        for start in range(0, len(changed), _SAVED_AT_ONCE):
            labels = changed[start : start + _SAVED_AT_ONCE]
            codes = self._find(labels)
            records = iter(self._keys.records(self._interned.binaries(codes[codes >= 0])))
            batch = WriteBatch()
            for label, code in zip(labels.tolist(), codes.tolist(), strict=True):
                key = prefix + self._key + codecs.number(label + _HIGHEST)
                if code >= 0:
                    batch.put("values", key, next(records))
                else:
                    batch.delete("values", key)
            yield batch
        self._changed = []

    def restore(self, store: Reader, prefix: bytes) -> None:
        """Read what was saved. O(n)."""
        found = list(store.scan("values", prefix + self._key))
        labels = np.array([codecs.read_number(key) - _HIGHEST for key, _ in found], np.int64)
        codes, _ = self._interned.intern(self._keys.read([value for _, value in found]))
        self._label_of = np.full(len(self._interned.start), _NO_LABEL, np.int64)
        self._label_of[codes] = labels
        self._main, self._recent = _Run(codes, labels), _EMPTY
        self._kept = max(len(found), _FEW_KEPT)

    def check_invariants(self) -> None:
        """Assert the invariants. O(n)."""
        everything = self._all
        assert (np.diff(everything.labels) > 0).all()
        assert (np.abs(everything.labels) < _HIGHEST).all()
        values = self._interned.binaries(everything.codes).to_pylist()
        assert all(one < other for one, other in pairwise(values))
        labelled = np.flatnonzero(self._label_of != _NO_LABEL)
        assert np.array_equal(labelled, np.sort(everything.codes))
        assert (self._label_of[everything.codes] == everything.labels).all()

    @property
    def _all(self) -> _Run:
        """Both runs as one. O(n)."""
        return self._main.merged(self._recent.codes, self._recent.labels) if len(self._recent) else self._main

    @property
    def _key(self) -> bytes:
        return b"l" + codecs.number(self.columns[0])

    def _interned_of(self, column: EncodedColumn) -> tuple[Codes, Codes]:
        """Return the keys of a column's distinct values without NaN, and the interned code of each."""
        keys, _ = column.counts
        if column.column.type.name == "float":
            keys = keys[~np.isnan(floats(keys))]
        codes, _ = self._interned.intern(self._keys.of(column, keys))
        return keys, codes

    def _find(self, labels: Codes) -> Codes:
        """Return the interned code of each label, -1 where no value has it."""
        found = self._main.find(labels)
        missing = found < 0
        found[missing] = self._recent.find(labels[missing])
        return found

    def _between_neighbours(self, new: Codes) -> Codes | None:
        """Return evenly spaced labels for new values, given in order; None where a gap is too small."""
        if not len(self):
            return None
        below, above = np.full(len(new), -_HIGHEST), np.full(len(new), _HIGHEST)
        for run in (self._main, self._recent):
            places = self._places(run, new)
            bounded = np.concatenate([[-_HIGHEST], run.labels, [_HIGHEST]])
            below, above = np.maximum(below, bounded[places]), np.minimum(above, bounded[places + 1])
        first = np.flatnonzero(np.diff(below, prepend=-_HIGHEST - 1))  # of each gap
        sizes = np.diff(first, append=len(new))
        step = (above[first] - below[first]) // (sizes + 1)
        is_lowest, is_end = below[first] == -_HIGHEST, above[first] == _HIGHEST
        step = np.where(is_lowest | is_end, np.minimum(step, _STEP), step)
        if not step.all():
            return None
        start = np.where(is_lowest, above[first] - step * (sizes + 1), below[first])
        nth = np.arange(len(new)) - np.repeat(first, sizes) + 1
        labels: Codes = np.repeat(start, sizes) + np.repeat(step, sizes) * nth
        return labels

    def _relabelled_evenly(self, new: Codes) -> Relabelled | None:
        """Give all values, new values included, new labels at even distances."""
        old = self._all
        codes = np.insert(old.codes, self._places(old, new), new)
        gap = _HIGHEST // (len(codes) + 1)  # half of the range stays free at either end
        labels = gap * np.arange(1, len(codes) + 1) - _HIGHEST // 2
        self._given.append(new)
        self._changed += [old.labels, labels]
        self._is_relabelled = True
        self._label_of[codes] = labels
        self._main, self._recent = _Run(codes, labels), _EMPTY
        return Relabelled(self.columns, old.labels, self._label_of[old.codes]) if len(old) else None

    def _places(self, run: _Run, new: Codes) -> Codes:
        """Return how many values of a run are below each new value. O(new log n)."""
        places = np.empty(len(new), np.int64)
        interned = self._interned
        places_kernel(interned.data, interned.start, interned.size, run.codes, new, places)
        return places
