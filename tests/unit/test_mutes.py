"""Muted constraints: what a mute covers, in which forms it is found, and what the file of mutes may hold."""

from __future__ import annotations

import itertools
import json
import os
from typing import TYPE_CHECKING

import pytest

from holdfast.constraints import Column, Schema, UsageError, constraint_id, parse_constraint
from holdfast.constraints.mutes import Mute, Mutes
from holdfast.constraints.near import parse_near
from holdfast.constraints.space import PredicateSpace
from holdfast.constraints.types import INTEGER
from holdfast.jobs.application.alerting import alerts_of
from holdfast.jobs.configuration.mutes_file import WatchedMutes, mute_line, mutes_of, read_mutes
from holdfast.jobs.configuration.problems import ConfigurationError
from holdfast.jobs.configuration.reading import load
from holdfast.jobs.configuration.rules_files import read_rules
from holdfast.jobs.files.found_rules import rule_line
from holdfast.streaming.alerts.deciding import Alert, messages
from tests.unit.test_alert_deciding import rows_of

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("City", "Zip", "State", "Low", "High")
ORDER = {name: place for place, name in enumerate(NAMES)}
SCHEMA = Schema("tax", tuple(Column(name, INTEGER) for name in NAMES))
SPACE = PredicateSpace(SCHEMA, ((3, 4),))

SAME = [
    ["Zip -> City", "not(t.City != s.City and t.Zip = s.Zip)", "{Zip}: [] -> City"],
    ["State, Zip -> City", "not(t.Zip = s.Zip and t.State = s.State and t.City != s.City)", "{State, Zip}: [] -> City"],
    ["key(Zip, City)", "not(t.City = s.City and t.Zip = s.Zip)"],
    [
        "{State}: Low ~ High desc",
        "{State}: High ~ Low desc",
        "not(t.State = s.State and t.Low > s.Low and t.High > s.High)",
    ],
    ["{State}: Low ~ High", "not(t.High < s.High and t.State = s.State and t.Low > s.Low)"],
    [
        "not(t.State = s.State and t.Low > s.Low and t.Zip < s.Zip)",
        "not(t.Zip > s.Zip and t.State = s.State and t.Low < s.Low)",
    ],
    ["not(t.Low > s.High and t.Zip = s.Zip)", "not(t.Zip = s.Zip and t.High < s.Low)"],
    ["tax.Zip in places.Zip"],
]


def published(text: str) -> list[str]:
    """Return the identities under which a constraint is published, by the rules of its maintainers."""
    found = []
    try:
        near = parse_near(text).canonical(SCHEMA)
        found.append(constraint_id(near, "tax"))
        if near.shape.value != "key":
            found.append(constraint_id(near.exact.canonical(SCHEMA), "tax"))  # type: ignore[union-attr]
        if near.shape.value in {"key", "constant"}:
            denial = near.exact if near.shape.value == "key" else near.exact.as_denial()  # type: ignore[union-attr]
            found.append(constraint_id(SPACE.canonical(denial), "tax"))  # type: ignore[arg-type]
    except UsageError:
        one = parse_constraint(text)
        found.append(constraint_id(one if " in " in text else SPACE.canonical(one), "tax"))  # type: ignore[arg-type]
    return found


@pytest.mark.parametrize("texts", SAME, ids=lambda texts: texts[0])
def test_a_mute_covers_all_forms_of_a_constraint_and_no_other(texts: list[str]) -> None:
    every = list(itertools.chain(*SAME))
    for text in texts:
        mutes = Mutes((Mute("tax", text),))
        assert [other for other in every if mutes.covers("tax", other)] == texts
        assert not any(mutes.covers("orders", other) for other in every)
        ids = mutes.identities({"tax": ORDER})
        assert {text: sorted(set(published(text)) & ids) for text in texts} == {
            text: sorted(published(text)) for text in texts
        }
        assert not ids & {one for other in every if other not in texts for one in published(other)}


def test_rules_about_single_rows_cannot_be_muted() -> None:
    with pytest.raises(UsageError, match="single rows"):
        Mute("tax", "not(t.Low > 3)")
    assert not Mute("tax", "Zip -> City").covers("tax", "a text of a later version")


def written(tmp_path: Path, text: str) -> str:
    file = tmp_path / "mutes.yaml"
    file.write_text(text)
    return str(file)


def test_a_file_of_mutes(tmp_path: Path) -> None:
    assert read_mutes(written(tmp_path, "# nothing yet\n"), ["tax"]) == Mutes()
    text = f'{mute_line("tax", "{Zip}: [] -> City")}\n- {{table: tax, constraint: "key(a)", why: "two of them"}}\n'
    mutes = read_mutes(written(tmp_path, text), ["tax"])
    assert mutes == Mutes((Mute("tax", "{Zip}: [] -> City"), Mute("tax", "key(a)", "two of them")))


