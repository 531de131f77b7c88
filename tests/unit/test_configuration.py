"""The configuration: what is read, what is refused, where, and what is never shown."""

from __future__ import annotations

import datetime
import re
from fractions import Fraction
from importlib import resources
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.constraints import Family, OrderDependency, Severity, UsageError
from holdfast.display.secrets import masked, masked_settings
from holdfast.jobs.configuration.bounds import bounds_of, suspect_batches
from holdfast.jobs.configuration.problems import ConfigurationError, TextPosition, written
from holdfast.jobs.configuration.reading import Configuration, load, read_configuration
from holdfast.jobs.configuration.settings import Settings
from holdfast.jobs.configuration.table_settings import DeltaSource, FilesSource, KafkaSource
from holdfast.jobs.configuration.yaml_text import MAX_BYTES, core_value
from holdfast.jobs.validate import summary
from holdfast.streaming.maintainers.near.suspects import SuspectBatches

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SHIPPED = sorted(file.name for file in resources.files("holdfast.conf").iterdir() if file.name.endswith(".yaml"))

TOP = """\
name: airport
state: ./var/state
backup: ./var/backup
output: ./var/tables
checkpoint: ./var/checkpoint
"""

TABLE = """\
tables:
  - name: tax
    seed: {path: ./tax.csv}
"""

RULES = """\
rules:
  - {name: zip_city, table: tax, fd: "Zip -> City"}
"""

GOOD = TOP + TABLE + RULES


def shipped(name: str) -> str:
    return resources.files("holdfast.conf").joinpath(name).read_text(encoding="utf-8")


def read(text: str | bytes, **environment: str) -> Configuration:
    content = text.encode() if isinstance(text, str) else text
    return read_configuration(content, "c.yaml", "/srv/app", environment)


def errors(text: str | bytes, **environment: str) -> list[tuple[int, str, str]]:
    """Return line, path and message of everything that is refused."""
    with pytest.raises(ConfigurationError) as caught:
        read(text, **environment)
    assert caught.value.exit_code == 2
    return [(p.place.line, written(p.path), p.message) for p in caught.value.problems]


def only_error(text: str | bytes, **environment: str) -> tuple[int, str, str]:
    found = errors(text, **environment)
    assert len(found) == 1, found
    return found[0]


def with_table(*lines: str) -> str:
    return TOP + "tables:\n  - name: tax\n" + "".join(f"    {line}\n" for line in lines) + RULES


