"""`holdfast run` on the change feeds of Delta tables: no commit is missed, none is taken twice."""

from __future__ import annotations

import datetime
import random
import shutil
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.streams import Application, Row, refused

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pyspark.sql import SparkSession

FEED = {"delta.enableChangeDataFeed": "true"}
LEAP = datetime.datetime(2024, 2, 29, tzinfo=datetime.UTC)
SCHEMA = pa.schema(
    [("k", pa.int64()), ("a", pa.int32()), ("b", pa.string()), ("at", pa.timestamp("us", "UTC")), ("note", pa.string())]
)


class Source:
    """A Delta table that is changed by whole commits, and its rows."""

    def __init__(self, place: Path, dice: random.Random, *, key: bool) -> None:
        self.place, self.dice, self.key = place, dice, key
        self.rows: list[Row] = []
        self.serial = 0

    def row(self) -> Row:
        dice = self.dice
        self.serial += 1
        return {
            "k": self.serial if self.key else dice.randint(0, 2),
            "a": dice.choice([None, 1, 2]),
            "b": dice.choice([None, "x", "y"]),
            "at": datetime.datetime(2024, 2, dice.randint(27, 29), 12, tzinfo=datetime.UTC),
            "note": str(self.serial),  # where whole rows are the same, delta-rs leaves some out of the feed it writes
        }

    def write(self, rows: list[Row], mode: Any = "append") -> None:
        write_deltalake(self.place, pa.Table.from_pylist(rows, SCHEMA), mode=mode, configuration=FEED)
        self.rows = [*([] if mode == "overwrite" else self.rows), *rows]

    def change(self) -> None:
        """Make one commit."""
        dice = self.dice
        table = DeltaTable(self.place)
        word = dice.choice(
            ["append", "append", "delete", "update", "optimize", "overwrite", *(["merge"] * 2 if self.key else [])]
        )
        if word in {"append", "overwrite"}:
            self.write([self.row() for _ in range(dice.randint(1, 4))], word)
        elif word == "optimize":  # rewrites files, changes no row
            table.optimize.compact()
        elif word == "delete":
            table.delete("a = 1 and b = 'x'")
            self.rows = [row for row in self.rows if (row["a"], row["b"]) != (1, "x")]
        elif word == "update":
            table.update(updates={"a": "2"}, predicate="b = 'y'")
            self.rows = [{**row, "a": 2} if row["b"] == "y" else row for row in self.rows]
        else:
            changed = [{**self.row(), "k": k} for k in dice.sample(range(1, self.serial + 3), 3)]
            merge = table.merge(pa.Table.from_pylist(changed, SCHEMA), "s.k = t.k", "s", "t")
            merge.when_matched_update_all().when_not_matched_insert_all().execute()
            by_key = {row["k"]: row for row in [*self.rows, *changed]}
            self.rows = list(by_key.values())
            self.serial += 5

    def monitored(self) -> Iterable[Row]:
        return [{name: row[name] for name in row if name != "note"} for row in self.rows]


def tables(**options: str) -> list[dict[str, Any]]:
    common = {"exclude": ["note"]}
    return [
        {"name": name, **common, **key, "source": {"format": "delta", "path": f"./{name}", "options": options}}
        for name, key in (("keyed", {"key": ["k"]}), ("bag", {}))
    ]


