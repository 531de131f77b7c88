"""Writes constraints that were found as a rules file, to be edited by hand and used with `holdfast check`.

    rules:
      - {name: tax_Zip_City, table: tax, fd: "Zip -> City"}  # Rows with the same Zip have the same City.

The file is YAML with a rule per line, which can be pasted into a configuration. An output file whose name does not say
YAML gets `name: rule` lines, unless rules need the names of their tables or thresholds, or a name has a line break.

Invariant: reading the file returns the same constraints, whatever the names of columns and tables.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from holdfast.constraints import (
    Constraint,
    DenialConstraint,
    InclusionDependency,
    NearShape,
    OrderDependency,
    parse_constraint,
    parse_near,
)
from holdfast.constraints.conditions import Condition
from holdfast.constraints.denial import key
from holdfast.constraints.forms import simplest_form
from holdfast.constraints.names import quoted
from holdfast.constraints.near import NearConstraint
from holdfast.constraints.parsing import parse_rule_body
from holdfast.constraints.sentences import sentence
from holdfast.display.short_forms import short_form
from holdfast.jobs.configuration.rules_files import YAML_ENDINGS
from holdfast.jobs.configuration.yaml_text import yaml_scalar

Found = tuple[str, Constraint]
"""The name of a table, and a constraint on it."""

_LONGEST_NAME = 60


def rule_lines(
    found: Sequence[Found], output: Path | None, *, several: bool, thresholds: Mapping[Found, int] | None = None
) -> Iterator[str]:
    """Return the lines of a rules file.

    Parameters
    ----------
    output : the file to write to; its ending decides whether YAML is written. None for standard output.
    several : whether there may be constraints of several tables that do not name their tables.
    thresholds : the accepted numbers of violating rows of some constraints; these require YAML.
    """
    thresholds = thresholds or {}
    named = list(zip(_names(found), found, strict=True))
    is_yaml = output is None or output.suffix.lower() in YAML_ENDINGS
    has_lines = any("\n" in f"{name}{constraint}" for name, (_, constraint) in named)
    if is_yaml or several or thresholds or has_lines:
        yield "rules:\n"
        for name, (table, constraint) in named:
            fields = _yaml_fields(name, table, constraint, thresholds.get((table, constraint)))
            yield f"  - {{{fields}}}  # {_plain_sentence(constraint)}\n"
        return
    for name, (_, constraint) in named:
        text = str(constraint) if isinstance(constraint, OrderDependency) else short_form(constraint)
        yield f"{quoted(name)}: {text}  # {_plain_sentence(constraint)}\n"


def rule_line(table: str, text: str) -> str:
    """Return the line that declares a constraint, or a condition that must not occur, as a rule of a configuration.

    >>> print(rule_line("tax", "not(t.Zip = s.Zip and t.City != s.City)").partition("  #")[0])
    - {name: tax_Zip_City, table: tax, fd: "Zip -> City"}
    >>> print(rule_line("tax", "not(t.Rate < 0)").partition("  #")[0])
    - {name: tax_t_Rate_0, table: tax, forbid: "t.Rate < 0"}
    """
    constraint: Constraint | Condition
    if isinstance(body := parse_rule_body(text), Condition):
        constraint = body
    else:
        constraint = parse_near(text) if text.startswith("key(") else parse_constraint(text)
    name = _name(table, constraint)
    return f"- {{{_yaml_fields(name, table, constraint, None)}}}  # {_plain_sentence(constraint)}"


def _names(found: Sequence[Found]) -> Iterator[str]:
    """Yield a name for each constraint, no two alike."""
    given: set[str] = set()
    numbers = Counter[str]()
    for table, constraint in found:
        first = name = _name(table, constraint)
        while name in given:
            numbers[first] += 1
            name = f"{first}_{numbers[first] + 1}"
        given.add(name)
        yield name


def _name(table: str, constraint: Constraint | Condition) -> str:
    """Return a name made of the table and the columns: `planes_model_seats`, `orders_customer_in_people_id`.

    >>> from holdfast.constraints import parse_constraint
    >>> texts = ("not(t.id = s.id)", "{}: [] -> year", "{a}: b ~ c", "not(t.low < s.high)", "t.owner in people.id")
    >>> [_name("t", parse_constraint(text)) for text in texts]
    ['t_key_id', 't_constant_year', 't_order_a_b_c', 't_low_high', 't_owner_in_people_id']
    """
    if isinstance(constraint, InclusionDependency):
        left, right = constraint.dependent, constraint.referenced
        words = [left.table, left.column, "in", right.table, right.column]
    else:
        words = [table, *([str(constraint)] if isinstance(constraint, Condition) else _words(constraint))]
    name = re.sub(r"\W+", "_", " ".join(words)).strip("_")
    if len(name) > _LONGEST_NAME:  # long names differ at their ends
        name = f"{name[: _LONGEST_NAME - 7]}_{sha256(str(constraint).encode()).hexdigest()[:6]}"
    return name or "rule"


def _words(constraint: Constraint) -> list[str]:
    near = constraint if isinstance(constraint, NearConstraint) else simplest_form(constraint)
    if near is None:
        assert isinstance(constraint, DenialConstraint)
        return list(dict.fromkeys(name for p in constraint.predicates for name in p.column_pair))
    if near.shape is NearShape.KEY:
        return ["key", *near.context]
    if near.shape is NearShape.CONSTANT:
        return [*near.context, *near.target] if near.context else ["constant", *near.target]
    return ["order", *near.context, *near.target]


def _yaml_fields(name: str, table: str, constraint: Constraint | Condition, threshold: int | None) -> str:
    fields = {"name": yaml_scalar(name)}
    if not isinstance(constraint, InclusionDependency):
        fields["table"] = yaml_scalar(table)
    form, value = _form(constraint)
    fields[form] = value if form == "key" else yaml_scalar(value)
    written = [f"{key}: {value}" for key, value in fields.items()]
    return ", ".join(written if threshold is None else [*written, f"max_violating_rows: {threshold}"])


def _form(constraint: Constraint | Condition) -> tuple[str, str]:
    """Return the key under which a configuration declares a constraint, and its value."""
    if isinstance(constraint, InclusionDependency):
        return "inclusion", str(constraint)
    if isinstance(constraint, Condition):
        return "forbid", str(constraint)
    near = constraint if isinstance(constraint, NearConstraint) else simplest_form(constraint)
    if near is None:
        assert isinstance(constraint, DenialConstraint)
        return "forbid", " and ".join(map(str, constraint.predicates))
    if near.shape is NearShape.KEY and all(map(str.strip, near.context)):
        return "key", f"[{', '.join(map(yaml_scalar, near.context))}]"
    if near.shape is NearShape.KEY:
        return "forbid", " and ".join(map(str, key(near.context).predicates))
    if near.shape is NearShape.CONSTANT and not isinstance(constraint, OrderDependency):
        return "fd", short_form(near)
    return "od", str(near.exact)


def _plain_sentence(constraint: Constraint | Condition) -> str:
    return "".join(c if c.isprintable() else " " for c in sentence(constraint))
