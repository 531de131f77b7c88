"""Near constraints as values: their texts, what they refuse, shares, and what programs and people get of them."""

import pickle
from fractions import Fraction

import pytest

from holdfast.constraints import (
    Family,
    NearConstraint,
    NearShape,
    OrderDependency,
    Schema,
    UsageError,
    constraint_fields,
    constraint_id,
    parse_near,
    parse_rule_body,
    parse_share,
    sentence,
)
from holdfast.constraints.columns import Column
from holdfast.constraints.types import STRING

TEXTS = {
    "key(Zip, City)": NearConstraint(NearShape.KEY, ("Zip", "City"), ()),
    "{}: [] -> State": NearConstraint(NearShape.CONSTANT, (), ("State",)),
    "{Zip, `a b`}: [] -> City": NearConstraint(NearShape.CONSTANT, ("Zip", "a b"), ("City",)),
    "{State}: Salary ~ Rate": NearConstraint(NearShape.ORDER, ("State",), ("Salary", "Rate")),
    "{}: Salary ~ Rate desc": NearConstraint(NearShape.ORDER_DESC, (), ("Salary", "Rate")),
}


@pytest.mark.parametrize(("text", "near"), TEXTS.items(), ids=list(TEXTS))
def test_the_text_is_that_of_the_constraint_and_is_read_back(text: str, near: NearConstraint) -> None:
    assert str(near) == text
    assert parse_near(text) == near
    assert pickle.loads(pickle.dumps(near)) == near
    body = parse_rule_body(text)
    exact = near.exact
    assert body in {exact, exact.as_denial() if isinstance(exact, OrderDependency) else exact}


def test_spellings_of_rules_are_read_too() -> None:
    assert parse_near("Zip, Street -> City") == parse_near("{Street, Zip}: [] -> City")
    assert parse_near("not(t.Zip = s.Zip and t.City != s.City)") == parse_near("Zip -> City")
    assert parse_near("not(t.Zip != s.Zip)") == parse_near("{}: [] -> Zip")
    assert parse_near("{}: B ~ A") == parse_near("{}: A ~ B")
    assert parse_near("{}: A ~ B") != parse_near("{}: A ~ B desc")


@pytest.mark.parametrize("text", ["not(t.a < s.a)", "r.a in s.b", "not(t.a = 1)", "not(t.a = s.b)"])
def test_what_has_no_number_of_exceptions_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="exceptions are counted of keys, functional dependencies and order"):
        parse_near(text)


def test_what_is_not_well_formed_is_refused() -> None:
    with pytest.raises(UsageError, match="at least one column"):
        NearConstraint(NearShape.KEY, (), ())
    with pytest.raises(UsageError, match="has 2 targets"):
        NearConstraint(NearShape.ORDER, ("a",), ("b",))
    with pytest.raises(UsageError, match="occurs twice"):
        NearConstraint(NearShape.CONSTANT, ("a",), ("a",))
    with pytest.raises(UsageError, match="4 exceptions of 3 rows"):
        NearConstraint(NearShape.CONSTANT, ("a",), ("b",), 4, 3)


def test_the_fields_of_a_json_line_and_the_identity() -> None:
    near = NearConstraint(NearShape.CONSTANT, ("Zip",), ("City",), 3, 55_000)
    assert constraint_fields(near, "tax") == {
        "family": "near",
        "table": "tax",
        "constraint": "{Zip}: [] -> City",
        "id": constraint_id(parse_near("Zip -> City"), "tax"),
        "shape": "constant",
        "context": ["Zip"],
        "target": ["City"],
        "exceptions": 3,
        "rows": 55_000,
        "share": 0.000054545,
        "size": 2,
    }
    assert near.family is Family.NEAR
    assert near.columns == {"Zip", "City"}
    assert NearConstraint(NearShape.KEY, ("a",), ()).share == 0


def test_canonical_has_the_order_of_the_table() -> None:
    schema = Schema("r", tuple(Column(name, STRING) for name in "abcd"))
    near = NearConstraint(NearShape.ORDER, ("d", "b"), ("c", "a"), 1, 9).canonical(schema)
    assert (str(near), near.exceptions, near.rows) == ("{b, d}: a ~ c", 1, 9)


def test_sentences_say_how_many_rows_are_exceptions() -> None:
    assert sentence(NearConstraint(NearShape.KEY, ("id",), (), 1, 1_000)) == (
        "No two rows have the same id, but for 1 of 1,000 rows."
    )
    assert sentence(NearConstraint(NearShape.ORDER_DESC, ("c",), ("d", "b"), 0, 5)) == (
        "Among rows with the same c, b never rises as d rises."
    )


@pytest.mark.parametrize(
    ("given", "share"),
    [
        ("1%", Fraction(1, 100)),
        (" 0.1 % ", Fraction(1, 1000)),
        ("50%", Fraction(1, 2)),
        ("0%", Fraction(0)),
        (0.01, Fraction(1, 100)),
        (0.1, Fraction(1, 10)),
        (0, Fraction(0)),
        (Fraction(1, 3), Fraction(1, 3)),
    ],
)
def test_shares_are_exact(given: float | str, share: Fraction) -> None:
    assert parse_share(given) == share


@pytest.mark.parametrize("given", ["51%", "1", "0.01", "-1%", "x", "", 0.51, -0.1, float("nan"), float("inf"), 1])
def test_other_shares_are_refused(given: float | str) -> None:
    with pytest.raises(UsageError, match="expected a share of the rows from 0% to 50%, such as 1%"):
        parse_share(given)
