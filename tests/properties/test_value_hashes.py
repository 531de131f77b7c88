"""Hashes that place stored values: golden ones, an oracle, and states whose values another hash placed."""

import base64
import json
import tarfile
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.constraints import StateRefused
from holdfast.discovery.blocks.executors import InProcess
from holdfast.discovery.blocks.storage.hashing import HASH, hashed
from holdfast.discovery.blocks.storage.location import Kept, Storage
from holdfast.discovery.blocks.values import parts as value_parts
from holdfast.discovery.blocks.values.parts import ValueFiles
from holdfast.state import codecs
from holdfast.state.memory import MemoryStore
from holdfast.state.store import WriteBatch
from holdfast.streaming.maintainers.inclusion.column_values import ColumnChange
from holdfast.streaming.maintainers.inclusion.held_values import files_in_use
from holdfast.streaming.maintainers.inclusion.maintainer import InclusionMaintainer
from holdfast.tables import from_arrow
from holdfast.tables.canonical import canonical
from tests.invariants import check_invariants
from tests.oracles import hashing as oracle

STATE = Path(__file__).parents[1] / "golden" / "values_placed_by_pandas.tar.gz"
GOLDEN = {
    "integer": ["84b1f77a2179f7ad", "d58ea1a638302042", "5b7a4e75366a1623", "40ae9501902a7975", "865974855cff19da"],
    "float": [
        "84b1f77a2179f7ad",
        "84b1f77a2179f7ad",
        "d58ea1a638302042",
        "ea83461f5b5d8d11",
        "33900a7cd8ed053a",
        "07a410f2db1ec24f",
        "b3b7fa2604524444",
    ],
    "decimal": ["ea83461f5b5d8d11", "d58ea1a638302042", "e58d753f417e4a56"],
    "string": [
        "1a8dc5f33e93d134",
        "24657f47dc7d19e3",
        "9f221007d6659077",
        "0294b6a23d8bb1bf",
        "3531c923505d17d1",
        "be6f6148c1548ddd",
    ],
    "boolean": ["de1281eb725ff49f", "5b00debd5458963e"],
    "date": ["b7dbee5082c53e98", "8c0d5e2a2c69610d"],
    "timestamp": ["0ac7fdd1c73bf12e", "bb0f28c04caf328c"],
}
COLUMNS: dict[str, pa.Array] = {
    "integer": pa.array([0, 1, -1, 2**63 - 1, -(2**63)]),
    "float": pa.array([0.0, -0.0, 1.0, 0.5, float("nan"), float("inf"), 2.0**70]),
    "decimal": pa.array([Decimal("0.50"), Decimal("1.00"), Decimal("0.10")], pa.decimal128(6, 2)),
    "string": pa.array(["", "a", "é", "eight by", "eight by.", "0"]),
    "boolean": pa.array([False, True]),
    "date": pa.array([0, 19_782], pa.int32()).cast(pa.date32()),
    "timestamp": pa.array([0, 1], pa.int64()).cast(pa.timestamp("us", "UTC")),
}


def _hash_of(value: Any, kind: pa.DataType) -> int:
    column = from_arrow(pa.table({"a": pa.array([value], kind, from_pandas=False)}), "t").columns[0]
    return int(hashed(canonical(column, column.keys))[0])


def _golden() -> dict[str, list[str]]:
    return {
        name: [f"{_hash_of(value, values.type):016x}" for value in values.to_pylist()]
        for name, values in COLUMNS.items()
    }


def test_hashes_of_values_are_those_of_stored_states() -> None:
    """Where this fails values of stored states would not be found: give the new hash another name."""
    assert HASH == 1
    assert _golden() == GOLDEN


def test_equal_values_have_equal_hashes_and_types_that_differ_have_others() -> None:
    assert _hash_of(-0.0, pa.float64()) == _hash_of(0.0, pa.float64()) == _hash_of(0, pa.int64())
    assert _hash_of(1.0, pa.float64()) == _hash_of(Decimal("1.0"), pa.decimal128(20, 1)) == _hash_of(1, pa.int64())
    assert _hash_of(0.5, pa.float64()) == _hash_of(Decimal("0.50"), pa.decimal128(4, 2))
    nans = np.array([0x7FF8_0000_0000_0000, 0x7FF8_0000_0000_0001, -(1 << 51)], np.int64).view(np.float64)
    assert len({_hash_of(nan, pa.float64()) for nan in nans}) == 1
    hashes = [code for codes in GOLDEN.values() for code in codes]
    assert len(set(hashes)) == len(hashes) - 5  # there are three zeros, three ones and two halves


