"""Output tables that are not ours, in the way, or written by several: refused by name, or repaired."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast.constraints import ExternalError, StateRefused
from holdfast.streaming.sinks.shapes import BATCHES, CONSTRAINT_CHANGES, CONSTRAINTS, QUARANTINE, Shape
from tests.spark.test_sinks import _read, _row, opened

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from holdfast.streaming.sinks.contract import OutputTable

    Open = Callable[..., OutputTable]

__all__ = ["opened"]  # fixtures


def test_what_is_not_ours_is_refused_by_name(opened: Open, spark: SparkSession, tmp_path: Path) -> None:
    import pyarrow as pa
    from deltalake import write_deltalake

    opened(tmp_path / "one", CONSTRAINTS, "one")
    with pytest.raises(StateRefused, match="belongs to the application 'one', not to 'two'"):
        opened(tmp_path / "one", CONSTRAINTS, "two")
    write_deltalake(tmp_path / "foreign", pa.table({"a": [1]}))
    with pytest.raises(StateRefused, match="a Delta table that Holdfast did not make"):
        opened(tmp_path / "foreign", CONSTRAINTS)
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "notes.txt").write_text("mine")
    with pytest.raises(StateRefused, match="has files and is no Delta table"):
        opened(tmp_path / "files", CONSTRAINTS)
    assert [path.name for path in (tmp_path / "files").iterdir()] == ["notes.txt"]
    later = Shape("batches", "Batches.", [*BATCHES.columns, ("mood", pa.string(), "new")])
    opened(tmp_path / "later", later)
    with pytest.raises(StateRefused, match="column 'mood' is not of this version"):
        opened(tmp_path / "later", BATCHES)
    other = Shape("batches", "Batches.", [(n, pa.string() if n == "rows_in" else k, t) for n, k, t in BATCHES.columns])
    opened(tmp_path / "other", other)
    with pytest.raises(StateRefused, match="column 'rows_in' is string, not long"):
        opened(tmp_path / "other", BATCHES)
    unsplit = Shape("quarantine", "Q.", QUARANTINE.columns)
    opened(tmp_path / "unsplit", unsplit)
    with pytest.raises(StateRefused, match=r"partitioned by \[\], not by \['date'\]"):
        opened(tmp_path / "unsplit", QUARANTINE)


def test_a_crash_while_a_table_is_made_is_repaired(opened: Open, tmp_path: Path) -> None:
    for number, left in enumerate([[], ["_delta_log"], ["_delta_log", "_delta_log/.tmp"]]):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name in left:
            (folder / name).mkdir() if name == "_delta_log" else (folder / name).write_text("{")
        table = opened(folder, CONSTRAINT_CHANGES)
        table.publish([_row(1)], 1)
        assert _read(folder, "commit") == [1]


def test_a_folder_that_cannot_be_written_is_said(opened: Open, tmp_path: Path) -> None:
    with pytest.raises(ExternalError, match="check the storage behind `output`"):
        opened(Path("/proc/holdfast/t"), CONSTRAINTS)  # not even root may


def test_a_file_in_the_way_is_said(opened: Open, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises((ExternalError, StateRefused), match="file"):
        opened(tmp_path / "file" / "t", CONSTRAINTS)


def test_a_table_that_vanishes_is_said(opened: Open, tmp_path: Path) -> None:
    table = opened(tmp_path / "t", CONSTRAINTS)
    table.publish([_row(1, constraint_id="a")], 1)
    (tmp_path / "t").rename(tmp_path / "moved")
    (tmp_path / "t").write_text("in the way")
    with pytest.raises(ExternalError, match=r"could not be written .* Nothing is lost"):
        table.publish([_row(2, constraint_id="b")], 2)
    with pytest.raises(ExternalError, match="could not be tidied up"):
        table.compact()


def test_two_publishers_of_one_state_do_not_double(opened: Open, tmp_path: Path) -> None:
    for shape, key in ((CONSTRAINT_CHANGES, {}), (CONSTRAINTS, {"constraint_id": "a"})):
        folder = tmp_path / shape.name
        one, two = opened(folder, shape), opened(folder, shape)
        one.publish([_row(1, **key)], 1)
        try:
            two.publish([_row(1, **key)], 1)  # Spark looks again and leaves it out
        except StateRefused as refused:
            assert "another process publishes commits of this state" in str(refused)
        assert _read(folder, "commit") == [1]


def test_the_state_that_was_started_last_writes(opened: Open, tmp_path: Path) -> None:
    for shape, key in ((CONSTRAINT_CHANGES, {}), (CONSTRAINTS, {"constraint_id": "a"})):
        folder = tmp_path / shape.name
        one = opened(folder, shape)
        one.publish([_row(1, **key)], 1)
        two = opened(folder, shape, state="other")
        with pytest.raises(StateRefused, match=r"is written to by another state of this application \(other\)"):
            one.publish([_row(2, **key)], 2)
        two.publish([_row(3, **key)], 3)
        again = opened(folder, shape)
        again.publish([_row(4, **key)], 4)
        with pytest.raises(StateRefused, match=r"is written to by another state of this application \(s\)"):
            two.publish([_row(5, **key)], 5)
