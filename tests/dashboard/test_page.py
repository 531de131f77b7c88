"""The page in a real browser: Debian's Chromium, without a window. Skipped where there is none; everything that can be told
without one is in the other tests of this folder.

HOLDFAST_SCREENSHOTS=<folder> keeps a picture of every view, light and dark, wide and narrow.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from holdfast.dashboard.serving import Site
from holdfast.jobs.application.outputs import answers_of
from holdfast.jobs.configuration.reading import load
from tests.dashboard.conftest import BOSTON, CAMBRIDGE, ZIP_CITY
from tests.dashboard.pages import LYNN, go, nearly, open_page, pytestmark, ready, running, texts
from tests.dashboard.tables import Written, constraint, flattened, near_constraint

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Page

__all__ = ["open_page", "pytestmark", "running"]  # fixtures, and where tests are skipped


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
    assert texts(page, ".change .badge") == ["▲ nearly lost", "+ entered"]
    assert "0 before, now 2 exceptions of 201 rows" in page.inner_text(".change >> nth=0")
    page.click("text=1 row that became an exception")
    assert "Lynn" in page.inner_text(".change >> nth=0")
    written.put(written.near_left("Zip -> City", 90, 2, rows=201))
    expect(page.locator("main")).to_contain_text("It does not nearly hold any more")
    assert texts(page, ".change .badge")[0] == "− left"
    assert page.locator(".plot circle").count() == 3


def test_a_jump_of_exceptions_is_an_incident(open_page: Callable[..., Page], written: Written, site: Site) -> None:
    for now, before in ((4, None), (9, 4), (33, 9), (30, 33), (7, 30)):
        written.put(written.near("Zip -> City", now, before))
    one = near_constraint("Zip -> City", 0)["constraint_id"]
    page = open_page(f"{site.address}#/near?id={one}")
    assert texts(page, ".change .badge") == ["+ recovered", "▼ fewer", "▲ nearly lost", "▲ more", "+ entered"]
    page.click("text=its incident >> nth=1")
    expect(page.locator("h1")).to_have_text("One incident")
    text = f"1 constraint of tax has many more exceptions with commit {written.commit - 2}: Zip -> City (9 to 33 exceptions)"
    assert text in page.inner_text(".card")
    assert "9 to 33 exceptions" in page.inner_text(".change")
    assert "recovered since" in page.inner_text(".change")


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


def test_a_constraints_page_marks_suspects_and_says_where_exceptions_are(
    open_page: Callable[..., Page], written: Written, site: Site
) -> None:
    written.put(
        flattened(
            [
                written.near("Zip -> City", 12, 0, [BOSTON, LYNN], rows=500),
                written.suspect(BOSTON, "City", "Cambridge", ["{Zip}: [] -> City"]),
                written.suspect(LYNN, "City", None, ["{Zip}: [] -> City"], score=0.99),
                written.concentration("Zip -> City", "State", "MA", holds_elsewhere=True),
                written.concentration("Zip -> City", "Rate", None, place=2, exceptions=9, rows=120),
            ]
        )
    )
    page = open_page(f"{site.address}#/near?id={near_constraint('Zip -> City', 0)['constraint_id']}")
    marked = [
        "Boston? probably wrong, expected Cambridge",
        "Lynn? probably wrong, expected null",
        "Boston? probably wrong, expected Cambridge",
    ]
    assert sorted(texts(page, "td.suspect:visible")) == sorted(marked), "exceptions, and the last violation"
    assert texts(page, "[data-key^=where] p") == [
        "11 of 12 exceptions have State = MA; 3 % of all rows do.",
        "✓ It holds except where State = MA.",
        "9 of 12 exceptions have Rate is null; 24 % of all rows do.",
    ]
    page.goto(f"{site.address}#/changes?id={constraint(ZIP_CITY)['constraint_id']}")
    expect(page.locator("h1")).to_have_text("One constraint")
    assert texts(page, "td.suspect:visible") == ["Boston? probably wrong, expected Cambridge"]
    written.put(written.suspect(BOSTON, "City", "Cambridge", [], change="disappeared"))
    expect(page.locator("td.suspect")).to_have_count(0)


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
    assert 'fd: "Zip -> City"' in page.inner_text(".actions pre >> nth=1")
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
