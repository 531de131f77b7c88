"""Differential: inclusions whose values are on Spark's executors are those of values in one store, batch by batch."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from holdfast.discovery.blocks.storage.location import Storage
from holdfast.discovery.blocks.values.parts import ValueFiles
from holdfast.streaming.spark.executors import SparkExecutors
from tests.properties.tables import DOMAINS
from tests.properties.test_inclusion_laws import One
from tests.properties.test_value_parts import Spread

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.oracles.values import Row


@pytest.mark.parametrize("texts", [False, True])
def test_a_history(texts: bool, spark: SparkSession, tmp_path: Path) -> None:
    drawn = random.Random(7)

    def rows_of(kinds: tuple[str, ...], count: int) -> list[Row]:
        return [tuple(drawn.choice([None, *DOMAINS[kind][2]]) for kind in kinds) for _ in range(count)]

    kinds = {"r": ("integer", "string"), "s t": ("float", "string", "date")}
    tables = [One(name, some, rows_of(some, 5)) for name, some in kinds.items()]
    files = ValueFiles(SparkExecutors(spark, cores=1), Storage.at(str(tmp_path)), 5, most_changed=4)
    law = Spread(tables, files, texts=texts)
    first = files.storage.open().names()
    law.undone(1, rows_of(kinds["s t"], 3), "undone")
    for place, going, is_emptied in ((0, 2, False), (1, 0, True)):
        one = tables[place]
        law.step(place, rows_of(one.kinds, 3), one.rows[:going], is_emptied=is_emptied)
    law.restore()
    law.compare()
    assert files.storage.open().names() != first
