"""Constraints and rules in plain words: a table of what is said, and laws for whatever columns are called."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.constraints import (
    ColumnRef,
    Constraint,
    DenialConstraint,
    InclusionDependency,
    Operator,
    OrderDependency,
    Predicate,
    parse_required,
    parse_rule_body,
)
from holdfast.constraints.sentences import sentence

SAID = {
    # keys, constants, functional dependencies
    "not(t.A = s.A)": "No two rows have the same A.",
    "key(A, B, C)": "No two rows have the same A, B and C.",
    "not(t.A != s.A)": "All rows have the same A.",
    "A -> B": "Rows with the same A have the same B.",
    "A, B -> C": "Rows with the same A and B have the same C.",
    "not(t.B != s.B and t.A = s.A)": "Rows with the same A have the same B.",
    # one comparison
    "not(t.A < s.A)": "No row has a lower A than another.",
    "not(t.A <= s.A)": "No row has an equal or lower A than another.",
    "not(t.A = s.A and t.B >= s.B)": "Among rows with the same A, no row has an equal or higher B than another.",
    # several
    "not(t.A < s.A and t.B > s.B)": "No row with a lower A than another has a higher B.",
    "not(t.State = s.State and t.Salary > s.Salary and t.Rate < s.Rate)": (
        "Among rows with the same State, no row with a higher Salary than another has a lower Rate."
    ),
    "not(t.A < s.A and t.B >= s.B)": "No row with a lower A than another has an equal or higher B.",
    "not(t.A != s.A and t.B <= s.B)": "No row with a different A than another has an equal or lower B.",
    "not(t.A < s.A and t.B > s.B and t.C <= s.C)": (
        "No row with a lower A and a higher B than another has an equal or lower C."
    ),
    "not(t.A != s.A and t.B != s.B)": "Any two rows have the same A or the same B.",
    "not(t.A = s.A and t.B != s.B and t.C != s.C)": (
        "Among rows with the same A, any two have the same B or the same C."
    ),
    "not(t.A = s.A and t.B = s.B and t.C != s.C and t.D < s.D)": (
        "Among rows with the same A and B, no row with a different C than another has a lower D."
    ),
    # across columns
    "not(t.Low > s.High)": "No row has its Low above the High of another.",
    "not(t.A = s.B)": "No row has its A equal to the B of another.",
    "not(t.A != s.B)": "No row has its A different from the B of another.",
    "not(t.A <= s.B)": "No row has its A not above the B of another.",
    "not(t.A >= s.B)": "No row has its A not below the B of another.",
    "not(t.A < s.B and t.C > s.D)": "No row has its A below the B of another while its C is above that row's D.",
    "not(t.A < s.B and t.B = s.A)": "No row has its A below the B of another while its B is equal to that row's A.",
    "not(t.S = s.S and t.A < s.B)": "Among rows with the same S, no row has its A below the B of another.",
    "not(t.S = s.S and t.R < s.R and t.Q != s.Q and t.A < s.B)": (
        "Among rows with the same S, no row has a lower R and a different Q than another while its A is below that "
        "row's B."
    ),
    # order
    "{}: [] -> A": "All rows have the same A.",
    "{A, B}: [] -> C": "Rows with the same A and B have the same C.",
    "{}: A ~ B": "B never falls as A rises.",
    "{}: A ~ B desc": "B never rises as A rises.",
    "{State}: Salary ~ Rate": "Among rows with the same State, Rate never falls as Salary rises.",
    "{A, B, C}: D ~ E desc": "Among rows with the same A, B and C, E never rises as D rises.",
    # inclusion
    "orders.customer in customers.id": "Every value of orders.customer is a value of customers.id.",
    "`my orders`.`the.id` in t.of": "Every value of `my orders`.`the.id` is a value of t.of.",
    # single rows, with constants
    "not(t.A <= 0)": "There is no row where A is at most 0.",
    "not(t.A >= -1.5)": "There is no row where A is at least -1.5.",
    "not(t.A = 'it''s' and t.B != true)": "There is no row where A is 'it''s' and B is not true.",
    "not(t.A < 0 or t.B is null)": "There is no row where A is below 0, or where B is missing.",
    "not(t.A > 1 and t.B is not null or t.C is null)": (
        "There is no row where A is above 1 and B is present, or where C is missing."
    ),
    "not(t.A = t.B)": "There is no row where A equals B.",
    "not(t.A != t.B and t.C < t.D)": "There is no row where A differs from B and C is below D.",
    # pairs, with constants
    "not(t.Zip = s.Zip and t.City != s.City and t.Country = 'IT')": (
        "Among rows with the same Zip, no row whose Country is 'IT' has a different City than another."
    ),
    "not(t.Zip = s.Zip and t.Country = 'IT')": "No row whose Country is 'IT' has the same Zip as another.",
    "not(t.A < s.A and t.B > s.B and s.C is null and t.D > 1 and t.E = t.F)": (
        "No row whose D is above 1 and E equals F has a lower A and a higher B than another whose C is missing."
    ),
    "not(t.A = 1 and s.A = 2)": "No row whose A is 1 is there beside another whose A is 2.",
    "not(t.A < s.B and s.C = 1)": "No row has its A below the B of another whose C is 1.",
    # names
    "key(`Sample Number`)": "No two rows have the same `Sample Number`.",
    "key(and, `The`)": "No two rows have the same `and` and `The`.",
    '`a``b` -> `"x"`': 'Rows with the same `a``b` have the same `"x"`.',
    "{}: the ~ Zürich": "`Zürich` never falls as `the` rises.",
}


@pytest.mark.parametrize(("text", "said"), SAID.items())
def test_what_is_said(text: str, said: str) -> None:
    assert sentence(parse_rule_body(text)) == said


def test_the_documentation_says_what_is_said() -> None:
    documentation = (Path(__file__).parents[2] / "docs" / "notebooks.md").read_text()
    rows = re.findall(r"^\| `(.+)` \| (.+\.) \|$", documentation, re.MULTILINE)
    assert len(rows) > 5
    assert [(text, sentence(parse_rule_body(text))) for text, _ in rows] == rows


def test_no_two_rows_at_all() -> None:
    assert sentence(DenialConstraint([])) == "The table has at most one row."


def test_no_two_of_the_examples_say_the_same_unless_they_are_the_same() -> None:
    same = {"A -> B", "not(t.B != s.B and t.A = s.A)", "not(t.A != s.A)", "{}: [] -> A", "A, B -> C", "{A, B}: [] -> C"}
    others = [said for text, said in SAID.items() if text not in same]
    assert len(set(others)) == len(others)


def test_what_is_required_is_said_by_what_it_forbids() -> None:
    assert (
        sentence(parse_required("t.A > 0 or t.B is null")) == "There is no row where A is at most 0 and B is present."
    )


NAMES = st.one_of(
    st.sampled_from(["A", "B", "a b", "and", "the same A", "A and B", "`", "A`", "", "no row", "x" * 300, "\n", "<b>"]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
)
PREDICATES = st.builds(Predicate, NAMES, st.sampled_from(Operator), NAMES) | NAMES.flatmap(
    lambda name: st.builds(Predicate, st.just(name), st.sampled_from(Operator), st.just(name))
)
DENIALS = st.lists(PREDICATES, max_size=4, unique_by=lambda p: p.column_pair).map(DenialConstraint)
ORDERS = st.builds(
    lambda names, two, opposite: OrderDependency(names[2:], names[: 1 + two], opposite=opposite and two),
    st.lists(NAMES, min_size=2, max_size=4, unique=True),
    st.booleans(),
    st.booleans(),
)
INCLUSIONS = (
    st.tuples(NAMES, NAMES, NAMES, NAMES)
    .filter(lambda n: n[:2] != n[2:])
    .map(lambda n: InclusionDependency(ColumnRef(*n[:2]), ColumnRef(*n[2:])))
)


def _columns(constraint: Constraint) -> frozenset[str]:
    if isinstance(constraint, InclusionDependency):
        return frozenset((constraint.dependent.column, constraint.referenced.column))
    assert isinstance(constraint, DenialConstraint | OrderDependency)
    return constraint.columns


@given(DENIALS | ORDERS | INCLUSIONS)
def test_a_sentence_names_every_column(constraint: Constraint) -> None:
    said = sentence(constraint)
    assert said.endswith(".")
    assert len(said) > 10
    for column in _columns(constraint):
        quoted = "`" + column.replace("`", "``") + "`"
        assert quoted in said or re.search(rf"(?<![`\w]){re.escape(column)}(?![`\w])", said)


@given(st.tuples(DENIALS, DENIALS) | st.tuples(ORDERS, ORDERS) | st.tuples(INCLUSIONS, INCLUSIONS))
def test_constraints_that_differ_are_told_apart(two: tuple[Constraint, Constraint]) -> None:
    one, other = two
    assert one == other or sentence(one) != sentence(other)


def _parts(constraint: DenialConstraint, operator: Operator) -> list[DenialConstraint]:
    """Return the constraint with one of its operators exchanged, each in turn."""
    return [
        DenialConstraint(
            [*constraint.predicates[:i], Predicate(p.left, operator, p.right), *constraint.predicates[i + 1 :]]
        )
        for i, p in enumerate(constraint.predicates)
    ]


@given(DENIALS, st.sampled_from(Operator))
def test_an_operator_is_never_lost(constraint: DenialConstraint, operator: Operator) -> None:
    for other in _parts(constraint, operator):
        assert other == constraint or sentence(other) != sentence(constraint)


def test_nothing_else_has_a_sentence() -> None:
    with pytest.raises(TypeError, match="no sentence for Operator"):
        sentence(Operator.LESS)  # type: ignore[arg-type]
