"""Every reader of input as one function from bytes, with seeds and words that lead to it.

Invariant of each: what it returns, or an error of `holdfast.constraints`, is all that can come of any bytes. Where
there is an independent answer, the function asserts that it is the same. What is returned can be compared by its
`repr`, so that a run with compiled kernels and one without can be.

The names of readers are those that `python -m tests.fuzz NAME` takes.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from holdfast.constraints import (
    Column,
    Condition,
    HoldfastError,
    PredicateSpace,
    StateRefused,
    UsageError,
    parse_condition,
    parse_constraint,
    parse_forbidden,
    parse_functional_dependency,
    parse_required,
    parse_rule_body,
    parse_type,
    read_value,
)
from holdfast.constraints.rules import Threshold
from holdfast.display.secrets import masked, masked_settings
from holdfast.jobs.command_line import exit_code_of
from holdfast.jobs.configuration.problems import Enough, Problems
from holdfast.jobs.configuration.reading import read_configuration
from holdfast.jobs.configuration.rules_files import read_rules
from holdfast.jobs.configuration.yaml_text import Document, read_yaml
from holdfast.jobs.files.spaces import read_space
from holdfast.state import codecs
from holdfast.state.log import CommitLog, logged_after, owner
from holdfast.state.snapshots import Snapshots
from holdfast.state.store import WriteBatch
from holdfast.tables.fitting import fit
from tests.fuzz import seeds
from tests.fuzz.readers_of_records import SCHEMA, TYPES, changes, file_of, json_records, table_file, topic
from tests.oracles.values import same

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@dataclass(frozen=True)
class Reader:
    """One reader.

    Parameters
    ----------
    read : from bytes to what can be compared.
    seeds : inputs that get somewhere.
    words : what a change may put in.
    """

    read: Callable[[bytes], Any]
    seeds: Callable[[], Sequence[bytes]]
    words: Sequence[bytes] = ()


def outcome(reader: Reader, data: bytes) -> Any:
    """Return what came of an input: a value, or the error that refused it, which says something."""
    try:
        return reader.read(data)
    except HoldfastError as error:
        assert str(error).strip()
        return type(error).__name__, str(error)


# Texts


def constraint(data: bytes) -> Any:
    """A constraint of any family: what it writes reads back as itself."""
    text = data.decode(errors="surrogateescape")
    found = parse_constraint(text)
    assert parse_constraint(str(found)) == found
    return str(found)


_RULES: tuple[Callable[[str], Any], ...] = (
    parse_rule_body,
    parse_condition,
    parse_forbidden,
    parse_required,
    parse_functional_dependency,
)


def rule(data: bytes) -> Any:
    """A rule in each of the ways that there are."""
    text = data.decode(errors="surrogateescape")
    made = []
    for parse in _RULES:
        try:
            found = parse(text)
        except UsageError as error:
            made.append(str(error))
            continue
        shown = f"not({found})" if isinstance(found, Condition) else str(found)
        back = parse_rule_body(shown)
        assert str(back) == str(found) or isinstance(found, Condition), (shown, str(back))
        made.append(shown)
    return made


def rules_file(data: bytes) -> Any:
    """A file of rules: lines, or YAML."""
    yaml = data[:1] == b"y"
    with file_of(data[1:], "rules.yaml" if yaml else "rules.txt") as path:
        try:
            found = read_rules(path, [], ["t"])
        except UsageError as error:
            raise UsageError(str(error).replace(str(path.parent), "")) from error
        names = [one.rule.name for one in found]
        assert len(set(names)) == len(names)
        return [(str(one.rule), one.place) for one in found]


def space_file(data: bytes) -> Any:
    """A predicate space: what it writes reads back as itself."""
    with file_of(data, "space.json") as path:
        try:
            found = read_space(path)
        except UsageError as error:
            raise UsageError(str(error).replace(str(path.parent), "")) from error
    assert PredicateSpace.from_json(json.loads(json.dumps(found.to_json()))) == found
    return found.fingerprint, found.word_count


def column_type(data: bytes) -> Any:
    """A column's type, and a threshold."""
    text = data.decode(errors="surrogateescape")
    made = []
    for parse in (parse_type, Threshold.parse):
        try:
            found = parse(text)
        except UsageError as error:
            made.append(str(error))
            continue
        assert parse(str(found)) == found or parse is Threshold.parse
        made.append(str(found))
    return made


