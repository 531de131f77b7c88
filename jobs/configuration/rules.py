"""Builds the rules that a configuration declares.

The short forms are the other forms, written briefly. What a row may not have is a condition on that row alone:

    values: {state: [MA, NY]}     t.state not in ('MA', 'NY')
    range: {month: [1, 12]}       t.month < 1 or t.month > 12
    matches: {zip: "[0-9]{5}"}    t.zip not matches '[0-9]{5}'
    not_null: [zip, state]        t.zip is null or t.state is null

Invariant: a rule names a table of the configuration, and only columns that the table can have; a text that is no rule
is a problem at its own line, with a caret below the first wrong character.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from holdfast.constraints import (
    Condition,
    InclusionDependency,
    Nulls,
    Operator,
    Rule,
    RulePart,
    Severity,
    UsageError,
    parse_forbidden,
    parse_functional_dependencies,
    parse_inclusion,
    parse_order,
    parse_required,
    with_nulls,
)
from holdfast.constraints.columns import unknown_name
from holdfast.constraints.conditions import Atom, Cell, Comparison, Literal, MemberTest, NullTest, PatternTest
from holdfast.constraints.denial import key
from holdfast.constraints.nulls import is_pairwise
from holdfast.jobs.configuration.problems import Path
from holdfast.jobs.configuration.settings import RuleSettings

KnownColumns = Mapping[str, frozenset[str] | None]
"""By table: the columns that can be monitored; None where only the data has them."""

Refuse = Callable[[Path, str], None]
"""Called with a path below the rule, and a problem."""


def build_rules(settings: RuleSettings, tables: KnownColumns, refuse: Refuse) -> list[Rule]:
    """Return the rules that `settings` declare; none, after a call of `refuse`, where they declare no valid rule."""
    parts = _parts(settings, refuse)
    if not parts:
        return []
    table = _table(settings, parts[0].body, tables, refuse)
    if table is None:
        return []
    rules = []
    for part in parts:
        of_pairs = settings.max_violating_pairs if is_pairwise(part.body) or len(parts) == 1 else None
        name, severity, of_rows = part.named(settings.name), Severity(settings.severity), settings.max_violating_rows
        place = settings.form
        try:
            rules.append(Rule(name, table, part.body, severity, None, of_rows))
            place = "max_violating_pairs"
            rules[-1] = Rule(name, table, part.body, severity, of_pairs, of_rows)
        except UsageError as error:
            refuse((place,), str(error))
            return []
    return rules if _names_columns(rules, settings, tables, refuse) else []


def named_columns(rule: Rule) -> list[tuple[str, str]]:
    """Return the columns that a rule names, each with its table."""
    if isinstance(rule.body, InclusionDependency):
        return [(side.table, side.column) for side in (rule.body.dependent, rule.body.referenced)]
    return [(rule.table, column) for column in sorted(rule.columns)]


def _parts(settings: RuleSettings, refuse: Refuse) -> tuple[RulePart, ...]:
    """Return the parts of a declaration; none, after a call of `refuse`, where its form is not valid."""
    place = settings.form
    try:
        parts = _FORMS[settings.form](getattr(settings, settings.form))
        if settings.nulls is None:
            return parts
        place = "nulls"
        return with_nulls(parts, Nulls(settings.nulls))
    except UsageError as error:
        refuse((place,), str(error))
    return ()


def _key(names: Sequence[str]) -> tuple[RulePart, ...]:
    return (RulePart(key(_each_once(names))),)


def _not_null(names: Sequence[str]) -> tuple[RulePart, ...]:
    return _forbidden([NullTest(Cell("t", name), True)] for name in _each_once(names))


def _values(accepted: Mapping[str, Sequence[Literal]]) -> tuple[RulePart, ...]:
    return _forbidden(
        [MemberTest(Cell("t", name), tuple(dict.fromkeys(literals)), False)] for name, literals in accepted.items()
    )


def _ranges(accepted: Mapping[str, tuple[Literal | None, Literal | None]]) -> tuple[RulePart, ...]:
    ends = [
        (name, operator, end)
        for name, both in accepted.items()
        for operator, end in zip((Operator.LESS, Operator.GREATER), both, strict=True)
    ]
    return _forbidden([Comparison(Cell("t", name), operator, end)] for name, operator, end in ends if end is not None)


def _patterns(accepted: Mapping[str, str]) -> tuple[RulePart, ...]:
    from holdfast.discovery.detection.conditions import check_expression

    for pattern in accepted.values():
        check_expression(pattern)
    return _forbidden([PatternTest(Cell("t", name), pattern, False)] for name, pattern in accepted.items())


def _forbidden(alternatives: Iterable[Sequence[Atom]]) -> tuple[RulePart, ...]:
    """Return the rule that no row satisfies any of some conjunctions."""
    return (RulePart(Condition(tuple(map(tuple, alternatives)))),)


_FORMS: Mapping[str, Callable[..., tuple[RulePart, ...]]] = {
    "key": _key,
    "unique": _key,
    "not_null": _not_null,
    "values": _values,
    "range": _ranges,
    "matches": _patterns,
    "fd": parse_functional_dependencies,
    "od": lambda text: (RulePart(parse_order(text)),),
    "inclusion": lambda text: (RulePart(parse_inclusion(text)),),
    "require": lambda text: (RulePart(parse_required(text)),),
    "forbid": lambda text: (RulePart(parse_forbidden(text)),),
}


def _each_once(names: Sequence[str]) -> Sequence[str]:
    """Return names; raise an error if one of them occurs twice."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise UsageError(f"'{twice[0]}' is named twice: remove one")
    return names


def _table(settings: RuleSettings, body: object, tables: KnownColumns, refuse: Refuse) -> str | None:
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


def _names_columns(rules: Sequence[Rule], settings: RuleSettings, tables: KnownColumns, refuse: Refuse) -> bool:
    """Whether the tables of rules can have all columns that they name."""
    by_column = isinstance(getattr(settings, settings.form), Mapping)
    good = True
    for table, column in dict.fromkeys(named for rule in rules for named in named_columns(rule)):
        columns = tables[table]
        if columns is not None and column not in columns:
            place = (settings.form, column) if by_column else (settings.form,)
            refuse(place, unknown_name(f"table {table} has no monitored column", column, sorted(columns)))
            good = False
    return good
