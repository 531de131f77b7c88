"""`holdfast run` on folders of files: the outputs are those of the rows, whatever came in between."""

from __future__ import annotations

import csv
import datetime
import io
import json
import os
import random
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast.jobs.application.watching import RunObserver
from holdfast.jobs.command_line import exit_code_of
from holdfast.jobs.configuration.reading import load
from holdfast.jobs.run import run as run_job
from tests.streams import Application, Row

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

COLUMNS = {"k": "string", "a": "integer", "b": "string", "c": "decimal(6,2)"}


@dataclass
class History:
    """Random changes of one table, and the rows that they leave."""

    dice: random.Random
    key: bool
    rows: list[Row] = field(default_factory=list)
    bad: list[str] = field(default_factory=list)
    changes: int = 0

    def row(self) -> Row:
        dice = self.dice
        return {
            "k": f"k{dice.randint(0, 12)}",
            "a": dice.choice([None, 1, 2, 3]),
            "b": dice.choice([None, "x", 'yé, "z"\n', "01907"]),
            "c": dice.choice([None, "1.10", "2.00"]),
        }

    def change(self) -> Row:
        """Return a change, and follow it."""
        dice, row = self.dice, self.row()
        self.changes += 1
        words = ["insert", "delete", *(["update"] if self.key else [])]
        word = dice.choices(words, [4, 2, 3][: len(words)])[0]
        if self.key:
            self.rows = [old for old in self.rows if old["k"] != row["k"]]
            if word != "delete":
                self.rows.append(row)
        elif word == "delete" and self.rows:
            row = self.rows.pop(dice.randrange(len(self.rows)))
        else:
            word = "insert"
            self.rows.append(row)
        return {"_op": word, **row}


def typed(rows: list[Row]) -> list[Row]:
    from decimal import Decimal

    return [{**row, "c": None if row["c"] is None else Decimal(row["c"])} for row in rows]


def json_file(history: History, name: str, count: int) -> bytes:
    lines: list[str] = []
    for _ in range(count):
        if history.dice.random() < 0.1:
            history.bad.append(f"{name}-{len(lines) + 1}")
            lines.append(
                history.dice.choice(['{"k": ', '{"k": "k1", "_op": "remove"}', '{"a": 1}', '{"k": "k1", "a": "x"}'])
            )
        else:
            lines.append(json.dumps(history.change()))
    return "\n".join(lines).encode()


def csv_file(history: History, name: str, count: int) -> bytes:
    out = io.StringIO()
    writer = csv.DictWriter(out, ["_op", *COLUMNS])
    writer.writeheader()
    for _ in range(count):
        if history.dice.random() < 0.1:
            history.bad.append(f"{name}-{out.getvalue().count(chr(10)) + 1}")
            writer.writerow({"_op": "insert", "k": "k1", "a": "1.5"})
        else:
            change = history.change()
            writer.writerow({name: "" if value is None else value for name, value in change.items()})
    return out.getvalue().encode()


def parquet_file(history: History, name: str, count: int) -> bytes:
    rows = [history.change() for _ in range(count)]
    order = list(range(len(rows)))
    history.dice.shuffle(order)
    arrays = {n: [rows[i][n] for i in order] for n in ("_op", "k", "b", "c")}
    columns = {
        **{n: pa.array(values, pa.string()) for n, values in arrays.items()},
        "a": pa.array([rows[i]["a"] for i in order], pa.int32()),
        "_seq": pa.array([history.changes - count + i for i in order], pa.int64()),
    }
    out = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), out)
    return bytes(out.getvalue())


WRITERS = {"json": json_file, "csv": csv_file, "parquet": parquet_file}


def three_tables(**source: Any) -> list[dict[str, Any]]:
    return [
        {
            "name": f"{encoding} table",
            "columns": COLUMNS,
            **({"key": ["k"]} if encoding != "csv" else {}),
            "source": {"format": "files", "path": f"./[{encoding}] ?", "encoding": encoding, **source},
        }
        for encoding in WRITERS
    ]


RULES = [
    {"name": "one_a", "table": "csv table", "fd": "k -> a", "max_violating_rows": "40%"},
    {"name": "small", "table": "json table", "require": "t.a <= 2", "severity": "warning"},
    {"name": "grows", "table": "json table", "forbid": "t.a < s.a and t.c > s.c", "recount": "1 second"},
    {"name": "ordered", "table": "parquet table", "od": "{}: b ~ k"},
    {"name": "mixed", "table": "csv table", "forbid": "t.b = s.b and t.a = 1 and s.a >= 2"},
    {"name": "known", "inclusion": "`csv table`.k in `json table`.k"},
]


