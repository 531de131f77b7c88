"""Pages in a browser, for tests: opened, waited for, and read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from tests.dashboard.browser import browser, chromium
from tests.dashboard.conftest import BOSTON, CAMBRIDGE
from tests.dashboard.tables import Written, flattened, near_constraint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser, Page

    from holdfast.dashboard.serving import Site


VIEWS = (
    *("overview", "incidents", "changes", "rules", "constraints", "near", "suspects"),
    *("inclusions", "pipeline", "quarantine"),
)


LYNN = {**BOSTON, "Id": 3, "City": "Lynn"}
HOSTILE = "<script>window.stolen = 1</script><img src=x onerror='window.stolen=2'>"


TURNED = "abc\u202egpj.exe"


CONTROL = "bell\x07 \x1b[31m nul\x00 end"


LONG = "x" * 20_000


expect.set_options(timeout=30_000)


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        chromium() is None, reason="needs Chromium: apt-get install chromium, or HOLDFAST_CHROMIUM=<its path>"
    ),
]


@pytest.fixture(scope="module")
def running() -> Iterator[Browser]:
    """Start the browser once."""
    path = chromium()
    assert path is not None
    with browser(path) as started:
        yield started


@pytest.fixture
def open_page(running: Browser, site: Site) -> Iterator[Callable[..., Page]]:  # the site ends after the pages
    """Open pages that must not fail, and must not ask anybody else."""
    contexts = []
    problems: list[str] = []

    def opened(address: str, width: int = 1_280, scheme: Any = "light") -> Page:
        context = running.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        context.grant_permissions([])
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(30_000)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
        origin = address.partition("#")[0]
        page.on("request", lambda asked: None if asked.url.startswith(origin) else problems.append(asked.url))
        page.goto(address)
        ready(page)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert problems == []


def ready(page: Page) -> None:
    """Wait until the view that the address names is shown."""
    page.wait_for_selector("main:not([aria-busy]) h1")


def go(page: Page, view: str) -> None:
    page.evaluate("view => { location.hash = view }", f"#/{view}")
    expect(page.locator("#views [aria-current]")).to_have_attribute("data-view", view.partition("?")[0])
    ready(page)


def texts(page: Page, selector: str) -> list[str]:
    return [text.strip() for text in page.locator(selector).all_text_contents()]


def nearly(written: Written) -> str:
    """Put constraints that nearly hold, one of which has a history; return its identity."""
    written.put(flattened([written.near("Zip -> City", 0, rows=200), written.near("key(Id)", 0, rows=200)]))
    written.put(flattened([written.near("State -> Rate", 9, 4, rows=200), written.near("{}: Salary ~ Rate", 5)]))
    moved = written.near("Zip -> City", 2, 0, [LYNN], rows=201)
    undecided = written.exception("Zip -> City", CAMBRIDGE, undecided=True)
    gone = written.disappeared("not(t.Zip = s.Zip and t.City != s.City)", [LYNN, CAMBRIDGE], exceptions=2)
    written.put(flattened([moved, gone, {"exceptions": [undecided], "batches": [written.batch()]}]))
    return str(near_constraint("Zip -> City", 0)["constraint_id"])