class TestShipped:
    @pytest.mark.parametrize("name", SHIPPED)
    def test_is_valid_as_written(self, name: str) -> None:
        assert read(shipped(name)).settings.tables

    def test_what_the_default_comments_out_is_valid_too(self) -> None:
        text = re.sub(
            r"(?m)^# (?=(alerts|prometheus|trigger|publish|snapshot|retention|quarantine|storage_options|spark|engine|blocks):|  -)",
            "",
            shipped("default.yaml"),
        )
        settings = read(text, HOOK_TOKEN="x", AWS_ACCESS_KEY_ID="a", AWS_SECRET_ACCESS_KEY="b").settings
        assert len(settings.alerts) == 3
        assert settings.prometheus is not None
        assert (settings.prometheus.port, settings.prometheus.is_local) == (9_464, True)
        assert settings.retention.metrics == datetime.timedelta(days=30)
        assert settings.blocks_place == "/shared/blocks"

    @pytest.mark.parametrize("kind", ["files", "kafka", "delta"])
    def test_each_source_of_the_default_is_valid(self, kind: str) -> None:
        text = shipped("default.yaml")
        if kind != "files":
            text = re.sub(r"(?m)^    source:.*\n(?:      .*\n)*", "", text)
            block = re.search(rf"(?m)^    # source:.*\n    #   format: {kind}\n(?:    #   .*\n)*", text)
            assert block
            text = text.replace(block[0], re.sub(r"(?m)^    # ", "    ", block[0]))
        if kind == "delta":
            text = re.sub(r"(?m)^    seed:.*\n(?:      .*\n)*", "", text)
        source = read(text, KAFKA_JAAS_CONFIG="x").settings.tables[0].source
        assert source is not None
        assert source.format == kind

    def test_the_example_of_the_documentation(self) -> None:
        configuration = read(
            TOP
            + """\
trigger: {interval: 1 second}
tables:
  - name: airport
    key: [ident]
    columns: {elevation_ft: long, region: {type: string, ordered: true}}
    exclude: [comments]
    seed: {path: ./data/airport.csv}
    source: {format: kafka, servers: "localhost:9092", topic: airport, encoding: debezium, start: earliest, options: {}}
  - name: tax
    seed: {path: /data/tax.csv}
constraints:
  denial: {max_predicates: 4, cross_columns: auto}
  order: {max_context: 3}
  inclusion: {}
rules:
  - {name: tax_rate, table: tax, forbid: "t.State = s.State and t.Salary > s.Salary and t.Rate < s.Rate", severity: error}
  - {name: phone_key, table: tax, key: [AreaCode, Phone]}
  - {name: zip_city, table: tax, fd: "Zip -> City", max_violating_rows: 0.1%}
  - {name: od, table: tax, od: "{State}: Salary ~ Rate", severity: warning}
alerts:
  - {on: [broken, recovered], rule: tax_rate, webhook: "http://..."}
spark: {spark.sql.shuffle.partitions: 2}
"""
        )
        settings = configuration.settings
        assert settings.state == "/srv/app/var/state"
        assert settings.trigger.interval == datetime.timedelta(seconds=1)
        assert settings.spark == {"spark.sql.shuffle.partitions": "2"}
        assert settings.constraints.families == (Family.DENIAL, Family.ORDER, Family.INCLUSION)
        airport, tax = settings.tables
        assert str(airport.columns["elevation_ft"].type) == "integer"
        assert airport.columns["region"].ordered is True
        assert isinstance(airport.source, KafkaSource)
        assert airport.source.servers == ("localhost:9092",)
        assert tax.seed is not None
        assert tax.seed.path == "/data/tax.csv"
        assert [rule.name for rule in configuration.rules] == ["tax_rate", "phone_key", "zip_city", "od"]
        assert str(configuration.rules[1].body) == "not(t.AreaCode = s.AreaCode and t.Phone = s.Phone)"
        assert str(configuration.rules[2].max_violating_rows) == "0.1%"
        assert isinstance(configuration.rules[3].body, OrderDependency)
        assert configuration.rules[3].severity is Severity.WARNING


