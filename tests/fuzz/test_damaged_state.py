"""A state of which a file was damaged is refused, or is what it was, or is one that it was before: never anything else.

RocksDB knows its blocks by checksums. What it cannot know is that the list of its files ends too early: then each family
is as it was before some flush, and the ledger, the log in the backup and the checkpoints do not follow it any more.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.constraints import HoldfastError, StateRefused
from holdfast.state.rocks import RocksReader, RocksStore
from holdfast.state.store import WriteBatch

if TYPE_CHECKING:
    from holdfast.state.store import Reader

Content = dict[tuple[str, bytes], bytes]
FAMILIES = ("rows", "meta", "ledger")
ROWS = 2_000


def content(store: Reader) -> Content:
    found = {(family, key): value for family in FAMILIES for key, value in store.scan(family)}
    keys = [number.to_bytes(8, "big") for number in range(ROWS)]
    assert store.get_many("rows", keys) == [found.get(("rows", key)) for key in keys]
    return found


def made(path: Path) -> list[Content]:
    """Make a state in some steps, closed in between; return what it held after each of them."""
    held: list[Content] = []
    for step in range(3):
        store = RocksStore(path)
        if not step:
            store.load("rows", ((number.to_bytes(8, "big"), bytes([number % 251]) * 40) for number in range(ROWS)))
        batch = WriteBatch()
        batch.put("meta", b"commit", bytes([step]) * 20)
        batch.put("ledger", bytes([step]), b"x" * 50)
        batch.put("rows", (7 * step).to_bytes(8, "big"), b"new" * 9)
        store.write(batch)
        # Read without the blocks: they would be found in the cache, whatever is on the disk.
        held.append({**(held[-1] if held else {}), **{k: v for k, v in batch.changes.items() if v is not None}})
        store.close()
    rows = {("rows", number.to_bytes(8, "big")): bytes([number % 251]) * 40 for number in range(ROWS)}
    return [rows | one for one in held]


@given(
    which=st.integers(0, 99),
    at=st.floats(0, 1, exclude_max=True),
    how=st.sampled_from(["flip", "cut", "zeros", "gone"]),
)
def test_damaged_files(which: int, at: float, how: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "state")
        held = made(path)
        files = sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith(("LOG", "LOCK")))
        file = files[which % len(files)]
        data = bytearray(file.read_bytes())
        place = int(at * len(data))
        if how == "flip" and data:
            data[place] ^= 0x55
        elif how == "zeros":
            data[place : place + 100] = bytes(len(data[place : place + 100]))
        else:
            del data[place:]
        file.write_bytes(data)
        if how == "gone":
            file.unlink()
        for kind in (RocksReader, RocksStore):
            try:
                store = kind(path)
            except HoldfastError as error:
                assert "in use" not in str(error)
                continue
            try:
                found = content(store)
            except StateRefused as error:
                assert "is damaged" in str(error)
            else:
                # Who reads beside a writer passes over files that are gone: the writer may just have removed them.
                early = file.name.startswith("MANIFEST") and how != "flip"
                assert kind is RocksReader or found in held or (early and _is_of_some_moment_each(found, held)), how
            finally:
                store.close()


def _is_of_some_moment_each(found: Content, held: list[Content]) -> bool:
    """Whether each family is as it was at some moment, not all at the same."""

    def part(whole: Content, family: str) -> Content:
        return {key: value for key, value in whole.items() if key[0] == family}

    return all(part(found, family) in [part(one, family) for one in held] for family in FAMILIES)


@pytest.mark.parametrize("kind", [RocksReader, RocksStore])
def test_a_damaged_block_is_told_and_is_no_lock(tmp_path: Path, kind: type[RocksReader] | type[RocksStore]) -> None:
    made(tmp_path / "state")
    largest = max((tmp_path / "state").glob("*.sst"), key=lambda file: file.stat().st_size)
    data = bytearray(largest.read_bytes())
    data[len(data) // 3] ^= 0x55
    largest.write_bytes(data)
    store = kind(tmp_path / "state")
    try:
        with pytest.raises(StateRefused, match=r"is damaged .*holdfast rebuild"):
            content(store)
        if isinstance(store, RocksStore):
            with pytest.raises(StateRefused, match="is damaged"):
                store.verify()
    finally:
        store.close()
