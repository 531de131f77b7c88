"""Settings of tables, of the engine, of rules and of files."""

from __future__ import annotations

import datetime
import re
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

from holdfast.constraints import Family
from holdfast.jobs.configuration.bounds import bounds_of, suspect_batches
from holdfast.jobs.configuration.problems import ConfigurationError, written
from holdfast.jobs.configuration.reading import load
from holdfast.jobs.configuration.table_settings import DeltaSource, FilesSource, KafkaSource
from holdfast.jobs.validate import summary
from holdfast.streaming.maintainers.near.suspects import SuspectBatches
from tests.unit.test_configuration import GOOD, TABLE, TOP, errors, only_error, read, with_table

if TYPE_CHECKING:
    from pathlib import Path


class TestTables:
    def test_a_name_where_a_list_of_one_is_enough(self) -> None:
        lines = ["key: Zip", "include: Zip", "seed: {path: a.csv, strings: Zip, null_tokens: NA}"]
        text = with_table(*lines).replace('fd: "Zip -> City"', "key: Zip")
        settings = read(text + "alerts:\n  - {on: broken, webhook: 'http://h'}\n").settings
        (table,), (alert,) = settings.tables, settings.alerts
        assert (table.key, table.include, alert.on) == (("Zip",), ("Zip",), ("broken",))
        assert table.seed is not None
        assert (table.seed.strings, table.seed.null_tokens) == (("Zip",), ("NA",))
        assert read(with_table("exclude: Zip2", "seed: {path: a.csv}")).settings.tables[0].exclude == ("Zip2",)

    def test_sources(self) -> None:
        files = with_table("columns: {Zip: string, City: string}", "source: {format: files, path: in, encoding: csv}")
        source = read(files).settings.tables[0].source
        assert isinstance(source, FilesSource)
        assert source.path == "/srv/app/in"
        delta = with_table("source: {format: delta, path: s3://b/t/}", "seed: {path: s3://b/t, version: 7}")
        source = read(delta).settings.tables[0].source
        assert isinstance(source, DeltaSource)
        assert source.path == "s3://b/t"

    @pytest.mark.parametrize(
        ("start", "value"),
        [
            ("earliest", "earliest"),
            ("{0: 12, 1: 0}", {0: 12, 1: 0}),
            ("2024-02-29T12:00:00+02:00", datetime.datetime(2024, 2, 29, 10, tzinfo=datetime.UTC)),
            ("2024-02-29", datetime.datetime(2024, 2, 29, tzinfo=datetime.UTC)),
        ],
    )
    def test_where_a_topic_starts(self, start: str, value: object) -> None:
        text = with_table(
            "seed: {path: a.csv}",
            f'source: {{format: kafka, servers: ["h:1", "[::1]:2"], topic: t, encoding: json, start: {start}}}',
        )
        source = read(text).settings.tables[0].source
        assert isinstance(source, KafkaSource)
        assert source.start == value

    @pytest.mark.parametrize(
        ("lines", "path", "part"),
        [
            (["key: [Zip]"], "tables[0]", "neither a seed nor a source"),
            (["seed: {}"], "tables[0].seed.path", "is missing"),
            (["seed: {path: a.csv, version: 3}"], "tables[0].seed.version", "Delta"),
            (["seed: {path: a.csv, encoding: utf-88}"], "tables[0].seed.encoding", "unknown encoding"),
            (["seed: {path: a.csv, delimiter: ';;'}"], "tables[0].seed.delimiter", "one character"),
            (["seed: {path: a.csv, null_tokens: [~]}"], "tables[0].seed.null_tokens", "list of texts"),
            (["seed: {path: a.csv, strings: 5}"], "tables[0].seed.strings", "expected all"),
            (["seed: {path: ~/a.csv}"], "tables[0].seed.path", "${HOME}/a.csv"),
            (["seed: {path: a.csv}", "key: []"], "tables[0].key", "at least one"),
            (["seed: {path: a.csv}", "key: [Zip, Zip]"], "tables[0].key", "twice"),
            (["seed: {path: a.csv}", "key: [A]", "exclude: [A]"], "tables[0].key", "must be monitored"),
            (["seed: {path: a.csv}", "include: [Zip, City]", "exclude: [B]"], "tables[0].exclude", "one of the two"),
            (["seed: {path: a.csv}", "columns: {A: {}}"], "tables[0].columns.A", "expected a type"),
            (["seed: {path: a.csv}", "columns: {A: {typ: long}}"], "tables[0].columns.A.typ", "did you mean 'type'"),
            (
                ["seed: {path: a.csv}", "columns: {A: {encoding: x}}"],
                "tables[0].columns.A.encoding",
                "unknown encoding",
            ),
            (["seed: {path: a.csv}", "settle: 2"], "tables[0].settle", "never changes"),
            (["seed: {path: a.csv}", "settle: -1"], "tables[0].settle", "at least 0"),
            (["source: {format: files, path: in, encoding: json}"], "tables[0]", "every column's type"),
            (["source: {format: kafka}"], "tables[0].source.servers", "is missing"),
            (["seed: {path: other}", "source: {format: delta, path: t}"], "tables[0].seed.path", "differs"),
            (["source: {format: delta, path: var/tables/x}"], "tables[0].source.path", "overlaps 'output'"),
            (
                ["source: {format: delta, path: in/a%41b}"],
                "tables[0].source.path",
                "has %41 in its path, which delta-rs takes",
            ),
            (["source: {format: delta, path: .}"], "tables[0].source.path", "overlaps"),
        ],
    )
    def test_refusals(self, lines: list[str], path: str, part: str) -> None:
        found = errors(with_table(*lines))
        assert any(at == path and part in message for _, at, message in found), found

    @pytest.mark.parametrize(
        ("source", "lines", "path", "part"),
        [
            ("encoding: json", ["seed: {path: a.csv}"], "tables[0].source.start", "is missing"),
            ("encoding: upsert, start: earliest", ["seed: {path: a.csv}"], "tables[0].key", "is missing"),
            ("encoding: debezium-unwrapped", [], "tables[0].key", "is missing"),
            ("encoding: json", [], "tables[0]", "every column's type"),
            ("encoding: json", ["columns: {Zip: string, City: {ordered: true}}"], "tables[0].columns.City", "its type"),
            ("encoding: json", ["columns: {Zip: string}"], "rules[0].fd", "no monitored column 'City'"),
            ("encoding: json", ["key: [Zap]", "columns: {Zip: string, City: string}"], "tables[0].key", "'Zip'?"),
            ("encoding: debezum", [], "tables[0].source.encoding", "'debezium'?"),
            ("encoding: avro", [], "tables[0].source.encoding", "unknown encoding 'avro'"),
            ("encoding: debezium, start: sometimes", [], "tables[0].source.start", "expected earliest"),
            ("encoding: debezium, start: {a: 1}", [], "tables[0].source.start", "expected earliest"),
            ("encoding: debezium, options: {failOnDataLoss: false}", [], "tables[0].source", "always true"),
            ("encoding: debezium, options: {startingOffsets: x}", [], "tables[0].source", "set 'start'"),
            ("encoding: debezium", ["sequence: at"], "tables[0].sequence", "add 'key"),
            (
                "encoding: debezium",
                ["key: [a]", "sequence_retention: 1 day"],
                "tables[0].sequence_retention",
                "goes with",
            ),
        ],
    )
    def test_refusals_of_kafka(self, source: str, lines: list[str], path: str, part: str) -> None:
        found = errors(with_table(*lines, f'source: {{format: kafka, servers: "h:1", topic: t, {source}}}'))
        assert any(at == path and part in message for _, at, message in found), found

    @pytest.mark.parametrize("servers", ["h", "h:", ":1", "h:99999", "h:1,", "[h, 1]", "5"])
    def test_servers(self, servers: str) -> None:
        text = with_table(f"source: {{format: kafka, servers: '{servers}', topic: t, encoding: debezium}}")
        assert only_error(text)[1] == "tables[0].source.servers"

    def test_warnings(self) -> None:
        text = with_table('source: {format: kafka, servers: "h:1", topic: t, encoding: debezium, start: latest}')
        found = [(w.place.line, written(w.path), w.message) for w in read(text).warnings]
        assert [(line, path) for line, path, _ in found] == [(7, "tables[0]"), (8, "tables[0].source.start")]
        assert "REPLICA IDENTITY FULL" in found[0][2]

    @pytest.mark.parametrize(
        ("place", "value", "part"),
        [
            ("backup", "./var/state", "is the same place as 'state'"),
            ("output", "var/state/../state/x", "overlaps 'state'"),
            ("checkpoint", ".", "overlaps 'state'"),
            (
                "output",
                "var/100%25/tables",
                "has %25 in its path, which delta-rs takes for '%': give the folder another name",
            ),
            ("checkpoint", "file:///srv/app/var/tables", "is the same place as 'output'"),
        ],
    )
    def test_places_are_apart(self, place: str, value: str, part: str) -> None:
        text = re.sub(rf"(?m)^{place}: .*", f"{place}: {value}", GOOD)
        assert any(path in {place, "checkpoint", "output"} and part in message for _, path, message in errors(text))

    def test_remote_places_are_apart(self) -> None:
        text = GOOD.replace("./var/tables", "s3://b/x/").replace("./var/backup", "s3a://b/x/y")
        assert only_error(text)[1] == "output"
        apart = GOOD.replace("./var/tables", "s3://b/x").replace("./var/backup", "s3://b/xy")
        assert read(apart).settings.backup == "s3://b/xy"


