"""The page in a real browser: Debian's Chromium, without a window. Skipped where there is none; everything that can be told
without one is in the other tests of this folder.

HOLDFAST_SCREENSHOTS=<folder> keeps a picture of every view, light and dark, wide and narrow.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from holdfast.jobs.command_line import exit_code_of
from tests.dashboard.browser import browser, chromium
from tests.dashboard.conftest import BOSTON, CAMBRIDGE, SALARY, ZIP_CITY
from tests.dashboard.tables import Written, flattened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser, Page

    from holdfast.dashboard.serving import Site

VIEWS = ("overview", "changes", "rules", "constraints", "inclusions", "pipeline", "quarantine")
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


def test_a_person_sees_what_is_wrong(open_page: Callable[..., Page], site: Site) -> None:
    page = open_page(site.address)
    assert page.inner_text("h1") == "1 of 2 rules is broken."
    assert texts(page, ".rule.broken header a") == ["salaries"]
    assert page.inner_text("#application") == "shop"
    differing = texts(page, ".rule.broken .differs")
    assert differing == ["60000", "≠50000", "4.5", "≠5.0"]
    assert "2 pairs, 2 rows" in page.inner_text(".rule.broken")
    assert page.inner_text("#state") == "live"


def test_witness_rows_stand_side_by_side(open_page: Callable[..., Page], site: Site) -> None:
    page = open_page(f"{site.address}#/changes?table_name=tax&change=disappeared")
    (rows,) = page.locator(".change .rows").first.all()
    assert rows.locator("thead th").all_inner_texts() == ["Id 2", "Id 1"]
    assert rows.locator("tr.spoken th").all_inner_texts() == ["Zip", "City"]
    assert rows.locator(".differs").all_text_contents() == ["Boston", "≠Cambridge"]
    assert rows.locator(".same").all_inner_texts() == ["02139", "02139"]


def test_search_and_filters_are_in_the_address(open_page: Callable[..., Page], site: Site) -> None:
    page = open_page(f"{site.address}#/changes")
    assert page.locator(".change").count() == 6
    page.keyboard.press("/")
    page.keyboard.type("zip city")
    expect(page.locator(".change")).to_have_count(2)
    page.select_option("select[name=change]", "disappeared")
    expect(page.locator(".change")).to_have_count(1)
    assert page.url.endswith("#/changes?q=zip+city&change=disappeared")
    shared = open_page(page.url)
    assert texts(shared, ".change code") == [ZIP_CITY]
    assert shared.input_value("input[name=q]") == "zip city"
    page.go_back()
    expect(page.locator(".change")).to_have_count(2)


def test_constraints_are_ranked_and_filtered(open_page: Callable[..., Page], written: Written, site: Site) -> None:
    for number in range(60):
        written.put(written.appeared(f"not(t.Zip = s.Zip and t.Column{number} = s.Column{number})"))
    page = open_page(f"{site.address}#/constraints")
    assert page.locator(".held > li").count() == 25
    assert "25 of 62 constraints shown" in page.inner_text(".end")
    page.click("text=Next")
    expect(page.locator(".end")).to_contain_text("26 to 50 of 62 constraints")
    page.click("text=Previous")
    expect(page.locator(".end")).to_contain_text("25 of 62 constraints shown")
    page.click("text=Show 37 more")
    expect(page.locator(".held > li")).to_have_count(62)
    page.select_option("select[name=family]", "od")
    expect(page.locator(".held > li")).to_have_count(1)
    assert "Rate never falls as Salary rises" in page.inner_text(".held > li")
    page.click(".held > li >> text=history")
    expect(page.locator("h1")).to_have_text("History of one constraint")
    assert page.locator(".change").count() == 1


def test_a_commit_is_followed(open_page: Callable[..., Page], written: Written, site: Site) -> None:
    page = open_page(f"{site.address}#/changes?table_name=tax")
    page.focus("select[name=reason]")
    held = page.evaluate_handle("document.querySelector('.change')")
    written.put(written.appeared("not(t.Phone = s.Phone)"))
    page.wait_for_selector(".change >> text=No two rows have the same Phone.")
    assert page.locator(".change").count() == 5
    assert held.evaluate("node => node.isConnected"), "what is there stays"
    assert page.evaluate("document.activeElement.name") == "reason"
    go(page, "overview")
    mended = {"rule_status": [written.rule("salaries", SALARY, 0)]}
    gone = {"violations": [written.example("salaries", [BOSTON, CAMBRIDGE], "removed")]}
    written.put(flattened([mended, gone]))
    expect(page.locator("h1")).to_have_text("All 2 rules hold.")
    assert page.locator(".rule.broken").count() == 0


def test_updates_can_be_paused(open_page: Callable[..., Page], written: Written, site: Site) -> None:
    page = open_page(f"{site.address}#/changes")
    page.click("#pause")
    written.put(written.appeared("not(t.Phone = s.Phone)"))
    expect(page.locator("#state")).to_have_text("paused, commits have arrived")
    assert page.locator(".change").count() == 6
    page.click("#pause")
    expect(page.locator(".change")).to_have_count(7)


def test_a_tab_that_comes_back_is_up_to_date(open_page: Callable[..., Page], written: Written, site: Site) -> None:
    page = open_page(f"{site.address}#/changes")
    turn = """hidden => {
        Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
    }"""
    page.evaluate(turn, True)
    written.put(written.appeared("not(t.Phone = s.Phone)"))
    page.evaluate(turn, False)
    expect(page.locator(".change")).to_have_count(7)


def test_pages_of_changes_stay_while_commits_arrive(
    open_page: Callable[..., Page], written: Written, site: Site
) -> None:
    page = open_page(f"{site.address}#/changes?limit=2")
    page.click("text=Next")
    expect(page.locator(".end")).to_contain_text("3 to 4 of 6 changes")
    before = texts(page, ".change .code")
    with page.expect_response("**/api/changes*"):
        written.put(written.appeared("not(t.Phone = s.Phone)"))
    expect(page.locator(".end")).to_contain_text("3 to 4 of 6 changes")
    assert texts(page, ".change .code") == before
    page.fill("input[type=date]", "2026-02-28")
    page.dispatch_event("input[type=date]", "change")
    expect(page.locator(".end")).to_contain_text("No changes that fit.")


def test_a_server_that_ended_is_told(open_page: Callable[..., Page], running: Browser, site: Site) -> None:
    page = running.new_page()  # it fails to load things, as it should
    page.goto(site.address)
    ready(page)
    site.close()
    expect(page.locator("#state")).to_have_text("not connected")
    page.evaluate("location.hash = '#/rules'")
    page.wait_for_selector(".problem >> text=does not answer")
    page.close()


def hostile(written: Written) -> None:
    """Put what nobody should have put in every place that shows a value."""
    columns = "`<b>Zip</b>`", "`a\u202eb`"
    text = f"not(t.{columns[0]} = s.{columns[0]} and t.{columns[1]} != s.{columns[1]})"
    row = {"Id": 1, "<b>Zip</b>": HOSTILE, "a\u202eb": TURNED, "other": CONTROL, "long": LONG}
    other = {**row, "Id": HOSTILE, "a\u202eb": LONG}
    rule = f"rule {HOSTILE}"
    written.put(
        flattened(
            [
                written.disappeared(text, [row, other], table=HOSTILE),
                written.appeared(text, table=HOSTILE, by=text, reason="weakened"),
                {"rule_status": [written.rule(rule, text, 1, table_name=HOSTILE, threshold=HOSTILE)]},
                {"violations": [written.example(rule, [row, other])]},
                {
                    "quarantine": [
                        written.bad(f"{HOSTILE}{CONTROL}", f"{HOSTILE} {TURNED}", HOSTILE, table_name=HOSTILE)
                    ]
                },
                {"batches": [written.batch(source=HOSTILE)]},
                {"tables": [{"table_name": HOSTILE, "columns": '{"<b>Zip</b>":"string"}', "nulls_rule": HOSTILE}]},
            ]
        )
    )


def test_hostile_values_are_text(open_page: Callable[..., Page], written: Written, site: Site) -> None:
    hostile(written)
    page = open_page(site.address)
    for view in VIEWS:
        go(page, view)
        page.evaluate("for (const place of document.querySelectorAll('details')) place.open = true")
        assert page.evaluate("window.stolen") is None, view
        assert page.locator("main script, main img, main b").count() == 0, view
        assert "<script>" in page.inner_text("main") or view == "inclusions", view
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{view} is {wide} pixels too wide"
    go(page, "changes")
    shown = page.inner_text("main")
    assert "abc\\u202egpj.exe" in shown
    assert "\u202e" not in shown
    assert "bell\\u0007 \\u001b[31m nul\\u0000 end" in str(page.text_content("main"))
    assert "… (20,000 characters)" in str(page.text_content("main"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1_280, 390])
def test_everybody_can_use_it(
    open_page: Callable[..., Page], written: Written, site: Site, scheme: str, width: int
) -> None:
    """Differential: axe's rules, those of good practice included, find nothing, whatever is open."""
    from axe_playwright_python.sync_playwright import Axe

    hostile(written)
    page = open_page(site.address, width, scheme)
    for view in (*VIEWS, "changes?q=nothing+has+this"):
        go(page, view)
        page.evaluate("for (const place of document.querySelectorAll('details')) place.open = true")
        page.evaluate("document.getAnimations().forEach(one => one.finish())")
        found = Axe().run(page)
        assert found.violations_count == 0, f"{view}: {found.generate_report()}"
        if folder := os.environ.get("HOLDFAST_SCREENSHOTS"):
            name = f"{view.partition('?')[0]}-{scheme}-{width}.png"
            page.screenshot(path=Path(folder) / name, full_page=True)
    assert page.evaluate("getComputedStyle(document.body).colorScheme || 'light dark'")
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(20, 24, 26)") is (scheme == "dark")


def test_it_goes_by_keyboard(open_page: Callable[..., Page], site: Site) -> None:
    page = open_page(site.address)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "view"
    page.focus("#views a[data-view=rules]")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Rules")
    assert page.evaluate("document.activeElement.id") == "view"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "salaries"


def test_the_report_opens_from_a_file(open_page: Callable[..., Page], written: Written, tmp_path: Path) -> None:
    hostile(written)
    file = tmp_path / "report.html"
    assert exit_code_of(["report", str(written.file), "-o", str(file), "--quiet"]) == 0
    page = open_page(file.as_uri())
    assert "of 3 rules are broken" in page.inner_text("h1")
    assert page.inner_text("#state").startswith("as of ")
    for view in VIEWS:
        go(page, view)
        assert page.locator("main script, main img, main b").count() == 0, view
    go(page, "changes?q=zip+city&change=disappeared&table_name=tax")
    assert texts(page, ".change code") == [ZIP_CITY]
    page.select_option("select[name=change]", "appeared")
    page.wait_for_selector(".change.come")
    assert page.evaluate("window.stolen") is None
    go(page, "constraints?order=newest")
    assert page.locator(".held > li").count() == 3
