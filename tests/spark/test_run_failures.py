"""What goes wrong in `holdfast run`: each failure is named, leaves nothing half done, and the next run goes on."""

from __future__ import annotations

import json
import shutil
import threading
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from holdfast.constraints import ExternalError, HoldfastError, StateRefused
from holdfast.jobs.application.watching import RunObserver
from holdfast.jobs.command_line import exit_code_of
from holdfast.jobs.configuration.reading import load
from holdfast.jobs.run import run as run_job
from holdfast.state.rocks import RocksStore
from holdfast.streaming.maintainers.maintainer import Maintainer
from tests.streams import Application, Row, refused

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

PEOPLE: dict[str, Any] = {
    "name": "people",
    "key": ["name"],
    "seed": {"path": "./people.csv"},
    "source": {"format": "files", "path": "./changes", "encoding": "json"},
}
SEED = [
    {"name": name, "zip": zip_, "city": city}
    for name, zip_, city in [("A", "x1", "u"), ("B", "x1", "u"), ("C", "x2", "v")]
]


def people(folder: Path, **sections: Any) -> Application:
    """Return an application with a seeded table, its state not made yet."""
    lines = ["name,zip,city", *(",".join(row.values()) for row in SEED)]
    (folder / "people.csv").write_text("\n".join(lines) + "\n")
    (folder / "changes").mkdir()
    return Application(folder, [PEOPLE], **sections)


def put(app: Application, *records: Row | str) -> str:
    name = f"{app.written:04}.json"
    lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
    app.put(name, "\n".join(lines).encode())
    return name


def test_a_state_and_a_configuration_that_contradict_each_other(spark: SparkSession, tmp_path: Path) -> None:
    app = people(tmp_path)
    shutil.rmtree(tmp_path / "changes")
    refused(app, 2, "the folder of changes", "does not exist: make it")
    (tmp_path / "changes").mkdir()
    put(app, {"name": "D", "zip": "x1", "city": "w"}, "rubbish")
    app.drain()
    rows = [*SEED, {"name": "D", "zip": "x1", "city": "w"}]
    app.check({"people": rows}, {"people": ["0000.json-2"]})

    refused(app, 4, "holds a state already", "holdfast seed --replace", command=("seed",))
    (tmp_path / "other").mkdir()
    app.configure(tables=[{**PEOPLE, "source": {**PEOPLE["source"], "path": "./other"}}])
    refused(app, 4, "contradicts the state", "table people: 'source' is", "holdfast seed --replace")
    app.configure(tables=[PEOPLE], name="other")
    refused(app, 4, "the state is of the application 'app', not of 'other'")
    app.configure(name="app")

    held = RocksStore(tmp_path / "state")  # as another process would
    for command in (("run", "--available-now"), ("seed",), ("seed", "--replace"), ("skip-batch", "people")):
        refused(app, 4, "state", command=command)
    held.close()

    (tmp_path / "checkpoint").rename(tmp_path / "elsewhere")
    put(app, {"name": "D", "_op": "delete"})
    refused(app, 4, "One of them was restored or lost without the other", "holdfast rebuild")
    shutil.rmtree(tmp_path / "checkpoint")
    (tmp_path / "elsewhere").rename(tmp_path / "checkpoint")
    app.drain()
    app.check({"people": SEED}, {"people": ["0000.json-2"]})

    (tmp_path / "state").rename(tmp_path / "elsewhere")
    refused(app, 4, "is missing, while", "is the backup of one of 'app'", "holdfast rebuild")
    (tmp_path / "backup").rename(tmp_path / "away")
    refused(app, 4, "is missing, while the checkpoint", "says that table people was followed before")
    assert not (tmp_path / "state").exists()
    (tmp_path / "elsewhere").rename(tmp_path / "state")
    (tmp_path / "away").rename(tmp_path / "backup")


def test_outputs_go_on_when_a_state_is_replaced(spark: SparkSession, tmp_path: Path) -> None:
    app = people(tmp_path)
    put(app, {"name": "D", "zip": "x1", "city": "w"}, {"name": "A", "_op": "delete"})
    app.drain()
    rows = [*SEED[1:], {"name": "D", "zip": "x1", "city": "w"}]
    app.check({"people": rows}, {})
    before = app.output("constraint_changes")
    code, said = app("seed", "--replace")
    assert code == 0, said
    after = app.output("constraint_changes")
    assert all(row in after for row in before)  # numbered anew: a state has its own order of commits
    app.drain()  # all files again
    app.check({"people": rows}, {})
    put(app, {"name": "E", "zip": "x2", "city": "u"})
    app.drain()
    app.check({"people": [*rows, {"name": "E", "zip": "x2", "city": "u"}]}, {})