class TestEngine:
    SPARK = "engine: spark\n"

    def test_blocks_are_beside_the_state_or_where_they_are_named(self) -> None:
        assert "blocks" not in read(GOOD).settings.places
        beside = read(GOOD + self.SPARK).settings
        assert beside.places["blocks"] == beside.blocks_place == "/srv/app/var/blocks"
        named = read(GOOD + self.SPARK + "blocks: {path: 's3://b/x/', rows: 10}\n").settings
        assert named.places["blocks"] == "s3://b/x"
        assert named.blocks is not None
        assert named.blocks.rows == 10

    def test_what_was_understood_says_so(self) -> None:
        text = "\n".join(summary(read(GOOD + self.SPARK + "spark: {spark.master: 'local[2]'}\n")))
        assert re.search(r"(?m)^  blocks +/srv/app/var/blocks$", text)
        assert re.search(r"(?m)^  engine +Spark at local\[2\]", text)
        assert "engine" not in "\n".join(summary(read(GOOD)))

    @pytest.mark.parametrize(
        ("lines", "path", "part"),
        [
            ("engine: sprak", "engine", "did you mean 'spark'"),
            ("blocks: {rows: 10}", "blocks", "add that, or remove this"),
            ("engine: embedded\nblocks: {path: ./x}", "blocks", "'engine: spark'"),
            ("engine: spark\nblocks: {rows: 0}", "blocks.rows", "at least 1"),
            ("engine: spark\nblocks: {paths: x}", "blocks.paths", "did you mean 'path'"),
            ("engine: spark\nblocks: ./x", "blocks", "expected a mapping"),
            ("engine: spark\nblocks: {path: ./var/tables/x}", "blocks", "/srv/app/var/tables/x overlaps 'output'"),
            ("engine: spark\nspark: {spark.master: 'spark://h:7077'}", "engine", "blocks: {path: ...}"),
            ("engine: spark\nspark: {spark.master: yarn}\nblocks: {rows: 10}", "engine", "executors of yarn have to"),
        ],
    )
    def test_refusals(self, lines: str, path: str, part: str) -> None:
        _, at, message = only_error(GOOD + lines + "\n")
        assert at == path
        assert part in message

    def test_order_compatibilities_nearly_hold_in_this_process_alone(self) -> None:
        text = with_table("seed: {path: a.csv}", "near: {orders: true}")
        assert only_error(text + self.SPARK)[1] == "tables[0].near.orders"
        settings = read(text.replace("{orders: true}", "") + self.SPARK).settings
        bounds = bounds_of(settings.tables[0], settings).near
        assert bounds is not None
        assert not bounds.orders

    def test_sources_are_apart_from_blocks(self) -> None:
        text = with_table("seed: {path: a.csv}", "source: {format: files, path: ./var/blocks/in, encoding: csv}")
        assert read(text).settings.engine == "embedded"
        assert only_error(text + self.SPARK)[1] == "tables[0].source.path"


