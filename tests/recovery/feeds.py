"""Seeded histories of changes to one table, brought by a topic or by the change feed of a Delta table."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from deltalake import DeltaTable, write_deltalake

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from tests.streams import Row

KEYS = 60
PARTITIONS = 2
COLUMNS = {"k": "integer", "a": "integer", "b": "string", "c": "integer", "d": "integer"}


def _row(dice: random.Random, key: int | None = None) -> Row:
    """Return a row; `d` mostly follows from `a`, and `c` from `k`, so that constraints come and go."""
    k, a = dice.randrange(KEYS) if key is None else key, dice.choice([None, 0, 1, 2, 3])
    return {
        "k": k,
        "a": a,
        "b": dice.choice([None, "x", "y", "ü"]),
        "c": k * 3 if dice.random() < 0.98 else dice.choice([None, 0]),
        "d": a if dice.random() < 0.98 else dice.randrange(5),
    }


class TopicFeed:
    """Records of a topic: inserts, updates and deletes, some twice, some with nulls, some late, some that are none.

    Those of a key are in any partition: `n` says which is the last.

    Parameters
    ----------
    broker, topic : where.
    dice : decides what comes.
    """

    def __init__(self, broker: str, topic: str, dice: random.Random) -> None:
        self.topic, self.dice = topic, dice
        self.sent = 0
        self.bad: list[str] = []
        self._rows: dict[int, Row] = {}
        self._ends = [0] * PARTITIONS
        self._last: dict[int, int] = {}
        settings: dict[str, Any] = {"bootstrap.servers": broker, "log_level": 0}
        admin = AdminClient(settings)
        for future in admin.create_topics([NewTopic(topic, PARTITIONS, 1)]).values():
            future.result(30)
        self._producer = Producer(settings)
        source = {"format": "kafka", "servers": broker, "topic": topic, "encoding": "json", "start": "earliest"}
        self.table: Mapping[str, Any] = {
            "name": "t",
            "key": ["k"],
            "columns": {**COLUMNS, "n": "integer"},
            "exclude": ["n"],
            "sequence": "n",
            "source": source,
        }

    def come(self) -> None:
        for _ in range(self.dice.randint(5, 60)):
            self._one()
        assert self._producer.flush(30) == 0

    def _one(self) -> None:
        dice = self.dice
        row = _row(dice)
        partition = dice.randrange(PARTITIONS)
        word = dice.choice(["insert", "update", "update", "delete", "twice", "late"])
        if dice.random() < 0.03:
            self.bad.append(f"{self.topic}-{partition}-{self._ends[partition]}")
            self._put(partition, dice.choice([b"", b"[1]", b'{"a": 1}', b'{"k": 1, "a": 1.5}', b'{"k": 1', b"\xff"]))
        elif word == "late" and row["k"] in self._last:
            self._send(partition, dice.choice(["insert", "delete"]), {**row, "n": self._last[row["k"]] - 1})
        elif word == "delete":
            self._rows.pop(row["k"], None)
            self._send(partition, word, {"k": row["k"], "n": self._numbered(row)})
        else:
            self._rows[row["k"]] = row
            number = self._numbered(row)
            for _ in range(2 if word == "twice" else 1):
                self._send(partition, word if word == "insert" else "update", {**row, "n": number})

    def _numbered(self, row: Row) -> int:
        """Return the place of a key's last record."""
        self._last[row["k"]] = self.sent
        return self.sent

    def _send(self, partition: int, word: str, row: Row) -> None:
        self._put(partition, json.dumps({"_op": word, **row}).encode())

    def _put(self, partition: int, value: bytes) -> None:
        self._producer.produce(self.topic, value, partition=partition)
        self._ends[partition] += 1
        self.sent += 1

    def rows(self) -> Iterable[Row]:
        return self._rows.values()

    def names(self, quarantined: Row) -> str:
        return str(quarantined["record_id"])


SCHEMA = pa.schema([("k", pa.int64()), ("a", pa.int64()), ("b", pa.string()), ("c", pa.int64()), ("d", pa.int64())])


class TableFeed:
    """Commits to a Delta table with a change feed: what comes, changes and goes, and rows without a key.

    Parameters
    ----------
    place : the table's folder.
    dice : decides what comes.
    """

    def __init__(self, place: Path, dice: random.Random) -> None:
        self.place, self.dice = place, dice
        self._without = 0
        self._rows = {key: _row(dice, key) for key in range(0, KEYS, 3)}
        self._write(list(self._rows.values()))
        source = {"format": "delta", "path": str(place), "options": {"maxFilesPerTrigger": "8"}}
        seed = {"path": str(place), "version": 0}
        self.table: Mapping[str, Any] = {"name": "t", "key": ["k"], "seed": seed, "source": source}

    def come(self) -> None:
        dice = self.dice
        word = dice.choice(["append", "merge", "merge", "delete", "update"])
        table = DeltaTable(self.place)
        if word == "append":
            missing = [key for key in range(KEYS) if key not in self._rows]
            rows = [_row(dice, key) for key in dice.sample(missing, min(len(missing), dice.randint(1, 15)))]
            self._write([*rows, *self._without_key()])
            self._rows |= {row["k"]: row for row in rows}
        elif word == "delete":
            one, other = dice.randrange(4), dice.randrange(KEYS)
            table.delete(f"a = {one} and k > {other}")
            gone = [key for key, row in self._rows.items() if row["a"] == one and key > other]
            for key in gone:
                del self._rows[key]
        elif word == "update":
            first, value = dice.randrange(KEYS), dice.randrange(4)
            table.update(updates={"a": str(value), "d": str(value)}, predicate=f"k between {first} and {first + 10}")
            touched = [key for key in self._rows if first <= key <= first + 10]
            for key in touched:
                self._rows[key] = {**self._rows[key], "a": value, "d": value}
        else:
            rows = [_row(dice, key) for key in dice.sample(range(KEYS), dice.randint(1, 12))]
            merging = table.merge(pa.Table.from_pylist(rows, SCHEMA), "s.k = t.k", "s", "t")
            merging.when_matched_update_all().when_not_matched_insert_all().execute()
            self._rows |= {row["k"]: row for row in rows}

    @property
    def sent(self) -> int:
        """How many rows the feed shows behind the seed."""
        return len(self._shown())

    @property
    def bad(self) -> list[str]:
        """The rows without a key that the feed shows."""
        return [str({name: row[name] for name in SCHEMA.names}) for row in self._shown() if row["k"] is None]

    def _shown(self) -> list[Row]:
        """Return what delta-rs shows: rows that an update did not change are left out, or leave and come again."""
        table = DeltaTable(self.place)
        return pa.table(table.load_cdf(starting_version=1)).to_pylist() if table.version() else []

    def _without_key(self) -> list[Row]:
        rows = []
        for _ in range(self.dice.choice([0, 1, 2])):
            row: Row = {"k": None, "a": None, "b": "bad", "c": 1_000 + self._without, "d": None}
            self._without += 1
            rows.append(row)
        return rows

    def _write(self, rows: list[Row]) -> None:
        feed = {"delta.enableChangeDataFeed": "true"}
        write_deltalake(self.place, pa.Table.from_pylist(rows, SCHEMA), mode="append", configuration=feed)

    def rows(self) -> Iterable[Row]:
        return self._rows.values()

    def names(self, quarantined: Row) -> str:
        return str(quarantined["raw"])