@pytest.mark.parametrize("seed", [1])
def test_histories_of_three_folders(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: int
) -> None:
    print(f"seed {seed}")
    dice = random.Random(seed)
    families = {"denial": {"max_predicates": 3}, "order": {"max_context": 0}, "inclusion": {}}
    # folders and files with names that are patterns
    app = Application(tmp_path, three_tables(options={"maxFilesPerTrigger": "2"}), constraints=families, rules=RULES)
    histories = {encoding: History(dice, key=encoding != "csv") for encoding in WRITERS}

    def come(files: int) -> None:
        for _ in range(files):
            for encoding, history in histories.items():
                name = f"{app.written:04} é%*.{encoding}"
                app.put(name, WRITERS[encoding](history, name, dice.randint(0, 12)), f"[{encoding}] ?")

    def check() -> None:
        app.check(
            {f"{encoding} table": typed(history.rows) for encoding, history in histories.items()},
            {f"{encoding} table": history.bad for encoding, history in histories.items()},
        )

    come(5)
    app.drain()
    check()
    app.drain()  # nothing came
    come(4)
    app.drain()
    check()
    status = app.status()
    assert status["csv table"]["rows"] == len(histories["csv"].rows)
    assert len(app.output("batches")) >= 15
    constraints = app.output("constraints")
    assert {row["family"] for row in constraints} == {"dc", "od", "ind"}
    for name, about in status.items():  # also where another table's batch changed what is included
        assert about["constraints"] == sum(row["table_name"] == name for row in constraints), name
    assert {row["referenced_table"] is not None for row in constraints if row["family"] == "ind"} == {True}
    assert all(row["sentence"].endswith(".") and 0 < row["score"] <= 1 for row in constraints)
    assert {json.loads(row["bounds"])["max_context"] for row in app.output("tables")} == {0}
    assert {rule["rule"] for about in status.values() for rule in about["rules"]} == {rule["name"] for rule in RULES}
    capsys.readouterr()
    assert exit_code_of(["status", str(app.file), "--sentences"]) in {0, 1}
    said = capsys.readouterr().out.splitlines()
    assert "mixed    No row whose `a` is 1 has the same b as another whose `a` is at least 2." in said
    assert "ordered  k never falls as b rises." in said
    fewer = [{**rule, "fd": "b -> a"} if rule["name"] == "one_a" else rule for rule in RULES if rule["name"] != "known"]
    app.configure(rules=[*fewer, {"name": "more", "table": "csv table", "forbid": "t.k = s.k and t.c > s.c"}])
    come(2)
    app.drain()
    check()
    app.configure(constraints={"denial": {"max_predicates": 3}})
    assert "'max_context' is not set, and was 0" in app.drain()
    check()


def test_a_file_from_the_future_hides_no_other(spark: SparkSession, tmp_path: Path) -> None:
    """Spark counts the age of a file from the newest time that it has seen, which is here in the year 2200."""
    table = {
        "name": "t",
        "key": ["k"],
        "columns": {"k": "integer", "a": "integer"},
        "source": {"format": "files", "path": "./changes", "encoding": "json"},
    }
    app = Application(tmp_path, [table], trigger={"interval": "10 ms"})
    rows: list[Row] = []

    def put(year: int) -> None:
        row: Row = {"k": len(rows), "a": year}
        rows.append(row)
        made = tmp_path / "being-written"
        made.write_text(json.dumps({"_op": "insert", **row}), encoding="utf-8")
        seconds = datetime.datetime(year, 6, 1, tzinfo=datetime.UTC).timestamp()
        os.utime(made, (seconds, seconds))
        made.rename(tmp_path / "changes" / f"{row['k']}.json")

    (tmp_path / "changes").mkdir()
    put(2200)
    stop, later = threading.Event(), [2024, 1971, 2199, 1969]

    def done(_: object) -> None:
        """Bring the next file once the one before it is read: in one life of the query."""
        if later:
            put(later.pop(0))
        else:
            stop.set()

    patience = threading.Timer(120, stop.set)
    patience.start()
    run_job(load(app.file), available_now=False, observer=RunObserver(done=done, stop=stop))
    patience.cancel()
    assert (len(rows), later) == (5, [])
    app.check({"t": rows})
    for year in (2023, 1970, 2300):  # after a restart
        put(year)
        app.drain()
    app.check({"t": rows})
