"""`query` and `suspect_query`: one SQL text that proves a constraint, a rule or a suspect."""

from collections.abc import Mapping

from holdfast.constraints.columns import Schema
from holdfast.constraints.conditions import Condition
from holdfast.constraints.denial import DenialConstraint
from holdfast.constraints.inclusion import InclusionDependency
from holdfast.constraints.near import NearConstraint
from holdfast.constraints.nulls import Body, NullsApart, body_text
from holdfast.constraints.order import OrderDependency
from holdfast.constraints.parsing import parse_rule_body
from holdfast.constraints.queries.exact import Form, of_apart, of_condition, of_denial, of_inclusion
from holdfast.constraints.queries.near import CellInDoubt, dependency_of, of_group, of_near
from holdfast.constraints.queries.writer import Dialect, SqlWriter, commented, dialect_of
from holdfast.constraints.rules import Rule
from holdfast.constraints.sentences import sentence
from holdfast.constraints.values import Value

Provable = str | Rule | Body | NearConstraint
"""What a query proves; a `Condition` must not occur."""


def query(
    constraint: Provable,
    table: str | None = None,
    *,
    dialect: Dialect | str = Dialect.STANDARD,
    schema: Schema | None = None,
) -> str:
    """Return a SQL query whose answer proves a constraint or a rule on its source table.

    The answer of an exact constraint or a rule has a line for each violation, and none if the constraint holds. The
    answer of a near constraint is its number of exceptions. DuckDB, Spark SQL and PostgreSQL run the same text, unless
    names need quotes.

    Parameters
    ----------
    constraint : a constraint, a near constraint, a `Rule`, or the text of a rule such as `Zip -> City`.
    table : the name of the table, such as `orders` or `sales.orders`; a part with a dot stands in backquotes. By
        default the table of a `Rule`, or `data`. An inclusion dependency names its tables itself.
    dialect : `standard`, `duckdb`, `spark` or `postgresql`: the quotes of names that are not plain lower-case words.
    schema : the columns of the table; with their types, comparisons with constants are shorter.

    Examples
    --------
    >>> print(query("zip -> city", "people"))
    -- not(t.zip = s.zip and t.city != s.city)
    -- Rows with the same zip have the same city.
    -- Each line: one of several values of city among rows that agree on zip, and its number of rows.
    -- No line: the constraint holds.
    select v.zip, v.city, v.row_count
    from (
      select t.zip, t.city, count(*) as row_count,
        count(*) over (partition by t.zip) as value_count
      from people as t
      group by t.zip, t.city
    ) as v
    where v.value_count > 1
    order by v.zip nulls first, v.row_count desc
    """
    body = parse_rule_body(constraint) if isinstance(constraint, str) else constraint
    rule = body if isinstance(body, Rule) else None
    about = body.body if isinstance(body, Rule) else body
    is_inclusion = isinstance(about, InclusionDependency)
    writer = SqlWriter(dialect_of(dialect), None if is_inclusion else schema)
    if rule is not None and table is None and rule.table:
        source = writer.table_named(rule.table)
    else:
        source = "" if is_inclusion else writer.table("data" if table is None else table)
    form = _form(writer, source, about)
    text = str(about) if isinstance(about, NearConstraint) else body_text(about)
    words = [
        text if rule is None or rule.name == text else f"{rule.name}: {text}",
        sentence(about.exact if isinstance(about, NearConstraint) else about),
        form.answer,
    ]
    if not isinstance(about, NearConstraint):
        words.append("No line: the constraint holds.")
    if rule is not None and rule.threshold is not None:
        words.append(f"The rule accepts {rule.threshold}.")
    return _text(words, writer, form)


def suspect_query(
    suspect: CellInDoubt,
    row: Mapping[str, Value],
    table: str = "data",
    *,
    dialect: Dialect | str = Dialect.STANDARD,
    schema: Schema | None = None,
) -> str:
    """Return a SQL query that shows why a cell is suspect: the values of the rows that agree with its row.

    The rows agree on the left columns of the strongest functional dependency that the row violates.

    Parameters
    ----------
    suspect : a suspect of `holdfast.suspects`.
    row : the values of its row, such as `table.row(suspect.row)` of a `Table`.
    table, dialect, schema : as for `query`.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from holdfast.constraints.near import parse_near
    >>> city = SimpleNamespace(column="city", constraints=(parse_near("zip -> city"),))
    >>> print(suspect_query(city, {"zip": "01907", "city": "Lynn"}, "people"))
    -- The suspect is city of a row that violates {zip}: [] -> city.
    -- Each line: a value of city in these rows, and the number of rows that have the value.
    select t.city, count(*) as row_count
    from people as t
    where t.zip = '01907'
    group by t.city
    order by row_count desc
    """
    writer = SqlWriter(dialect_of(dialect), schema)
    form = of_group(writer, writer.table(table), suspect, row)
    words = [f"The suspect is {suspect.column} of a row that violates {dependency_of(suspect)}.", form.answer]
    return _text(words, writer, form)


def _form(writer: SqlWriter, table: str, about: object) -> Form:
    match about:
        case DenialConstraint():
            return of_denial(writer, table, about)
        case OrderDependency():
            return of_denial(writer, table, about.as_denial())
        case InclusionDependency():
            return of_inclusion(writer, about)
        case NearConstraint():
            return of_near(writer, table, about)
        case Condition():
            return of_condition(writer, table, about)
        case NullsApart():
            return of_apart(writer, table, about)
    raise TypeError(f"no query for {type(about).__name__}")


def _text(words: list[str], writer: SqlWriter, form: Form) -> str:
    order = [f"order by {', '.join(form.order)}"] if form.order else []
    return "\n".join([*commented([*words, *writer.notes]), *form.lines, *order])