def test_a_batch_that_keeps_failing_is_skipped(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = people(tmp_path)
    put(app, {"name": "D", "zip": "x1", "city": "w"})
    app.drain()
    refused(app, 2, "no batch of table people has failed", command=("skip-batch", "people"))
    refused(app, 2, "no table with a source called", "people", command=("skip-batch", "peple"))
    bad = put(app, {"name": "E", "zip": "x2", "city": "u"}, {"name": "F", "zip": "x3", "city": "u"})
    with monkeypatch.context() as patch:

        def failing(*_: object) -> None:
            raise ZeroDivisionError("nobody expected this")

        patch.setattr(Maintainer, "apply_records", failing)
        for _ in range(3):
            refused(app, 70, "table people, batch 1, from", "ZeroDivisionError: nobody expected this")
    assert app.status()["people"]["failed"]["times"] == 3
    said = refused(
        app, 4, "failed 3 times", "ZeroDivisionError: nobody expected this", f"holdfast skip-batch {app.file} people"
    )
    assert "--retry" in said
    assert app.status()["people"]["rows"] == 4
    code, said = app("skip-batch", "people")
    assert code == 0
    assert "will go into quarantine" in said
    put(app, {"name": "G", "zip": "x1", "city": "u"})
    app.drain()
    assert app.status()["people"]["failed"] is None
    rows = [*SEED, {"name": "D", "zip": "x1", "city": "w"}, {"name": "G", "zip": "x1", "city": "u"}]
    app.check({"people": rows}, {"people": [f"{bad}-1", f"{bad}-2"]})
    assert {row["reason"] for row in app.output("quarantine")} == {"skipped: the batch kept failing"}


def test_outputs_that_cannot_be_written(spark: SparkSession, tmp_path: Path) -> None:
    app = people(tmp_path)
    put(app, {"name": "D", "zip": "x1", "city": "w"})
    (tmp_path / "output").write_text("a file, where a folder is expected")
    refused(app, 5, "output")
    (tmp_path / "output").unlink()
    app.drain()
    rows = [*SEED, {"name": "D", "zip": "x1", "city": "w"}]
    app.check({"people": rows}, {})

    log = tmp_path / "output" / "batches" / "_delta_log"
    log.rename(tmp_path / "log")
    log.write_text("a file, where a folder is expected")
    put(app, {"name": "E", "zip": "x2", "city": "u"})
    refused(app, 5, "batches")
    log.unlink()
    (tmp_path / "log").rename(log)
    app.drain()
    app.check({"people": [*rows, {"name": "E", "zip": "x2", "city": "u"}]}, {})


def test_a_backup_that_cannot_be_written(spark: SparkSession, tmp_path: Path) -> None:
    app = people(tmp_path)
    put(app, {"name": "D", "zip": "x1", "city": "w"})
    (tmp_path / "backup").write_text("a file, where a folder is expected")
    refused(app, 5, "backup")
    (tmp_path / "backup").unlink()
    app.drain()
    app.check({"people": [*SEED, {"name": "D", "zip": "x1", "city": "w"}]}, {})


def test_files_that_are_gone_before_they_are_read(spark: SparkSession, tmp_path: Path) -> None:
    app = people(tmp_path)
    put(app, "bad")
    refused(app, 3, "the first record could not be read")
    (tmp_path / "changes" / "0000.json").unlink()  # Spark would leave it out without a word
    said = refused(app, 3, "changes/0000.json came, and is not there any more: put it back", "skip-batch")
    assert f"{app.file} people" in said
    app.put("0000.json", b'{"name": "D", "zip": "x1", "city": "w"}')
    app.drain()
    rows = [*SEED, {"name": "D", "zip": "x1", "city": "w"}]
    names = ["a b.json", "%20.json", "é#?.json", "?.json", "[a].json", "{a,b}.json", "*.json"]
    for name in names:
        app.put(name, b'bad\n{"name": "E", "zip": "x1", "city": "w"}')
    app.drain()
    rows.append({"name": "E", "zip": "x1", "city": "w"})
    app.check({"people": rows}, {"people": [f"{name}-1" for name in names]})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Maintainer, "apply_records", lambda *_: 1 / 0)
        gone, left = (put(app, {"name": name, "_op": "delete"}) for name in "AB")
        refused(app, 70, "ZeroDivisionError")
    (tmp_path / "changes" / gone).unlink()
    refused(app, 3, f"changes/{gone} came, and is not there any more")
    assert app("skip-batch", "people")[0] == 0
    app.drain()
    app.check({"people": rows}, {"people": [*(f"{name}-1" for name in names), gone, f"{left}-1"]})


