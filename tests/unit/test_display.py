"""What notebooks show: lists that stay lists, HTML that is nothing but text and tables, data frames, plots."""

import copy
import pickle
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from holdfast import Batches, InclusionsAcross, Maintainer, check, discover, discover_inclusions
from holdfast.constraints import DenialConstraint, Operator, Predicate, PredicateSpace, RowImage, UsageError, Violation
from holdfast.discovery.reported import Reported, constraint_of
from holdfast.display.constraints import Constraints
from holdfast.display.html import LONGEST_VALUE, escaped
from holdfast.display.listing import MOST
from holdfast.display.witness import Witness

PEOPLE = pd.DataFrame({"zip": ["x1", "x1", "x2"], "city": ["a", "a", "b"], "pay": [10, 20, 30]})
EVIL = "\"><script>alert('1')</script>&amp;\u202e<img src=x onerror=alert(2)>`\0"


class Markup(HTMLParser):
    """What a browser makes of HTML: the tags with their attributes, and the text that is seen."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.marked: list[str] = []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += data
        if "mark" in self.open:
            self.marked.append(data)


def _html(shown: Any) -> Markup:
    bundle = shown._repr_mimebundle_(include=None, exclude=None)
    assert bundle.keys() == {"text/plain", "text/html"}
    assert shown._repr_html_() == bundle["text/html"]
    assert "\u202e" not in bundle["text/plain"]
    markup = Markup(bundle["text/html"])
    seen = {"div", "style", "bdi", "table", "thead", "tbody", "tr", "th", "td", "code", "mark", "span", "i"}
    assert {tag for tag, _ in markup.tags} <= {*seen, "details", "summary"}
    assert {name for _, attributes in markup.tags for name in attributes} <= {"class", "scope", "title"}
    assert "\u202e" not in markup.text
    return markup


def _everything(data: pd.DataFrame) -> Iterator[Any]:
    """Yield everything that shows itself, of a table whose last row breaks what the others obey."""
    names = [f"`{name.replace('`', '``')}`" for name in data.columns]
    found = discover(data, name="t")
    yield from (found, found[:2], found.top(3))
    yield discover(data, name="t", family="od")
    yield discover_inclusions({"t": data, "u": data.astype(str)})
    rules = [f"{names[0]} -> {names[1]}", f"key({names[0]})", f"not(t.{names[1]} is not null)"]
    checked = check(data, rules, name="t")
    yield from (checked, checked[0])
    maintainer = Maintainer.seed(data[:-1], name="t", rules=rules)
    result = maintainer.step(inserts=data[-1:])
    yield from (maintainer.constraints, maintainer.rules, result, result.changes, Batches([result]))
    nearly = Maintainer.seed(data[:-1], name="t", max_predicates=1, near="50%")
    result = nearly.step(inserts=data[-1:])
    yield from (nearly.near, result, result.near)
    across = InclusionsAcross.seed({"t": data[:-1], "u": data.rename(columns=str.upper)})
    yield from (
        across.constraints,
        across.apply("t", inserts=data[-1:]),
        across.apply("u", deletes=data[:1].rename(columns=str.upper)),
    )


@pytest.mark.parametrize("evil", [EVIL, "]]>", "</style>", "x" * 100_000, "\u05d0" * 100, "a\r\nb", ""])
def test_nothing_of_the_data_becomes_markup(evil: str) -> None:
    data = pd.DataFrame({f"{evil}1": [evil, evil, f"{evil}b"], f"{evil}2": [evil, evil, evil], "n": [1, 2, 3]})
    shown = 0
    for one in _everything(data):
        _html(one)
        _html(one[:1] if isinstance(one, list) else one)
        shown += 1
    assert shown == 18


def test_lists_stay_lists() -> None:
    maintainer = Maintainer.seed(PEOPLE, name="people", rules=["zip -> city"])
    constraints, changes = maintainer.constraints, maintainer.apply(inserts=PEOPLE[:1].assign(city="c"))
    for shown in (constraints, changes, maintainer.rules, check(PEOPLE, ["zip -> city"]), discover(PEOPLE).top(2)):
        plain = list(shown)
        assert isinstance(shown, list)
        assert shown == plain
        assert shown[0] == plain[0]
        assert shown[-1:] == plain[-1:]
        assert type(shown[:1]) is type(shown)
        assert vars(shown[:1]) == vars(shown)
        for same in (copy.copy(shown), copy.deepcopy(constraints), pickle.loads(pickle.dumps(constraints))):
            assert type(same).__mro__[1].__name__ == "Listing"
        assert [*shown, *shown] == plain + plain
    assert pickle.loads(pickle.dumps(constraints)).table == "people"
    assert maintainer.apply() == []


def test_what_was_discovered_is_a_sequence() -> None:
    found = discover(PEOPLE, name="people")
    every = list(found)
    assert [found[i] for i in range(len(found))] == every
    assert (found[-1], found[1:3], found.index(every[2])) == (every[-1], every[1:3], 2)
    assert list(reversed(found)) == every[::-1]
    with pytest.raises(IndexError):
        found[len(found)]
    assert (
        repr(found) == f"<people: 3 rows, 3 columns; {len(found)} denial constraints (1 key, 2 functional dependency)>"
    )


def test_what_was_discovered_across_tables_is_one_too() -> None:
    found = discover_inclusions({"a": PEOPLE, "b": PEOPLE})
    every = list(found)
    assert len(every) == 6
    assert [found[i] for i in range(len(found))] == every
    assert (found[-1], found[1:3], found.index(every[2])) == (every[-1], every[1:3], 2)
    with pytest.raises(IndexError):
        found[len(found)]
    assert repr(found) == "<2 tables, 6 columns; 6 inclusion dependencies>"
    assert type(found[:2]) is Constraints


def test_notebooks_take_text_and_html(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    formatters = pytest.importorskip("IPython.core.formatters", reason="IPython, of the extra `notebook`, is missing")
    for shown in _everything(PEOPLE):
        data, _ = formatters.DisplayFormatter().format(shown)
        assert data == shown._repr_mimebundle_()  # lists have a printer of their own, which would say all


def test_many_are_cut_and_the_total_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def column(name: str) -> DenialConstraint:
        return DenialConstraint([Predicate(name, Operator.EQUAL, name)])

    many = Constraints([column(f"c{i}") for i in range(1_234)], "wide")
    markup = _html(many)
    assert "1,234 denial constraints of wide" in markup.text
    assert "1,204 more" in markup.text
    assert markup.text.count("No two rows") == MOST
    assert many.bundle()["text/plain"].count("\n") == MOST + 1
    assert len(many.to_pandas()) == 1_234

    found = discover(pd.DataFrame({f"c{i}": [i % 3, 1, i % 2] for i in range(12)}), name="t", max_predicates=2)
    assert len(found) > MOST
    made = []

    def make(space: PredicateSpace, mask: Any) -> Reported:
        made.append(mask)
        return constraint_of(space, mask)

    monkeypatch.setattr("holdfast.discovery.reported.constraint_of", make)
    every = _html(found[:])
    assert f"{len(found) - MOST:,} more" in every.text
    made.clear()
    sound = found.top(len(found)).sound
    assert sound is not None
    assert 0 < sound < MOST
    shown = _html(found).text
    assert f"; {sound} are sound" in shown
    assert f"{len(found) - sound:,} more" in shown
    assert len(made) <= 2 * MOST  # of text and HTML, and of HTML alone; not of all


def test_values_are_told_apart() -> None:
    rows = pd.DataFrame({"k": [1] * 5, "v": [None, "null", "", " ", "v" * 1_000]})
    checked = check(rows, ["k -> v"], examples=10)
    markup = _html(checked)
    assert {"null", '""', " "} <= set(markup.marked)
    assert ("i", {}) in markup.tags
    assert {a["title"] for tag, a in markup.tags if tag == "bdi" and "title" in a} == {"v" * 1_000}
    assert max(map(len, markup.marked)) == LONGEST_VALUE


def test_what_differs_is_marked_and_what_matters_is_first() -> None:
    changes = Maintainer.seed(PEOPLE, name="people", key=["pay"], max_predicates=2).apply(
        inserts=pd.DataFrame({"zip": ["x2"], "city": ["c"], "pay": [99]})
    )
    (gone,) = [change for change in changes if str(change.constraint) == "not(t.zip = s.zip and t.city != s.city)"]
    markup = _html(changes[changes.index(gone) :][:1])
    assert markup.marked == ["30", "99", "b", "c"]
    assert "violated by these rows" in markup.text
    assert "people: not(t.zip = s.zip and t.city != s.city)" in markup.text


def test_columns_that_are_not_compared_are_folded_away() -> None:
    data = PEOPLE.assign(more=["m", "n", "o"])
    markup = _html(check(data, ["city -> pay"]))
    assert "2 other columns, 1 of them different" in markup.text
    assert "details" in {tag for tag, _ in markup.tags}


def test_a_witness_of_one_row_or_none() -> None:
    one = Witness.of(Violation((RowImage({}, {"a": 1}),)), ["a"])
    assert (one.headings, one.differs("a")) == (["row"], False)
    assert Witness.of(Violation(value=3), []).rows == []


def test_changes_say_why() -> None:
    maintainer = Maintainer.seed(PEOPLE, name="people", max_predicates=2)
    broken = maintainer.apply(inserts=PEOPLE[:1].assign(city="c", pay=10))
    mended = maintainer.apply(deletes=PEOPLE[:1].assign(city="c", pay=10))
    said = _html(broken).text + _html(mended).text
    for words in ("violated by these rows", "the rows that violated it are gone", "appeared", "disappeared"):
        assert words in said
    assert {*broken.to_pandas()["change"], *mended.to_pandas()["change"]} == {"appeared", "disappeared"}


def test_near_changes_stand_beside_constraint_changes() -> None:
    people = pd.DataFrame({"zip": ["x1"] * 9 + ["x2"] * 9, "city": ["a"] * 9 + ["b"] * 9})
    maintainer = Maintainer.seed(people, name="people", near="10%", near_orders=False, max_predicates=2)
    came = maintainer.step(inserts=pd.DataFrame({"zip": ["x1", "x2"], "city": ["c", "d"]}))
    text = came._repr_mimebundle_()["text/plain"]
    assert "1 near change: 0 entered, 0 left, 1 with other exceptions" in text
    assert "- not(t.zip = s.zip and t.city != s.city) (violated; holds but for 2 rows)" in text
    assert "~ {zip}: [] -> city (0 to 2 exceptions of 20 rows)" in text
    markup = _html(came)
    assert "▲ more exceptions" in markup.text
    assert "0 before, now 2 of 20 rows, 10 %" in markup.text
    assert "Rows with the same zip have the same city." in markup.text
    gone = maintainer.step(inserts=pd.DataFrame({"zip": ["x1"] * 3, "city": ["c", "d", "e"]}))
    assert "− left" in _html(gone.near).text
    assert "2 before, now 5 of 23 rows" in _html(gone.near).text
    mended = maintainer.step(deletes=pd.DataFrame({"zip": ["x1"] * 3, "city": ["c", "d", "e"]}))
    assert "+ entered" in _html(mended.near).text
    back = maintainer.step(deletes=pd.DataFrame({"zip": ["x2"], "city": ["d"]}))
    assert "▼ fewer exceptions" in _html(back.near).text
    frame = back.near.to_pandas()
    named = ["change", "table", "constraint", "exceptions_before", "exceptions", "rows"]
    assert frame[named].to_numpy().tolist() == [["exceptions", "people", "{zip}: [] -> city", 2, 1, 19]]
    assert frame["id"].str.len().eq(64).all()
    assert vars(back.near[:1]) == vars(back.near)
    nothing = maintainer.step()
    assert (list(nothing.near), "near change" in str(nothing)) == ([], False)


def test_what_nearly_holds_has_its_exceptions() -> None:
    people = pd.DataFrame({"zip": ["x1", "x1", "x1", "x2"], "city": ["a", "a", "c", "b"]})
    near = Maintainer.seed(people, name="people", near="25%", near_orders=False).near
    assert f"{len(near)} near constraints of people" in _html(near).text
    assert "1 of 4 rows, 25 %" in _html(near).text
    assert near.to_pandas()["exceptions"].tolist() == [one.exceptions for one in near]
    assert list(Maintainer.seed(people).near.to_pandas().columns) == list(near.dtypes)


def test_data_frames() -> None:
    found = discover(PEOPLE, name="people")
    frame = found.to_pandas()
    assert frame["constraint"].tolist() == [str(constraint) for constraint in found]
    assert frame["sentence"].str.endswith(".").all()
    assert set(frame["table"]) == {"people"}
    assert found.top(2).to_pandas().columns[0] == "score"
    (checked,) = check(PEOPLE, ["zip -> pay"])
    (record,) = check(PEOPLE, ["zip -> pay"]).to_pandas().to_dict("records")
    assert (record["verdict"], record["violating_pairs"]) == ("broken", 2)
    assert checked.to_pandas()["pay"].tolist() == [10, 20]
    missing = check({"a": pd.DataFrame({"k": [1, 2]}), "b": pd.DataFrame({"k": [1]})}, ["a.k in b.k"])
    assert missing[0].to_pandas()["missing"].tolist() == [2]
    inclusions = discover_inclusions({"a": pd.DataFrame({"k": [1]}), "b": pd.DataFrame({"k": [1, 2]})})
    assert inclusions.to_pandas()[["table", "kind"]].to_numpy().tolist() == [["a", "inclusion"]]


def test_data_frames_of_nothing_have_all_columns() -> None:
    empty = Maintainer.seed(PEOPLE, name="people")
    nothing: list[Any] = [
        empty.apply(),
        empty.rules,
        Constraints([], "people"),
        discover(PEOPLE).top(0),
        check(PEOPLE, []),
    ]
    for shown in nothing:
        assert len(shown.to_pandas()) == 0
        assert list(shown.to_pandas().columns) == list(shown.dtypes)
        _html(shown)
    assert list(Batches().to_pandas().columns)[:2] == ["batch", "rows_in"]
    _html(Batches())
    (holding,) = check(PEOPLE, ["zip -> city"])
    assert holding.to_pandas().empty


def test_arrow_tables_do_as_well() -> None:
    _html(discover(pa.table({"a": [1, 2], "b": ["<b>", None]}), name="t"))


def test_texts_are_cut_between_characters() -> None:
    assert escaped("&" * 10, 5) == f'<bdi title="{"&amp;" * 10}">{"&amp;" * 4}…</bdi>'
    assert escaped("\ud800", 5) == "<bdi>\\ud800</bdi>"
    assert "characters)" in escaped("x" * 1_000_000, 5)


def _batches() -> Batches:
    maintainer = Maintainer.seed(PEOPLE, name="people", rules=["zip -> city", "not(t.pay < 0)"])
    more = [PEOPLE[:1].assign(city="c"), PEOPLE[:1].assign(pay=-1)]
    return Batches([maintainer.step(inserts=rows) for rows in more])


def test_batches() -> None:
    batches = _batches()
    assert batches.violations() == {"zip -> city": [4, 6], "not(t.pay < 0)": [0, 1]}
    assert batches.to_pandas()["zip -> city"].tolist() == [4, 6]
    assert "zip -> city: broken (4 pairs, 3 rows)" in _html(batches).text
    assert batches[0]._repr_mimebundle_()["text/plain"].startswith("1 row in, 0 out; 4 rows, ")


@pytest.fixture
def matplotlib() -> Iterator[Any]:
    found = pytest.importorskip("matplotlib", reason="matplotlib, of the extra `notebook`, is not installed")
    found.use("Agg")
    yield found
    found.pyplot.close("all")


def test_plots(matplotlib: Any) -> None:
    found, batches = discover(PEOPLE), _batches()
    for plotted in (found, found[:]):
        drawn: Any = plotted.plot()
        assert [label.get_text() for label in drawn.get_yticklabels()] == ["key", "functional dependency"]
        assert [bar.get_width() for bar in drawn.patches] == [1, 2]
    drawn = batches.plot()
    assert drawn.lines[0].get_ydata().tolist() == [batch.constraints for batch in batches]
    drawn = batches.plot_rules()
    assert [line.get_ydata().tolist() for line in drawn.lines] == [[4, 6], [0, 1]]
    assert check(PEOPLE, ["zip -> pay", "key(zip)"]).plot(drawn) is drawn
    drawn.figure.canvas.draw()
    assert Constraints([]).plot().patches[:] == []
    Batches().plot_rules().figure.canvas.draw()


def test_names_are_drawn_as_they_stand(matplotlib: Any) -> None:
    drawn = check(PEOPLE.rename(columns={"zip": "$x^$_"}), ["`$x^$_` -> pay", "key(`$x^$_`)"]).plot()
    drawn.figure.canvas.draw()
    assert r"\$x^\$_" in drawn.get_yticklabels()[0].get_text()


def test_without_matplotlib_an_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(UsageError, match=r"holdfast\[notebook\]"):
        discover(PEOPLE).plot()
    with pytest.raises(UsageError, match="matplotlib"):
        Batches().plot()


def test_engines_are_imported_when_they_are_asked_for() -> None:
    asked = "import sys, holdfast.display.changes, holdfast.display.verdicts, holdfast.display.plots"
    loaded = "print(sorted({'pandas', 'matplotlib', 'numpy', 'pyarrow', 'IPython'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", f"{asked}; {loaded}"], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