@pytest.mark.parametrize("seed", [3])
def test_histories_of_two_feeds(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    print(f"seed {seed}")
    dice = random.Random(seed)
    sources = {name: Source(tmp_path / name, dice, key=name == "keyed") for name in ("keyed", "bag")}
    for source in sources.values():
        source.write([source.row() for _ in range(4)])
        source.change()
    rules = [
        {"name": "twice", "table": "bag", "key": ["a", "b"]},
        {"name": "grows", "table": "keyed", "forbid": "t.k < s.k and t.a > s.a and t.b = s.b"},
        {"name": "same", "table": "bag", "forbid": "t.a >= s.a and t.b = s.b and s.a is not null"},
    ]
    app = Application(tmp_path, tables(maxFilesPerTrigger="1"), rules=rules)  # commits come in parts

    def check() -> None:
        app.check({name: source.monitored() for name, source in sources.items()}, {})
        assert all(row["owed"] == 0 for row in app.status().values())

    code, said = app("seed")
    assert code == 0, said
    check()
    for _ in range(2):
        for source in sources.values():
            for _ in range(dice.randint(2, 5)):
                source.change()
        app.drain()
        check()
    for lost in ("checkpoint", "state"):
        shutil.rmtree(tmp_path / lost)
        code, said = app("rebuild")
        assert code == 0, said
        for source in sources.values():
            source.change()
            source.change()
        app.drain()
        check()
    assert len(app.output("batches")) > 6


def one_table(folder: Path, **settings: Any) -> tuple[Application, Source]:
    source = Source(folder / "t", random.Random(1), key=True)
    source.write([source.row() for _ in range(3)])
    table = {"name": "t", "key": ["k"], "exclude": ["note"], "source": {"format": "delta", "path": "./t"}, **settings}
    return Application(folder, [table]), source


def test_tables_that_cannot_be_followed(spark: SparkSession, tmp_path: Path) -> None:
    app, source = one_table(tmp_path)
    (tmp_path / "t").rename(tmp_path / "elsewhere")
    refused(app, 2, "is no Delta table: correct 'source.path'")
    write_deltalake(tmp_path / "t", pa.Table.from_pylist(source.rows, SCHEMA))
    refused(app, 2, "has no change feed at version 0: switch it on with ALTER TABLE")
    shutil.rmtree(tmp_path / "t")
    (tmp_path / "elsewhere").rename(tmp_path / "t")
    app.drain()
    place = f"delta.`{tmp_path}/t`"
    spark.sql(f"INSERT INTO {place} VALUES (99, 1, 'x', TIMESTAMP '2024-02-29', 'p')")
    source.rows.append({**source.row(), "k": 99, "a": 1, "b": "x", "at": LEAP})
    app.drain()
    app.check({"t": source.monitored()}, {})
    followed = app.output("batches")
    for name in ("t", "checkpoint"):
        shutil.copytree(tmp_path / name, tmp_path / "elsewhere" / name)

    def again(*names: str) -> None:
        """Put things back as they were; nothing happened in between."""
        for name in names or ("t", "checkpoint"):
            shutil.rmtree(tmp_path / name)
            shutil.copytree(tmp_path / "elsewhere" / name, tmp_path / name)
        assert app.output("batches") == followed

    # The feed was off for a while
    spark.sql(f"ALTER TABLE {place} SET TBLPROPERTIES (delta.enableChangeDataFeed = false)")
    refused(app, 2, "has no change feed: switch it on", "holdfast seed --replace")
    spark.sql(f"INSERT INTO {place} VALUES (100, 1, 'x', TIMESTAMP '2024-02-29', 'p')")
    spark.sql(f"ALTER TABLE {place} SET TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    refused(app, 3, "change feed was not on for some version since the seed", "holdfast seed --replace")
    again("t")
    refused(app, 3, "The table has fewer versions than were seen before", "holdfast seed --replace")
    again()

    # Another table in its place
    shutil.rmtree(tmp_path / "t")
    write_deltalake(tmp_path / "t", pa.Table.from_pylist(source.rows, SCHEMA), configuration=FEED)
    refused(app, 3, "another Delta table than the one that was seeded", "holdfast seed --replace")
    again()

    # Versions that were not read yet are gone
    spark.sql(f"UPDATE {place} SET b = 'new' WHERE a = 2 OR a IS NULL OR a = 1")
    shutil.rmtree(tmp_path / "t" / "_change_data")
    refused(app, 3, "no longer has versions that were not read yet", "holdfast seed --replace")
    again()

    # A column is gone, or has another name
    spark.sql(f"ALTER TABLE {place} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    spark.sql(f"ALTER TABLE {place} RENAME COLUMN b TO c")
    refused(app, 3, "has no column 'b' any more: it was dropped or renamed", "holdfast seed --replace")
    spark.sql(f"ALTER TABLE {place} DROP COLUMN c")
    refused(app, 3, "has no column 'b' any more: it was dropped or renamed")
    again()


def test_columns_that_come(spark: SparkSession, tmp_path: Path) -> None:
    app, source = one_table(tmp_path)
    app.drain()
    place = f"delta.`{tmp_path}/t`"
    spark.sql(f"ALTER TABLE {place} ADD COLUMN (extra INT)")
    spark.sql(f"INSERT INTO {place} VALUES (100, 1, 'x', TIMESTAMP '2024-02-29', 'p', 7)")
    source.rows.append({**source.row(), "k": 100, "a": 1, "b": "x", "at": LEAP})
    code, said = app("run", "--available-now")
    if code:  # once, where the stream notices it under way
        assert (code, "only added, start again" in said) == (3, True), said
        app.drain()
    assert "column extra is new" in said
    rows = [{**row, "extra": 7 if row["k"] == 100 else None} for row in source.monitored()]
    app.check({"t": rows}, {})
    batches = app.output("batches")

    # One that may be another one under a new name
    spark.sql(f"ALTER TABLE {place} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    spark.sql(f"ALTER TABLE {place} RENAME COLUMN note TO remark")
    refused(
        app, 4, "the source has new columns (remark), and lacks note: a column may have been renamed", "under 'exclude'"
    )
    assert app.output("batches") == batches


def test_log_entries_that_are_gone(spark: SparkSession, tmp_path: Path) -> None:
    app, source = one_table(tmp_path)
    app.drain()
    for _ in range(3):
        source.write([source.row()])
    table = DeltaTable(tmp_path / "t")
    table.create_checkpoint()
    for version in range(2):
        (tmp_path / "t" / "_delta_log" / f"{version:020}.json").unlink()
    refused(app, 3, "no longer has versions that were not read yet", "holdfast seed --replace")