@given(st.lists(st.binary(max_size=40), max_size=20), st.integers(0, 5))
def test_hashes_are_those_of_the_oracle(values: list[bytes], start: int) -> None:
    expected = [oracle.hashed(value) for value in values]
    for kind in (pa.large_binary(), pa.binary()):
        assert hashed(pa.array(values, kind)).tolist() == expected
        assert hashed(pa.array(values, kind).slice(start)).tolist() == expected[start:]


def test_one_bit_more_or_less_turns_half_of_the_hash() -> None:
    dice = np.random.default_rng(1)
    for size in (1, 7, 8, 9, 20):
        values = dice.integers(0, 256, (300, size), np.uint8)
        for bit in range(0, 8 * size, 7):
            turned = values.copy()
            turned[:, bit // 8] ^= 1 << bit % 8
            one, other = (hashed(pa.array([row.tobytes() for row in rows])) for rows in (values, turned))
            share = np.unpackbits((one ^ other).view(np.uint8)).mean()
            assert 0.45 < share < 0.55, (size, bit)


@pytest.fixture
def state(tmp_path: Path) -> tuple[MemoryStore, ValueFiles, list[str]]:
    """Return a state of before hashes had names: files of values, some changes in the store, and its inclusions."""
    with tarfile.open(STATE) as archive:
        archive.extractall(tmp_path, filter="data")
    told = json.loads((tmp_path / "state.json").read_text("utf-8"))
    (tmp_path / "state.json").unlink()
    store, batch = MemoryStore(), WriteBatch()
    for family, rows in told["store"].items():
        for key, value in rows:
            batch.put(family, base64.b64decode(key), base64.b64decode(value))
    store.write(batch)
    return store, ValueFiles(InProcess(2), Storage.at(str(tmp_path)), 1_000, 20), told["inclusions"]


def _restored(store: MemoryStore, files: ValueFiles) -> InclusionMaintainer:
    with patch.object(value_parts, "KEPT", Kept(1 << 20)):
        inclusion = InclusionMaintainer.restore(store, files)
    assert inclusion is not None
    check_invariants(inclusion)
    return inclusion


def _numbers(*numbers: int) -> pa.Array:
    return pa.array([b"ni" + number.to_bytes(8, "big") for number in numbers], pa.large_binary())


def test_values_that_another_hash_placed_are_placed_anew(state: tuple[MemoryStore, ValueFiles, list[str]]) -> None:
    store, files, told = state
    place = files.storage.open()
    old = files_in_use(store)
    assert old == set(place.names())
    _restored(store, files)  # and stops before it commits anything
    assert files_in_use(store) == old < set(place.names())
    inclusion = _restored(store, files)
    assert sorted(map(str, inclusion.constraints)) == told
    inclusion.committed()  # of a batch that did nothing to values
    assert old < set(place.names())
    inclusion.apply([ColumnChange("t", "a", _numbers(5), np.array([-2]))])  # it is there twice
    inclusion.undo()
    inclusion.apply([ColumnChange("t", "a", _numbers(5, 110), np.array([-2, -1]))])
    store.write(inclusion.save())
    inclusion.committed()
    check_invariants(inclusion)
    assert not old & set(place.names())
    assert codecs.read_json(store.get("meta", b"inclusion_parts") or b"")["hash"] == HASH
    named = files_in_use(store)
    again = _restored(store, files)
    assert files_in_use(store) == named <= set(place.names())
    assert sorted(map(str, again.constraints)) == sorted(map(str, inclusion.constraints))


def test_values_that_a_later_hash_placed_are_refused(state: tuple[MemoryStore, ValueFiles, list[str]]) -> None:
    store, files, _ = state
    change = WriteBatch()
    change.put("meta", b"inclusion_parts", codecs.json_bytes({"hash": HASH + 1, "parts": []}))
    store.write(change)
    with pytest.raises(StateRefused, match=f"placed by hash {HASH + 1}, this version of Holdfast knows hashes up to 1"):
        InclusionMaintainer.restore(store, files)
