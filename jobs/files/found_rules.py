"""Writes constraints that were found as a rules file, to be edited by hand and used with `holdfast check`.

    tax_1: not(t.Zip = s.Zip and t.City != s.City)  # Rows with the same Zip have the same City.

Where rules need the names of their tables, or a name has a line break, the file is YAML with a rule per line, which
can be pasted into a configuration.

Invariant: reading the file returns the same constraints, whatever the names of columns and tables.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from holdfast.constraints import Constraint, DenialConstraint, Family, NearConstraint, parse_constraint, parse_near
from holdfast.constraints.conditions import Condition
from holdfast.constraints.names import quoted
from holdfast.constraints.parsing import parse_rule_body
from holdfast.constraints.sentences import sentence
from holdfast.display.incidents import short_text
from holdfast.jobs.configuration.rules_files import YAML_ENDINGS
from holdfast.jobs.configuration.yaml_text import yaml_scalar

Found = tuple[str, Constraint]
"""The name of a table, and a constraint on it."""

_FORMS = {Family.ORDER: "od", Family.INCLUSION: "inclusion"}
_LONGEST_NAME = 60


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


def rule_line(table: str, text: str) -> str:
    """Return the line that declares a constraint, or a condition that must not occur, as a rule of a configuration.

    >>> print(rule_line("tax", "not(t.Zip = s.Zip and t.City != s.City)").partition("  #")[0])
    - {name: tax_Zip_City, table: tax, forbid: "t.Zip = s.Zip and t.City != s.City"}
    >>> print(rule_line("tax", "not(t.Rate < 0)").partition("  #")[0])
    - {name: tax_not_t_Rate_0, table: tax, forbid: "t.Rate < 0"}
    """
    constraint: Constraint | Condition
    if isinstance(body := parse_rule_body(text), Condition):
        constraint = body
    else:
        constraint = parse_near(text) if text.startswith("key(") else parse_constraint(text)
    name = re.sub(r"\W+", "_", f"{table} {short_text(text)}").strip("_")
    if len(name) > _LONGEST_NAME:  # names of rules are unique
        name = f"{name[: _LONGEST_NAME - 7]}_{sha256(text.encode()).hexdigest()[:6]}"
    return f"- {{{_yaml_fields(name, table, constraint, None)}}}  # {_plain_sentence(constraint)}"


def _yaml_fields(name: str, table: str, constraint: Constraint | Condition, threshold: int | None) -> str:
    fields = {"name": name}
    if isinstance(constraint, NearConstraint):
        constraint = constraint.exact
    if isinstance(constraint, Condition) or constraint.family is not Family.INCLUSION:
        fields["table"] = table
    if isinstance(constraint, Condition):
        fields["forbid"] = str(constraint)
    elif isinstance(constraint, DenialConstraint):
        fields["forbid"] = " and ".join(map(str, constraint.predicates))
    else:
        fields[_FORMS[constraint.family]] = str(constraint)
    written = [f"{key}: {yaml_scalar(value)}" for key, value in fields.items()]
    return ", ".join(written if threshold is None else [*written, f"max_violating_rows: {threshold}"])


def _plain_sentence(constraint: Constraint | Condition) -> str:
    return "".join(c if c.isprintable() else " " for c in sentence(constraint))
