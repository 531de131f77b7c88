"""What Spark says when a stream fails, and what a person is told, for each kind of source.

The texts are those of Spark 4.2, Delta 4.4 and Py4J, with other names of files.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from holdfast.constraints import InputError, StateRefused
from holdfast.display.secrets import forget, remember
from holdfast.streaming.spark.failures import FollowedSource, causes_of, explained, is_conflict
from tests.unit.spark_errors import (
    CHECKPOINT,
    FILE,
    OF_FILES,
    PLACES,
    REBUILD,
    SPARK,
    Case,
    called,
    ended,
    of_checkpoint,
    of_machine,
)
from tests.unit.spark_errors_of_sources import OF_DELTA, OF_KAFKA

if TYPE_CHECKING:
    from holdfast.streaming.spark.sources import Kind


CASES: list[tuple[Kind, Case]] = [
    *((kind, case) for kind in PLACES for case in (*of_checkpoint(kind), *of_machine(kind))),
    *(("files", case) for case in OF_FILES),
    *(("delta", case) for case in OF_DELTA),
    *(("kafka", case) for case in OF_KAFKA),
]


@pytest.mark.parametrize(("kind", "case"), CASES, ids=[f"{kind}: {case[0]}" for kind, case in CASES])
def test_an_error_is_explained_by_its_source(kind: Kind, case: Case) -> None:
    _, error, expected, words, absent = case
    followed = FollowedSource("shop", kind, PLACES[kind], CHECKPOINT)
    meant = explained(error, followed)
    said = str(meant)
    assert isinstance(meant, expected), said
    assert meant.exit_code == expected.exit_code
    assert said.startswith("table shop: ")
    for word in words:
        assert word in said
    for word in absent:
        assert word not in said
    assert "\tat " not in said
    assert "Streaming Query" not in said
    assert re.search(r"\{[a-z]+\}", said) is None


def test_a_checkpoint_elsewhere_is_not_rebuilt() -> None:
    """`holdfast rebuild` looks at checkpoints of this machine alone."""
    followed = FollowedSource("shop", "kafka", PLACES["kafka"], "s3a://lake/check/shop")
    meant = str(explained(ended((FILE, "No such file or directory: s3a://lake/check/shop/offsets/12")), followed))
    assert "bring the file back from a copy" in meant
    assert REBUILD not in meant


def test_a_checkpoint_in_the_folder_of_the_source_is_still_the_checkpoint() -> None:
    followed = FollowedSource("shop", "files", "/data", "/data/checkpoint/shop")
    missing = ended((FILE, "File file:/data/checkpoint/shop/offsets/12 does not exist"))
    assert isinstance(explained(missing, followed), StateRefused)
    missing = ended((FILE, "File file:/data/checkpoint/shopping.json does not exist"))
    assert isinstance(explained(missing, followed), InputError)


def test_secrets_are_not_said() -> None:
    followed = FollowedSource("shop", "kafka", PLACES["kafka"], CHECKPOINT)
    error = ended(("java.lang.IllegalArgumentException", "password hunter2 is wrong"))
    remember(["hunter2"])
    assert "hunter2" not in str(explained(error, followed))
    forget()


def test_a_commit_that_another_one_overtook_is_known_by_its_class() -> None:
    appended = "[DELTA_CONCURRENT_APPEND.WITHOUT_HINT] Transaction conflict detected."
    assert is_conflict(called(("io.delta.exceptions.ConcurrentAppendException", appended)))
    assert is_conflict(
        ended(("org.apache.spark.sql.delta.ConcurrentWriteException", "A concurrent transaction has written"))
    )
    assert is_conflict(ended((SPARK, "Job aborted."), ("a.b.C", appended)))
    assert not is_conflict(ended((FILE, "File file:/lake/DELTA_CONCURRENT_APPEND does not exist")))
    assert not is_conflict(ended(("java.util.ConcurrentModificationException", "a map")))


def test_causes_are_the_chain() -> None:
    found = causes_of(ended(("a.b.OneException", "[SOME_CONDITION.OF_IT] first"), ("a.b.TwoException", "second\nline")))
    assert [(cause.name, cause.condition) for cause in found if cause.name] == [
        ("OneException", "SOME_CONDITION.OF_IT"),
        ("TwoException", ""),
    ]
    assert found[-1].text == "second\nline"
