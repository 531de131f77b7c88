"""Makes the golden state of this version's format: `python -m tests.golden.make_state`, once for each format.

A state as a run leaves it: two tables, one with a key and sequences, one without a key that has copies and an owed
delete; batches that were committed, the last one neither in a backup nor published. Beside it stands what it has to be.
Another one has its rows in blocks, of which some are gone; the folder of the blocks is with it. Constraints that nearly
hold are kept in both.
"""

import datetime
import json
import random
import tarfile
import tempfile
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from holdfast.constraints import json_value
from holdfast.discovery.blocks.executors import InProcess
from holdfast.discovery.blocks.storage.block import Rows, write_blocks
from holdfast.discovery.blocks.storage.location import Storage
from holdfast.discovery.blocks.storage.table import BlockTable, Source
from holdfast.state import codecs
from holdfast.state.commits import Commits, LedgerEntry
from holdfast.state.rocks import RocksStore
from holdfast.state.store import WriteBatch
from holdfast.streaming.commits.table_records import TableRecord
from holdfast.streaming.incoming.key_versions import schema_of_versions, versions_table
from holdfast.streaming.maintainers.holdings.in_blocks import BlockPlace, WholeInBlocks
from holdfast.streaming.maintainers.holdings.in_memory import WholeInMemory
from holdfast.streaming.maintainers.maintainer import DELETE, INSERT, Maintainer, Records
from holdfast.streaming.seeding import SeededTable, seed
from holdfast.tables import from_arrow

FOLDER = Path(__file__).parent / "states"
KINDS = {"k": pa.int64(), "s": pa.string(), "f": pa.float64(), "d": pa.decimal128(6, 2), "day": pa.date32()}

Row = dict[str, Any]


def table_of(name: str, rows: list[Row]) -> Any:
    """Return rows as a table."""
    return from_arrow(pa.table({c: pa.array([row[c] for row in rows], kind) for c, kind in KINDS.items()}), name)


def drawn(dice: Any, keys: int) -> Row:
    """Draw a row; `dice` draws as `random.Random` does."""
    text = dice.choice([None, "", "ä", "text"])
    return {
        "k": dice.randrange(keys),
        "s": text,
        "f": dice.choice([None, 0.5, -1.0, float("nan")]),
        "d": dice.choice([None, Decimal("1.10"), Decimal("-2.00")]),
        "day": datetime.date(2024, 2, 29) if text else None,
    }


def made(folder: Path) -> dict[str, Any]:
    """Make a state; return what it has to be."""
    dice = random.Random(11)
    rows: dict[str, list[Row]] = {
        "keyed": [{**drawn(dice, 1), "k": k} for k in range(12)],
        "keyless": [drawn(dice, 2) for _ in range(9)],
    }
    store = RocksStore(folder)
    commits = Commits(store, "golden")
    keyed = Maintainer.seed(table_of("keyed", rows["keyed"]), key=["k"], max_predicates=3, near="30%", threads=1)
    first = table_of("keyed", rows["keyed"])
    keyed.remember(known=WholeInMemory(versions_table(schema_of_versions(first.schema, ["k"]), np.arange(12), first)))
    keyless = Maintainer.seed(table_of("keyless", rows["keyless"]), max_predicates=2, threads=1)
    tables = seed(commits, [SeededTable(m, TableRecord(known=list(KINDS))) for m in (keyed, keyless)])
    commits.logged(1)
    commits.published(1)
    sequence = 100
    for number in range(8):
        name = ("keyed", "keyless")[number % 2]
        batch = [drawn(dice, 15 if name == "keyed" else 2) for _ in range(4)]
        operations = [dice.choice([INSERT, INSERT, INSERT, DELETE]) for _ in batch]
        if name == "keyless" and number == 1:  # owed, and still so at the end
            batch, operations = [*batch, {**drawn(dice, 1), "k": 77}], [*operations, DELETE]
        given = np.arange(sequence, sequence + len(batch)) if name == "keyed" else None
        records = Records(table_of(name, batch), np.array(operations, np.int8), sequence=given)
        sequence += len(batch)
        tables[name].apply_records(records)
        change = WriteBatch()
        for part in tables[name].save(list(rows).index(name)):
            change.add(part)
        entry = LedgerEntry("query", number // 2, str(number // 2), str(number // 2 + 1), 0)
        commits.commit(change, {"metrics": [{"commit": commits.last + 1}]}, source=name, batch=entry)
        if number < 7:
            commits.logged(commits.last)
            commits.published(commits.last)
    expected = _expected(commits, tables)
    store.close()
    return expected


def made_in_blocks(folder: Path) -> dict[str, Any]:
    """Make a state whose rows are in the folder `blocks` beside it; return what it has to be."""
    dice = random.Random(7)
    place = BlockPlace(InProcess(1), Storage.at(str(folder.parent / "blocks")))
    place.storage.open().prepare()
    first = table_of("rows", [{**drawn(dice, 2), "k": k} for k in range(200)])
    source = Source(place.storage, first.schema, 100)
    written = list(write_blocks(place.storage.open(), Rows(np.arange(200), first), 100))
    blocks = WholeInBlocks(BlockTable(source, written, place.executors))
    nearly: dict[str, Any] = {"near": "30%", "near_orders": False}
    keyed = Maintainer.seed(blocks, key=["k"], max_predicates=2, threads=1, **nearly)
    store = RocksStore(folder)
    commits = Commits(store, "golden")
    tables = seed(commits, [SeededTable(keyed, TableRecord(known=list(KINDS)))])
    for _ in range(4):
        batch = [{**drawn(dice, 2), "k": k} for k in dice.sample(range(220), 3)]
        operations = [dice.choice([INSERT, DELETE]) for _ in batch]
        tables["rows"].apply_records(Records(table_of("rows", batch), np.array(operations, np.int8)))
        change = WriteBatch()
        for part in tables["rows"].save(0):
            change.add(part)
        commits.commit(change, {})
    expected = _expected(commits, tables)
    store.close()
    keyed.committed()
    return expected


def _expected(commits: Commits, tables: Mapping[str, Maintainer]) -> dict[str, Any]:
    found: dict[str, Any] = {"format": codecs.FORMAT, "commit": commits.last, "tables": {}}
    for name, maintainer in tables.items():
        live, owed = (side.to_pylist() for side in maintainer.rows())
        images = [{column: json_value(value) for column, value in row.items()} for row in live]
        found["tables"][name] = {
            "rows": sorted(images, key=json.dumps),
            "owed": len(owed),
            "constraints": sorted(map(str, maintainer.constraints)),
            "near": sorted([str(one), one.exceptions] for one in maintainer.near),
            "exceptions": sorted(one.example_id(name) for one in maintainer.near_examples),
        }
    return found


def main() -> None:
    """Make the states and put them where the tests look."""
    FOLDER.mkdir(exist_ok=True)
    for make, name in ((made, f"{codecs.FORMAT}.tar.gz"), (made_in_blocks, f"{codecs.FORMAT}.blocks.tar.gz")):
        with tempfile.TemporaryDirectory() as scratch:
            state = Path(scratch, "state")
            expected = make(state)
            for path in state.glob("LOG*"):
                path.unlink()
            Path(scratch, "expected.json").write_text(json.dumps(expected, indent=1), "utf-8")
            with tarfile.open(FOLDER / name, "w:gz") as archive:
                for path in sorted(Path(scratch).iterdir()):
                    archive.add(path, path.name, filter=_anonymous)


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    main()
