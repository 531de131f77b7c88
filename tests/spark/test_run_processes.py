"""`holdfast run` as a process: told to stop, killed and started again, nothing is lost and nothing comes twice."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
from typing import TYPE_CHECKING

from tests.streams import Application, Row, refused

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession


def test_a_run_that_is_killed_then_interrupted_then_stopped(spark: SparkSession, tmp_path: Path) -> None:
    seed = 5
    print(f"seed {seed}")
    dice = random.Random(seed)
    table = {
        "name": "t",
        "key": ["k"],
        "columns": {"k": "integer", "a": "integer", "b": "string"},
        "source": {"format": "files", "path": "./changes", "encoding": "json", "options": {"maxFilesPerTrigger": "1"}},
        "near": {"share": "34%", "max_context": 2},
    }
    families = {"denial": {"max_predicates": 3}, "order": {}, "inclusion": {}}
    rules = [
        {"name": "depends", "table": "t", "fd": "a -> b"},
        {"name": "grows", "table": "t", "forbid": "t.k < s.k and t.a > s.a"},
        {"name": "known", "inclusion": "t.a in t.k"},
    ]
    app = Application(tmp_path, [table], trigger={"interval": "100 ms"}, constraints=families, rules=rules)
    rows: dict[int, Row] = {}

    def come(files: int) -> None:
        for _ in range(files):
            lines: list[Row] = []
            for _ in range(dice.randint(1, 5)):
                row: Row = {"k": dice.randint(0, 9), "a": dice.randint(0, 2), "b": dice.choice("xy")}
                rows[row["k"]] = row
                lines.append({**row, "_op": "update"})
                if dice.random() < 0.3:
                    del rows[row["k"]]
                    lines.append({"_op": "delete", "k": row["k"]})
            app.put(f"{app.written:04}.json", "\n".join(map(json.dumps, lines)).encode())

    come(12)
    process = app.started()
    process.wait_for(lambda: " batch=4 " in process.said)
    process.kill()
    assert " batch=11 " not in process.said  # a batch may have two files after this

    process = app.started()
    process.wait_for(lambda: " batch=7 " in process.said)
    refused(app, 4, "in use by another process")
    refused(app, 4, "in use by another process", command=["rebuild"])
    assert process.interrupt() == 0
    assert "stopped: everything that was read is committed and published" in process.said
    assert "Traceback" not in process.said

    come(2)
    app.put("last.json", b"bad")
    over = threading.Event()
    ending = threading.Thread(target=end_when, args=(lambda: bool(app.output("quarantine")), over))
    ending.start()
    try:
        code, said = app("run")
    finally:
        over.set()
        ending.join()
    assert code == 0
    assert "stopped: everything that was read is committed and published" in said
    app.check({"t": rows.values()}, {"t": ["last.json-1"]})


def end_when(seen: Callable[[], bool], over: threading.Event) -> None:
    """Send this process what ends a run, once something is seen, unless the run is over by itself."""
    while not seen():
        if over.wait(0.1):
            return
    os.kill(os.getpid(), signal.SIGTERM)
