"""The configuration: what is read, what is refused, where, and what is never shown."""

from __future__ import annotations

import datetime
import re
from importlib import resources
from itertools import pairwise

import pytest

from holdfast.constraints import Family, OrderDependency, Severity
from holdfast.display.secrets import masked, masked_settings
from holdfast.jobs.configuration.problems import ConfigurationError, written
from holdfast.jobs.configuration.reading import Configuration, read_configuration
from holdfast.jobs.configuration.settings import Settings
from holdfast.jobs.configuration.table_settings import KafkaSource
from holdfast.jobs.configuration.yaml_text import MAX_BYTES, core_value
from holdfast.jobs.validate import summary

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
    key: {ident: 1}
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
            f"c.yaml:12:1: foo: unknown key 'foo'; known: {', '.join(Settings.model_fields)}",
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
