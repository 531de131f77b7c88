"""The change feed of a Delta table, cut into batches anywhere."""

from __future__ import annotations

import datetime
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from holdfast.constraints import Column, Schema, parse_type
from holdfast.streaming.decoding import feed
from holdfast.streaming.incoming.arrivals import Arrivals, Target, arrivals
from holdfast.streaming.incoming.netting import INSERT
from tests.properties.test_block_laws import tiny_blocks
from tests.properties.test_netting import KEYS, NUMBERS, SCHEMA, STRINGS, Follower, Row, cells, cut, frame, seeds

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["tiny_blocks"]  # fixtures


# Feeds of whole rows that leave and enter


@dataclass(frozen=True)
class Image:
    """A row of a change feed."""

    version: int
    kind: str
    row: Row


def fed(images: Sequence[Image], *, key: bool, after: int) -> Arrivals:
    """Return rows of a feed as they are to be applied, as the product reads them."""
    extra = {
        feed.KIND: pa.array([image.kind for image in images], pa.string()),
        feed.VERSION: pa.array([image.version for image in images], pa.int64()),
        feed.TIME: pa.array(
            [datetime.datetime(2024, 2, 29, tzinfo=datetime.UTC)] * len(images), pa.timestamp("us", "UTC")
        ),
    }
    came = frame([image.row for image in images])
    for name, values in extra.items():
        came = came.append_column(name, values)
    return arrivals(feed.draft_of(came, SCHEMA.names, "r", after), Target(SCHEMA, ("k",) if key else ()))


@st.composite
def keyed_versions(draw: st.DrawFn, seed: list[Row]) -> tuple[list[Image], list[dict[str, Row]]]:
    """Draw commits: rows that come, go, change, change nothing that is monitored, and come back."""
    rows = {row[0]: row for row in seed}
    images: list[Image] = []
    snapshots = [rows]
    for version in range(1, draw(st.integers(1, 5)) + 1):
        rows = dict(rows)
        commit = []
        for key in draw(st.lists(st.sampled_from(KEYS), unique=True)):
            old = rows.pop(key, None)
            new = draw(st.one_of(st.none(), st.just(old), cells([key], STRINGS, NUMBERS)))
            is_update = old is not None and new is not None and draw(st.booleans())
            if old is not None:
                commit.append(Image(version, "update_preimage" if is_update else "delete", old))
            if new is not None:
                commit.append(Image(version, "update_postimage" if is_update else "insert", new))
                rows[key] = new
        images += draw(st.permutations(commit))
        snapshots.append(rows)
    return images, snapshots


@given(st.data(), seeds(key=True))
def test_a_feed_of_a_keyed_table_cut_anywhere(data: st.DataObject, seed: list[Row]) -> None:
    images, snapshots = data.draw(keyed_versions(seed), label="feed")
    follower = Follower(data, seed, ["k"], remembers=True)
    done = 0
    for batch in cut(data, images):
        done += len(batch)
        follower.apply(fed(data.draw(st.permutations(batch), label="read"), key=True, after=0))
        if not done:
            continue
        version = images[done - 1].version
        if all(image.version > version for image in images[done:]):  # between two versions
            assert follower.rows() == Counter(snapshots[version].values())
    assert follower.rows() == Counter(snapshots[images[-1].version if images else 0].values())


@given(st.data(), seeds(key=False))
def test_a_feed_of_a_table_without_a_key_cut_anywhere(data: st.DataObject, seed: list[Row]) -> None:
    rows: Counter[Row] = Counter(seed)
    images: list[Image] = []
    snapshots = {0: rows.copy()}
    for version in range(1, data.draw(st.integers(1, 4)) + 1):
        gone = data.draw(st.lists(st.sampled_from(sorted(rows.elements(), key=repr)), unique=True)) if rows else []
        come = data.draw(st.lists(cells(["x"], STRINGS, NUMBERS), max_size=3))
        commit = [*(Image(version, "delete", row) for row in gone), *(Image(version, "insert", row) for row in come)]
        rows = rows - Counter(gone) + Counter(come)
        images += data.draw(st.permutations(commit))
        snapshots[version] = rows.copy()
    follower = Follower(data, seed, [])
    done = 0
    for batch in cut(data, images):
        done += len(batch)
        result = follower.apply(fed(data.draw(st.permutations(batch), label="read"), key=False, after=0))
        if done and all(image.version > images[done - 1].version for image in images[done:]):
            assert follower.rows() == snapshots[images[done - 1].version]
            assert result.owed == 0


def test_versions_of_the_seed_are_left_out() -> None:
    images = [Image(4, "insert", ("x", "p", 0)), Image(5, "delete", ("x", "p", 0)), Image(6, "insert", ("y", "q", 1))]
    came = fed(images, key=True, after=5)
    assert came.records.versions is not None
    assert came.records.versions.tolist() == [6]
    assert came.records.operations.tolist() == [INSERT]
    assert not came.bad


def test_a_kind_of_change_that_is_not_known_is_a_bad_record() -> None:
    came = fed([Image(6, "merge", ("x", "p", 0)), Image(6, "insert", ("y", "q", 1))], key=True, after=5)
    assert len(came.records) == 1
    assert [bad.reason for bad in came.bad] == ["the change feed says 'merge', which is an unknown kind of change"]


def test_a_time_that_python_has_not_is_a_bad_record() -> None:
    came = frame([("x", "p", 0), ("y", "q", 1)])
    for name, values in {
        "at": pa.array([4 * 10**17, 0], pa.timestamp("us", "UTC")),
        feed.KIND: pa.array(["insert", "insert"]),
        feed.VERSION: pa.array([6, 6]),
        feed.TIME: pa.array([0, 0], pa.timestamp("us", "UTC")),
    }.items():
        came = came.append_column(name, values)
    columns = (*SCHEMA.columns, Column("at", parse_type("timestamp")))
    target = Target(Schema("r", columns), ("k",))
    found = arrivals(feed.draft_of(came, target.schema.names, "r"), target)
    assert len(found.records) == 1
    assert len(found.bad) == 1
    assert found.bad[0].reason.startswith(
        "column at: '400000000000000000 (timestamp[us, tz=UTC])' is not a time such as"
    )
    assert found.bad[0].raw == "{'k': 'x', 'a': 'p', 'b': 0, 'at': '400000000000000000 (timestamp[us, tz=UTC])'}"
