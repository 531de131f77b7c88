"""Oracle tests: spaces, evidences, masks and texts against nested loops over plain values."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from holdfast.constraints import (
    Column,
    ConstraintSyntaxError,
    DenialConstraint,
    Operator,
    OrderDependency,
    Predicate,
    PredicateSpace,
    Schema,
    constraint_fields,
    parse_condition,
    parse_constraint,
    parse_denial,
    parse_order,
    parse_rule_body,
)
from holdfast.constraints.operators import EQUAL, GREATER, LESS
from holdfast.constraints.types import FLOAT
from holdfast.tables import Table, overlap
from holdfast.tables.comparable import common_keys
from tests.oracles import denial as oracle
from tests.oracles import order as order_oracle
from tests.oracles.values import Column as OracleColumn
from tests.oracles.values import Table as OracleTable
from tests.properties.tables import evidence_bits, tables


def _space(table: Table) -> PredicateSpace:
    return PredicateSpace.build(table.schema, "auto", lambda a, b: overlap(table, a, b))


def _evidence(table: Table, space: PredicateSpace, t: int, s: int) -> int:
    """The evidence of one pair of rows, from the encoded table's keys."""
    outcomes = []
    for pair in space.pairs:
        left, right = table.columns[pair.left], table.columns[pair.right]
        a, b = common_keys(left, right)
        a_null = left.valid is not None and not left.valid[t]
        b_null = right.valid is not None and not right.valid[s]
        mine, theirs = (not a_null, int(a[t])), (not b_null, int(b[s]))
        outcomes.append(EQUAL if mine == theirs else LESS if mine < theirs else GREATER)
    return evidence_bits(space, outcomes)


@given(tables())
def test_space_and_evidences_are_those_of_the_definition(both: tuple[OracleTable, Table]) -> None:
    theirs, ours = both
    expected = oracle.automatic_space(theirs.columns, theirs.rows)
    space = _space(ours)
    assert [(p.left, p.right, p.ordered) for p in space.pairs] == [(p.left, p.right, p.ordered) for p in expected]
    for t, s in itertools.permutations(range(len(theirs.rows)), 2):
        point = oracle.evidence(theirs.rows[t], theirs.rows[s], expected)
        bits = _evidence(ours, space, t, s)
        found = [pair.outcomes(bits) for pair in space.pairs]
        names = {LESS: "<", EQUAL: "=", GREATER: ">", LESS | GREATER: "!="}
        assert tuple(names[outcome] for outcome in found) == point


@given(tables(max_columns=3), st.data())
def test_masks_decide_violation_implication_text_and_kind(both: tuple[OracleTable, Table], data: st.DataObject) -> None:
    theirs, ours = both
    expected = oracle.automatic_space(theirs.columns, theirs.rows)
    space = _space(ours)
    boxes = st.tuples(
        *(st.sets(st.sampled_from(sorted(pair.outcomes)), min_size=1).map(frozenset) for pair in expected)
    )
    box, other = data.draw(boxes), data.draw(boxes)
    text = oracle.text(box, expected, theirs.columns)
    constraint, another = (parse_denial(oracle.text(b, expected, theirs.columns)) for b in (box, other))
    mask = space.mask(constraint)

    assert space.constraint(mask) == constraint
    assert str(space.constraint(mask)) == text == str(constraint)
    assert constraint.implies(another) == oracle.implies(box, other) == (space.mask(another) & ~mask == 0)
    assert constraint.kind.value == oracle.kind(box, expected, theirs.columns)
    assert str(space.canonical(constraint)) == oracle.text(
        oracle.written(box, expected, theirs.columns), expected, theirs.columns
    )
    assert space.canonical(constraint.mirror) == space.canonical(constraint)
    assert constraint_fields(constraint, "r") == oracle.json_fields(box, expected, theirs.columns, "r")
    assert space.bits(space.words(mask)) == mask
    for t, s in itertools.permutations(range(len(theirs.rows)), 2):
        bits = _evidence(ours, space, t, s)
        assert evidence_bits(space, (pair.outcomes(bits) for pair in space.pairs)) == bits
        assert (bits & ~mask == 0) == oracle.violates(theirs.rows[t], theirs.rows[s], box, expected)


