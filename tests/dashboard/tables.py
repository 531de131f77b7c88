"""Output tables as a pipeline would have left them, drawn by lot: for tests, and for the figures of `python -m benchmarks`.

Written by the writer of the pipeline itself (`streaming/sinks`), so that types, partitions and statistics are its.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import random
from typing import TYPE_CHECKING, Any

from holdfast.constraints import NearConstraint, constraint_fields, parse_constraint
from holdfast.constraints.near import parse_near
from holdfast.constraints.sentences import sentence
from holdfast.streaming.sinks.choosing import open_tables
from holdfast.streaming.sinks.shapes import SHAPES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from holdfast.streaming.sinks.contract import OutputTable
    from holdfast.streaming.sinks.shapes import Shape

Row = dict[str, Any]

FIRST = datetime.datetime(2026, 3, 1, 8, tzinfo=datetime.UTC)
STATE = "0" * 32


class Written:
    """The output tables of one application in a folder.

    Parameters
    ----------
    folder : gets `holdfast.yaml` and the tables.
    application : its name.
    shapes : the tables; those of another version, for instance.
    """

    def __init__(self, folder: Path, application: str = "shop", shapes: Mapping[str, Shape] = SHAPES) -> None:
        self.folder = folder
        self.application = application
        self.place = folder / "output"
        self.file = folder / "holdfast.yaml"
        places = {name: f"./{name}" for name in ("state", "backup", "output", "checkpoint")}
        source = {"format": "files", "path": "./changes", "encoding": "json"}
        tables = [{"name": "tax", "key": ["Id"], "source": source, "columns": {"Id": "long"}}]
        self.file.write_text(
            json.dumps({"name": application, **places, "tables": tables, "constraints": {"denial": {}}})
        )
        self.commit = 0
        self.at = FIRST
        self._tables: dict[str, OutputTable] = open_tables(str(self.place), application, STATE, shapes=shapes)

    def wait(self, seconds: float) -> None:
        """Let time pass before the next commit."""
        self.at += datetime.timedelta(seconds=seconds)

    def put(self, rows: Mapping[str, Sequence[Row]]) -> int:
        """Commit rows of some tables, a second after the last commit; return the number of this one."""
        self.commit += 1
        self.at += datetime.timedelta(seconds=1)
        for name, table in self._tables.items():
            if rows.get(name):
                table.publish([{**self.common(), **row} for row in rows[name]], self.commit)
        return self.commit

    def put_many(self, name: str, rows: Sequence[Row], upto: int) -> None:
        """Write rows that have their commits already, in one Delta commit."""
        self.commit = upto
        self._tables[name].publish(rows, upto)

    def common(self, commit: int | None = None) -> Row:
        """Return what every row has."""
        return {"commit": commit or self.commit, "application": self.application, "state_id": STATE}

    def appeared(self, text: str, table: str = "tax", **more: Any) -> dict[str, list[Row]]:
        """Return the rows of a constraint that came."""
        at = self.at + datetime.timedelta(seconds=1)
        about = constraint(text, table)
        change = {**about, "source": table, "batch_id": self.commit, "change": "appeared", "reason": "released"}
        change |= {"witness": "[]", "cause": "data", "constraints_after": 1, "committed_at": stamp(at)}
        change |= {"date": stamp(at)[:10], **more}
        held = {**about, "since_commit": self.commit + 1, "since": stamp(at), "score": 0.5, "nulls_rule": "-"}
        return {"constraint_changes": [change], "constraints": [held]}

    def disappeared(self, text: str, rows: Sequence[Row] = (), table: str = "tax", **more: Any) -> dict[str, list[Row]]:
        """Return the rows of a constraint that went, and why."""
        found = self.appeared(text, table)
        images = [{"key": {"Id": row["Id"]} if "Id" in row else {}, "row": row} for row in rows]
        proof = {"change": "disappeared", "reason": "violated", "witness": json.dumps(images)}
        gone = {"constraint_id": found["constraints"][0]["constraint_id"], "_gone": True}
        return {"constraint_changes": [found["constraint_changes"][0] | proof | more], "constraints": [gone]}

    def near(
        self, text: str, exceptions: int, before: int | None = None, shown: Sequence[Row] = (), **more: Any
    ) -> dict[str, list[Row]]:
        """Return the rows of a constraint that nearly holds, or has other exceptions; `shown` are rows that are."""
        at = stamp(self.at + datetime.timedelta(seconds=1))
        about = near_constraint(text, exceptions, **more)
        kept = {**about, "strength": 0.9, "since_commit": self.commit + 1, "since": at}
        examples = json.dumps([{"key": {"Id": row["Id"]}, "row": row} for row in shown])
        change = {**about, "source": about["table_name"], "batch_id": self.commit, "committed_at": at}
        change |= {"date": at[:10], "change": "entered" if before is None else "exceptions", "cause": "data"}
        return {
            "near_constraints": [kept],
            "near_changes": [{**change, "exceptions_before": before, "examples": examples}],
            "exceptions": [self.exception(text, row, about["table_name"]) for row in shown],
        }

    def near_left(self, text: str, exceptions: int, before: int, **more: Any) -> dict[str, list[Row]]:
        """Return the rows of a constraint that does not nearly hold any more."""
        found = self.near(text, exceptions, before, **more)
        gone = {"constraint_id": found["near_constraints"][0]["constraint_id"], "_gone": True}
        return {"near_constraints": [gone], "near_changes": [{**found["near_changes"][0], "change": "left"}]}

    def suspect(self, row: Row, column: str, wanted: Any, texts: Sequence[str], **more: Any) -> dict[str, list[Row]]:
        """Return the rows of a suspect that appeared; of one that disappeared, where `change` says so."""
        at = stamp(self.at + datetime.timedelta(seconds=1))
        change = {"source": "tax", "change": "appeared", "cause": "data", "committed_at": at, "date": at[:10]}
        change |= {name: more.pop(name) for name in ("change", "reason") if name in more}
        about: Row = {
            "suspect_id": hashlib.sha256(json.dumps([row, column]).encode()).hexdigest(),
            "table_name": "tax",
            "row_key": json.dumps({"Id": row["Id"]}),
            "row": json.dumps(row),
            "column": column,
            "value": json.dumps(row[column]),
            "expected": json.dumps(wanted),
            "score": 0.95,
            "constraints": json.dumps(list(texts)),
            **more,
        }
        commit = self.commit + 1
        held: Row = {**about, "since_commit": commit, "since": at, "as_of_commit": commit}
        gone: Row = {"suspect_id": about["suspect_id"], "_gone": True}
        return {
            "suspect_changes": [{**change, **about}],
            "suspects": [gone if change["change"] == "disappeared" else held],
        }

    def concentration(self, text: str, column: str, given: Any, **more: Any) -> dict[str, list[Row]]:
        """Return the row of a value in which the exceptions of a constraint are concentrated."""
        about = near_constraint(text, 0)
        row: Row = {name: about[name] for name in ("constraint_id", "table_name", "constraint")}
        row["concentration_id"] = hashlib.sha256(json.dumps([text, column, given]).encode()).hexdigest()
        row |= {"place": 1, "column": column, "value": json.dumps(given), "exceptions": 11, "of_exceptions": 12}
        row |= {"rows": 15, "of_rows": 500, "significance": 1e-12, "holds_elsewhere": False, "rules": "[]"}
        return {"concentrations": [{**row, "as_of_commit": self.commit + 1, **more}]}

    def exception(self, text: str, row: Row, table: str = "tax", **more: Any) -> Row:
        """Return a row that is an exception of a constraint."""
        about = near_constraint(text, 0, table_name=table)
        named = {name: about[name] for name in ("constraint_id", "table_name", "constraint")}
        named["example_id"] = hashlib.sha256(json.dumps([named["constraint_id"], row]).encode()).hexdigest()
        named |= {"row_key": json.dumps({"Id": row["Id"]}), "row": json.dumps(row), "undecided": False}
        return {**named, "since": stamp(self.at + datetime.timedelta(seconds=1)), **more}

    def rule(self, name: str, text: str, pairs: int | None, **more: Any) -> Row:
        """Return a line of a rule."""
        at = stamp(self.at + datetime.timedelta(seconds=1))
        line = {"rule": name, "table_name": "tax", "constraint": text, "violating_pairs": pairs}
        line |= {"violating_rows": pairs, "rows_as_of": self.commit + 1, "holds": not pairs, "broken": bool(pairs)}
        return {**line, "severity": "error", "committed_at": at, **more}

    def example(self, rule: str, rows: Sequence[Row], change: str = "added") -> Row:
        """Return a violation that is shown, or not any more."""
        found = {"rule": rule, "table_name": "tax", "change": change}
        found["example_id"] = hashlib.sha256(json.dumps([rule, rows]).encode()).hexdigest()
        for side, row in zip(("left", "right"), rows, strict=False):
            found |= {f"{side}_key": json.dumps({"Id": row["Id"]}), f"{side}_row": json.dumps(row)}
        return {**found, "committed_at": stamp(self.at + datetime.timedelta(seconds=1))}

    def batch(self, **more: Any) -> Row:
        """Return a line of a batch."""
        line: Row = {"source": "tax", "query_id": "q", "batch_id": self.commit, "rows_in": 10, "inserted": 10}
        line |= dict.fromkeys(("deleted", "updated", "ignored", "owed", "late", "quarantined"), 0)
        line |= {"table_rows": 100, "constraints": 5, "seconds": '{"read":0.01,"apply":0.02}', "lag_seconds": 0.5}
        return {**line, "committed_at": stamp(self.at + datetime.timedelta(seconds=1)), **more}

    def bad(self, raw: str, reason: str, record: str = "tax-0-1", **more: Any) -> Row:
        """Return a record that could not be read."""
        at = stamp(self.at + datetime.timedelta(seconds=1))
        found = {"source": "tax", "table_name": "tax", "record_id": record, "raw": raw, "reason": reason}
        return {**found, "seen_at": at, "date": at[:10], **more}


def constraint(text: str, table: str = "tax") -> Row:
    """Return the columns that say which constraint it is."""
    parsed = parse_constraint(text)
    fields = parsed.fields()
    identity = json.dumps([parsed.family.value, table, text], ensure_ascii=False, separators=(",", ":"))
    return {
        "constraint_id": hashlib.sha256(identity.encode()).hexdigest(),
        "table_name": table,
        "family": parsed.family.value,
        "constraint": text,
        "sentence": sentence(parsed),
        "predicates": json.dumps(fields.get("predicates")),
        "kind": fields.get("kind"),
        "size": fields.get("size"),
    }


def near_constraint(text: str, exceptions: int, rows: int = 1_000, table_name: str = "tax") -> Row:
    """Return the columns that say which near constraint it is, and how many exceptions it has."""
    parsed = parse_near(text)
    near = NearConstraint(parsed.shape, parsed.context, parsed.target, exceptions, rows)
    fields = constraint_fields(near, table_name)
    return {
        "constraint_id": fields["id"],
        "table_name": table_name,
        "sentence": sentence(near),
        **{name: fields[name] for name in ("shape", "constraint", "exceptions", "rows", "share")},
        **{name: json.dumps(fields[name]) for name in ("context", "target")},
    }


def stamp(moment: datetime.datetime) -> str:
    """Return a time as it stands in the outbox."""
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


# Many


def many(written: Written, held: int, changes: int, days: int = 30, at_once: int = 50_000) -> None:
    """Write constraints and changes, as many as a large pipeline leaves in some days.

    Half of the changes take away what the other half brought; rows of proofs have twelve columns. The newest come in
    small commits, as they do while a pipeline runs.
    """
    chance = random.Random(17)
    texts = [_text(number) for number in range(max(held, 1) * 2)]
    parts = [constraint(text, f"table_{number % 5}") for number, text in enumerate(texts)]
    rows: list[Row] = []
    since: dict[int, Row] = {}
    batches: list[Row] = []
    commit = 0
    step = datetime.timedelta(days=days) / max(changes, 1)
    for number, change in enumerate(_history(chance, held, changes, len(texts), since)):
        if number < held or number % 3 == 0:
            commit += not (0 < number < held)
        at = FIRST + step * number
        rows.append(_change_row(written, parts[change[0]], change, commit, at, chance, is_seed=number < held))
        if change[1] == "appeared":
            since[change[0]] = {"since_commit": commit, "since": stamp(at)}
        if commit > len(batches):
            batches.append({**written.common(commit), **written.batch(batch_id=commit), "committed_at": stamp(at)})
    written.at = FIRST + datetime.timedelta(days=days)
    for name, found in (("constraint_changes", rows), ("batches", batches)):
        start = 0
        while start < len(found):
            end = min(start + at_once, len(found))
            while end < len(found) and found[end]["commit"] == found[end - 1]["commit"]:
                end += 1
            written.put_many(name, found[start:end], found[end - 1]["commit"])
            start = end
    standing = [
        {**written.common(), **parts[number], **since[number], "score": chance.random(), "nulls_rule": "-"}
        for number in sorted(since)
    ]
    for place, row in enumerate(sorted(standing, key=lambda row: -float(row["score"]))[:1_000]):
        row["rank"] = place + 1
    written.put_many("constraints", standing, commit)


def many_near(written: Written, constraints: int, changes: int, days: int = 30, at_once: int = 5_000) -> None:
    """Write near constraints and their changes, as many as a large pipeline leaves in some days.

    Each batch moves the exceptions of ten constraints. A tenth of the constraints hold; each of the others has ten rows
    that are shown. After `many`, the batches are among its batches.
    """
    chance = random.Random(19)
    texts = [f"column_{number % 40}, group_{number // 40} -> target_{number % 7}" for number in range(constraints)]
    parts = [near_constraint(text, 0, 1_000_000, f"table_{number % 5}") for number, text in enumerate(texts)]
    counts = [0] * constraints
    step = datetime.timedelta(days=days) / max(changes, 1)
    start, last = FIRST, max(written.commit, changes // 10 + 1)
    rows: list[Row] = []
    moved: list[int] = []
    for number in range(changes):
        is_seed = number < constraints
        if number % 10 == 0:
            moved = chance.sample(range(constraints), 10)  # a batch changes a constraint once
        one = number if is_seed else moved[number % 10]
        before = None if is_seed else counts[one]
        counts[one] = 0 if one % 10 == 0 else max(1, counts[one] + chance.randrange(-20, 24))
        at = start if is_seed else start + step * number
        commit = 1 if is_seed else 1 + (number - number % 10) * (last - 1) // changes
        change = {**written.common(commit), **parts[one], "source": "tax"}
        change |= {"exceptions": counts[one], "exceptions_before": before, "share": counts[one] / 1_000_000}
        change |= {"change": "entered" if is_seed else "exceptions", "cause": "seed" if is_seed else "data"}
        change |= {"committed_at": stamp(at), "date": stamp(at)[:10], "batch_id": number}
        change["examples"] = None if is_seed else json.dumps([_image(chance)])
        rows.append(change)
    for begin in range(0, changes, at_once):
        part = rows[begin : begin + at_once]
        written.put_many("near_changes", part, part[-1]["commit"])
    since = {"since_commit": 1, "since": stamp(start), "strength": 0.9}
    written.commit = last
    standing = [
        {**written.common(), **about, **since, "exceptions": count, "share": count / 1_000_000}
        for about, count in zip(parts, counts, strict=True)
    ]
    written.put_many("near_constraints", standing, written.commit)
    shown = [
        {**written.common(), **written.exception(text, _image(chance)["row"], about["table_name"])}
        for text, about, count in zip(texts, parts, counts, strict=True)
        for _ in range(min(count, 10))
    ]
    written.put_many("exceptions", shown, written.commit)
    written.at = start + datetime.timedelta(days=days)


def _text(number: int) -> str:
    names = [f"column_{(number // 37**place) % 37}" for place in range(4)]
    if number % 3 == 0:
        return " and ".join(f"t.{name} = s.{name}" for name in dict.fromkeys(names)).join(("not(", ")"))
    first, *rest = dict.fromkeys([*names, f"amount_{number % 11}", f"rate_{number % 7}"])
    same = [f"t.{name} = s.{name}" for name in rest[:-1]]
    return f"not({' and '.join([*same, f't.{first} != s.{first}'])})"


def _history(
    chance: random.Random, held: int, changes: int, known: int, since: dict[int, Row]
) -> Iterator[tuple[int, str, str | None]]:
    for number in range(min(held, changes)):
        yield number, "appeared", None
    for number in range(held, changes):
        if number % 2 == 0:
            gone = chance.randrange(known)
            while gone not in since:
                gone = chance.randrange(known)
            del since[gone]
            yield gone, "disappeared", "violated"
        else:
            come = chance.randrange(known)
            while come in since:
                come = chance.randrange(known)
            yield come, "appeared", "released"


def _change_row(
    written: Written,
    about: Row,
    change: tuple[int, str, str | None],
    commit: int,
    at: datetime.datetime,
    chance: random.Random,
    *,
    is_seed: bool,
) -> Row:
    images = [] if is_seed else [_image(chance) for _ in range(2 if change[2] == "violated" else 1)]
    return {
        **written.common(commit),
        **about,
        "source": about["table_name"],
        "batch_id": commit,
        "committed_at": stamp(at),
        "date": stamp(at)[:10],
        "change": change[1],
        "reason": change[2],
        "witness": json.dumps(images),
        "cause": "seed" if is_seed else "data",
        "constraints_after": 10_000,
        "score": (7 * commit % 1_000) / 1_000 if change[1] == "appeared" else None,
    }


def _image(chance: random.Random) -> Row:
    row: Row = {"Id": chance.randrange(10**9)}
    row |= {f"column_{number}": f"value {chance.randrange(10**6)}" for number in range(8)}
    row |= {f"amount_{number}": chance.randrange(10**5) for number in range(2)}
    return {"key": {"Id": row["Id"]}, "row": row | {"rate_1": chance.random()}}


def flattened(parts: Iterable[dict[str, list[Row]]]) -> dict[str, list[Row]]:
    """Return the rows of several changes as those of one commit."""
    found: dict[str, list[Row]] = {}
    for part in parts:
        for name, rows in part.items():
            found.setdefault(name, []).extend(rows)
    return found