_KINDS = [parse_type(kind) for kind in TYPES.values()]


def values(data: bytes) -> Any:
    """Texts into each type: one by one, and as a column; both say the same."""
    texts = data.decode(errors="replace").split("\n")[:50]
    made = []
    for kind in _KINDS:
        column = Column("c", kind)
        typed, wrong = fit(pa.array(texts, pa.large_string()), column)
        typed.validate(full=True)
        cells = typed.cast(pa.large_string()).to_pylist()
        for row, text in enumerate(texts):
            try:
                value: Any = read_value(text, kind)
            except ValueError:
                value = None
            refused = wrong is not None and bool(wrong[row])
            assert refused == (value is None), (kind, text)
            if value is not None and str(kind) != "timestamp(9)":
                given = typed[row].as_py()
                assert same(given, value), (kind, text, given, value)
        made.append(cells)
    return made


_SHOWN_SECRET = "***"


def masking(data: bytes) -> Any:
    """A text, and settings, without their secrets: masked twice they are as masked once."""
    text = data.decode(errors="surrogateescape")
    once = masked(text)
    assert masked(once) == once, (text, once, masked(once))
    with contextlib.suppress(ValueError, RecursionError):
        given = json.loads(text)
        masked_settings(given)
    return once


# Configurations

_ENVIRONMENT = {"SECRET_TOKEN": "hunter2-hunter2", "N": "7", "HOME": "/home/x", "BAD": "\ud800", "EMPTY": ""}


def yaml_text(data: bytes) -> Any:
    """YAML, with variables filled in."""
    problems = Problems()
    document = Document()
    with contextlib.suppress(Enough):
        document = read_yaml(data.decode(errors="surrogateescape"), _ENVIRONMENT, problems)
    shown = [str(problem) for problem in problems.ordered()]
    assert not any(_ENVIRONMENT["SECRET_TOKEN"] in one for one in shown)
    return repr(document.value), shown


def configuration(data: bytes) -> Any:
    """A whole configuration."""
    found = read_configuration(data, "c.yaml", "/somewhere", _ENVIRONMENT)
    assert _ENVIRONMENT["SECRET_TOKEN"] not in repr(found.settings) + str(found.settings)
    return repr(found.settings), [str(rule) for rule in found.rules], found.warnings


def arguments(data: bytes) -> Any:
    """Arguments of commands that read files alone, separated by NUL, in a folder with some files."""
    words = [os.fsdecode(word) for word in data.split(b"\0")]
    if words[:1] not in [[name] for name in ("discover", "check", "replay", "validate", "init", "-h", "--version")]:
        words.insert(0, "check")
    before = Path.cwd()
    out, said = io.StringIO(), io.StringIO()
    with file_of(b"A,B\n1,2\n2,2\n", "outer.csv") as outer:
        path = outer.parent / "inner" / "a.csv"
        path.parent.mkdir()
        outer.rename(path)
        (path.parent / "c.yaml").write_bytes(seeds.CONFIGURATIONS[0])
        (path.parent / "rules.txt").write_bytes(b"r: A -> B\n")
        os.chdir(path.parent)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(said):
                code = exit_code_of(words)
            beside = [found.name for found in outer.parent.iterdir() if found.name != "inner"]
        finally:
            os.chdir(before)
    assert code in {0, 1, 2, 3, 5}, (words, code, said.getvalue())
    assert code in {0, 1} or said.getvalue().strip() or out.getvalue().strip(), words
    return code, len(beside)


# Stored formats


def stored_batch(data: bytes) -> Any:
    """The bytes of a batch: read back, or refused."""
    batch = codecs.read_batch(data)
    assert codecs.read_batch(codecs.batch_bytes(batch)).changes == batch.changes
    return batch.changes


