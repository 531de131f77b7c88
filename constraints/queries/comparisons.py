"""Comparisons as SQL conditions, with the nulls and constants of docs/semantics.md.

between two rows      null equals null and is below all values
within one row        a null satisfies no comparison, which is what SQL does
NaN                   equals NaN and is above all values, as all three engines have it
"""

from holdfast.constraints.conditions import Atom, Cell, MemberTest, NullTest, PatternTest
from holdfast.constraints.operators import Operator
from holdfast.constraints.predicates import Predicate
from holdfast.constraints.queries.constants import among, compared_with, matching, sql_of
from holdfast.constraints.queries.writer import SqlWriter

_WITH_NULLS = {
    Operator.EQUAL: "{t} is not distinct from {s}",
    Operator.UNEQUAL: "{t} is distinct from {s}",
    Operator.LESS: "({t} < {s} or ({t} is null and {s} is not null))",
    Operator.LESS_EQUAL: "({t} <= {s} or {t} is null)",
    Operator.GREATER: "({t} > {s} or ({t} is not null and {s} is null))",
    Operator.GREATER_EQUAL: "({t} >= {s} or {s} is null)",
}
OTHER_NUMBERS = "A float and a number of another type are compared as floats, which may make different numbers equal."


def between_rows(writer: SqlWriter, predicate: Predicate) -> str:
    """Return a predicate on two different columns of rows t and s.

    >>> from holdfast.constraints.queries.writer import Dialect
    >>> between_rows(SqlWriter(Dialect.STANDARD), Predicate("low", Operator.GREATER_EQUAL, "high"))
    '(t.low >= s.high or s.high is null)'
    """
    t, s = _sides(writer, Cell("t", predicate.left), predicate.operator, Cell("s", predicate.right))
    return _WITH_NULLS[predicate.operator].format(t=t, s=s)


def within_row(writer: SqlWriter, atom: Atom) -> str:
    """Return a test of a single row."""
    if isinstance(atom, NullTest):
        return f"{writer.cell(atom.cell.row, atom.cell.column)} is {'null' if atom.is_null else 'not null'}"
    if isinstance(atom, MemberTest):
        return _member(writer, atom)
    if isinstance(atom, PatternTest):
        test = matching(writer, writer.cell(atom.cell.row, atom.cell.column), atom.pattern)
        return test if atom.is_match else f"not ({test})"
    if isinstance(atom.right, Cell):
        left, right = _sides(writer, atom.left, atom.operator, atom.right)
        return f"{left} {sql_of(atom.operator)} {right}"
    orders_texts = atom.operator.needs_order and atom.right.is_text
    cell = (writer.ordered if orders_texts else writer.cell)(atom.left.row, atom.left.column)
    return compared_with(writer, cell, atom.operator, atom.right, writer.type_of(atom.left.column))


def _member(writer: SqlWriter, atom: MemberTest) -> str:
    """Return the test that a cell is, or is not, one of some constants."""
    if all(literal.is_text for literal in atom.literals):
        cell = writer.cell(atom.cell.row, atom.cell.column)
        test = among(writer, cell, atom.literals, writer.type_of(atom.cell.column))
        return test if atom.is_member else f"not ({test})"
    joined = (" or " if atom.is_member else " and ").join(within_row(writer, one) for one in atom.comparisons)
    return f"({joined})" if len(atom.literals) > 1 else joined


def _sides(writer: SqlWriter, left: Cell, operator: Operator, right: Cell) -> tuple[str, str]:
    """Return two cells that are compared."""
    note_numbers(writer, left.column, right.column)
    write = writer.ordered if operator.needs_order else writer.cell
    return write(left.row, left.column), write(right.row, right.column)


def note_numbers(writer: SqlWriter, left: str, right: str) -> None:
    """Add a note where a float may be compared with a number of another type."""
    kinds = [writer.type_of(left), writer.type_of(right)]
    if left != right and (None in kinds or sum(kind is not None and kind.name == "float" for kind in kinds) == 1):
        writer.note(OTHER_NUMBERS)