class TestAllAtOnce:
    def test_every_section_is_looked_at(self) -> None:
        text = """\
name: 5
state: s3://bucket/state
backup: ./var/tables/backup
output: ./var/tables
triger: {interval: 1 second}
tables:
  - name: airport
    key: ident
    columns: {elevation_ft: longg}
    source: {format: kafak}
  - name: tax
    seed: {path: tax.csv}
    exclude: [Zip]
rules:
  - {name: a, table: tax, forbid: "t.A s.B"}
  - {name: a, table: tx, key: [A]}
  - {name: c, table: tax, fd: "Zip -> City"}
alerts:
  - {on: [broken], rule: nope, webhook: "ftp://x"}
quarantine: {max_share: 150%}
"""
        found = {(line, path) for line, path, _ in errors(text)}
        assert found == {
            (1, "checkpoint"),
            (1, "name"),
            (2, "state"),
            (4, "output"),
            (5, "triger"),
            (8, "tables[0].key"),
            (9, "tables[0].columns.elevation_ft"),
            (10, "tables[0].source.format"),
            (15, "rules[0].forbid"),
            (16, "rules[1].name"),
            (16, "rules[1].table"),
            (17, "rules[2].fd"),
            (19, "alerts[0].webhook"),
            (20, "quarantine.max_share"),
        }

    def test_the_text_is_one_line_each_in_the_order_of_the_file(self) -> None:
        with pytest.raises(ConfigurationError) as caught:
            read(TOP + TABLE + "rules:\n  - {name: r, table: tax, fd: Zip}\nspark: {a: 1}\nfoo: 1\n")
        assert str(caught.value).splitlines() == [
            "3 errors in c.yaml",
            "c.yaml:10:31: rules[0].fd: expected ',' or '->', and the text ends, at character 4:",
            "      Zip",
            "         ^",
            "c.yaml:11:8: spark: 'a' is no Spark setting: their names start with 'spark.'",
            f"c.yaml:12:1: foo: unknown key 'foo'; Known: {', '.join(Settings.model_fields)}",
        ]

    def test_many_errors_are_cut(self) -> None:
        with pytest.raises(ConfigurationError, match="and 50 more") as caught:
            read(GOOD + "".join(f"x{i}: 1\n" for i in range(100)))
        assert len(caught.value.problems) == 100

    @pytest.mark.parametrize(
        ("wrong", "right"),
        [("tabels: []", "tables"), ("Retention: {}", "retention"), ("storage_option: {}", "storage_options")],
    )
    def test_unknown_keys_come_with_the_nearest_name(self, wrong: str, right: str) -> None:
        line, path, message = only_error(GOOD + wrong + "\n")
        assert (line, path) == (11, wrong.partition(":")[0])
        assert f"did you mean '{right}'?" in message

    def test_unknown_keys_deep_inside(self) -> None:
        line, path, message = only_error(with_table("seed: {path: a.csv, delimitter: ','}"))
        assert (line, path) == (8, "tables[0].seed.delimitter")
        assert "did you mean 'delimiter'?" in message


class TestYaml:
    def test_1_2_and_nothing_else(self) -> None:
        assert [core_value(t) for t in ("on", "off", "yes", "no", "y", "2024-02-29", "12:30:45", "0777", "1_000")] == [
            *("on", "off", "yes", "no", "y", "2024-02-29", "12:30:45"),
            777,
            "1_000",
        ]

    def test_keys_are_strings_as_written(self) -> None:
        text = with_table("seed: {path: a.csv}", "columns: {no: long, 1: long, null: date, on: {type: string}}")
        assert set(read(text).settings.tables[0].columns) == {"no", "1", "null", "on"}

    def test_on_is_a_key_and_no_is_no_boolean(self) -> None:
        alert = 'alerts:\n  - {on: [broken], rule: zip_city, webhook: "http://h"}\n'
        assert read(GOOD + alert).settings.alerts[0].on == ("broken",)
        line, path, message = only_error(GOOD + "quarantine: {store_raw: no}\n")
        assert (line, path, message) == (11, "quarantine.store_raw", "expected true or false, given 'no'")

    @pytest.mark.parametrize(
        ("text", "line", "part"),
        [
            ("", 1, "given nothing"),
            ("# only a comment\n", 1, "given nothing"),
            ("- a\n- b\n", 1, "given a list"),
            ("just text", 1, "given a str"),
            ("name: [1, 2", 1, "not YAML"),
            ("a: 1\nb: {p: ${X}}\n", 2, "in quotes"),
            ("a: 1\n\tb: 2\n", 2, "tab"),
            ("a: b: c\n", 1, "':'"),
            ("a: 1\n---\nb: 2\n", 2, "second document"),
            ("%YAML 1.1\n---\na: 1\n", 2, "YAML 1.2"),
            ("a: !!python/object:os.system x\n", 1, "tag"),
            ("a: &x [*x]\n", 1, "refers to nothing"),
            ("a: *b\n", 1, "refers to nothing"),
            ("a: " + "[" * 100_000, 1, "levels deep"),
            ("{" * 5_000, 1, "levels deep"),
            ("- " * 5_000, 1, "levels deep"),
            ("a: \x07\n", 1, "U+0007"),
            ('a: "\\uD800"\n', 1, "half a character"),
            (b"name: \xff\n", 1, "0xFF is not UTF-8"),
            (b"\x89PNG\r\n\x1a\n\x00\x00", 1, "0x89 is not UTF-8"),
            (b"PK\x03\x04\x00", 1, "U+0003"),
            ("a: 1\n".encode("utf-16"), 1, "is not UTF-8"),
            (b"a" * (MAX_BYTES + 1), 1, "larger than"),
        ],
    )
    def test_what_is_no_configuration(self, text: str | bytes, line: int, part: str) -> None:
        found = [(at, message) for at, _, message in errors(text)]
        assert any(at == line and part in message for at, message in found), found

    def test_alias_bombs_are_refused_and_aliases_are_not(self) -> None:
        bomb = "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
        names = "abcdefghi"
        for last, name in pairwise(names):
            bomb += f"{name}: &{name} [{', '.join([f'*{last}'] * 10)}]\n"
        assert "values" in only_error(bomb)[2]
        shared = with_table("seed: {path: a.csv}", "key: &k [Zip]", "include: *k").replace("City", "Zip2")
        assert "Zip2" in only_error(shared)[2]

    def test_duplicate_keys(self) -> None:
        line, path, message = only_error(GOOD + "trigger: {interval: 1 second, interval: 2 seconds}\n")
        assert (line, path, message) == (11, "trigger.interval", "is given twice, first in line 11: remove one")
        assert only_error(GOOD + "name: other\n")[:2] == (11, "name")

    def test_a_key_without_a_value_is_not_given(self) -> None:
        assert read(GOOD + "alerts:\ntrigger:\nconstraints:\n  denial:\n").settings.constraints.families == (
            Family.DENIAL,
        )

    def test_byte_order_mark_and_windows_lines(self) -> None:
        assert read(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode()).settings.name == "airport"


