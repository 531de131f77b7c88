"""Where a command searches on Spark: --spark, --master, --conf."""

from __future__ import annotations

from typing import Any

import click
import pytest
from click.testing import CliRunner

from holdfast.jobs.terminal import options


@click.command()
@options.on_spark
def command(**given: Any) -> None:
    click.echo(repr(given))


def test_settings_by_name() -> None:
    given = [
        "--spark",
        "--master",
        "yarn",
        "--conf",
        "spark.archives=a#env",
        "--conf",
        "spark.driver.extraJavaOptions=-Da=b",
    ]
    answer = CliRunner().invoke(command, given)
    assert eval(answer.output) == {
        "spark": True,
        "master": "yarn",
        "spark_settings": {"spark.archives": "a#env", "spark.driver.extraJavaOptions": "-Da=b"},
        "work": None,
        "block_rows": None,
    }
    assert eval(CliRunner().invoke(command).output) == {
        "spark": False,
        "master": None,
        "spark_settings": {},
        "work": None,
        "block_rows": None,
    }


@pytest.mark.parametrize("pair", ["spark.x", "x=1", "=", ""])
def test_what_is_no_setting(pair: str) -> None:
    answer = CliRunner().invoke(command, ["--conf", pair])
    assert answer.exit_code == 2
    assert f"'{pair}' is no setting of Spark; expected spark.NAME=VALUE" in answer.output
