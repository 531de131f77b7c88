"""Writes constraints that were found as a rules file, to be edited by hand and used with `holdfast check`.

    tax_1: not(t.Zip = s.Zip and t.City != s.City)  # Rows with the same Zip have the same City.

Where rules need the names of their tables, or a name has a line break, the file is YAML with a rule per line, which
can be pasted into a configuration.

Invariant: reading the file returns the same constraints, whatever the names of columns and tables.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from holdfast.constraints import Constraint, DenialConstraint, Family, NearConstraint
from holdfast.constraints.names import quoted
from holdfast.constraints.sentences import sentence
from holdfast.jobs.configuration.rules_files import YAML_ENDINGS
from holdfast.jobs.configuration.yaml_text import core_value

Found = tuple[str, Constraint]
"""The name of a table, and a constraint on it."""

_FORMS = {Family.ORDER: "od", Family.INCLUSION: "inclusion"}
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def rule_lines(
    found: Sequence[Found], output: Path | None, *, several: bool, thresholds: Mapping[Found, int] | None = None
) -> Iterator[str]:
    """Return the lines of a rules file.

    Parameters
    ----------
    output : the file to write to; its ending may require YAML. None for standard output.
    several : whether there may be constraints of several tables that do not name their tables.
    thresholds : the accepted numbers of violating rows of some constraints; these require YAML.
    """
    thresholds = thresholds or {}
    numbers = Counter[str]()
    named = []
    for table, constraint in found:
        numbers[table] += 1
        named.append((f"{table}_{numbers[table]}", table, constraint))
    ending = "" if output is None else output.suffix.lower()
    has_lines = any("\n" in f"{name}{constraint}" for name, _, constraint in named)
    if several or thresholds or has_lines or ending in YAML_ENDINGS:
        yield "rules:\n"
        for name, table, constraint in named:
            fields = _yaml_fields(name, table, constraint, thresholds.get((table, constraint)))
            yield f"  - {{{fields}}}  # {_plain_sentence(constraint)}\n"
        return
    for name, _, constraint in named:
        yield f"{quoted(name)}: {constraint}  # {_plain_sentence(constraint)}\n"


def _yaml_fields(name: str, table: str, constraint: Constraint, threshold: int | None) -> str:
    fields = {"name": name}
    if isinstance(constraint, NearConstraint):
        constraint = constraint.exact
    if constraint.family is not Family.INCLUSION:
        fields["table"] = table
    if isinstance(constraint, DenialConstraint):
        fields["forbid"] = " and ".join(map(str, constraint.predicates))
    else:
        fields[_FORMS[constraint.family]] = str(constraint)
    written = [f"{key}: {_yaml_text(value)}" for key, value in fields.items()]
    return ", ".join(written if threshold is None else [*written, f"max_violating_rows: {threshold}"])


def _yaml_text(text: str) -> str:
    r"""Return a text as a YAML scalar in which no environment variable is replaced.

    >>> print(*map(_yaml_text, ("tax_1", "true", "a\x85b: ${c}")))
    tax_1 "true" "a\u0085b: $${c}"
    """
    if _PLAIN.fullmatch(text) and core_value(text) == text:
        return text
    written = json.dumps(text, ensure_ascii=False).replace("${", "$${")
    return "".join(c if c.isprintable() or ord(c) > 0xFFFF else f"\\u{ord(c):04x}" for c in written)


def _plain_sentence(constraint: Constraint) -> str:
    return "".join(c if c.isprintable() else " " for c in sentence(constraint))