def stored_value(data: bytes) -> Any:
    """The bytes of a value: read back, or refused."""
    value = codecs.read_value(data)
    again = codecs.read_value(codecs.value(value))
    assert same(again, value)
    return value


@cache
def _logged() -> tuple[bytes, dict[tuple[str, bytes], bytes | None]]:
    batch = WriteBatch()
    batch.put("rows", b"k" * 20, b"v" * 50)
    batch.delete("rows", b"g")
    batch.put("meta", b"commit", codecs.number(1))
    with tempfile.TemporaryDirectory() as folder:
        CommitLog(Path(folder), 0).put(1, codecs.batch_bytes(batch))
        return (Path(folder) / "log" / f"{0:010d}" / f"{1:020d}").read_bytes(), batch.changes


def log_record(data: bytes) -> Any:
    """A record of the log with some bytes changed: what was written, or refused."""
    whole, changes = _logged()
    given = damaged(whole, data)
    with file_of(b"", "x") as path:
        folder = path.parent / "log" / f"{0:010d}"
        folder.mkdir(parents=True)
        (folder / f"{1:020d}").write_bytes(given)
        if data[-1:] == b"f":
            (folder / "first").write_bytes(data[:3])
        try:
            found = list(logged_after(path.parent, 0))
        except StateRefused as error:
            raise StateRefused(str(error).replace(str(path.parent), "")) from error
    assert [one.changes for _, one in found] in ([changes], []), data
    assert not found or given == whole
    return len(found)


def damaged(whole: bytes, data: bytes) -> bytes:
    """Return bytes with some of them changed: pairs of a place and of what is put there; the rest is appended."""
    made = bytearray(whole)
    for i in range(0, len(data) - 3, 4):
        place = int.from_bytes(data[i : i + 2], "big") % (len(made) + 1)
        made[place : place + data[i + 2] % 4] = data[i + 3 : i + 4]
    return bytes(made)


def manifest(data: bytes) -> Any:
    """A manifest, and the note of a backup's owner, with any bytes."""
    with file_of(data, "OWNER") as path:
        snapshots = path.parent / "snapshots"
        snapshots.mkdir()
        (snapshots / f"{7:020d}.{0:010d}.json").write_bytes(data)
        (path.parent / "state").mkdir()
        try:
            about = owner(path.parent)
        except StateRefused as error:
            about = {"refused": bool(str(error))}
        assert isinstance(about, dict)
        found = [snapshot for _, snapshot in Snapshots(path.parent).all()]
        for snapshot in found:
            if snapshot is not None:
                assert all("/" not in name and name not in {"", ".", ".."} for name in snapshot.files)
        return about, found


_TEXT_MODES = (0, 1, 2, 8, 12, 16, 32, 64, 128, 256)
_CHANGES_MODES = [bytes([mode]) for mode in (0, 1, 2, 32, 64, 128)]

