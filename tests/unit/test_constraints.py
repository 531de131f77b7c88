"""The domain's values: what they refuse, and the cases that a table of examples shows best."""

import json
import pickle
from fractions import Fraction
from pathlib import Path

import pytest

from holdfast.constraints import (
    Column,
    ColumnRef,
    ConstraintChange,
    ConstraintSyntaxError,
    DenialConstraint,
    DenialKind,
    InclusionDependency,
    Operator,
    OrderDependency,
    Predicate,
    PredicateSpace,
    Reason,
    RowImage,
    Rule,
    Schema,
    Threshold,
    UnknownColumn,
    UsageError,
    Violation,
    constraint_fields,
    parse_condition,
    parse_constraint,
    parse_denial,
    parse_forbidden,
    parse_functional_dependency,
    parse_inclusion,
    parse_required,
    parse_rule_body,
    parse_type,
    read_value,
)
from holdfast.constraints.columns import unknown_name
from holdfast.constraints.types import FLOAT, INTEGER, STRING

SHARED = Path(__file__).parents[3] / "shared" / "data" / "expected"


@pytest.mark.parametrize("operator", Operator)
def test_operators_are_sets_of_outcomes(operator: Operator) -> None:
    compare = {
        "=": int.__eq__,
        "!=": int.__ne__,
        "<": int.__lt__,
        "<=": int.__le__,
        ">": int.__gt__,
        ">=": int.__ge__,
    }
    holds = compare[str(operator)]
    for a in range(3):
        for b in range(3):
            assert compare[str(operator.inverse)](a, b) is not holds(a, b)
            assert compare[str(operator.mirror)](b, a) is holds(a, b)
    for other in Operator:
        implied = all(compare[str(other)](a, b) for a in range(3) for b in range(3) if holds(a, b))
        assert operator.implies(other) is implied


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("¬(t.A = s.A ∧ t.B ≠ s.B)", "not(t.A = s.A and t.B != s.B)"),
        ("NOT(t.A == s.A AND t.B <> s.B)", "not(t.A = s.A and t.B != s.B)"),
        ("!(t.A≤s.A && t.B≥s.B)", "not(t.A <= s.A and t.B >= s.B)"),
        (r"\neg (t.SSN = s.SSN \wedge t.Name \neq s.Name)", "not(t.SSN = s.SSN and t.Name != s.Name)"),
        ("∀ t, s ∈ r, ¬(t.A > s.B)", "not(t.A > s.B)"),
        ("not(t0.A = t1.A)", "not(t.A = s.A)"),
        ("not(t1.A < t2.A)", "not(t.A < s.A)"),
        ("not(s.A < t.B)", "not(t.B > s.A)"),
        ("not(t.A <= s.A and t.A != s.A)", "not(t.A < s.A)"),
        ("not()", "not()"),
        ("not(t.`a b` = s.`a b`)", "not(t.`a b` = s.`a b`)"),
        ("not(t0.size(cm) = t1.x)", None),
        ("not(t.age(Integer) = s.age(Integer))", "not(t.age = s.age)"),
        ("not(t.`age(Integer)` = s.`age(Integer)`)", "not(t.`age(Integer)` = s.`age(Integer)`)"),
        ("[DC: t0.A(Long) <> t1.A(Long)]", "not(t.A != s.A)"),
        ("¬{ t.0_A == s.0_A ∧ t.B <= s.C }", "not(t.`0_A` = s.`0_A` and t.B <= s.C)"),
    ],
)
def test_notations_of_the_papers(text: str, meant: str | None) -> None:
    if meant is None:
        with pytest.raises(ConstraintSyntaxError):
            parse_denial(text)
    else:
        assert str(parse_denial(text)) == meant