@given(tables())
def test_a_space_reads_back_from_json(both: tuple[OracleTable, Table]) -> None:
    space = _space(both[1])
    again = PredicateSpace.from_json(space.to_json())
    assert again == space
    assert again.fingerprint == space.fingerprint


NAMES = st.one_of(
    st.sampled_from(
        ["A", "and", "desc", "t", "null", "in", "a b", "a`b", "``", "", "1", "x.y", "é", "a(Integer)", "-"]
    ),
    st.text(max_size=8),
)
PREDICATES = st.builds(Predicate, NAMES, st.sampled_from(Operator), NAMES)


@given(st.lists(PREDICATES, max_size=5, unique_by=lambda p: p.column_pair))
def test_any_denial_constraint_reads_back(predicates: list[Predicate]) -> None:
    constraint = DenialConstraint(predicates)
    assert parse_denial(str(constraint)) == constraint
    assert str(parse_denial(str(constraint))) == str(constraint)
    assert parse_constraint(str(constraint)) == constraint
    if predicates:
        assert parse_rule_body(str(constraint)) == constraint


@given(st.lists(NAMES, min_size=1, max_size=5, unique=True), st.booleans(), st.booleans())
def test_any_order_dependency_reads_back(names: list[str], opposite: bool, constant: bool) -> None:
    if constant or len(names) == 1:
        dependency = OrderDependency(names[1:], names[:1])
    else:
        dependency = OrderDependency(names[2:], names[:2], opposite=opposite)
    assert parse_order(str(dependency)) == dependency == parse_constraint(str(dependency))
    schema = Schema("r", tuple(Column(name, FLOAT) for name in names))
    direction = None if dependency.is_constant else "opposite" if dependency.opposite else "same"
    theirs = order_oracle.OrderDependency(
        tuple(sorted(map(schema.index, dependency.context))),
        tuple(sorted(map(schema.index, dependency.target))),
        direction,
    )
    columns = [OracleColumn(name, "number") for name in names]
    canonical = dependency.canonical(schema)
    assert canonical == dependency
    assert constraint_fields(canonical, "r") == order_oracle.json_fields(theirs, columns, "r")
    own_space = oracle.own_space(columns)
    listed = [(names[a], op, names[b]) for a, op, b in order_oracle.as_denial(theirs)]
    denial = oracle.box_of(listed, own_space, columns)
    found = oracle.box_of(
        [(p.left, str(p.operator), p.right) for p in canonical.as_denial().predicates], own_space, columns
    )
    assert found in {denial, oracle.mirror(denial)}


def _joined(parts: list[str]) -> str:
    return "(" + (" and " if len(parts[0]) % 2 else " or ").join(parts) + ")"


ATOMS = st.sampled_from(
    [
        "t.A = 1",
        "t.A is null",
        "t.B != 'it''s'",
        "t.A <= t.B",
        "s.A > 2.5e3",
        "t.A = s.B",
        "t.C is not null",
        "-1 < t.A",
    ]
)
CONDITIONS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(inner.map("not ({})".format), st.lists(inner, min_size=2, max_size=3).map(_joined)),
    max_leaves=6,
)


@given(CONDITIONS)
def test_any_condition_reads_back_and_negates_twice(text: str) -> None:
    condition = parse_condition(text)
    assert parse_condition(str(condition)) == condition
    assert condition.rows <= {"t", "s"}
    if len(condition.alternatives) < 3:
        assert {frozenset(c) for c in condition.negated.negated.alternatives} >= {
            c
            for c in map(frozenset, condition.alternatives)
            if not any(d < c for d in map(frozenset, condition.alternatives))
        }


@given(st.text(alphabet="ts01.A`'()[]{}<>=!¬∧∨≠ andortue~:->,#^|&\n", max_size=40))
def test_no_text_gives_anything_but_a_value_or_a_syntax_error(text: str) -> None:
    for parse in (parse_constraint, parse_condition, parse_rule_body, parse_denial):
        try:
            parse(text)
        except ConstraintSyntaxError as error:
            assert 0 <= error.position <= len(text)
            assert "\n" in str(error)
