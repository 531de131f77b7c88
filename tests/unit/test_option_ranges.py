"""Numbers of any size on the command line work, or are refused with their range."""

import re
from pathlib import Path
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from deltalake import write_deltalake

from holdfast.constraints import UsageError
from holdfast.jobs.command_line import exit_code_of
from holdfast.streaming.spark.frames import blocks_of_frame
from holdfast.tables import ReadOptions

MOST = 2**63 - 1


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("Zip,City\n1,a\n1,b\n2,b\n")


OPTIONS = [
    *(("discover t.csv --family dc", name) for name in ("--max-predicates", "--top", "--limit")),
    *(("discover t.csv --family od", name) for name in ("--max-context", "--top")),
    *(("discover t.csv --family ind", name) for name in ("--top", "--limit")),
    *(("check t.csv --rule", name) for name in ("--examples", "--limit")),
    ("replay t.csv t.csv --family od", "--batch-size"),
    ("replay t.csv t.csv --batch-size 1 --family od", "--max-context"),
]


@pytest.mark.parametrize("number", [MOST, MOST + 1, 10**30])
@pytest.mark.parametrize(("command", "option"), OPTIONS)
def test_numbers_of_any_size_work(command: str, option: str, number: int, capsys: pytest.CaptureFixture[str]) -> None:
    """What is beyond all there is, is all."""
    rules = ["key(Zip)", "--rule", "Zip -> City", "--rule", "{}: Zip ~ City", "--rule", "t.Zip in t.City"]
    given = [*command.split(), *(rules if "--rule" in command else []), "--quiet"]
    assert exit_code_of([*given, option, "9"]) == int("--rule" in command)
    expected = capsys.readouterr().out
    assert exit_code_of([*given, option, str(number)]) == int("--rule" in command)
    seconds = re.compile(r"[0-9.]+ s$", re.MULTILINE)
    assert seconds.sub("", capsys.readouterr().out) == seconds.sub("", expected)


@pytest.mark.parametrize("number", [1_025, MOST + 1, 10**30])
def test_no_machine_has_so_many_threads(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["discover", "t.csv", "--family", "dc", "--threads", str(number)]) == 2
    assert f"Invalid value for '--threads': {number} is not in the range 1<=x<=1024." in capsys.readouterr().err


def test_as_many_threads_as_there_may_be() -> None:
    assert exit_code_of("discover t.csv --family dc --threads 1024 --quiet".split()) == 0


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow", "delta", "t.csv.gz"])
def test_a_limit_beyond_all_rows(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    table = pa.table({"a": [1, 2], "b": ["x", "x"]})
    match name:
        case "t.parquet":
            pa.parquet.write_table(table, name)
        case "t.arrow":
            pa.feather.write_feather(table, name)
        case "delta":
            write_deltalake(name, table)
        case _:
            with pa.output_stream(name) as out:
                out.write(b"a,b\n1,x\n2,x\n")
    assert exit_code_of(["discover", name, "--family", "dc", "--limit", str(MOST), "--quiet"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "key                    key(a)",
        "constant               -> b",
    ]


def test_a_limit_that_spark_does_not_take() -> None:
    with pytest.raises(UsageError, match="Spark takes 2147483647 at most"):
        blocks_of_frame(Mock(), "t", ReadOptions(limit=2**31), Mock(), 1)