@pytest.mark.parametrize(
    ("text", "character", "problem"),
    [
        ("", 0, "expected a constraint"),
        ("not(t.A s.A)", 8, "expected a comparison"),
        ("not(t.A = s.A", 13, "expected 'and' or ')'"),
        ("not(t.A = s.A) or", 15, "expected nothing more"),
        ("not(t.A = s.A and )", 18, "expected a cell"),
        ("not(t.A = t.B)", 4, "compares a cell of t with a cell of s"),
        ("not(t.A = 5)", 4, "compares a cell of t with a cell of s"),
        ("not(t.A < s.A and t.A > s.A)", 0, "exclude each other"),
        ("{A: [] -> B", 2, "expected ',' or '}'"),
        ("{A}: [] - B", 8, "expected '->'"),
        ("{A}: A ~ B", 0, "a column occurs twice"),
        ("a.b in a.b", 0, "in itself holds always"),
        ("a.b on c.d", 4, "expected 'in'"),
        ("a.b.c in c.d", 3, "expected 'in'"),
    ],
)
def test_syntax_errors_point_at_the_character(text: str, character: int, problem: str) -> None:
    with pytest.raises(ConstraintSyntaxError, match=problem.replace("(", r"\(").replace(")", r"\)")) as caught:
        parse_constraint(text)
    assert caught.value.position == character
    assert str(caught.value).splitlines()[-1] == "  " + " " * character + "^"
    assert caught.value.exit_code == 2


def test_syntax_errors_travel_between_processes() -> None:
    with pytest.raises(ConstraintSyntaxError) as caught:
        parse_denial("not(")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.position) == (str(caught.value), caught.value.position)


@pytest.mark.parametrize("behind", ["", " and t.B = s.B" * 100])
def test_a_pointer_into_a_long_text_shows_its_surroundings(behind: str) -> None:
    text = "not(" + " and ".join(f"t.A{i} = s.A{i}" for i in range(100)) + " nonsense" + behind + ")"
    with pytest.raises(ConstraintSyntaxError) as caught:
        parse_denial(text)
    _, shown, caret = str(caught.value).splitlines()
    assert len(shown) < 120
    assert shown[caret.index("^") :].startswith("nonsense")
    assert "= s.A99 nonsense" in shown


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("not(t.A = s.A)", DenialKind.KEY),
        ("not(t.A = s.A and t.B = s.B)", DenialKind.KEY),
        ("not(t.A != s.A)", DenialKind.CONSTANT),
        ("not(t.A = s.A and t.B != s.B)", DenialKind.FUNCTIONAL_DEPENDENCY),
        ("not(t.A != s.A and t.B != s.B)", DenialKind.OTHER),
        ("not(t.A = s.A and t.B != s.B and t.C != s.C)", DenialKind.OTHER),
        ("not(t.A = s.A and t.B != s.B and t.C < s.C)", DenialKind.OTHER),
        ("not(t.A <= s.A)", DenialKind.OTHER),
        ("not(t.A = s.B)", DenialKind.OTHER),
        ("not()", DenialKind.OTHER),
    ],
)
def test_kinds(text: str, kind: DenialKind) -> None:
    assert parse_denial(text).kind is kind


def test_identities_stay_what_they_are() -> None:
    """States and output tables hold them: SHA-256 of the text in UTF-8, as any other program has it too."""
    dc = constraint_fields(parse_denial("not(t.`é` = s.`é`)"), "café")
    assert dc["id"] == "a1ebebf86a7bd85bd2da52bde0786898abb68412bd96d414a066562b920e7f51"


def test_long_names_are_not_guessed() -> None:
    """Comparing them takes long, and nobody mistypes a name of so many characters."""
    known = ["a" * 190]
    assert "did you mean" in unknown_name("no column", "a" * 200, known)
    assert "did you mean" not in unknown_name("no column", "a" * 201, known)


def test_cells_of_one_row_are_no_predicate() -> None:
    assert parse_condition("t.A < s.B").predicates == (Predicate("A", Operator.LESS, "B"),)
    assert parse_condition("s.A < t.B").predicates == (Predicate("B", Operator.GREATER, "A"),)
    assert parse_condition("t.A < t.B").predicates is None
    assert parse_condition("t.A < 3").predicates is None
    assert parse_condition("t.A < s.A and t.B is null").predicates is None


