"""Labels of values in order, against a dictionary: order, undo, forgetting, saving, and insertions that fill one gap."""

import bisect
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from holdfast.constraints import PredicateSpace
from holdfast.indexes import labels as module
from holdfast.indexes.interned import Interned
from holdfast.indexes.kernels.order import places_kernel
from holdfast.indexes.labels import Labels
from holdfast.indexes.order_keys import NumberKeys, TextKeys
from holdfast.indexes.rows import RowSet
from holdfast.indexes.texts import NULL
from holdfast.state.memory import MemoryStore
from holdfast.tables import EncodedColumn, ReadOptions, from_arrow
from tests.invariants import check_invariants

TEXTS = st.sampled_from(["", "a", "aa", "ab", "b", "é", "\0", "\uffff", "\U0001f600"]) | st.text(max_size=3)
WHOLE = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([0, 1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)])
DOUBLES = st.floats(allow_nan=False) | st.sampled_from([0.1, -0.1, 0.5, 2.0**53, 1e22, float("inf")])
WIDE = st.decimals(allow_nan=False, allow_infinity=False, places=10, min_value=-(10**25), max_value=10**25) | (
    st.sampled_from([Decimal("0.1"), Decimal("-0.1"), Decimal("0.5"), Decimal(2**53 + 1), Decimal("0.3000000001")])
)
NARROW = st.decimals(-(10**8), 10**8, places=4) | st.sampled_from([Decimal("0.1"), Decimal("0.5"), Decimal("3.0000")])
KINDS: tuple[tuple[pa.DataType, st.SearchStrategy[Any]], ...] = (
    (pa.int64(), WHOLE),
    (pa.float64(), DOUBLES),
    (pa.decimal128(38, 10), WIDE),
    (pa.decimal128(16, 4), NARROW),
)


def _column(values: list[Any], kind: pa.DataType) -> EncodedColumn:
    options = ReadOptions(ordered={"a": True}) if pa.types.is_string(kind) else ReadOptions()
    return from_arrow(pa.table({"a": pa.array(values, kind, from_pandas=False)}), "r", options).columns[0]


