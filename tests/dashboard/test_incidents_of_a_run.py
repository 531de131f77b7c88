"""The log of a run, alerts and `holdfast incidents` say the same about a commit: the same numbers, in the same words."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from holdfast.constraints.mutes import Mute, Mutes
from holdfast.dashboard.actions import Actions
from holdfast.dashboard.answers import Answers
from holdfast.dashboard.reading.outputs import Outputs
from holdfast.jobs import run
from holdfast.jobs.terminal.progress import JsonProgress
from holdfast.state.commits import Commits
from holdfast.state.log import CommitLog
from holdfast.state.rocks import RocksStore
from holdfast.streaming.alerts.deciding import Alert
from holdfast.streaming.alerts.waiting import Waiting
from holdfast.streaming.commits.output_rows import Position
from holdfast.streaming.incoming.arrivals import Arrivals
from holdfast.streaming.maintainers.maintainer import DELETE, INSERT, Maintainer, Records
from holdfast.streaming.pipeline import Limits, Pipeline
from holdfast.streaming.seeding import SeededTable, restore, seed
from holdfast.streaming.sinks.choosing import open_tables
from holdfast.streaming.sinks.publisher import Publisher
from holdfast.streaming.spark.running import Done
from holdfast.tables import Table, from_arrow

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Rows = list[tuple[int, int, str, int, int]]
Told = dict[tuple[int, str], tuple[Any, ...]]

NUMBERS = ("lost", "nearly", "recovered", "sound", "text")
EVERY = frozenset({"appeared", "disappeared", "nearly", "restored", "left"})
FIRST: Rows = [(k, k % 6, "abcdef"[k % 6], k, 2 * k) for k in range(60)]
WRONG: Rows = [(100 + k, k % 6, "x", 100 + k, 9) for k in range(40)]
BATCHES = [  # one wrong row, many more, so many that constraints leave, and back
    *([(INSERT, row) for row in WRONG[first:end]] for first, end in ((0, 1), (1, 16), (16, 40))),
    *([(DELETE, row) for row in WRONG[first:end]] for first, end in ((16, 40), (1, 16), (0, 1))),
]


def table_of(rows: Rows) -> Table:
    kinds = (pa.int64(), pa.int64(), pa.string(), pa.int64(), pa.int64())
    columns = zip(*rows, strict=True)
    arrays = {name: pa.array(one, kind) for name, one, kind in zip(NAMES, columns, kinds, strict=True)}
    return from_arrow(pa.table(arrays), "tax")


NAMES = ("Id", "Zip", "City", "Pay", "Rate")


def results(folder: Path, settle: int, waiting: list[dict[str, Any]], mutes: Mutes) -> Iterator[Done]:
    """Run the batches and yield what a run reports; `waiting` gets the bodies of the alerts."""
    store = RocksStore(folder / "state")
    commits = Commits(store, "shop")
    seeded = Maintainer.seed(table_of(FIRST), key=["Id"], max_predicates=3, max_context=2, near="25%", threads=1)
    seed(commits, [SeededTable(seeded)])
    tables = open_tables(str(folder / "output"), "shop", commits.identity.state_id)
    publisher = Publisher(commits, CommitLog(folder / "backup", commits.identity.epoch), tables)
    publisher.start()
    alerts = Waiting(store, [Alert(EVERY, mutes=mutes)])
    pipeline = Pipeline(restore(store, threads=1), publisher, Limits(settle={"tax": settle}), alerts=alerts)
    for number, changes in enumerate(BATCHES):
        arrived = Arrivals(Records(table_of([row for _, row in changes]), np.array([op for op, _ in changes], np.int8)))
        position = Position("q", number, str(number), str(number + 1))
        result = pipeline.batch("tax", position, arrived, names=[f"/in/{number}.json"])
        assert result is not None
        yield Done("tax", position, result, arrived, {})
    while heads := list(alerts.heads().values()):
        message = alerts.read(heads[0])
        assert message is not None
        waiting.append(dict(message.body))
        alerts.done(heads[0])
    publisher.close()
    store.close()


@pytest.mark.parametrize(
    ("settle", "mutes"), [(0, Mutes()), (1, Mutes((Mute("tax", "Zip -> City"),)))], ids=["whole", "settled and muted"]
)
def test_the_log_alerts_and_incidents_agree(
    settle: int, mutes: Mutes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "_SHOWN_CHANGES", 0)
    out, bodies = io.StringIO(), list[dict[str, Any]]()
    for done in results(tmp_path, settle, bodies, mutes):
        run._report(JsonProgress(out), mutes, done)
    lines = [line for line in map(json.loads, out.getvalue().splitlines()) if line["event"] == "incident"]
    logged = {(line["commit"], line["direction"]): tuple(line[name] for name in NUMBERS) for line in lines}
    answers = Answers(Outputs(str(tmp_path / "output"), "shop"), actions=Actions(mutes=lambda: (mutes, None)))
    rows = answers.ask("incidents", {"limit": "100"})["rows"]
    printed = {(row["commit"], row["direction"]): tuple(row[name] for name in NUMBERS) for row in rows}
    assert logged == printed
    told = {(body["commit"], text) for body in bodies for text in body["incidents"]}
    assert told == {(commit, text) for (commit, _), (*_, text) in printed.items()}
    assert {direction for _, direction in printed} == {"lost", "recovered"}
    assert any(lost for lost, *_ in printed.values())
    assert settle or any("many more exceptions" in text for *_, text in printed.values())
    for (commit, direction), (lost, nearly, recovered, *_) in printed.items():
        one = answers.ask(
            "incident", {"commit": str(commit), "table_name": "tax", "direction": direction, "limit": "500"}
        )
        assert len({row["short"] for row in one["rows"]}) == len(one["rows"]) == lost + nearly + recovered
