"""One suite for every store: whatever the implementation, the contract of `state/store.py`."""

from collections.abc import Callable, Iterator

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from holdfast.state.memory import MemoryStore
from holdfast.state.store import Store, WriteBatch

STORES: dict[str, Callable[[], Store]] = {"memory": MemoryStore}
KEYS = st.binary(max_size=3)
FAMILIES = st.sampled_from(["a", "b"])


@pytest.fixture(params=sorted(STORES))
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    opened = STORES[request.param]()
    yield opened
    opened.close()


def test_a_batch_is_written_whole_and_the_last_word_on_a_key_counts(store: Store) -> None:
    batch = WriteBatch()
    batch.put("a", b"k", b"1")
    batch.put("a", b"k", b"2")
    batch.put("b", b"k", b"3")
    batch.put("a", b"gone", b"")
    batch.delete("a", b"gone")
    batch.delete("a", b"never")
    store.write(batch)
    assert [store.get("a", b"k"), store.get("b", b"k"), store.get("a", b"gone")] == [b"2", b"3", None]


def test_a_scan_ascends_and_keeps_to_its_prefix_and_family(store: Store) -> None:
    batch = WriteBatch()
    for key in (b"\xff", b"\xff\xff", b"", b"\x00", b"ab", b"a", b"b"):
        batch.put("a", key, key + b"!")
    batch.put("b", b"aa", b"")
    store.write(batch)
    assert [k for k, _ in store.scan("a")] == [b"", b"\x00", b"a", b"ab", b"b", b"\xff", b"\xff\xff"]
    assert list(store.scan("a", b"a")) == [(b"a", b"a!"), (b"ab", b"ab!")]
    assert [k for k, _ in store.scan("a", b"\xff")] == [b"\xff", b"\xff\xff"]
    assert list(store.scan("empty")) == []


def test_a_scan_is_not_disturbed_by_a_batch(store: Store) -> None:
    batch = WriteBatch()
    for i in range(10):
        batch.put("a", bytes([i]), b"")
    store.write(batch)
    seen = []
    for key, _ in store.scan("a"):
        seen.append(key)
        change = WriteBatch()
        change.delete("a", key)
        store.write(change)
    assert len(seen) == 10


def test_a_closed_store_is_refused() -> None:
    for make in STORES.values():
        closed = make()
        closed.close()
        with pytest.raises(ValueError, match="closed"):
            closed.get("a", b"")


class StoreMachine(RuleBasedStateMachine):
    """Any batches, against dictionaries."""

    make: Callable[[], Store]

    def __init__(self) -> None:
        super().__init__()
        self.store = type(self).make()
        self.model: dict[str, dict[bytes, bytes]] = {"a": {}, "b": {}}

    @rule(changes=st.lists(st.tuples(FAMILIES, KEYS, st.none() | st.binary(max_size=2)), max_size=6))
    def write(self, changes: list[tuple[str, bytes, bytes | None]]) -> None:
        batch = WriteBatch()
        for family, key, value in changes:
            if value is None:
                batch.delete(family, key)
                self.model[family].pop(key, None)
            else:
                batch.put(family, key, value)
                self.model[family][key] = value
        self.store.write(batch)

    @rule(family=FAMILIES, prefix=KEYS)
    def scan(self, family: str, prefix: bytes) -> None:
        expected = sorted((k, v) for k, v in self.model[family].items() if k.startswith(prefix))
        assert list(self.store.scan(family, prefix)) == expected

    @invariant()
    def holds_the_model(self) -> None:
        for family, values in self.model.items():
            assert dict(self.store.scan(family)) == values
            assert all(self.store.get(family, key) == value for key, value in values.items())

    def teardown(self) -> None:
        self.store.close()


class MemoryMachine(StoreMachine):
    make = MemoryStore


TestMemoryStore = MemoryMachine.TestCase
TestMemoryStore.settings = settings(max_examples=40, stateful_step_count=20)