def test_json_lines_have_the_documented_fields() -> None:
    dc = constraint_fields(parse_denial("not(t.`é` = s.`é`)"), "café")
    assert list(dc) == ["family", "table", "constraint", "id", "kind", "predicates", "size"]
    assert dc["predicates"] == [{"left": "é", "op": "=", "right": "é"}]
    od = constraint_fields(OrderDependency(("A", "B"), ("C", "D"), opposite=True), "r")
    assert [od[k] for k in ("constraint", "context", "kind", "target", "direction", "size")] == [
        "{A, B}: C ~ D desc",
        ["A", "B"],
        "order_compatible",
        ["C", "D"],
        "opposite",
        4,
    ]
    assert "direction" not in constraint_fields(OrderDependency((), ("A",)), "r")
    ind = constraint_fields(InclusionDependency(ColumnRef("t", "a"), ColumnRef("u", "b")), "t")
    assert (ind["dependent"], ind["referenced"], ind["size"]) == ("t.a", "u.b", 1)
    odd = constraint_fields(InclusionDependency(ColumnRef("Batting.Post", "3B"), ColumnRef("t", "a`b")), "Batting.Post")
    assert (odd["dependent"], odd["referenced"]) == ("`Batting.Post`.`3B`", "t.`a``b`")
    assert [odd[f"{side}_{part}"] for side in ("dependent", "referenced") for part in ("table", "column")] == [
        *("Batting.Post", "3B"),
        *("t", "a`b"),
    ]


def _space(columns: int, **options: bool) -> PredicateSpace:
    return PredicateSpace(Schema("r", tuple(Column(f"c{i}", FLOAT, **options) for i in range(columns))))


