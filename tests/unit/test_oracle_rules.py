"""The oracle of declared rules, tested by hand."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from tests.oracles import denial, rules
from tests.oracles.values import Column, Value
from tests.unit.test_oracle_denial import TAX, random_rows
from tests.unit.test_oracle_orders import table
from tests.unit.test_oracles import NAN, SEEDS, A, B, S

# Rules

T_SALARY = rules.Field("t", "Salary")


SALARY = (Column("Name", "string"), Column("Salary", "number"), Column("Limit", "number"))


SALARIES = table(
    "pay",
    SALARY,
    [("a", 5, 5), ("b", 0, None), ("c", None, 3), (None, -1, -2), ("e", NAN, 0)],
)


def against(operator: str, constant: Value) -> rules.Comparison:
    return rules.Comparison(T_SALARY, operator, rules.Constant(constant))


@pytest.mark.parametrize(
    ("rule", "violating"),
    [
        (rules.Forbid((against("<=", 0),)), {1, 3}),
        (rules.Forbid((against(">", 0),)), {0, 4}),
        (rules.Forbid((against("=", NAN),)), {4}),
        (rules.Forbid((against("!=", 0),)), {0, 3, 4}),
        (rules.Require((against(">", 0),)), {1, 3}),
        (rules.Require((against("=", 5),)), {1, 3, 4}),
        (rules.Forbid((rules.NullTest(T_SALARY),)), {2}),
        (rules.Forbid((rules.NullTest(T_SALARY, wanted=False),)), {0, 1, 3, 4}),
        (rules.Require((rules.NullTest(T_SALARY, wanted=False),)), {2}),
        (rules.Require((rules.NullTest(T_SALARY),)), {0, 1, 3, 4}),
        (rules.Forbid((against("<=", 0), rules.NullTest(rules.Field("t", "Name")))), {3}),
        (rules.Require((against(">", 0), rules.NullTest(T_SALARY, wanted=False))), {1, 2, 3}),
        (rules.Forbid((rules.Comparison(rules.Field("t", "Name"), "!=", rules.Constant("a")),)), {1, 2, 4}),
        # null below every value: 0 > null, null < 3
        (rules.Forbid((rules.Comparison(T_SALARY, ">", rules.Field("t", "Limit")),)), {3, 4}),
        (rules.Require((rules.Comparison(T_SALARY, "<=", rules.Field("t", "Limit")),)), {3, 4}),
    ],
)
def test_single_row_rules(rule: rules.Rule, violating: set[int]) -> None:
    assert rules.pairs(rule, SALARIES) is None
    assert rules.rows(rule, SALARIES) == violating


def meets(left: str, operator: str, right: str) -> rules.Comparison:
    return rules.Comparison(rules.Field("t", left), operator, rules.Field("s", right))


TAXES = table("tax", TAX, [("NY", 20, 2), ("NY", 15, 5), ("NY", 10, 6), ("NJ", 15, 1), ("NJ", 15, None)])


@pytest.mark.parametrize(
    ("rule", "violating_pairs", "violating_rows"),
    [
        # (20,2) above (15,5) and (10,6), (15,5) above (10,6)
        (
            rules.Forbid((meets("State", "=", "State"), meets("Salary", ">", "Salary"), meets("Rate", "<", "Rate"))),
            3,
            3,
        ),
        (rules.Key(("State",)), 6 + 2, 5),
        (rules.Key(("State", "Salary")), 2, 2),
        (rules.FunctionalDependency(("Salary",), ("Rate",)), 6, 3),
        (rules.FunctionalDependency(("Salary",), ("State", "Rate")), 6, 3),
        (rules.FunctionalDependency(("Salary",), ("State",)), 4, 3),
        (rules.FunctionalDependency((), ("State",)), 12, 5),
        (rules.Ordering((), ("State",)), 12, 5),
        (rules.Ordering(("State",), ("Salary", "Rate"), "same"), 3, 3),
        (rules.Ordering(("State",), ("Salary", "Rate"), "opposite"), 0, 0),
        # strings by code point: NJ < NY, Rate null < 1 < 2 < 5 < 6
        (rules.Ordering((), ("State", "Rate"), "opposite"), 6, 5),
        (
            rules.Forbid(
                (
                    rules.Comparison(rules.Field("t", "State"), "=", rules.Constant("NJ")),
                    meets("Salary", "=", "Salary"),
                )
            ),
            4,
            3,
        ),
        (rules.Forbid((rules.NullTest(rules.Field("s", "Rate")), meets("Salary", "=", "Salary"))), 2, 3),
    ],
)
def test_pair_rules(rule: rules.Rule, violating_pairs: int, violating_rows: int) -> None:
    verdict = rules.judge(rule, TAXES)
    assert (verdict.violating_pairs, verdict.violating_rows) == (violating_pairs, violating_rows)
    assert verdict.missing_values is None
    assert verdict.holds == (violating_rows == 0)
    assert verdict.broken == (not verdict.holds)


def test_inclusion_rules() -> None:
    left = table("l", [A], [(1,), (2,), (2,), (None,), (3,)])
    right = table("r", [A], [(1,)])
    verdict = rules.judge(rules.Inclusion("A", "r", "A"), left, {"r": right})
    assert verdict == rules.Verdict(None, 3, 2, holds=False, broken=True)
    back = rules.judge(rules.Inclusion("A", "l", "A"), right, {"l": left})
    assert back == rules.Verdict(None, 0, 0, holds=True, broken=False)


@pytest.mark.parametrize(
    ("thresholds", "broken"),
    [
        ({}, True),
        ({"max_violating_pairs": 3}, False),
        ({"max_violating_pairs": 2}, True),
        ({"max_violating_rows": 3}, False),
        ({"max_violating_rows": 2}, True),
        ({"max_violating_rows": Fraction(60, 100)}, False),
        ({"max_violating_rows": Fraction(59, 100)}, True),
        ({"max_violating_pairs": Fraction(3, 20)}, False),
        ({"max_violating_pairs": Fraction(2, 20), "max_violating_rows": 5}, True),
    ],
)
def test_thresholds(thresholds: dict[str, rules.Threshold], broken: bool) -> None:
    rule = rules.Ordering(("State",), ("Salary", "Rate"), "same")  # 3 of 20 pairs, 3 of 5 rows
    verdict = rules.judge(
        rule,
        TAXES,
        max_violating_pairs=thresholds.get("max_violating_pairs"),
        max_violating_rows=thresholds.get("max_violating_rows"),
    )
    assert (verdict.holds, verdict.broken) == (False, broken)


def test_a_rule_on_an_empty_table_holds() -> None:
    empty = table("tax", TAX, [])
    share = Fraction(1, 1000)
    assert rules.judge(rules.Key(("State",)), empty, max_violating_rows=share) == rules.Verdict(
        0, 0, None, holds=True, broken=False
    )


def test_order_on_an_unordered_column_is_an_error() -> None:
    with pytest.raises(ValueError, match="not ordered"):
        rules.judge(rules.Forbid((meets("State", "<", "State"),)), TAXES)


@pytest.mark.parametrize("seed", SEEDS)
def test_rules_count_as_their_denial_constraints(seed: int) -> None:
    rng = random.Random(seed)
    columns = [A, B, S]
    one = table("r", columns, random_rows(rng, columns, 7))
    space = denial.listed_space(columns, [(0, 1)])
    key = denial.box_of([("A", "=", "A"), ("S", "=", "S")], space, columns)
    fd = denial.box_of([("S", "=", "S"), ("B", "!=", "B")], space, columns)
    mixed = denial.box_of([("A", "<=", "A"), ("A", ">", "B"), ("S", "!=", "S")], space, columns)
    forbidden = rules.Forbid((meets("A", "<=", "A"), meets("A", ">", "B"), meets("S", "!=", "S")))
    assert rules.pairs(rules.Key(("A", "S")), one) == set(denial.violating_pairs(one.rows, key, space))
    assert rules.pairs(rules.FunctionalDependency(("S",), ("B",)), one) == set(
        denial.violating_pairs(one.rows, fd, space)
    )
    assert rules.pairs(forbidden, one) == set(denial.violating_pairs(one.rows, mixed, space))
