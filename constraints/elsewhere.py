"""Rules that say that a constraint holds on the rows that do not have a certain value in a column.

    {zip}: [] -> city   without source = 'import-7'
    not(t.zip = s.zip and t.city != s.city and t.source != 'import-7' and s.source != 'import-7')

A null satisfies no comparison with a literal, and a condition on pairs of rows takes no `or`. So where some of the
remaining rows have a null in the column, there is a rule for each combination of null and not null.

Invariant: two of the remaining rows violate the constraint exactly if they violate one of the rules.
"""

import datetime
import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

from holdfast.constraints.columns import Column, Schema
from holdfast.constraints.conditions import Atom, Cell, Comparison, Condition, Literal, NullTest, Row
from holdfast.constraints.near import NearConstraint, NearShape
from holdfast.constraints.operators import Operator
from holdfast.constraints.types import Family
from holdfast.constraints.values import Value


def rules_elsewhere(
    near: NearConstraint, schema: Schema, column: str, value: Literal | None, *, nulls: bool, others: bool
) -> tuple[Condition, ...]:
    """Return the conditions that must not occur; none if rules cannot compare the constraint's columns.

    Parameters
    ----------
    value : the value of the rows that are left out; None for null.
    nulls, others : whether some of the remaining rows have a null in the column, and whether some have a value.
    """
    if near.shape in _ORDERS and not all(schema[name].ordered_in(Family.DENIAL) for name in near.target):
        return ()
    options: list[bool] = [False] * others + [True] * (nulls and value is not None)  # whether null
    agree = column in near.context
    differ = near.shape is NearShape.CONSTANT and column in near.target
    found = []
    for t_null in options:
        for s_null in [t_null] if agree else options:
            if (differ and t_null and s_null) or (near.shape not in _ORDERS and t_null < s_null):
                continue  # such rows do not differ; or the pair in the other order violates another of the rules
            tests = [_test("t", column, value, is_null=t_null)]
            if not agree:
                tests.append(_test("s", column, value, is_null=s_null))
            found.append(Condition(((*_compared(near), *tests),)))
    return tuple(found)


def literal_of(value: Value, column: Column, nanoseconds: int = 0) -> Literal:
    """Return a value that is not null as a literal that is equal to it.

    Parameters
    ----------
    nanoseconds : of a timestamp, beyond its microseconds.

    Examples
    --------
    >>> from holdfast.constraints.types import parse_type
    >>> text, number = (Column("a", parse_type(name)) for name in ("string", "float"))
    >>> str(literal_of("a'b", text)), str(literal_of(0.5, number))
    ("'a''b'", '0.5')
    """
    if isinstance(value, bool):
        return Literal("true" if value else "false", is_text=False)
    if isinstance(value, datetime.datetime):
        text = value.isoformat(timespec="microseconds")
        if column.type.precision == _NANOSECONDS:
            text = f"{text[:_MICROSECONDS_END]}{nanoseconds:03d}{text[_MICROSECONDS_END:]}"
        return Literal(text, is_text=True)
    if isinstance(value, datetime.date):
        return Literal(value.isoformat(), is_text=True)
    if isinstance(value, float):
        return Literal(_float_text(value), is_text=False)
    if isinstance(value, Decimal):
        return Literal(format(value, "f"), is_text=False)
    return Literal(str(value), is_text=isinstance(value, str))


_ORDERS = (NearShape.ORDER, NearShape.ORDER_DESC)
_NANOSECONDS = 9
_MICROSECONDS_END = len("2024-02-29T12:30:00.000000")


def _compared(near: NearConstraint) -> Sequence[Atom]:
    """Return the comparisons of the two rows of a violation."""
    operators = {
        NearShape.KEY: (),
        NearShape.CONSTANT: (Operator.UNEQUAL,),
        NearShape.ORDER: (Operator.LESS, Operator.GREATER),
        NearShape.ORDER_DESC: (Operator.LESS, Operator.LESS),
    }[near.shape]
    pairs = [*((name, Operator.EQUAL) for name in near.context), *zip(near.target, operators, strict=True)]
    return [Comparison(Cell("t", name), operator, Cell("s", name)) for name, operator in pairs]


def _test(row: Row, column: str, value: Literal | None, *, is_null: bool) -> Atom:
    """Return the test of a remaining row, which has a null in the column or not."""
    if is_null or value is None:
        return NullTest(Cell(row, column), is_null)
    return Comparison(Cell(row, column), Operator.UNEQUAL, value)


def _float_text(value: float) -> str:
    """Return digits that are exactly the value, as literals are compared exactly: the shortest where these are."""
    if not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    text = repr(value)
    return text if Fraction(text) == Fraction(value) else str(Decimal(value)).lower()
