"""The page in a real browser: Debian's Chromium, without a window. Skipped where there is none; everything that can be told
without one is in the other tests of this folder.

HOLDFAST_SCREENSHOTS=<folder> keeps a picture of every view, light and dark, wide and narrow.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect

from holdfast.dashboard.serving import Site
from holdfast.jobs.application.outputs import answers_of
from holdfast.jobs.command_line import exit_code_of
from holdfast.jobs.configuration.reading import load
from tests.dashboard.browser import browser, chromium
from tests.dashboard.conftest import BOSTON, CAMBRIDGE, SALARY, ZIP_CITY
from tests.dashboard.tables import Written, constraint, flattened, near_constraint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser, Page


VIEWS = (
    *("overview", "incidents", "changes", "rules", "constraints", "near", "suspects"),
    *("inclusions", "pipeline", "quarantine"),
)
LYNN = {**BOSTON, "Id": 3, "City": "Lynn"}
HOSTILE = "<script>window.stolen = 1</script><img src=x onerror='window.stolen=2'>"
TURNED = "abc\u202egpj.exe"
CONTROL = "bell\x07 \x1b[31m nul\x00 end"
LONG = "x" * 20_000
SCHEMES: tuple[Literal["light"], Literal["dark"]] = ("light", "dark")

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
    expect(page.locator("h1")).to_have_text("One constraint")
    assert page.locator(".change").count() == 1


def nearly(written: Written) -> str:
    """Put constraints that nearly hold, one of which has a history; return its identity."""
    written.put(flattened([written.near("Zip -> City", 0, rows=200), written.near("key(Id)", 0, rows=200)]))
    written.put(flattened([written.near("State -> Rate", 9, 4, rows=200), written.near("{}: Salary ~ Rate", 5)]))
    moved = written.near("Zip -> City", 2, 0, [LYNN], rows=201)
    undecided = written.exception("Zip -> City", CAMBRIDGE, undecided=True)
    gone = written.disappeared("not(t.Zip = s.Zip and t.City != s.City)", [LYNN, CAMBRIDGE], exceptions=2)
    written.put(flattened([moved, gone, {"exceptions": [undecided], "batches": [written.batch()]}]))
    return str(near_constraint("Zip -> City", 0)["constraint_id"])


def test_what_nearly_holds_is_listed(open_page: Callable[..., Page], written: Written, site: Site) -> None:
    nearly(written)
    page = open_page(f"{site.address}#/near")
    assert "4 constraints nearly hold now, 3 of them with exceptions" in page.inner_text("main")
    listed = ["{}: Salary ~ Rate", "{Zip}: [] -> City", "{State}: [] -> Rate", "key(Id)"]
    assert texts(page, ".held .code") == ["key(Id)", *listed[:3]], "all are equally strong: the least share first"
    page.select_option("select[name=order]", "share")
    expect(page.locator(".held .code").first).to_have_text(listed[0])
    assert texts(page, ".held .code") == listed
    page.select_option("select[name=order]", "")
    expect(page.locator(".held .code").first).to_have_text(listed[3])
    assert texts(page, ".movers .change .code") == ["{State}: [] -> Rate", "{Zip}: [] -> City"]
    assert "4 before, now 9 exceptions of 200 rows, 4.5 %" in page.inner_text(".movers")
    page.select_option("select[name=shape]", "constant")
    expect(page.locator(".held > li")).to_have_count(2)
    assert page.locator(".movers").count() == 0, "a narrowed list stands alone"
    page.fill("input[name=q]", "zip")
    expect(page.locator(".held > li")).to_have_count(1)
    assert "Rows with the same Zip have the same City, but for 2 of 201 rows." in page.inner_text(".held")
    assert "2 of 201 rows, 0.995 %" in page.inner_text(".held")
    assert page.url.endswith("#/near?shape=constant&q=zip")


def test_one_near_constraint_has_a_course_and_its_rows(
    open_page: Callable[..., Page], written: Written, site: Site
) -> None:
    one = nearly(written)
    page = open_page(f"{site.address}#/near?q=zip")
    page.click("text=its exceptions")
    expect(page.locator("h1")).to_have_text("One near constraint")
    assert page.url.endswith(f"#/near?id={one}")
    assert page.locator(".plot circle").count() == 2
    assert "value from 0 to 2" in str(page.get_attribute(".plot svg", "aria-label"))
    rows = page.locator(".proof table").first
    assert rows.locator("th").all_inner_texts() == ["Exception", "Zip", "City", "Id"]
    cells = [line.locator("td").all_inner_texts() for line in rows.locator("tbody tr").all()]
    assert cells == [["certain", "02139", "Lynn", "3"], ["? undecided", "02139", "Cambridge", "1"]]
    assert "another row of its group could be the exception in its place" in page.inner_text("main")
    assert texts(page, ".change .badge") == ["▲ more", "+ entered"]
    assert "0 before, now 2 exceptions of 201 rows" in page.inner_text(".change >> nth=0")
    page.click("text=1 row that became an exception")
    assert "Lynn" in page.inner_text(".change >> nth=0")
    written.put(written.near_left("Zip -> City", 90, 2, rows=201))
    expect(page.locator("main")).to_contain_text("It does not nearly hold any more")
    assert texts(page, ".change .badge")[0] == "− left"
    assert page.locator(".plot circle").count() == 3


def test_changes_of_one_near_constraint_go_by_pages(
    open_page: Callable[..., Page], written: Written, site: Site
) -> None:
    for number in range(22):
        written.put(written.near("Zip -> City", number, number - 1 if number else None))
    one = near_constraint("Zip -> City", 0)["constraint_id"]
    page = open_page(f"{site.address}#/near?id={one}")
    for step, shown in (("Next", "11 to 20"), ("Next", "21 to 22"), ("Previous", "11 to 20"), ("Previous", "10")):
        page.click(f"text={step}")
        expect(page.locator(".end")).to_contain_text(f"{shown} of 22 changes")
    assert page.locator(".changes > li").count() == 10


def test_a_constraint_that_went_still_nearly_holds(
    open_page: Callable[..., Page], written: Written, site: Site
) -> None:
    one = nearly(written)
    page = open_page(f"{site.address}#/changes?change=disappeared&table_name=tax")
    assert "It still holds except for 2 rows: its exceptions" in page.inner_text(".change >> nth=0")
    assert "still holds" not in page.inner_text(".change >> nth=1")
    written.put(written.near("Zip -> City", 5, 2, rows=201))
    expect(page.locator(".change >> nth=0")).to_contain_text(
        "It still holds except for 2 rows, 5 by now: its exceptions"
    )
    page.click("text=its exceptions")
    expect(page.locator("h1")).to_have_text("One near constraint")
    assert page.url.endswith(one)
    go(page, "overview")
    assert "3" in page.inner_text(".tile >> text=nearly hold, with exceptions >> xpath=..")


def test_suspects_have_their_cell_marked(open_page: Callable[..., Page], written: Written, site: Site) -> None:
    page = open_page(f"{site.address}#/suspects")
    assert "near: {share: 1%}" in page.inner_text("main")
    identity = nearly(written)
    written.put(
        flattened(
            [
                written.suspect(LYNN, "City", "Cambridge", ["{Zip}: [] -> City"]),
                written.suspect(CAMBRIDGE, "Rate", 5.5, ["{State}: [] -> Rate"], score=0.91),
            ]
        )
    )
    expect(page.locator("main")).to_contain_text("2 cells are probably wrong")
    assert texts(page, ".held .sentence") == ["City is Lynn, expected Cambridge", "Rate is 5.0, expected 5.5"]
    assert texts(page, "td.differs") == ["?Lynn", "?5.0"]
    assert texts(page, ".held .about > span:nth-child(2)") == ["Id 3", "Id 1"]
    page.set_viewport_size({"width": 360, "height": 800})
    broken = "() => [...document.querySelectorAll('.evidence th')].filter((cell) => cell.clientHeight > 40).length"
    assert page.evaluate(broken) == 0, "no name of a column is broken in the middle of a word"
    assert page.evaluate("document.documentElement.scrollWidth") == 360, "the row is scrolled, not the page"
    page.goto(f"{site.address}#/overview")
    expect(page.locator("[data-key=suspects] .about").first).to_contain_text("Id 3")
    page.goto(f"{site.address}#/suspects")
    assert page.locator(".held a[href*='near']").first.get_attribute("href") == f"#/near?id={identity}"
    page.select_option("select[name=column]", "Rate")
    expect(page.locator(".held > li")).to_have_count(1)
    written.put(written.suspect(CAMBRIDGE, "Rate", 5.5, [], change="disappeared"))
    expect(page.locator(".held > li")).to_have_count(0)


def test_how_near_constraints_are_switched_on(open_page: Callable[..., Page], written: Written, site: Site) -> None:
    page = open_page(f"{site.address}#/near")
    assert "near: {share: 1%}" in page.inner_text("main")
    assert page.locator(".filters").count() == 0
    nearly(written)
    expect(page.locator(".held > li")).to_have_count(4)
    assert "near: {share: 1%}" not in page.inner_text("main")
    written.put({"tables": [{"table_name": "orders", "bounds": "{}"}]})
    expect(page.locator("main")).to_contain_text("Not maintained on orders: near: {share: 1%} under a table")


def test_the_page_opens_with_what_was_missed(open_page: Callable[..., Page], written: Written, site: Site) -> None:
    phone = "not(t.Phone = s.Phone)"
    page = open_page(site.address)
    assert page.inner_text(".missed h2") == "In the last day"
    assert texts(page, ".sort h3") == ["2 lost", "0 recovered"]
    page.click("text=Mark as seen")
    expect(page.locator(".missed h2")).to_contain_text("Since you last looked, ")
    assert "No constraint was lost or recovered." in page.inner_text(".missed")
    written.put(flattened([written.appeared(phone), {"batches": [written.batch(files='["/in/phones-1.json"]')]}]))
    expect(page.locator(".sort.come h3")).to_have_text("1 recovered")
    assert texts(page, ".missed .change .sentence") == [
        f"1 constraint of tax recovered with commit {written.commit} (file phones-1.json): key(Phone)"
    ]
    page.reload()
    ready(page)
    assert texts(page, ".sort.come h3") == ["1 recovered"], "a page that is opened again at once is the same look"
    page.click("#pause")  # or a commit that arrives is kept as shown
    earlier = (
        "JSON.stringify({ last: 'shop', of: [['shop', { shown: { commit: COMMIT, at: Date.now() - 3600000 } }]] })"
    )
    page.evaluate(f"localStorage.setItem('holdfast-looked', {earlier.replace('COMMIT', str(written.commit))})")
    written.put(flattened([written.disappeared(phone, [BOSTON, CAMBRIDGE]), {"batches": [written.batch()]}]))
    page.reload()
    ready(page)
    assert page.inner_text(".missed h2") == "Since you last looked, 1 hour ago"
    assert texts(page, ".sort h3") == ["1 lost", "0 recovered"]
    page.click("#pause")
    page.evaluate(f"localStorage.setItem('holdfast-looked', {earlier.replace('COMMIT', '0').replace('shop', 'other')})")
    page.reload()
    ready(page)
    assert page.inner_text(".missed h2") == "In the last day", "the mark of another application is none"
    page.evaluate("localStorage.setItem('holdfast-looked', '[1]')")
    page.reload()
    ready(page)
    assert page.inner_text(".missed h2") == "In the last day"
    page.click("text=its constraints")
    expect(page.locator("h1")).to_have_text("One incident")
    assert "by the rows Id 2 and Id 1: key(Phone)" in page.inner_text(".card")
    assert page.locator(".proof tbody tr:visible").count() == 2
    page.click("text=its page")
    expect(page.locator("h1")).to_have_text("One constraint")


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


def test_one_constraint_has_its_state_in_all_its_forms(
    open_page: Callable[..., Page], written: Written, site: Site
) -> None:
    one = nearly(written)
    page = open_page(f"{site.address}#/changes?q=zip&change=disappeared")
    page.click("text=history")
    expect(page.locator("h1")).to_have_text("One constraint")
    assert "▲ holds except for 2 rows of 201, 0.995 %" in page.inner_text(".card")
    assert page.locator(".plot circle").count() == 2
    page.click(".card >> text=its exceptions")
    expect(page.locator("h1")).to_have_text("One near constraint")
    assert page.url.endswith(one)
    assert page.locator(".rows .differs").first.inner_text() == "Lynn"
    page.click(".card >> text=as a constraint")
    expect(page.locator("h1")).to_have_text("One constraint")
    written.put(flattened([written.near("Zip -> City", 0, 2, rows=201), written.appeared(ZIP_CITY)]))
    expect(page.locator(".card")).to_contain_text("✓ holds for")
    assert "ended and came back once" in page.inner_text(".card")


def test_a_constraint_is_copied_as_a_rule_and_muted(
    open_page: Callable[..., Page], written: Written, tmp_path: Path
) -> None:
    mutes = tmp_path / "mutes.yaml"
    mutes.write_text("")
    settings = {**json.loads(written.file.read_text()), "mutes": "./mutes.yaml"}
    written.file.write_text(json.dumps(settings))
    served = Site(answers_of(load(written.file)), "127.0.0.1", 0)
    served.start()
    from axe_playwright_python.sync_playwright import Axe

    page = open_page(served.address)
    assert texts(page, ".sort.gone h3") == ["2 lost"]
    page.click(".sort.gone li:has-text('Zip') >> text=its page")
    page.click("summary:has-text('Show the query')")
    assert 'group by t."Zip", t."City"' in page.inner_text(".actions pre >> nth=0")
    page.click("summary:has-text('Copy as rule')")
    assert 'forbid: "t.Zip = s.Zip and t.City != s.City"' in page.inner_text(".actions pre >> nth=1")
    page.click(".actions button >> nth=1")
    expect(page.locator("#said")).to_contain_text("The line is")
    page.click("summary:has-text('Mute')")
    line = page.inner_text(".actions pre >> nth=2")
    assert line == f'- {{table: tax, constraint: "{ZIP_CITY}"}}'
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    mutes.write_text(line)
    page.reload()
    ready(page)
    assert "muted" in page.inner_text(".card")
    go(page, "overview")
    expect(page.locator(".sort.gone h3")).to_have_text("1 lost")
    assert "Muted constraints are left out." in page.inner_text(".missed")
    mutes.write_text("- {table: nope, constraint: key(Id)}")
    go(page, "rules")
    go(page, "overview")
    assert "The file of mutes cannot be used" in page.inner_text(".problem")
    served.close()