class TestEnvironment:
    def test_filled_in(self) -> None:
        text = GOOD.replace("./var/state", "${BASE}/state").replace("airport", "$${x} ${A}-${B}")
        settings = read(text, BASE="/data", A="a: [", B="${A}").settings
        assert settings.state == "/data/state"
        assert settings.name == "${x} a: [-${A}"

    def test_missing_ones_come_with_their_lines(self) -> None:
        text = GOOD.replace("./var/state", "${BASE}/state") + 'storage_options: {a: "${X}", b: "${Y}"}\n'
        assert [(line, path) for line, path, _ in errors(text)] == [
            (2, "state"),
            (11, "storage_options.a"),
            (11, "storage_options.b"),
        ]

    def test_numbers_and_flags_may_come_from_variables(self) -> None:
        text = (
            GOOD
            + 'quarantine: {store_raw: "${RAW}", window: "${W}", max_share: "${S}"}\nsnapshot: {interval: "${I}"}\n'
        )
        settings = read(text, RAW="false", W="7", S="20%", I="5 minutes").settings
        assert (settings.quarantine.store_raw, settings.quarantine.window, settings.quarantine.max_share) == (
            False,
            7,
            0.2,
        )
        assert only_error(GOOD + 'quarantine: {window: "${W}"}\n', W="secret")[2].endswith("given ${W}")

    @pytest.mark.parametrize("text", ["${}", "${A", "${A-b}", "${A:-x}"])
    def test_what_is_no_variable(self, text: str) -> None:
        assert "is no variable" in only_error(GOOD + f"storage_options: {{a: '{text}'}}\n", A="1")[2]


SECRETS = "hunter2 s3cr3t tok3n"


