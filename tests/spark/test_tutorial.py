"""The pages that follow a source say what happens: every command of theirs is run, on a Spark session that all share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.documentation import DOCS, PAGES, Console, alike, blocks, runs_spark

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.mark.parametrize("page", [p for p in PAGES if runs_spark(p)], ids=lambda p: str(p.relative_to(DOCS)))
def test_commands_say_what_the_page_says(page: Path, spark: SparkSession, tmp_path: Path) -> None:
    console = Console(tmp_path.resolve())
    for block in blocks(page):
        assert alike(console.run(block)) == alike(block.text), block.where
