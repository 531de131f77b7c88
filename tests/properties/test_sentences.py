"""Oracle: a sentence is true of a table exactly where the constraint, or the rule, holds on it."""

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.constraints import (
    Condition,
    DenialConstraint,
    NullsApart,
    Operator,
    OrderDependency,
    Predicate,
    Rule,
    UsageError,
)
from holdfast.constraints.conditions import Atom, Cell, Comparison, Literal, MemberTest, NullTest
from holdfast.constraints.sentences import sentence
from tests.oracles.sentences import Row, is_true

NAMES = st.sampled_from("ABCDE")
OPERATORS = st.sampled_from(Operator)
ROWS = st.lists(
    st.fixed_dictionaries(dict.fromkeys("ABCDE", st.sampled_from([None, 0, 1, 1, 2]))), min_size=1, max_size=4
)
OWN = NAMES.flatmap(lambda name: st.builds(Predicate, st.just(name), OPERATORS, st.just(name)))
CROSSING = st.builds(Predicate, NAMES, OPERATORS, NAMES)


def _lists(predicates: st.SearchStrategy[Predicate]) -> st.SearchStrategy[list[Predicate]]:
    return st.lists(predicates, max_size=4, unique_by=lambda predicate: predicate.column_pair)


ORDERS = st.builds(
    lambda names, two, opposite: OrderDependency(names[2:], names[: 1 + two], opposite=opposite and two),
    st.lists(NAMES, min_size=2, max_size=5, unique=True),
    st.booleans(),
    st.booleans(),
)


def _cells(rows: str) -> st.SearchStrategy[Cell]:
    return st.builds(Cell, st.sampled_from(rows), NAMES)


def _alone(row: str) -> st.SearchStrategy[Atom]:
    literals = st.integers(0, 2).map(lambda number: Literal(str(number), False))
    compared = st.builds(Comparison, _cells(row), OPERATORS, literals | _cells(row))
    several = st.lists(literals, min_size=1, max_size=3).map(tuple)
    members = st.builds(MemberTest, _cells(row), several, st.booleans())
    return compared | members | st.builds(NullTest, _cells(row), st.booleans())


SINGLE = st.lists(st.lists(_alone("t"), min_size=1, max_size=3).map(tuple), min_size=1, max_size=3).map(
    lambda alternatives: Condition(tuple(alternatives))
)
BETWEEN = st.builds(Comparison, _cells("t"), OPERATORS, _cells("s"))
PAIRS = (
    st.tuples(st.lists(BETWEEN, max_size=3), st.lists(_alone("t"), max_size=2), st.lists(_alone("s"), max_size=2))
    .map(lambda parts: Condition(((*parts[0], *parts[1], *parts[2]),)))
    .filter(lambda condition: condition.rows == {"t", "s"})
)


def _holds(constraint: DenialConstraint, rows: list[Row]) -> bool:
    def meets(predicate: Predicate, t: Row, s: Row) -> bool:
        return _compare(predicate.operator, _rank(t[predicate.left]), _rank(s[predicate.right]))

    return not any(all(meets(p, t, s) for p in constraint.predicates) for t, s in permutations(rows, 2))


def _occurs(condition: Condition, rows: list[Row]) -> bool:
    def meets(atom: Atom, by_row: dict[str, Row]) -> bool:
        values = [by_row[cell.row][cell.column] for cell in atom.cells]
        if isinstance(atom, NullTest):
            return (values[0] is None) is atom.is_null
        if isinstance(atom, MemberTest):
            return values[0] is not None and (values[0] in [int(one.text) for one in atom.literals]) is atom.is_member
        assert isinstance(atom, Comparison)
        if isinstance(atom.right, Literal):
            return values[0] is not None and _compare(atom.operator, values[0], int(atom.right.text))
        if atom.predicate is None:
            return None not in values and _compare(atom.operator, values[0] or 0, values[1] or 0)
        return _compare(atom.operator, _rank(values[0]), _rank(values[1]))

    found = (
        [{"t": t, "s": s} for t, s in permutations(rows, 2)] if len(condition.rows) > 1 else [{"t": t} for t in rows]
    )
    return any(all(meets(atom, by_row) for atom in atoms) for by_row in found for atoms in condition.alternatives)


def _compare(operator: Operator, left: int, right: int) -> bool:
    return bool(operator.outcomes & (1 if left < right else 2 if left == right else 4))


def _rank(value: int | None) -> int:
    return -1 if value is None else value


@given(_lists(OWN) | _lists(OWN | CROSSING), ROWS)
def test_denial_constraints(predicates: list[Predicate], rows: list[Row]) -> None:
    constraint = DenialConstraint(predicates)
    assert is_true(sentence(constraint), rows) is _holds(constraint, rows), sentence(constraint)


@given(ORDERS, ROWS)
def test_order_dependencies(dependency: OrderDependency, rows: list[Row]) -> None:
    assert is_true(sentence(dependency), rows) is _holds(dependency.as_denial(), rows), sentence(dependency)


@given(_lists(OWN).filter(bool), ROWS)
def test_rules_whose_nulls_are_apart(predicates: list[Predicate], rows: list[Row]) -> None:
    constraint = DenialConstraint(predicates)
    present = [row for row in rows if all(row[name] is not None for name in constraint.columns)]
    said = sentence(NullsApart(constraint))
    assert is_true(said, rows) is _holds(constraint, present), said


@given(SINGLE | PAIRS, ROWS)
def test_conditions(condition: Condition, rows: list[Row]) -> None:
    try:
        Rule("r", "t", condition)
    except UsageError:
        return
    assert is_true(sentence(condition), rows) is not _occurs(condition, rows), sentence(condition)
