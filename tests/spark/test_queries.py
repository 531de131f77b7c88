"""Oracle: what Spark answers to the query of every form is what nested loops find; the same text runs where no name has quotes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from holdfast.constraints import parse_near
from holdfast.constraints.queries import query, suspect_query
from tests.oracles.values import canonical_row
from tests.queries import FORMS, NEAR, OTHER, TABLE, Doubted, arrow_table, counted, exceptions, schema_of, violations

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def answer(spark: SparkSession) -> Callable[[str], pa.Table]:
    for table in (TABLE, OTHER):
        spark.createDataFrame(arrow_table(table)).createOrReplaceTempView(f"`{table.name}`")

    def answered(text: str) -> Any:
        return spark.sql(text).toArrow()

    return answered


def text_of(constraint: Any) -> str:
    """Return the text for all engines, or the text for Spark where names have quotes."""
    common = query(constraint, "orders")
    return query(constraint, "orders", dialect="spark") if "dialect spark" in common else common


def lines_of(found: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in found.columns), strict=True))


@pytest.mark.parametrize("text", FORMS)
def test_every_form(text: str, answer: Callable[[str], pa.Table]) -> None:
    found = answer(text_of(text))
    assert counted(found.column_names, lines_of(found)) == violations(text, found.column_names)


@pytest.mark.parametrize("text", [form for form in FORMS if "0.1" in form or "740993" in form])
def test_numbers_where_types_are_known(text: str, answer: Callable[[str], pa.Table]) -> None:
    found = answer(query(text, "orders", schema=schema_of(TABLE)))
    assert counted(found.column_names, lines_of(found)) == violations(text, found.column_names)


@pytest.mark.parametrize("text", NEAR)
def test_near_constraints(text: str, answer: Callable[[str], pa.Table]) -> None:
    ((first, *_),) = lines_of(answer(text_of(parse_near(text))))
    assert first == exceptions(text)


def test_a_suspect(answer: Callable[[str], pa.Table]) -> None:
    suspect = Doubted("Zip code", (parse_near('x, `odd ``"\\` -> `Zip code`'),))
    row = dict(zip((column.name for column in TABLE.columns), TABLE.rows[0], strict=True))
    found = answer(suspect_query(suspect, row, "orders", dialect="spark"))
    assert counted(found.column_names, lines_of(found)) == {canonical_row(["B"]): 2}
