"""The page while commits arrive, and pages that are read elsewhere: hostile values, keyboards, the report."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect

from holdfast.jobs.command_line import exit_code_of
from tests.dashboard.conftest import BOSTON, CAMBRIDGE, SALARY, ZIP_CITY
from tests.dashboard.pages import (
    CONTROL,
    HOSTILE,
    LONG,
    TURNED,
    VIEWS,
    go,
    nearly,
    open_page,
    pytestmark,
    ready,
    running,
    texts,
)
from tests.dashboard.tables import Written, constraint, flattened, near_constraint

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Browser, Page

    from holdfast.dashboard.serving import Site

__all__ = ["open_page", "pytestmark", "running"]  # fixtures, and where tests are skipped

SCHEMES: tuple[Literal["light"], Literal["dark"]] = ("light", "dark")


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
    expect(page.locator(".end")).to_contain_text("No matching changes.")


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
    near = f"{columns[0]} -> {columns[1]}"
    written.put(
        flattened(
            [
                written.near(near, 1, 0, [row], table_name=HOSTILE),
                {"exceptions": [written.exception(near, other, HOSTILE, undecided=True)]},
                written.disappeared(text, [row, other], table=HOSTILE),
                written.appeared(text, table=HOSTILE, by=text, reason="weakened"),
                written.suspect(row, "<b>Zip</b>", HOSTILE, [near], table_name=HOSTILE),
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
    detail = near_constraint("`<b>Zip</b>` -> `a\u202eb`", 0, table_name=HOSTILE)["constraint_id"]
    incident = f"incidents?{urlencode({'commit': written.commit, 'table_name': HOSTILE, 'direction': 'lost'})}"
    for view in (*VIEWS, f"near?id={detail}", incident):
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


@pytest.mark.parametrize(("width", "scheme"), [(1_280, "light"), (390, "dark")])
def test_everybody_can_use_it(
    open_page: Callable[..., Page], written: Written, site: Site, width: int, scheme: Literal["light", "dark"]
) -> None:
    """Differential: axe's rules, those of good practice included, find nothing, whatever is open.

    Each scheme once and each width once: `test_reporting.py` holds that a scheme changes colours alone, a width none.
    """
    from axe_playwright_python.sync_playwright import Axe

    hostile(written)
    page = open_page(site.address, width, scheme)
    detail = near_constraint("`<b>Zip</b>` -> `a\u202eb`", 0, table_name=HOSTILE)["constraint_id"]
    incident = f"incidents?{urlencode({'commit': written.commit, 'table_name': HOSTILE, 'direction': 'lost'})}"
    one = constraint("not(t.`<b>Zip</b>` = s.`<b>Zip</b>` and t.`a\u202eb` != s.`a\u202eb`)", HOSTILE)["constraint_id"]
    details = (f"near?id={detail}", f"near?id={'0' * 64}", f"changes?id={one}", incident)
    for view in (*VIEWS, "changes?q=nothing+has+this", *details):
        go(page, view)
        page.evaluate("for (const place of document.querySelectorAll('details')) place.open = true")
        page.evaluate("document.getAnimations().forEach(one => one.finish())")
        found = Axe().run(page)
        assert found.violations_count == 0, f"{view}: {found.generate_report()}"
        if folder := os.environ.get("HOLDFAST_SCREENSHOTS"):
            for shown in SCHEMES:
                page.emulate_media(color_scheme=shown)
                name = f"{view[:12].replace('?', '-')}-{shown}-{width}.png"
                page.screenshot(path=Path(folder) / name, full_page=True)
            page.emulate_media(color_scheme=scheme)
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


def test_the_report_has_what_nearly_holds(open_page: Callable[..., Page], written: Written, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    assert exit_code_of(["report", str(written.file), "-o", str(file), "--quiet"]) == 0
    page = open_page(file.as_uri())
    assert "Nearly holds" not in texts(page, "#views a")
    assert "nearly" not in page.inner_text("main")
    page.goto(f"{file.as_uri()}#/near")
    expect(page.locator("#views [aria-current]")).to_have_attribute("data-view", "overview")
    one = nearly(written)
    assert exit_code_of(["report", str(written.file), "-o", str(file), "--quiet"]) == 0
    page = open_page(file.as_uri())
    assert "Changed most in the last day" in page.inner_text("main")
    go(page, "near?having=some&order=text")
    assert texts(page, ".held .code") == ["{State}: [] -> Rate", "{Zip}: [] -> City", "{}: Salary ~ Rate"]
    go(page, f"near?id={one}")
    assert page.locator(".proof tbody tr").first.inner_text().split() == ["certain", "02139", "Lynn", "3"]
    go(page, f"near?id={near_constraint('key(Id)', 0)['constraint_id']}")
    assert "are not in this file" in page.inner_text("main")
    change = written.near("State -> Rate", 9, 8)["near_changes"][0]
    rows = [{**written.common(written.commit + number), **change} for number in range(1, 31)]
    written.put_many("near_changes", rows, written.commit + 30)
    assert exit_code_of(["report", str(written.file), "-o", str(file), "--quiet"]) == 0
    page = open_page(file.as_uri())
    go(page, f"near?id={change['constraint_id']}")
    assert "10 of 25 changes shown" in page.inner_text(".end")
    assert "This file has the first 25; 6 others are in the tables." in page.inner_text(".end")
    page.click("text=Next")
    expect(page.locator(".end")).to_contain_text("11 to 20 of 25 changes")


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