READERS: dict[str, Reader] = {
    "json-records": Reader(
        json_records, lambda: [seeds.record(), *(b'{"k":%s}' % s for s in seeds.SCALARS)], seeds.JSON_WORDS
    ),
    **{
        f"topic-{encoding}": Reader(topic(encoding), seeds.topic_seeds, seeds.JSON_WORDS)
        for encoding in ("json", "upsert", "debezium", "debezium-unwrapped")
    },
    "changes-json": Reader(
        changes("json", ".json", ".json.gz", ".json.zst"),
        lambda: seeds.behind(
            [seeds.record() + b"\n" + seeds.record(b',"_op":"delete","_seq":4'), *seeds.compressed(seeds.record())],
            _CHANGES_MODES,
        ),
        [*seeds.JSON_WORDS, b'"_seq":'],
    ),
    "changes-csv": Reader(
        changes("csv", ".csv", ".csv.gz", ".PARQUET/.."),
        lambda: seeds.behind(seeds.CSVS, _CHANGES_MODES),
        [b"_op", b"_seq", b'"'],
    ),
    "changes-parquet": Reader(
        changes("parquet", ".parquet", ".x"), lambda: seeds.behind([seeds.parquet(compression="none")], _CHANGES_MODES)
    ),
    "table-csv": Reader(
        table_file(".csv"), lambda: seeds.behind(seeds.CSVS, seeds.modes(*_TEXT_MODES)), [*seeds.SCALARS, b'"', b"\r\n"]
    ),
    "table-compressed": Reader(
        table_file(".csv.gz", ".csv.bz2", ".csv.zst", ".csv.lz4"),
        lambda: [
            (i << 9).to_bytes(2, "big") + part
            for text in seeds.CSVS[:3]
            for i, part in enumerate(seeds.compressed(text))
        ],
    ),
    "table-parquet": Reader(
        table_file(".parquet"),
        lambda: [
            b"\0\0" + seeds.parquet(compression="none"),
            b"\0\0" + seeds.parquet(use_dictionary=False, version="1.0"),
            b"\0\0" + seeds.parquet(use_deprecated_int96_timestamps=True),
        ],
        [b"PAR1"],
    ),
    "table-arrow": Reader(
        table_file(".arrow"),
        lambda: [b"\0\0" + seeds.feather_file("uncompressed"), b"\0\0" + seeds.feather_file("zstd")],
        [b"ARROW1"],
    ),
    "constraint": Reader(constraint, lambda: seeds.CONSTRAINTS, seeds.WORDS),
    "rule": Reader(rule, lambda: seeds.RULES, seeds.WORDS),
    "rules-file": Reader(
        rules_file,
        lambda: (
            [
                b"l" + b"\n".join(b"r%d: %s # c" % (i, rule) for i, rule in enumerate(seeds.RULES)),
                b"l`a: b`: key(A)",
                b"y" + seeds.CONFIGURATIONS[0],
                b"yrules:\n- {name: a, table: t, fd: A -> B}\n",
            ]
        ),
        [*seeds.WORDS, *seeds.YAML_WORDS, b" # "],
    ),
    "space-file": Reader(
        space_file,
        lambda: [
            seeds.json_bytes(PredicateSpace(SCHEMA, ((0, 1), (2, 3))).to_json()),
            b'{"format":1,"table":"t","columns":[{"name":"a","type":"int"}],"cross_columns":[],"family":"od"}',
        ],
        [b'"family":', b"[]", b"null", b"true", b"1e999"],
    ),
    "column-type": Reader(
        column_type, lambda: [*(kind.encode() for kind in TYPES.values()), b"NUMERIC( 3 , 1 )", b"0.1%", b"5", b"1_000"]
    ),
    "values": Reader(values, lambda: [b"\n".join(seeds.SCALARS), *seeds.SCALARS], seeds.SCALARS),
    "masking": Reader(
        masking,
        lambda: [
            b"s3://AKIA:abc@bucket/x?sig=f00&v=1, password=hunter2",
            b'{"account_key": "abc", "webhook": "https://h.example/T1/B2"}',
            b"Authorization: Bearer abcdefghijkl",
            b"-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----",
            b"not(t.token = s.token)",
        ],
        [b"password=", b"://", b"@", b"secret: ", b"Bearer ", b"token", b"'", b'"', b"AKIA"],
    ),
    "yaml": Reader(yaml_text, lambda: seeds.CONFIGURATIONS, seeds.YAML_WORDS),
    "configuration": Reader(configuration, lambda: seeds.CONFIGURATIONS, seeds.YAML_WORDS),
    "arguments": Reader(
        arguments, lambda: seeds.ARGUMENTS, [b"--", b"\0", b"--rule\0", b"--output\0", b"a.csv", b"--format\0"]
    ),
    "log-record": Reader(log_record, lambda: [b"", b"\0\1\2\3", b"xyzf", b"12 f"]),
    "manifest": Reader(
        manifest,
        lambda: [
            seeds.json_bytes({"state_id": "0", "epoch": 3, "host": "h"}),
            *(
                seeds.whole_manifest({**seeds.MANIFEST, "files": files})
                for files in ({"../x": [1, "0" * 64]}, seeds.MANIFEST["files"])
            ),
            b"[" * 5_000,
            b"{}",
        ],
        [b'"epoch":', b'"files":', b'"sha256":'],
    ),
}
