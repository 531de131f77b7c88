"""How long does somebody wait for a view of the page, with 50,000 constraints and 1,000,000 changes?

Beside them 1,000 constraints nearly hold, with 100,000 changes of their exceptions.

`from nothing`: a new process opens the tables and answers the overview, the first answer of all, for which the changes
are read. `question`: milliseconds of each further answer, the median of five. `browser`: milliseconds from the start of
`holdfast dashboard` until its address is printed, and from opening an address in Chromium until the view is shown,
the first one with a server and a Chromium that were just started; of these, `page/icon.svg` is what any page takes.
Left out where there is no Chromium.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.measuring import Point, measured
from tests.dashboard.browser import browser, chromium
from tests.dashboard.tables import Written, many, many_near

HELD, CHANGES = 50_000, 1_000_000
NEAR, NEAR_CHANGES = 1_000, 100_000
_ROUNDS = 5
_QUESTIONS: dict[str, tuple[str, dict[str, str]]] = {
    "overview": ("overview", {}),
    "missed in a day": ("since", {}),
    "missed in a month": ("since", {"commit": "1"}),
    "incidents": ("incidents", {}),
    "incidents, in the middle": ("incidents", {"offset": "400000"}),
    "newest changes": ("changes", {}),
    "changes of a table that disappeared": ("changes", {"table_name": "table_1", "change": "disappeared"}),
    "changes, in the middle": ("changes", {"offset": "500000"}),
    "constraints by score": ("constraints", {}),
    "constraints, searched": ("constraints", {"q": "column_3 amount_7"}),
    "counts over time": ("history", {}),
    "batches of a month": ("batches", {"span": "month"}),
    "what nearly holds": ("near", {}),
    "what nearly holds, searched": ("near", {"q": "column_3 group_7"}),
    "exceptions that moved most in a month": ("near", {"span": "month"}),
}
_VIEWS = (
    "",
    "page/icon.svg",
    "#/incidents",
    "#/changes",
    "#/constraints?q=column_3",
    "#/near",
    "#/pipeline?span=month",
)


def points() -> Iterator[Point]:
    with tempfile.TemporaryDirectory() as folder:
        place, application, file = measured(_made, folder).answer  # elsewhere: its memory is not theirs
        whole = {"constraints": HELD, "changes": CHANGES, "near": NEAR, "near_changes": NEAR_CHANGES}
        run = measured(_from_nothing, place, application)
        yield {"question": "from nothing", **whole, "ms": round(run.seconds * 1_000), "peak_mb": run.peak_mb}
        run = measured(_each, place, application)
        for name, milliseconds in run.answer.items():
            yield {"question": name, **whole, "ms": milliseconds, "peak_mb": run.peak_mb}
        path = chromium()
        if path is not None:
            yield from _in_browser(path, file, whole)


def _made(folder: str) -> tuple[str, str, Path]:
    made = Written(Path(folder))
    many(made, HELD, CHANGES)
    many_near(made, NEAR, NEAR_CHANGES)
    return str(made.place), made.application, made.file


def _answers(place: str, application: str) -> Any:
    from holdfast.dashboard.answers import Answers
    from holdfast.dashboard.reading.outputs import Outputs

    return Answers(Outputs(place, application))


def _from_nothing(place: str, application: str) -> int:
    found = _answers(place, application).ask("overview", {})
    assert found["held"] > 0
    return len(found["recent"])


def _each(place: str, application: str) -> dict[str, float]:
    answers = _answers(place, application)
    answers.ask("overview", {})
    took = {}
    (first, *_) = answers.ask("near", {"limit": "1"})["rows"]
    one = {"one near constraint": ("near_constraint", {"id": first["constraint_id"]})}
    for name, (question, given) in {**_QUESTIONS, **one}.items():
        times = []
        for _ in range(_ROUNDS):
            began = time.perf_counter()
            assert answers.ask(question, given)
            times.append((time.perf_counter() - began) * 1_000)
        took[name] = round(statistics.median(times), 1)
    for word in ("column_3 amount_7", "column_12 column_30"):
        began = time.perf_counter()
        assert answers.ask("changes", {"q": word})["total"]
        took[f"changes, searched for {word}"] = round((time.perf_counter() - began) * 1_000, 1)
    return took


def _in_browser(path: str, file: Path, whole: Point) -> Iterator[Point]:
    began = time.perf_counter()
    command = [sys.executable, "-m", "holdfast", "dashboard", str(file), "--port", "0", "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ)
    assert process.stdout is not None
    address = process.stdout.readline().split()[1]
    yield {"question": "browser", "until": "address", **whole, "ms": round((time.perf_counter() - began) * 1_000)}
    try:
        with browser(path) as started:
            for view in _VIEWS:
                page = started.new_page()
                began = time.perf_counter()
                page.goto(address + view)
                page.wait_for_selector("svg" if view.endswith(".svg") else "main:not([aria-busy]) h1")
                took = round((time.perf_counter() - began) * 1_000)
                yield {"question": "browser", "until": view or "first view", **whole, "ms": took}
                page.close()
    finally:
        process.terminate()
        process.wait()