def test_too_many_bad_records(spark: SparkSession, tmp_path: Path) -> None:
    app = people(tmp_path, quarantine={"max_share": "40%", "window": 10})
    first = put(app, "not json", '{"name": 1')
    said = refused(app, 3, "table people: none of the first 2 records could be read", f"{first}-1: not JSON")
    assert "nothing was applied" in said
    assert app.output("quarantine") == []
    assert app.output("batches") == []
    good = [{"name": f"n{i}", "zip": "x1", "city": "u"} for i in range(12)]
    lines = [*map(json.dumps, good), "bad", '{"name": "n", "_op": "merge"}']
    mixed = app.put(first, "\n".join(lines).encode()).name  # it is mended
    app.drain()
    put(app, *["bad"] * 20)
    refused(app, 3, "quarantine.max_share (40%)", "nothing of this batch was applied")
    app.configure(quarantine={"max_share": "100%", "window": 10})
    put(app, {"name": "n0", "_op": "delete"})
    app.drain()
    app.check(
        {"people": [*SEED, *good[1:]]},
        {"people": [f"{mixed}-13", f"{mixed}-14", *[f"0002.json-{i}" for i in range(1, 21)]]},
    )


def test_a_seed_that_is_no_table_leaves_no_state(spark: SparkSession, tmp_path: Path) -> None:
    app = people(tmp_path)
    (tmp_path / "people.csv").write_text("name,zip,city\nA,x1,u\nA,x2,v\n")
    refused(app, 3, "people.csv, line 3", "the same key (name) as")
    assert exit_code_of(["status", str(app.file)]) == 4
    (tmp_path / "people.csv").write_text("name,zip,city\nA,x1,u\nB,x2,v\n")
    app.drain()
    app.check({"people": [{"name": "A", "zip": "x1", "city": "u"}, {"name": "B", "zip": "x2", "city": "v"}]}, {})


def followed_until(app: Application, gone: Callable[[], object]) -> HoldfastError:
    """Follow the sources; take something away once a batch is committed; return what ends the run."""
    stop = threading.Event()
    patience = threading.Timer(200, stop.set)
    patience.start()
    try:
        with pytest.raises(HoldfastError) as found:
            run_job(load(app.file), available_now=False, observer=RunObserver(done=lambda _: gone(), stop=stop))
    finally:
        patience.cancel()
    return found.value


def test_a_checkpoint_that_goes_under_a_folder_that_is_followed(spark: SparkSession, tmp_path: Path) -> None:
    """What a missing file means depends on whose it is: this one is no feed's, and costs no state."""
    app = people(tmp_path, trigger={"interval": "10 ms"})
    rows = list(SEED)

    def come() -> None:
        rows.append({"name": f"N{len(rows)}", "zip": "x9", "city": "w"})
        put(app, rows[-1])

    def gone() -> None:
        shutil.rmtree(tmp_path / "checkpoint" / "people" / "offsets", ignore_errors=True)
        come()

    come()
    said = followed_until(app, gone)
    assert isinstance(said, StateRefused), said
    assert "holdfast rebuild" in str(said)
    assert "seed --replace" not in str(said)
    code, done = app("rebuild")
    assert code == 0, done
    app.drain()
    app.check({"people": rows}, {})


def test_a_feed_whose_table_goes_while_it_is_followed(spark: SparkSession, tmp_path: Path) -> None:
    """A share that is not mounted for a moment costs no state either."""
    table = {"name": "t", "key": ["k"], "source": {"format": "delta", "path": "./t"}}
    place, away = tmp_path / "t", tmp_path / "away"
    rows = [{"k": 1, "a": "x"}, {"k": 2, "a": "y"}]
    on = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(place, pa.Table.from_pylist(rows[:1]), configuration=on)
    app = Application(tmp_path, [table], trigger={"interval": "10 ms"})
    assert app("seed")[0] == 0
    write_deltalake(place, pa.Table.from_pylist(rows[1:]), mode="append")
    said = followed_until(app, lambda: place.rename(away) if place.exists() else None)
    assert isinstance(said, ExternalError), said
    assert f"{place} is not there at the moment" in str(said)
    assert "seed" not in str(said)
    shutil.rmtree(place, ignore_errors=True)
    away.rename(place)
    app.drain()
    app.check({"t": rows}, {})
