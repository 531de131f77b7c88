"""A real cluster: commands with --spark give the same answer there, also when executors are killed meanwhile."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from holdfast.jobs.command_line import exit_code_of
from tests.cluster import executors_killed
from tests.taxes import NARROW, tax_records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.cluster import Cluster


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tax.parquet"
    pq.write_table(tax_records(4_000, NARROW, error_rate=0.01), path, row_group_size=500)
    return path


@pytest.fixture
def ask(
    cluster: Cluster, cluster_spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., tuple[list[Any], list[Any]]]]:
    """Ask a command with --spark and without; return what both say. Afterwards no block is left."""
    work = tmp_path / "work"

    def asked(*arguments: Any) -> tuple[list[Any], list[Any]]:
        answers = []
        for more in ((), ("--spark", "--master", cluster.master, "--work", work, "--block-rows", 500)):
            capsys.readouterr()
            code = exit_code_of([*map(str, (*arguments, *more)), "--format", "json"])
            out, err = capsys.readouterr()
            assert code in {0, 1}, f"{err}\n{cluster.logs()}"
            answers.append([code, *map(json.loads, out.splitlines())])
        return answers[0], answers[1]

    yield asked
    assert list(work.iterdir()) == []
    assert cluster_spark.range(2).count() == 2


def test_the_same_answers(file: Path, ask: Callable[..., tuple[list[Any], list[Any]]]) -> None:
    here, there = ask("discover", file, "--family", "dc", "--max-predicates", 3)
    assert there == here
    assert len(here) > 5
    here, there = ask("check", file, "--rule", "Zip -> City", "--rule", "not(t.Salary > s.Salary and t.Rate < s.Rate)")
    for line in (*here[1:], *there[1:]):
        assert line.pop("examples")
    assert there == here


def test_the_same_answers_while_executors_are_killed(
    file: Path, ask: Callable[..., tuple[list[Any], list[Any]]], cluster: Cluster, cluster_spark: SparkSession
) -> None:
    with executors_killed(cluster, cluster_spark, kills=3, seconds=2.0):
        here, there = ask("discover", file, "--family", "dc", "--max-predicates", 3)
    assert there == here