def test_twenty_one_ordered_columns_fill_a_word_and_no_pair_straddles_two() -> None:
    assert (_space(21).word_count, _space(22).word_count, _space(22).pairs[21].offset) == (1, 2, 64)
    assert _space(0).word_count == 1
    wide = _space(300)
    assert all(p.offset // 64 == (p.offset + p.width - 1) // 64 for p in wide.pairs)
    constraint = parse_denial("not(t.c0 < s.c0 and t.c299 >= s.c299)")
    assert wide.constraint(wide.bits(wide.words(wide.mask(constraint)))) == constraint


def test_a_fingerprint_sees_names_types_orders_and_pairs() -> None:
    columns = (Column("a", INTEGER), Column("b", INTEGER))
    spaces = [
        PredicateSpace(Schema("r", columns)),
        PredicateSpace(Schema("r", columns), ((0, 1),)),
        PredicateSpace(Schema("r", columns[::-1])),
        PredicateSpace(Schema("r", (columns[0], Column("b", FLOAT)))),
        PredicateSpace(Schema("r", (columns[0], Column("b", INTEGER, ordered=False)))),
        PredicateSpace(Schema("q", columns)),
    ]
    assert len({space.fingerprint for space in spaces}) == len(spaces)
    assert PredicateSpace(Schema("r", columns)).fingerprint == spaces[0].fingerprint


def test_a_space_refuses_what_it_does_not_have() -> None:
    space = PredicateSpace(Schema("tax", (Column("State", STRING), Column("Salary", INTEGER), Column("Rate", FLOAT))))
    with pytest.raises(UnknownColumn, match=r"no column 'Stat'; did you mean 'State'\?"):
        space.mask(parse_denial("not(t.Stat = s.Stat)"))
    with pytest.raises(UsageError, match="no order"):
        space.mask(parse_denial("not(t.State < s.State)"))
    with pytest.raises(UsageError, match="outside the predicate space"):
        space.mask(parse_denial("not(t.Salary < s.Rate)"))
    with pytest.raises(UsageError, match="one type group"):
        PredicateSpace.build(space.schema, [("State", "Rate")])
    with pytest.raises(UsageError, match="none of auto"):
        PredicateSpace.build(space.schema, "sometimes")
    for broken in (
        [1],
        None,
        {},
        {"format": 2},
        {"format": 1},
        {"format": 1, "table": "r", "columns": [1], "cross_columns": []},
    ):
        with pytest.raises(UsageError, match="not a predicate space"):
            PredicateSpace.from_json(broken)


@pytest.mark.parametrize(
    ("shared", "larger", "taken"), [(3, 10, True), (299, 1000, False), (300, 1000, True), (0, 0, False)]
)
def test_thirty_percent_is_exact(shared: int, larger: int, taken: bool) -> None:
    schema = Schema("r", (Column("a", INTEGER), Column("b", FLOAT), Column("c", STRING)))
    assert PredicateSpace.build(schema, "auto", lambda a, b: (shared, larger)).crossing == (((0, 1),) if taken else ())


def test_crossing_constraints_are_turned_into_the_spaces_orientation() -> None:
    space = PredicateSpace(Schema("r", (Column("a", INTEGER), Column("b", INTEGER))), ((0, 1),))
    assert str(space.canonical(parse_denial("not(t.b < s.a and t.a > s.a)"))) == "not(t.a < s.a and t.a > s.b)"


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("key(A, `b c`)", "not(t.A = s.A and t.`b c` = s.`b c`)"),
        ("unique(A)", "not(t.A = s.A)"),
        ("A, B -> C", "not(t.A = s.A and t.B = s.B and t.C != s.C)"),
        ("Native-country->x", "not(t.`Native-country` = s.`Native-country` and t.x != s.x)"),
        ("{A}: B ~ C", "{A}: B ~ C"),
        ("orders.k in customer.k", "orders.k in customer.k"),
        ("not(t.A = s.A and t.B != s.B)", "not(t.A = s.A and t.B != s.B)"),
        ("not(t.Salary <= 0 or t.State is null)", "t.Salary <= 0 or t.State is null"),
        ("not(t.S = 'NY' and s.S = 'NY' and t.Z = s.Z)", "t.S = 'NY' and s.S = 'NY' and t.Z = s.Z"),
    ],
)
def test_rule_bodies(text: str, body: str) -> None:
    rule = Rule("r", "t", parse_rule_body(text))
    assert str(rule.body) == body
    assert parse_rule_body(rule.text) == rule.body


def test_forbid_and_require_say_opposite_things() -> None:
    assert isinstance(parse_forbidden("t.A = s.A and t.B != s.B"), DenialConstraint)
    assert parse_required("t.A > 0 and t.B is not null") == parse_forbidden("t.A <= 0 or t.B is null")
    with pytest.raises(ConstraintSyntaxError, match="leave out the 'not'"):
        parse_forbidden("not(t.A = s.A)")
    with pytest.raises(ConstraintSyntaxError, match="single rows"):
        parse_required("t.A = s.A")
    with pytest.raises(ConstraintSyntaxError, match="both sides"):
        parse_functional_dependency("A -> A")
    with pytest.raises(ConstraintSyntaxError, match="a rule for each"):
        parse_functional_dependency("A -> B, C")
    with pytest.raises(ConstraintSyntaxError, match="two constants"):
        parse_condition("1 = 2")
    with pytest.raises(UsageError, match="takes no 'or'"):
        Rule("r", "t", parse_forbidden("t.A = s.A or t.B = s.B"))
    with pytest.raises(UsageError, match="alternatives"):
        parse_condition(" and ".join(f"(t.A{i} = 1 or t.B{i} = 1)" for i in range(12)))
    with pytest.raises(UsageError, match="not about pairs"):
        Rule("r", "t", parse_forbidden("t.A = 1"), max_violating_pairs=Threshold(1))