class TestSecrets:
    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            ("s3://key:hunter2@bucket/path", "s3://***@bucket/path"),
            ("cannot open https://u:hunter2@h:80/x?y=1.", "cannot open https://***@h:80/x?y=1."),
            ("https://h/x?sig=hunter2&se=1", "https://h/x?sig=***&se=1"),
            ('password="hunter2" required', "password=*** required"),
            ("aws_secret_access_key: hunter2, region: x", "aws_secret_access_key: ***, region: x"),
            ("Authorization: Bearer hunter2hunter2", "Authorization: Bearer ***"),
            ("AKIAIOSFODNN7EXAMPLE", "***"),
            ("-----BEGIN RSA PRIVATE KEY-----\nhunter2", "***"),
            ("not(t.token = s.token and t.Zip != s.Zip)", "not(t.token = s.token and t.Zip != s.Zip)"),
            ("mail a@b.example about tokens: none", "mail a@b.example about tokens: ***"),
            ("unknown key 'passwrd'", "unknown key 'passwrd'"),
        ],
    )
    def test_masked(self, text: str, shown: str) -> None:
        assert masked(text) == shown
        assert masked(shown) == shown

    def test_masked_settings(self) -> None:
        given = {
            "kafka.sasl.jaas.config": "hunter2",
            "kafka.ssl.keystore.password": "hunter2",
            "kafka.ssl.truststore.location": "/etc/x.jks",
            "aws_secret_access_key": ["hunter2"],
            "account_key": {"a": "hunter2"},
            "key": ["Zip"],
            "headers": {"Authorization": "Basic hunter2hunter2", "X-Api-Key": "hunter2"},
            "path": "s3://u:hunter2@b/x",
            "null_tokens": ["", "NULL"],
        }
        shown = masked_settings(given)
        assert "hunter2" not in str(shown)
        assert (shown["key"], shown["null_tokens"]) == (["Zip"], ["", "NULL"])
        assert shown["kafka.ssl.truststore.location"] == "/etc/x.jks"

    def test_nothing_shows_them(self) -> None:
        text = (
            TOP.replace("./var/backup", "s3://user:hunter2@bucket/backup")
            + TABLE
            + "    source: {format: kafka, servers: 'h:1', topic: t, encoding: json, start: earliest, "
            + 'options: {kafka.sasl.jaas.config: "x password=hunter2", kafka.x: "${MY_TOKEN}"}}\n'
            + 'storage_options: {account_key: "${ACCOUNT_KEY}", token: tok3n}\n'
            + RULES
            + 'alerts:\n  - {on: [broken], rule: zip_city, webhook: "https://h/${MY_TOKEN}", headers: {X-Token: tok3n}}\n'
        )
        configuration = read(text, ACCOUNT_KEY="s3cr3t", MY_TOKEN="tok3n")
        assert configuration.settings.storage_options["account_key"] == "s3cr3t"
        printed = f"{configuration} {configuration.settings!r} {configuration.settings}"
        printed += "\n".join(map(masked, summary(configuration)))
        assert [secret for secret in SECRETS.split() if secret in printed] == []

    @pytest.mark.parametrize(
        "wrong",
        [
            "storage_options: {password: {a: hunter2}}",
            "storage_options: {password: [hunter2]}",
            "storage_options: {password: hunter2, password: hunter2}",
            'trigger: {interval: "${DB_PASSWORD}"}',
            "backup2: s3://u:hunter2@b",
            'alerts:\n  - {on: [broken], webhook: "ftp://u:hunter2@h"}',
            'alerts:\n  - {on: [broken], rule: "${DB_PASSWORD}", webhook: "http://h"}',
            "a: {password: hunter2",
            "password: hunter2: hunter2",
        ],
    )
    def test_errors_do_not_show_them(self, wrong: str) -> None:
        with pytest.raises(ConfigurationError) as caught:
            read(GOOD + wrong + "\n", DB_PASSWORD="hunter2")
        assert "hunter2" not in str(caught.value)
        assert caught.value.__cause__ is None


class TestTables:
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
            (["seed: {path: a.csv, strings: some}"], "tables[0].seed.strings", "expected all"),
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
            "table tax has no monitored column 'City'; Known: Town, Zip",
        )
        assert "excludes" in only_error(with_table("seed: {path: a.csv}", "exclude: [City]"))[2]

    def test_near_alone_is_enough(self) -> None:
        text = TOP + TABLE.rstrip() + "\n    near: 1%\n"
        assert read(text).settings.tables[0].near is not None
        read(text + "alerts:\n  - {on: [nearly, restored, left], webhook: 'http://h'}\n")

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


