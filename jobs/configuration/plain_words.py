"""Turns the errors of pydantic into problems with plain messages.

Invariant: every error becomes one problem, at the position in the file that has to be corrected; the message quotes the
value as the file has it, unless its key is the name of a secret.
"""

import re
from typing import Any

from pydantic import ValidationError

from holdfast.constraints.columns import unknown_name
from holdfast.display.secrets import MASK, is_secret
from holdfast.jobs.configuration.problems import Path
from holdfast.jobs.configuration.quantities import shown
from holdfast.jobs.configuration.settings_model import Reading

_HINTS = {
    "name": "a name, such as 'name: airport'",
    "state": "a folder for the embedded state, such as 'state: ./var/state'",
    "backup": "a place for log and snapshots, such as 'backup: ./var/backup'",
    "output": "a place for the output tables, such as 'output: ./var/tables'",
    "checkpoint": "a place for the stream's positions, such as 'checkpoint: ./var/checkpoint'",
    "tables": "a list of tables, each with a name and a seed or a source",
    "path": "where it is, such as 'path: ./data/airport.csv'",
    "format": "one of files, kafka, delta",
    "servers": "such as 'servers: localhost:9092'",
    "topic": "such as 'topic: airport'",
    "on": "some of broken, recovered, appeared, disappeared, such as 'on: [broken, recovered]'",
    "webhook": "the address to call, such as 'webhook: https://...'",
}
_EXAMPLES = {"values": "{state: [MA, NY]}", "range": "{month: [1, 12]}", "matches": '{zip: "[0-9]{5}"}'}
_SOURCE_ENCODINGS = {
    "files": "json, csv or parquet",
    "kafka": "json, upsert, debezium or debezium-unwrapped",
}


def note(error: ValidationError, reading: Reading, below: Path = ()) -> None:
    """Add the errors of a validation to the problems of `reading`; `below` is the path of the validated value."""
    known = {problem.path for problem in reading.problems.found}
    for finding in error.errors(include_url=False):
        location = (*below, *finding["loc"])
        path = _path(reading.document.value, location)
        if finding["type"] == "missing":
            path = (*path, str(location[-1]))
        elif finding["type"] in {"union_tag_not_found", "union_tag_invalid"}:
            path = (*path, "format")
        if path in known or (finding["type"] == "too_short" and finding["input"]):
            continue
        place = reading.document.place(path)
        reading.problems.add(place, path, _message(dict(finding), path))


def _path(value: Any, location: Path) -> Path:
    """Return the path in the document of an error's location, to which pydantic adds names of its own."""
    path: list[str | int] = []
    for step in location:
        inside = (isinstance(value, dict) and step in value) or (
            isinstance(value, list) and isinstance(step, int) and step < len(value)
        )
        if inside:
            path.append(step)
            value = value[step]
    return tuple(path)


def _message(finding: dict[str, Any], path: Path) -> str:
    name = next((step for step in reversed(path) if isinstance(step, str)), "")
    context = finding.get("ctx", {})
    given = MASK if is_secret(name) else shown(finding["input"])
    match finding["type"]:
        case "missing" | "union_tag_not_found":
            return f"is missing: add {_hint(name, path, finding['input'])}"
        case "value_error":
            return str(context["error"])
        case "literal_error" | "union_tag_invalid":
            known = re.findall(r"'([^']*)'", str(context.get("expected", context.get("expected_tags", ""))))
            value = context.get("tag", finding["input"])
            if name == "format" or finding["type"] == "union_tag_invalid":
                source = finding["input"]
                value = source.get("format", value) if isinstance(source, dict) else value
                return _unknown("format", value, known)
            return _unknown(name, value, known)
        case "model_type" | "dict_type" | "mapping_type" | "model_attributes_type":
            example = f" such as {_EXAMPLES[name]}" if name in _EXAMPLES else " of names and values"
            return f"expected a mapping{example}, given {given}"
        case "tuple_type" | "list_type":
            return f"expected a list such as [a, b], given {given}"
        case "greater_than_equal":
            return f"expected at least {context['ge']}, given {given}"
        case "less_than_equal":
            return f"expected at most {context['le']}, given {given}"
        case "too_short":
            return "expected at least one entry, given none"
    return f"{str(finding['msg'])[:1].lower()}{str(finding['msg'])[1:]}"


def _hint(name: str, path: Path, around: Any) -> str:
    if name == "encoding" and isinstance(around, dict):
        return f"one of {_SOURCE_ENCODINGS.get(str(around.get('format')), 'the encodings of this format')}"
    return _HINTS.get(name, f"'{name}: ...'") if path else "it"


def _unknown(name: str, value: Any, known: list[str]) -> str:
    if isinstance(value, str):
        text = unknown_name(f"unknown {name}", "\0", known).partition("\0")
        near = unknown_name(f"unknown {name}", value, known)
        return near if not hasattr(value, "written") else f"{text[0]}{value.written}{text[2]}"
    return f"expected one of {', '.join(known)}; given {shown(value)}"
