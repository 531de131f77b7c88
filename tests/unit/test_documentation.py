"""What the pages of `docs/` show is so: commands say it, configurations are valid, records do it (Python is doctests)."""

from __future__ import annotations

import io
import re
import shlex
from typing import TYPE_CHECKING, Any

import pytest
from ruamel.yaml import YAML

from docs.site.reference import PARTS, attribute_docstrings, sections
from holdfast.constraints import Column, Schema
from holdfast.jobs.command_line import holdfast
from holdfast.jobs.configuration.reading import load
from holdfast.jobs.configuration.settings import Settings
from holdfast.jobs.configuration.table_settings import KafkaSource, TableSettings
from holdfast.streaming.incoming.arrivals import Target
from holdfast.streaming.seeding import _FAMILIES
from holdfast.streaming.sinks.shapes import SHAPES
from tests.documentation import DOCS, PAGES, ROOT, Block, Console, alike, blocks, runs_spark
from tests.unit.decoding_batches import arrived

if TYPE_CHECKING:
    from pathlib import Path

BLOCKS = [block for page in PAGES for block in blocks(page)]
CONSOLES = [page for page in PAGES if not runs_spark(page) and any(b.language == "console" for b in blocks(page))]
_yaml = YAML(typ="safe")


def name_of(page: Path) -> str:
    return str(page.relative_to(DOCS))


@pytest.mark.parametrize("page", CONSOLES, ids=name_of)
def test_commands_say_what_pages_say(page: Path, tmp_path: Path) -> None:
    console = Console(tmp_path.resolve())
    for block in blocks(page):
        assert alike(console.run(block)) == alike(block.text), block.where


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.language == "yaml"], ids=lambda b: b.where)
def test_configurations_are_valid(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in re.findall(r"\$\{(\w+)\}", block.text):
        monkeypatch.setenv(name, "filled-in")
    load(configuration_of(block, tmp_path))


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.language in {"", "sh"}], ids=lambda b: b.where)
def test_commands_and_options_are_there(block: Block) -> None:
    for line in block.text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True) if line.startswith("holdfast ") else []
        if len(words) < 2 or "|" in words[1] or words[1].startswith("-"):
            continue
        assert words[1] in holdfast.commands, f"{block.where}: {line}"
        known = {option for parameter in holdfast.commands[words[1]].params for option in parameter.opts}
        used = {word for word in words[2:] if word.startswith("-")}
        assert used <= known | {"--help", "-h"}, f"{block.where}: {line}"


@pytest.mark.parametrize("page", [p for p in PAGES if "| record |" in p.read_text("utf-8")], ids=name_of)
def test_records_do_what_pages_say(page: Path, tmp_path: Path) -> None:
    """Decode the records of a page's table by the page's own configuration."""
    (configured,) = (b for b in blocks(page) if b.language == "yaml" and "\nstate:" in b.text)
    (table,) = load(configuration_of(configured, tmp_path)).settings.tables
    lines = re.findall(r"^\| (.+?) \| (?:(.+?) \| )?\*\*(\w+)\*\*(.*) \|$", page.read_text("utf-8"), re.MULTILINE)
    assert lines
    records = [(_sent(value and key), _sent(value or key)) for key, value, _, _ in lines]
    rows, bad = arrived(encoding_of(table), target_of(table), *records)
    for number, (_, _, word, about) in enumerate(lines):
        assert (word == "bad") == (str(number) in bad), (records[number], bad.get(str(number)))
        for reason in re.findall(r"^: `([^`]+)`", about) if word == "bad" else []:
            assert reason in bad[str(number)]
    assert [row[0] for row in rows] == [word for _, _, word, _ in lines if word not in {"bad", "nothing"}]


def test_every_page_is_in_the_navigation() -> None:
    from docs.site.conf import NAVIGATION

    there = {str(page.relative_to(DOCS).with_suffix("")) for page in PAGES}
    named = {page for listed in NAVIGATION.values() for page in listed}
    assert there - named == {"index"}


def test_every_page_links_to_what_is_there() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
            assert "://" in target or (page.parent / target).exists(), f"{name_of(page)}: {target}"


def test_every_family_of_keys_is_described() -> None:
    text = (DOCS / "streaming.md").read_text()
    table = text.partition("| family | key | value |\n")[2].partition("\n\n")[0]
    cells = [line.split(" | ")[0] for line in table.splitlines()]
    described = [name for cell in cells for name in re.findall("`([a-z_]+)`", cell)]
    assert sorted(described) == sorted({*_FAMILIES, "meta", "ledger", "outbox", "log"})


def test_reference_has_everything() -> None:
    assert {name for name, _ in sections()} > {"", "tables[]", "rules[]", "constraints.denial", "tables[].source"}
    for _, model in sections():
        assert attribute_docstrings(model).keys() == model.model_fields.keys(), model.__name__
    configuration, commands, tables = PARTS["configuration"](), PARTS["commands"](), PARTS["tables"]()
    assert all(f"| `{key}` |" in configuration for key in (*Settings.model_fields, *TableSettings.model_fields))
    assert all(f"### holdfast {name}" in commands for name in holdfast.commands)
    assert all(f"| `{column}` |" in tables for shape in SHAPES.values() for column in shape.names)


def configuration_of(block: Block, folder: Path) -> Path:
    """Write a block as a whole configuration: what it leaves out is that of its page, or the default."""
    given = _yaml.load(block.text)
    if isinstance(given, dict) and not given.keys() <= Settings.model_fields.keys():
        assert given.keys() <= TableSettings.model_fields.keys(), f"{block.where}: no section, and no table"
        given = {"tables": [{"name": "orders", **given}]}
    whole = given if {"name", "state"} <= given.keys() else {**_base(block), **given}
    if "tables" in given and "rules" not in given:
        whole = {name: whole[name] for name in whole if name not in {"rules", "alerts"}}
    if "rules" in given and "tables" not in given:
        named = {name for rule in given["rules"] for name in _tables_of(rule)}
        there = {table["name"] for table in whole["tables"]}
        whole["tables"] = [*whole["tables"], *({"name": name, "seed": {"path": "x.csv"}} for name in named - there)]
    text = io.StringIO()
    _yaml.dump(whole, text)
    file = folder / "page.yaml"
    file.write_text(text.getvalue(), "utf-8")
    return file


def _tables_of(rule: dict[str, Any]) -> list[str]:
    return [rule["table"]] if "table" in rule else re.findall(r"(\w+)\.\w+", rule["inclusion"])


def _base(block: Block) -> dict[str, Any]:
    for other in blocks(block.page):
        if other.language == "yaml" and {"name", "state"} <= _yaml.load(other.text).keys():
            return dict(_yaml.load(other.text))
    return dict(_yaml.load((ROOT / "conf" / "default.yaml").read_text("utf-8")))


def _sent(cell: str) -> bytes | None:
    """Return a cell of a table as bytes of a record, None for `null` and where there is none."""
    text = cell.strip("`").replace("\\|", "|")
    return None if text in {"", "null"} else text.encode()


def encoding_of(table: TableSettings) -> str:
    return table.source.encoding if isinstance(table.source, KafkaSource) else "json"


def target_of(table: TableSettings) -> Target:
    columns = [Column(name, column.type) for name, column in table.columns.items() if column.type is not None]
    return Target(Schema(table.name, tuple(columns)), tuple(table.key or ()))
