"""What a seed says of near constraints that an earlier state left in the outputs: why each that is gone is gone."""

from __future__ import annotations

import datetime
from typing import Any

import pandas as pd
import pytest

from holdfast.state.commits import READY, Identity
from holdfast.streaming.alerts.deciding import Alert, messages
from holdfast.streaming.commits.near_rows import near_of_seed
from holdfast.streaming.commits.output_rows import OutputRows
from holdfast.streaming.maintainers.maintainer import Maintainer

PEOPLE = pd.DataFrame({"zip": list("aaaabbbbcccc"), "city": list("AAAXBBBBCCCC"), "age": [*range(11), 0]})


def _rows(commit: int) -> OutputRows:
    return OutputRows(Identity("s", 0, "app", READY), commit, datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC))


def _seeded(**near: Any) -> Maintainer:
    return Maintainer.seed(PEOPLE, name="people", max_predicates=None, threads=1, **near)


def _held(**near: Any) -> list[dict[str, Any]]:
    rows = _rows(1)
    near_of_seed(rows, [_seeded(**near)], [], [], None)
    return rows.payload["near_constraints"]


def _left(maintainers: list[Maintainer], known: list[dict[str, Any]]) -> tuple[dict[str, str | None], list[str]]:
    """Return why each constraint is gone, and which of them `left` alerts are about."""
    rows = _rows(2)
    near_of_seed(rows, maintainers, known, [], "config")
    gone = {row["constraint"]: row["reason"] for row in rows.payload.get("near_changes", []) if row["change"] == "left"}
    told = messages([Alert(frozenset({"left"}))], rows, [])
    return gone, [change["constraint"] for message in told for change in message.body["changes"]]


def test_a_smaller_share_leaves_too_many_exceptions() -> None:
    gone, told = _left([_seeded(near="0%")], _held(near="10%"))
    assert gone["{zip}: [] -> city"] == gone["key(age)"] == "violated"
    assert set(told) == {one for one, reason in gone.items() if reason == "violated"}


def test_a_larger_share_leaves_none_with_too_many() -> None:
    gone, told = _left([_seeded(near="10%")], _held(near="0%"))
    assert gone
    assert set(gone.values()) == {"implied"}
    assert not told


@pytest.mark.parametrize("near", [{"near": "0%", "near_context": 1}, {"near": "0%", "near_orders": False}, {}])
def test_what_is_not_looked_for_any_more_is_not_told_as_violated(near: dict[str, Any]) -> None:
    known = _held(near="0%", near_context=3)
    gone, told = _left([_seeded(**near)], known)
    assert gone
    assert set(gone.values()) == {None}
    assert not told


def test_tables_and_columns_that_are_gone_give_no_reason() -> None:
    known = _held(near="10%")
    gone, told = _left([], known)
    assert len(gone) == len(known)
    assert set(gone.values()) == {None}
    assert not told
    other = Maintainer.seed(PEOPLE[["zip", "age"]], name="people", max_predicates=None, near="10%", threads=1)
    gone, told = _left([other], known)
    assert gone["{zip}: [] -> city"] is None
    assert not told