class LabelsMachine(RuleBasedStateMachine):
    """The label of each value: those of a batch may be taken back, saved ones are the same in another process."""

    kinds: tuple[tuple[pa.DataType, st.SearchStrategy[Any]], ...]
    keys: Callable[[], TextKeys | NumberKeys]

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.store = MemoryStore()
        self.labels = Labels((0,), self.keys())
        self.label: dict[Any, int] = {}
        self.before, self.memo = dict(self.label), self.labels.memo()
        self.saved = False

    @initialize(tight=st.booleans(), few=st.sampled_from([1, 1 << 10]))
    def sizes(self, tight: bool, few: int) -> None:
        self.patch.setattr(module, "_FEW_RECENT", few)
        self.patch.setattr(module, "_SAVED_AT_ONCE", 3)
        if tight:
            self.patch.setattr(module, "_STEP", 1)
            self.patch.setattr(module, "_HIGHEST", 1 << 9)
            self.patch.setattr(module, "_NOT_A_NUMBER", (1 << 9) + 1)

    @rule(data=st.data())
    def come(self, data: st.DataObject) -> None:
        columns, lists = [], []
        for kind, values in data.draw(st.lists(st.sampled_from(self.kinds), min_size=1, max_size=2)):
            lists.append(data.draw(st.lists(values | st.none(), max_size=6)))
            columns.append(_column(lists[-1], kind))
        relabelled = self.labels.add(columns)
        if relabelled is not None:
            assert (np.diff(relabelled.old) > 0).all()
            held = np.array(list(self.label.values()), np.int64)
            self.label = dict(zip(self.label, relabelled.apply(held).tolist(), strict=True))
        for column, values in zip(columns, lists, strict=True):
            for value, code in zip(values, self.labels.codes(column).tolist(), strict=True):
                if value is not None:
                    assert self.label.setdefault(value, code) == code

    @rule(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        if data.draw(st.booleans()) and self.label:
            kept: set[Any] = data.draw(st.sets(st.sampled_from(sorted(self.label))))
            self.labels.keep(np.array([[NULL], *([self.label[value]] for value in sorted(kept))], np.int64))
            self.label = {value: code for value, code in self.label.items() if value in kept}
        self.before, self.memo = dict(self.label), self.labels.memo()

    @rule()
    def undo(self) -> None:
        self.labels.take_back(self.memo)
        self.label = dict(self.before)

    @rule()
    def save(self) -> None:
        for batch in self.labels.save(b"p", everything=not self.saved):
            self.store.write(batch)
        self.saved = True

    @rule()
    def save_and_restore(self) -> None:
        self.save()
        self.labels = Labels((0,), self.keys())
        self.labels.restore(self.store, b"p")
        self.before, self.memo = dict(self.label), self.labels.memo()

    @invariant()
    def labels_ascend_as_values_do(self) -> None:
        check_invariants(self.labels)
        assert len(self.labels) == len(self.label)
        codes = [self.label[value] for value in sorted(self.label)]
        assert codes == sorted(set(codes))

    @invariant()
    def labels_give_the_values_back(self) -> None:
        for kind, _ in self.kinds:
            mine = [value for value in self.label if _fits(value, kind)]
            column = _column(mine, kind).column
            codes = np.array([NULL, *(self.label[value] for value in mine)], np.int64)
            assert self.labels.values(codes, column) == [None, *mine]

    def teardown(self) -> None:
        self.patch.undo()


def _fits(value: Any, kind: pa.DataType) -> bool:
    """Whether a value was drawn for a column of this type, or is equal to one that could have been."""
    if pa.types.is_string(kind):
        return True
    if not pa.types.is_decimal(kind):
        return isinstance(value, float if pa.types.is_floating(kind) else int)
    return isinstance(value, Decimal) and int(value.as_tuple().exponent) >= -kind.scale and abs(value) < 10**12


class TextLabelsMachine(LabelsMachine):
    """Strings."""

    kinds = ((pa.string(), TEXTS),)
    keys = TextKeys


class NumberLabelsMachine(LabelsMachine):
    """Integers, floats and decimals, which are compared with each other."""

    kinds = KINDS
    keys = NumberKeys


TestTextLabels = TextLabelsMachine.TestCase
TestTextLabels.settings = settings(max_examples=60, stateful_step_count=15)
TestNumberLabels = NumberLabelsMachine.TestCase
TestNumberLabels.settings = settings(max_examples=60, stateful_step_count=15)


@given(st.lists(WHOLE | DOUBLES | WIDE | NARROW, min_size=2, max_size=12))
def test_bytes_of_numbers_compare_as_numbers_do(numbers: list[Any]) -> None:
    keys, stored = NumberKeys(), []
    for number in numbers:
        kind = next(
            kind for kind, _ in KINDS if _fits(number, kind) or (pa.types.is_decimal(kind) and kind.scale == 10)
        )
        column = _column([number], kind)
        stored += keys.of(column, column.keys).to_pylist()
    for a, x in zip(numbers, stored, strict=True):
        for b, y in zip(numbers, stored, strict=True):
            assert (a < b, a == b) == (x < y, x == y), (a, b)
    records = keys.records(pa.array(stored, pa.large_binary()))
    assert keys.read(records).to_pylist() == stored


@given(st.sets(st.binary(max_size=3), max_size=20), st.sets(st.binary(max_size=3), max_size=20))
def test_places_are_those_of_bisection(ordered: set[bytes], wanted: set[bytes]) -> None:
    held = Interned()
    codes, asked = (held.intern(pa.array(sorted(some), pa.large_binary()))[0] for some in (ordered, wanted))
    places = np.empty(len(asked), np.int64)
    places_kernel(held.data, held.start, held.size, codes, asked, places)
    assert places.tolist() == [bisect.bisect_left(sorted(ordered), one) for one in sorted(wanted)]


ORDERS: dict[str, Callable[[int], str]] = {
    "ascending": lambda i: f"{i:04}",
    "descending": lambda i: f"{9999 - i:04}",
    "behind the first": lambda i: f"0{9999 - i:04}",
    "before the last": lambda i: f"5{i:04}",
    "from both ends to the middle": lambda i: f"1{i:04}" if i % 2 else f"3{9999 - i:04}",
}


@pytest.mark.parametrize("size", [1, 7])
@pytest.mark.parametrize("order", ORDERS)
def test_rows_stay_in_order_wherever_texts_are_put(order: str, size: int) -> None:
    """Some gaps are used up again and again; the codes of rows that are held follow, also after an undo."""
    options = ReadOptions(ordered={"a": True})
    texts = ["0", "9", *(ORDERS[order](i) for i in range(200))]
    schema = from_arrow(pa.table({"a": texts}), "r", options).schema
    rows = RowSet(PredicateSpace(schema))
    relabelled = 0
    for start in range(0, len(texts), size):
        table = from_arrow(pa.table({"a": texts[start : start + size]}), "r", options)
        for is_undone in (True, False):
            before = rows.codes[rows.live()]
            rows.begin()
            codes, changed = rows.encode(table)
            rows.change(codes, np.ones(len(codes), np.int64))
            if is_undone:
                rows.undo()
                assert np.array_equal(rows.codes[rows.live()], before)
        relabelled += len(changed)
        live = rows.live()
        in_order = live[np.argsort(rows.codes[live, 0])]
        assert [row["a"] for row in rows.values(in_order)] == sorted(texts[: start + size])
    check_invariants(rows)
    assert relabelled <= len(texts) / size / 30 + 1