def test_thresholds() -> None:
    assert Threshold.parse("0.1%") == Threshold(share=Fraction(1, 1000))
    assert Threshold.parse(7) == Threshold.parse("7") == Threshold(7)
    for wrong in ("", "x", "-1", "101%", "0.5", True, 1.5):
        with pytest.raises(UsageError, match="expected a whole number"):
            Threshold.parse(wrong)  # type: ignore[arg-type]
    rule = Rule("r", "t", parse_rule_body("Zip -> City"), max_violating_rows=Threshold.parse("50%"))
    assert [rule.broken(2, rows, 4) for rows in (2, 3)] == [False, True]
    assert not Rule("r", "t", parse_rule_body("key(A)")).broken(0, 0, 0)
    assert Rule("r", "t", parse_rule_body("key(A)")).broken(2, 2, 9)


def test_changes_carry_their_proof() -> None:
    left, right = RowImage({"id": 1}, {"id": 1, "x": float("nan")}), RowImage({"id": 2}, {"id": 2, "x": None})
    lost = ConstraintChange(parse_denial("not(t.x != s.x)"), "r", Reason.VIOLATED, witness=Violation((left, right)))
    fields = lost.fields()
    assert (fields["change"], fields["reason"], fields["by"], lost.appeared) == ("disappeared", "violated", None, False)
    assert json.loads(json.dumps(fields["witness"], allow_nan=False)) == [
        {"key": {"id": 1}, "row": {"id": 1, "x": "NaN"}},
        {"key": {"id": 2}, "row": {"id": 2, "x": None}},
    ]
    with pytest.raises(ValueError, match="no violation is given"):
        ConstraintChange(lost.constraint, "r", Reason.VIOLATED)
    with pytest.raises(ValueError, match="none is given"):
        ConstraintChange(lost.constraint, "r", Reason.WEAKENED)
    missing = ConstraintChange(parse_inclusion("a.x in b.y"), "a", Reason.VIOLATED, witness=Violation(value="Rome"))
    assert missing.fields()["witness"] == ["Rome"]


def test_types_read_every_usual_name_and_their_own() -> None:
    for name in ("Integer", "int", "Long", "Double", "float", "String", "str", "bigint", "varchar", "bool", "datetime"):
        column_type = parse_type(name)
        assert parse_type(str(column_type)) == column_type
    assert str(parse_type("decimal(12,2)")) == "decimal(12,2)"
    for wrong in ("money", "decimal(39,0)", "decimal(3,4)", "decimal(0,0)", "", "list<int>"):
        with pytest.raises(UsageError):
            parse_type(wrong)


def test_reading_a_value_never_takes_long() -> None:
    for text in ("1e-999999999", "1e999999999", "9" * 100_000, "0." + "9" * 100_000, "+" + "0" * 100_000):
        for name in ("integer", "decimal(38,9)", "float"):
            try:
                read_value(text, parse_type(name))
            except ValueError as error:
                assert "is not" in str(error)


def test_names_are_unique_and_unknown_ones_get_a_suggestion() -> None:
    with pytest.raises(UsageError, match="two columns named 'a'"):
        Schema("r", (Column("a", INTEGER), Column("a", FLOAT)))
    with pytest.raises(UnknownColumn, match=r"did you mean 'Salary'\?"):
        Schema("r", (Column("Salary", INTEGER),)).index("salary")


@pytest.mark.parametrize("file", ["adult11_first10000.fastadc.txt", "airport_original.incdc.txt"])
def test_lists_of_other_programs_are_read(file: str) -> None:
    path = SHARED / file
    if not path.exists():
        pytest.skip(f"the published result {file} is not beside this checkout")
    lines = [line for line in path.read_text("utf-8").splitlines() if line.strip()]
    constraints = {parse_denial(line) for line in lines}
    assert len(constraints) == len(lines)
    assert {parse_denial(str(c)) for c in constraints} == constraints
    assert not any("(" in name for c in constraints for name in c.columns)


def test_predicates_are_written_with_t_on_the_left() -> None:
    assert str(Predicate("a", Operator.LESS, "b").mirror) == "t.b > s.a"