class TestRules:
    @pytest.mark.parametrize(
        ("rule", "path", "part"),
        [
            ("{name: r, table: tax}", "rules[0]", "given none"),
            ("{name: r, table: tax, fd: 'A -> B', key: [A]}", "rules[0]", "given key and fd"),
            ("{table: tax, fd: 'A -> B'}", "rules[0].name", "is missing"),
            ("{name: r, fd: 'A -> B'}", "rules[0].table", "is missing"),
            ("{name: r, table: Tax, fd: 'A -> B'}", "rules[0].table", "did you mean 'tax'"),
            ("{name: r, table: tax, fd: 'A -> B', severity: eror}", "rules[0].severity", "did you mean 'error'"),
            ("{name: r, table: tax, fd: 'A -> B', max_violating_rows: 101%}", "rules[0].max_violating_rows", "0.1%"),
            ("{name: r, table: tax, fd: 'A -> B', max_violating_rows: true}", "rules[0].max_violating_rows", "0.1%"),
            (
                "{name: r, table: tax, require: 't.A > 1', max_violating_pairs: 3}",
                "rules[0].max_violating_pairs",
                "rows",
            ),
            ("{name: r, table: tax, require: 't.A > s.A'}", "rules[0].require", "single rows"),
            ("{name: r, table: tax, forbid: 'not(t.A = s.A)'}", "rules[0].forbid", "leave out the 'not'"),
            ("{name: r, table: tax, key: [A, A]}", "rules[0].key", "twice"),
            ("{name: r, table: tax, od: 'A -> B'}", "rules[0].od", "expected '{'"),
            ("{name: r, inclusion: 'tax.A in tex.B'}", "rules[0].inclusion", "did you mean 'tax'"),
            ("{name: r, table: x, inclusion: 'tax.A in tax.B'}", "rules[0].table", "left side is 'tax'"),
            ("{name: r, table: tax, fd: 'A -> B', recount: 5}", "rules[0].recount", "with its unit"),
            ("{name: r, table: tax, fd: 7}", "rules[0].fd", "expected a text"),
            ("fd", "rules[0]", "expected a mapping"),
        ],
    )
    def test_refusals(self, rule: str, path: str, part: str) -> None:
        line, at, message = only_error(TOP + TABLE + f"rules:\n  - {rule}\n")
        assert (line, at) == (10, path)
        assert part in message

    def test_the_caret_stands_below_the_character(self) -> None:
        with pytest.raises(ConfigurationError) as caught:
            read(TOP + TABLE + 'rules:\n  - {name: r, table: tax, forbid: "t.A = s.A and t.B ! 3"}\n')
        lines = str(caught.value).splitlines()
        assert lines[2].index("!") == lines[3].index("^")

    def test_columns_that_cannot_exist(self) -> None:
        include = with_table("seed: {path: a.csv}", "include: [Zip, Town]")
        assert only_error(include) == (
            11,
            "rules[0].fd",
            "table tax has no monitored column 'City'; known: Town, Zip",
        )
        assert "excludes" in only_error(with_table("seed: {path: a.csv}", "exclude: [City]"))[2]

    def test_near_alone_is_enough(self) -> None:
        text = TOP + TABLE.rstrip() + "\n    near: 1%\n"
        assert read(text).settings.tables[0].near is not None
        read(text + "alerts:\n  - {on: [nearly, restored, left], webhook: 'http://h'}\n")

    def test_nothing_to_do(self) -> None:
        assert "nothing to maintain" in only_error(TOP + TABLE)[2]
        assert read(TOP + TABLE + "constraints: {order: {}}\n").settings.constraints.families == (Family.ORDER,)

    @pytest.mark.parametrize(
        ("constraints", "path"),
        [
            ("{denial: {cross_columns: all}}", "constraints.denial.cross_columns"),
            ("{denial: {cross_columns: [[A]]}}", "constraints.denial.cross_columns"),
            ("{denial: {cross_columns: [[A, A]]}}", "constraints.denial.cross_columns"),
            ("{denial: {max_predicates: -1}}", "constraints.denial.max_predicates"),
            ("{denial: {max_predicates: 1.5}}", "constraints.denial.max_predicates"),
            ("{order: 3}", "constraints.order"),
            ("[denial]", "constraints"),
        ],
    )
    def test_families(self, constraints: str, path: str) -> None:
        assert only_error(GOOD + f"constraints: {constraints}\n")[1] == path

    @pytest.mark.parametrize(
        ("near", "expected"),
        [
            ("", (Fraction(1, 100), 3, True)),
            (" {}", (Fraction(1, 100), 3, True)),
            (" 0.1%", (Fraction(1, 1000), 3, True)),
            (" 0.25", (Fraction(1, 4), 3, True)),
            (" 0", (Fraction(0), 3, True)),
            (" {share: 50%, max_context: 0, orders: false}", (Fraction(1, 2), 0, False)),
        ],
    )
    def test_near(self, near: str, expected: tuple[Fraction, int, bool]) -> None:
        settings = read(with_table("seed: {path: t.csv}", f"near:{near}")).settings
        bounds = bounds_of(settings.tables[0], settings).near
        assert bounds is not None
        assert (bounds.share, bounds.max_context, bounds.orders) == expected

    @pytest.mark.parametrize(
        ("near", "expected"),
        [
            ("1%", SuspectBatches()),
            ("{suspects: auto}", SuspectBatches()),
            ("{suspects: true}", SuspectBatches()),
            ("{suspects: 20}", SuspectBatches(20)),
            ("{suspects: off}", None),
            ("{suspects: false}", None),
        ],
    )
    def test_suspects(self, near: str, expected: SuspectBatches | None) -> None:
        text = with_table("seed: {path: t.csv}", f"near: {near}")
        name = read(text).settings.tables[0].name
        assert suspect_batches(read(text).settings).get(name) == expected
        if expected is None or expected.every is None:
            assert suspect_batches(read(text + TestEngine.SPARK).settings) == {}
        else:
            _, path, problem = only_error(text + TestEngine.SPARK)
            assert path == "tables[0].near.suspects"
            assert "with 'engine: embedded' alone" in problem

    @pytest.mark.parametrize(
        ("near", "path", "part"),
        [
            ("51%", "tables[0].near", "expected a share of the rows from 0% to 50%, such as 1%; given '51%'"),
            ("-1", "tables[0].near", "expected a share of the rows"),
            ("true", "tables[0].near", "expected a share of the rows"),
            ("many", "tables[0].near", "expected a share of the rows"),
            ("[1%]", "tables[0].near", "given a list"),
            ("{share: 60%}", "tables[0].near.share", "expected a share of the rows"),
            ("{share: 1%, most: 3}", "tables[0].near.most", "unknown key 'most'"),
            ("{max_context: -1}", "tables[0].near.max_context", "expected"),
            ("{orders: maybe}", "tables[0].near.orders", "expected true or false"),
            ("{suspects: 0}", "tables[0].near.suspects", "expected auto, off, or a number of batches"),
            ("{suspects: often}", "tables[0].near.suspects", "expected auto, off, or a number of batches"),
            ("{suspects: 1.5}", "tables[0].near.suspects", "expected auto, off, or a number of batches"),
        ],
    )
    def test_near_refusals(self, near: str, path: str, part: str) -> None:
        found = errors(with_table("seed: {path: t.csv}", f"near: {near}"))
        assert [at for _, at, _ in found] == [path]
        assert part in found[0][2]

    @pytest.mark.parametrize(
        ("alert", "path"),
        [
            ("{on: [nearly], webhook: 'http://h'}", "alerts[0].on"),
            ("{on: [left], rule: zip_city, webhook: 'http://h'}", "alerts[0]"),
            ("{on: [broken], rule: nope, webhook: 'http://h'}", "alerts[0].rule"),
            ("{on: [], webhook: 'http://h'}", "alerts[0].on"),
            ("{on: [appeared], rule: zip_city, webhook: 'http://h'}", "alerts[0]"),
            ("{on: [appeared], table: nope, webhook: 'http://h'}", "alerts[0].table"),
            ("{on: [appeared], family: dc, webhook: 'http://h'}", "alerts[0].family"),
            ("{on: [broken]}", "alerts[0].webhook"),
            ("{on: [broken], webhook: 'http://h:x'}", "alerts[0].webhook"),
        ],
    )
    def test_alerts(self, alert: str, path: str) -> None:
        assert only_error(GOOD + f"alerts:\n  - {alert}\n")[1] == path

    def test_a_part_of_a_rule_is_a_rule(self) -> None:
        rule = '{name: r, table: tax, fd: "A -> B, C", recount: 5 minutes}'
        alert = "alerts:\n  - {on: broken, rule: r.B, webhook: 'http://h'}\n"
        found = read(TOP + TABLE + f"rules:\n  - {rule}\n" + alert)
        assert [rule.name for rule in found.rules] == ["r.B", "r.C"]
        assert set(found.recounts.values()) == {datetime.timedelta(minutes=5)}
        wrong = only_error(TOP + TABLE + f"rules:\n  - {rule}\n" + alert.replace("r.B", "r"))
        assert wrong[1:] == ("alerts[0].rule", "there is no rule 'r'; known: r.B, r.C")
        twice = only_error(TOP + TABLE + f"rules:\n  - {rule}\n  - {{name: r.C, table: tax, key: A}}\n")
        assert twice[1:] == ("rules[1].name", "'r.C' is the name of a rule already: choose another")

    @pytest.mark.parametrize("rule", ["values: {Zap: x}", "range: {Zap: [1, 2]}", "matches: {Zap: x}"])
    def test_columns_of_short_forms_have_their_own_place(self, rule: str) -> None:
        text = with_table("columns: {Zip: string, City: string}", "source: {format: files, path: in, encoding: csv}")
        found = only_error(text + f"  - {{name: s, table: tax, {rule}}}\n")
        assert found[1] == f"rules[1].{rule.partition(':')[0]}.Zap"
        assert "did you mean 'Zip'?" in found[2]

    def test_alerts_about_suspects(self) -> None:
        near = TOP + TABLE.rstrip() + "\n    near: 1%\n"
        alert = "alerts:\n  - {on: [suspect], webhook: 'http://h'}\n"
        read(near + alert)
        off = near.replace("near: 1%", "near: {share: 1%, suspects: off}")
        assert only_error(off + alert)[1:] == (
            "alerts[0].on",
            "is about suspects, and none are searched: add 'near: 1%' to a table, without 'suspects: off'",
        )
        read(off + alert.replace("suspect", "suspect, nearly"))
        found = only_error(near + "engine: spark\n" + alert)
        assert found[1:] == (
            "alerts[0].on",
            "is about suspects, which are searched with 'engine: embedded' alone: remove this alert",
        )


class TestFiles:
    def test_relative_paths_start_at_the_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "sub").mkdir()
        (tmp_path / "sub/c.yaml").write_text(GOOD)
        monkeypatch.chdir(tmp_path)
        assert load("sub/c.yaml", {}).settings.state == str(tmp_path.resolve() / "sub/var/state")

    @pytest.mark.parametrize("name", ["missing.yaml", ".", "a\0b", "x" * 5_000])
    def test_what_cannot_be_read(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(ConfigurationError, match="cannot be read"):
            load(f"{tmp_path}/{name}")

    def test_settings_cannot_change(self) -> None:
        with pytest.raises(ValueError, match="frozen"):
            read(GOOD).settings.name = "other"
