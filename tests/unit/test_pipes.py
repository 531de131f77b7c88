"""Pipes are read whole, and only once; where that cannot be, it is said."""

import gzip
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.constraints import InputError, UsageError
from holdfast.jobs.command_line import exit_code_of
from holdfast.jobs.files.changes import column_names
from holdfast.tables import ReadOptions, read_table
from holdfast.tables.pipes import pipes_kept

TEXT = "Zip,City\n1,a\n1,b\n2,b\n"

Piped = Callable[[str, bytes], Path]


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Piped]:
    """Make a named pipe, and write into it once; what nobody has read is read at the end."""
    writers: dict[Path, threading.Thread] = {}

    def made(name: str, content: bytes = TEXT.encode()) -> Path:
        path = tmp_path / name
        os.mkfifo(path)
        writers[path] = threading.Thread(target=path.write_bytes, args=(content,), daemon=True)
        writers[path].start()
        return path

    yield made
    for path, writer in writers.items():
        while writer.is_alive():
            reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            writer.join(0.1)
            os.close(reader)


def test_a_pipe_is_read_as_a_file_is(pipe: Piped) -> None:
    table = read_table(pipe("t.csv", TEXT.encode()))
    assert (table.schema.table, table.rows([2]), table.locate(2)[-6:]) == ("t", [{"Zip": 2, "City": "b"}], "line 4")
    assert read_table(pipe("z.csv.gz", gzip.compress(TEXT.encode()))).row_count == 3
    assert read_table(pipe("u.csv", TEXT.encode("utf-16")), ReadOptions(encoding="utf-16", limit=1)).row_count == 1
    with pytest.raises(InputError, match=r"w\.csv, line 3: 1 field where the header has 2"):
        read_table(pipe("w.csv", b"a,b\n1,2\n3\n"))
    with pytest.raises(InputError, match=r"e\.csv is empty"):
        read_table(pipe("e.csv", b""))


def test_a_pipe_is_kept_for_the_second_look(pipe: Piped) -> None:
    path = pipe("t.csv", TEXT.encode())
    with pipes_kept(), pipes_kept():
        assert column_names(path, ReadOptions()) == ("Zip", "City")
        assert read_table(path).row_count == 3


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow"])
def test_what_is_not_read_from_a_pipe(name: str, pipe: Piped) -> None:
    with pytest.raises(UsageError, match=f"{name} is a pipe: Parquet and Arrow are read from files"):
        read_table(pipe(name, b"PAR1"))


def test_replay_reads_both_from_pipes(pipe: Piped, capsys: pytest.CaptureFixture[str]) -> None:
    base, changes = pipe("base.csv", TEXT.encode()), pipe("changes.csv", b"Zip,City\n3,c\n")
    assert exit_code_of(["replay", str(base), str(changes), "--family", "od", "--batch-size", "1", "--quiet"]) == 0
    assert "batch 1: 1 record, 1 in" in capsys.readouterr().out


def test_spark_reads_no_pipe(pipe: Piped, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["discover", str(pipe("t.csv", b"")), "--family", "dc", "--spark"]) == 2
    assert "is a pipe, which no executor can read" in capsys.readouterr().err


def test_standard_input() -> None:
    command = [sys.executable, "-m", "holdfast", "check", "/dev/stdin", "--rule", "key(Zip)", "--quiet"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run(command, input=TEXT, capture_output=True, text=True, check=False, env=environment, timeout=60)
    assert (ran.returncode, ran.stderr) == (1, "")
    assert ran.stdout.startswith("broken  key(Zip)  2 pairs, 2 of 3 rows")
    assert "s  1    /dev/stdin, line 3" in ran.stdout