@pytest.mark.parametrize("name", ["`a ${b}: #`", "`it's`", '`"`'])
def test_lines_that_the_page_offers_can_be_read(tmp_path: Path, name: str) -> None:
    text = f"not(t.{name} = s.{name} and t.Zip != s.Zip)"
    assert read_mutes(written(tmp_path, mute_line("tax", text)), ["tax"]) == Mutes((Mute("tax", text),))
    for one in (text, f"{{{name}}}: [] -> Zip", f"key({name})", f"{{{name}}}: a ~ b"):
        file = tmp_path / "rules.yaml"
        file.write_text(f"rules:\n  {rule_line('tax', one)}\n")
        (found,) = read_rules(file, [], ["tax"])
        assert Mute("tax", one).covers("tax", str(found.rule.body))


def test_all_problems_of_a_file_are_reported(tmp_path: Path) -> None:
    text = (
        "- {table: tax, constraint: 'Zip >> City'}\n- {table: taxes, constraint: 'Zip -> City'}\n- {tabel: tax}\n- 7\n"
    )
    with pytest.raises(ConfigurationError) as error:
        read_mutes(written(tmp_path, text), ["tax"])
    lines = {problem.place.line for problem in error.value.problems}
    assert lines == {1, 2, 3, 4}
    assert "there is no table 'taxes'" in str(error.value)
    with pytest.raises(ConfigurationError, match="expected a list of constraints"):
        read_mutes(written(tmp_path, "table: tax\n"), ["tax"])


def configuration(tmp_path: Path, mutes: str) -> Path:
    file = tmp_path / "holdfast.yaml"
    places = {name: f"./{name}" for name in ("state", "backup", "output", "checkpoint")}
    table = {"name": "tax", "seed": {"path": "./tax.csv"}}
    alert = {"on": ["disappeared"], "webhook": "http://127.0.0.1/"}
    more = {"tables": [table], "constraints": {"denial": {}}, "alerts": [alert], "mutes": mutes}
    file.write_text(json.dumps({"name": "shop", **places, **more}))
    return file


def test_a_configuration_names_its_file_of_mutes(tmp_path: Path) -> None:
    file = configuration(tmp_path, "./mutes.yaml")
    with pytest.raises(ConfigurationError, match=r"mutes\.yaml: cannot be read"):
        load(file)
    written(tmp_path, mute_line("tax", "key(c1)"))
    settings = load(file).settings
    assert mutes_of(settings) == Mutes((Mute("tax", "key(c1)"),))
    assert [alert.mutes for alert in alerts_of(settings)] == [mutes_of(settings)]
    with pytest.raises(ConfigurationError, match="a path on this machine"):
        load(configuration(tmp_path, "s3://bucket/mutes.yaml"))


def test_a_changed_file_is_read_again_and_a_broken_one_is_told(tmp_path: Path) -> None:
    name = written(tmp_path, mute_line("tax", "key(c1)"))
    watched = WatchedMutes(load(configuration(tmp_path, "./mutes.yaml")).settings)
    first = watched()
    assert (first, watched()) == ((Mutes((Mute("tax", "key(c1)"),)), None), first)
    written(tmp_path, "")
    os.utime(name, (1, 1))
    assert watched() == (Mutes(), None)
    written(tmp_path, "- {table: nope, constraint: key(a)}")
    os.utime(name, (2, 2))
    mutes, problem = watched()
    assert mutes == Mutes()
    assert problem is not None
    assert "nope" in problem


def test_alerts_leave_muted_constraints_out() -> None:
    on = frozenset({"disappeared"})
    mutes = Mutes((Mute("tax", "key(c1)"), Mute("other", "key(c0)")))
    (whole,) = messages([Alert(on)], rows_of(changes=3), [])
    (rest,) = messages([Alert(on, mutes=mutes)], rows_of(changes=3), [])
    assert [change["constraint_id"] for change in rest.body["changes"]] == ["id0", "id2"]
    assert rest.key == whole.key, "a mute does not make an alert another one"
    assert messages([Alert(on, mutes=Mutes((Mute("tax", "key(c0)"),)))], rows_of(changes=1), []) == []
    shared = json.dumps([{"key": {"Id": 7}, "row": {}}])
    batch = {"files": '["/in/orders-17.json"]', "end_offsets": '{"logOffset":4}'}
    rows = rows_of(118, 3, witness=shared, size=1)
    rows.payload["batches"] = [batch]
    (message,) = messages([Alert(on, mutes=mutes)], rows, [])
    assert message.body["incidents"] == [
        "2 constraints of tax ended with commit 118 (file orders-17.json), all by row Id 7; first key(c0)"
    ]
