"""A pipeline's output tables with a little of everything in them, and the page served from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast.dashboard.answers import Answers
from holdfast.dashboard.reading.outputs import Outputs
from holdfast.dashboard.serving import Site
from tests.dashboard.tables import Written, flattened

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ZIP_CITY = "not(t.Zip = s.Zip and t.City != s.City)"
KEY = "not(t.Id = s.Id)"
SALARY = "not(t.State = s.State and t.Salary > s.Salary and t.Rate < s.Rate)"
LOST = "orders.customer in customers.id"
CAMBRIDGE = {"Id": 1, "Zip": "02139", "City": "Cambridge", "State": "MA", "Salary": 50_000, "Rate": 5.0}
BOSTON = {"Id": 2, "Zip": "02139", "City": "Boston", "State": "MA", "Salary": 60_000, "Rate": 4.5}


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """Write what a pipeline leaves: a first look, a constraint that went, a broken rule and a bad record."""
    made = Written(tmp_path)
    first = [made.appeared(text, cause="seed", reason=None) for text in (ZIP_CITY, KEY, "{State}: Salary ~ Rate")]
    first.append(made.appeared(LOST, "orders", cause="seed", reason=None))
    first.append({"tables": [{"table_name": "tax", "columns": '{"Id":"integer","Zip":"string"}', "rows": 2}]})
    first.append({"rule_status": [made.rule("salaries", SALARY, 0), made.rule("keys", KEY, 0)]})
    made.put(flattened(first))
    made.wait(3_600)
    second = [made.disappeared(ZIP_CITY, [BOSTON, CAMBRIDGE]), {"batches": [made.batch()]}]
    second.append({"rule_status": [made.rule("salaries", SALARY, 2)]})
    second.append({"violations": [made.example("salaries", [BOSTON, CAMBRIDGE])]})
    made.put(flattened(second))
    missing = made.disappeared(LOST, [], "orders", witness='["4711"]')
    bad = {"quarantine": [made.bad('{"Id": 7', "not JSON: it ends at byte 8")]}
    made.put(flattened([missing, bad, {"batches": [made.batch(quarantined=1)]}]))
    return made


@pytest.fixture
def answers(written: Written) -> Answers:
    """Return what answers questions about them."""
    return Answers(Outputs(str(written.place), written.application), every=0.0)


@pytest.fixture
def site(answers: Answers) -> Iterator[Site]:
    """Serve the page."""
    served = Site(answers, "127.0.0.1", 0)
    served.start()
    yield served
    served.close()