PIECES = [
    "{",
    "}",
    "[",
    "]",
    ":",
    "- ",
    "&a ",
    "*a",
    "!!str ",
    "|",
    ">",
    "'",
    '"',
    "#",
    "%",
    "@",
    "`",
    "~",
    "${X}",
    "${",
    "$${",
]
PIECES += [
    "\n",
    "\n  ",
    "\t",
    "? ",
    "<<: ",
    "null",
    "no",
    "-1",
    "1e400",
    ".nan",
    "0x",
    "\u2028",
    "\ufeff",
    "e\u0301",
    "\x00",
    "---",
    "...",
]


def mutations() -> st.SearchStrategy[str]:
    """Return shipped configurations with pieces replaced, put in, or taken out."""
    change = st.tuples(st.integers(0, 6_000), st.integers(0, 12), st.sampled_from(PIECES) | st.text(max_size=4))

    def changed(text: str, changes: list[tuple[int, int, str]]) -> str:
        for start, length, piece in changes:
            at = start % (len(text) + 1)
            text = text[:at] + piece + text[at + length :]
        return text

    texts = st.sampled_from([GOOD, *map(shipped, SHIPPED)])
    return st.builds(changed, texts, st.lists(change, max_size=6))


def trees() -> st.SearchStrategy[str]:
    """Return YAML made of known names and odd values in the wrong places."""
    names = st.sampled_from(
        [
            "name",
            "state",
            "backup",
            "output",
            "checkpoint",
            "tables",
            "source",
            "seed",
            "format",
            "kafka",
            "files",
            "path",
            "encoding",
            "key",
            "columns",
            "include",
            "exclude",
            "constraints",
            "denial",
            "cross_columns",
            "rules",
            "fd",
            "forbid",
            "od",
            "inclusion",
            "alerts",
            "on",
            "webhook",
            "spark",
            "start",
            "options",
        ]
    )
    scalars = st.one_of(names, st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)).map(repr)
    return st.recursive(
        scalars,
        lambda inner: (
            st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]")
            | st.lists(st.tuples(names, inner), max_size=5).map(
                lambda items: "{" + ", ".join(f"{k}: {v}" for k, v in items) + "}"
            )
        ),
        max_leaves=12,
    )


def blocks() -> Iterator[st.SearchStrategy[str]]:
    keys = ("tables", "rules", "alerts", "constraints", "quarantine", "trigger", "state", "storage_options")
    for key in keys:
        yield trees().map(lambda tree, key=key: f"{GOOD}{key}2: 1\n{key}: {tree}\n")  # type: ignore[misc]
        yield trees().map(lambda tree, key=key: f"{TOP}tables:\n  - name: tax\n    {key}: {tree}\n    seed: {tree}\n")  # type: ignore[misc]
        yield trees().map(lambda tree, key=key: f"{key}: {tree}\n")  # type: ignore[misc]


@given(text=st.one_of(mutations(), trees(), *blocks(), st.text(), st.binary()))
@example(text="a: " + "9" * 5_000)
@example(text="? |-\n  " + "x" * 2_000 + "\n: 1")
def test_nothing_but_usage_errors_comes_out(text: str | bytes) -> None:
    content = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    try:
        configuration = read_configuration(content, "c.yaml", "/srv/app", {"X": "1", "HOOK_TOKEN": "x"})
    except UsageError as error:
        assert str(error).startswith(("1 error in", *(f"{n} errors in" for n in range(2, 1_000))))
        assert isinstance(error, ConfigurationError)
        assert all(p.place >= TextPosition(1, 1) for p in error.problems)
    else:
        assert all(masked(line) for line in summary(configuration) if line)
