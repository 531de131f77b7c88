"""Builds the rules that a configuration declares.

Invariant: a rule names a table of the configuration, and only columns that the table can have; a text that is no rule
is a problem at its own line, with a caret below the first wrong character.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

from holdfast.constraints import (
    InclusionDependency,
    Rule,
    Severity,
    UsageError,
    parse_forbidden,
    parse_functional_dependency,
    parse_inclusion,
    parse_order,
    parse_required,
)
from holdfast.constraints.columns import unknown_name
from holdfast.constraints.denial import key
from holdfast.constraints.rules import Body
from holdfast.jobs.configuration.problems import Path
from holdfast.jobs.configuration.settings import RuleSettings

KnownColumns = Mapping[str, frozenset[str] | None]
"""By table: the columns that can be monitored; None where only the data has them."""

Refuse = Callable[[Path, str], None]
"""Called with a path below the rule, and a problem."""

_PARSERS: Mapping[str, Callable[[str], Body]] = {
    "forbid": parse_forbidden,
    "require": parse_required,
    "fd": parse_functional_dependency,
    "od": parse_order,
    "inclusion": parse_inclusion,
}


def build_rule(settings: RuleSettings, tables: KnownColumns, refuse: Refuse) -> Rule | None:
    """Return the rule that `settings` declare; None, after a call of `refuse`, where they declare no valid rule."""
    body = _body(settings, refuse)
    if body is None:
        return None
    table = _table(settings, body, tables, refuse)
    if table is None:
        return None
    place = settings.form
    try:
        rule = Rule(settings.name, table, body, Severity(settings.severity), None, settings.max_violating_rows)
        place = "max_violating_pairs"
        rule = replace(rule, max_violating_pairs=settings.max_violating_pairs)
    except UsageError as error:
        refuse((place,), str(error))
        return None
    return rule if _names_columns(rule, settings.form, tables, refuse) else None


def named_columns(rule: Rule) -> list[tuple[str, str]]:
    """Return the columns that a rule names, each with its table."""
    if isinstance(rule.body, InclusionDependency):
        return [(side.table, side.column) for side in (rule.body.dependent, rule.body.referenced)]
    return [(rule.table, column) for column in sorted(rule.columns)]


def _body(settings: RuleSettings, refuse: Refuse) -> Body | None:
    try:
        if settings.key is not None:
            counts = Counter(settings.key)
            twice = [name for name in settings.key if counts[name] > 1]
            if twice:
                refuse(("key",), f"'{twice[0]}' is named twice: remove one")
                return None
            return key(settings.key)
        text: str = getattr(settings, settings.form)
        return _PARSERS[settings.form](text)
    except UsageError as error:
        refuse((settings.form,), str(error))
    return None


def _table(settings: RuleSettings, body: Body, tables: KnownColumns, refuse: Refuse) -> str | None:
    """Return the table of a rule: the named table, or the table of an inclusion's left side."""
    if isinstance(body, InclusionDependency):
        dependent = body.dependent.table
        if settings.table not in {None, dependent}:
            refuse(("table",), f"is '{settings.table}', and the inclusion's left side is '{dependent}': remove 'table'")
            return None
        for side in (body.dependent.table, body.referenced.table):
            if side not in tables:
                refuse(("inclusion",), unknown_name("there is no table", side, tables))
                return None
        return dependent
    if settings.table is None:
        refuse(("table",), f"is missing: add one of {', '.join(tables) or 'the tables'}")
        return None
    if settings.table not in tables:
        refuse(("table",), unknown_name("there is no table", settings.table, tables))
        return None
    return settings.table


def _names_columns(rule: Rule, form: str, tables: KnownColumns, refuse: Refuse) -> bool:
    """Whether the tables of a rule can have all columns that it names."""
    good = True
    for table, column in named_columns(rule):
        columns = tables[table]
        if columns is not None and column not in columns:
            refuse((form,), unknown_name(f"table {table} has no monitored column", column, sorted(columns)))
            good = False
    return good
