"""The lines of a run about a batch with many changes: what the changes have in common, then the first of them."""

from __future__ import annotations

import datetime
import io
import json

import numpy as np
import pyarrow as pa

from holdfast.constraints import ConstraintChange, Reason, Violation, parse_constraint
from holdfast.constraints.changes import RowImage
from holdfast.constraints.mutes import Mute, Mutes
from holdfast.constraints.scores import Score
from holdfast.jobs.run import _report
from holdfast.jobs.terminal.progress import JsonProgress, PlainProgress
from holdfast.state.commits import READY, Identity
from holdfast.streaming.commits.output_rows import OutputRows, Position, described
from holdfast.streaming.incoming.arrivals import Arrivals
from holdfast.streaming.maintainers.maintainer import Records
from holdfast.streaming.maintainers.table.batch_result import BatchResult
from holdfast.streaming.spark.running import Done
from holdfast.tables import from_arrow

WRONG = RowImage({"Id": 7}, {"Id": 7, "Zip": "02139"})
NOW = datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.UTC)


def done(count: int, sound: tuple[int, ...] = ()) -> Done:
    changes = []
    for number in range(count):
        other = RowImage({"Id": number % 2}, {"Id": number % 2, "Zip": "02139"})
        text = "not(t.Zip = s.Zip)" if number == 3 else f"not(t.Zip = s.Zip and t.c{number} != s.c{number})"
        witness = Violation((WRONG, other))
        changes.append(ConstraintChange(parse_constraint(text), "tax", Reason.VIOLATED, witness=witness))
    published = OutputRows(Identity("s1", 0, "app", READY), 118, NOW)
    for number, one in enumerate(described("tax", 0, changes, {"tax": 0})):
        published.change(one.row, one.about, Score(0.5, 0.9 if number in sound else 0.1) if sound else None)
    table = from_arrow(pa.table({"Id": pa.array([], pa.int64())}), "tax")
    result = BatchResult(changes, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.0, published=published)
    return Done("tax", Position("q", 0, "", ""), result, Arrivals(Records(table, np.array([], np.int8))), {})


def test_many_changes_are_told_in_a_sentence() -> None:
    out = io.StringIO()
    _report(PlainProgress(out), Mutes(), done(7))
    lines = [line.strip() for line in out.getvalue().splitlines()]
    assert lines[1] == "7 constraints of tax ended with commit 118, all by row Id 7; first key(Zip)"
    assert len(lines) == 8
    assert lines[-1] == "and 2 more: see constraint_changes"
    out = io.StringIO()
    _report(JsonProgress(out), Mutes(), done(7))
    (found,) = [line for line in map(json.loads, out.getvalue().splitlines()) if line["event"] == "incident"]
    assert {
        "commit": 118,
        "table": "tax",
        "direction": "lost",
        "lost": 7,
        "nearly": 0,
        "recovered": 0,
    }.items() <= found.items()


def test_muted_constraints_are_in_no_incident() -> None:
    out = io.StringIO()
    _report(PlainProgress(out), Mutes((Mute("tax", "key(Zip)"), Mute("tax", "Zip -> c0"))), done(7))
    assert out.getvalue().splitlines()[1].strip().startswith("5 constraints of tax ended with commit 118, all by row")


def test_sound_constraints_are_told_first() -> None:
    out = io.StringIO()
    _report(PlainProgress(out), Mutes(), done(9, (6, 7)))
    lines = [line.strip() for line in out.getvalue().splitlines()]
    assert lines[1] == "9 constraints of tax ended with commit 118, all by row Id 7; 2 are sound, first Zip -> c6"
    assert [line[:33] for line in lines[2:5]] == [
        "- not(t.Zip = s.Zip and t.c6 != s",
        "- not(t.Zip = s.Zip and t.c7 != s",
        "- not(t.Zip = s.Zip and t.c0 != s",
    ]
    out = io.StringIO()
    _report(JsonProgress(out), Mutes(), done(9, (6, 7)))
    (found,) = [line for line in map(json.loads, out.getvalue().splitlines()) if line["event"] == "incident"]
    assert found["sound"] == 2


def test_few_changes_are_told_one_by_one() -> None:
    out = io.StringIO()
    _report(PlainProgress(out), Mutes(), done(5))
    assert len(out.getvalue().splitlines()) == 6
    assert "ended" not in out.getvalue()
