"""A declared rule as conditions on rows, columns by position: the input of counting, listing and monitoring.

    PairForm    outcomes allowed between t and s per column pair, and tests of t alone and of s alone
    RowForm     alternatives of tests of one row
    ValueForm   the column whose values another column has to have

Invariant: a form fits the schema: its columns exist, are comparable where they are compared and ordered where an order
is needed, and its literals are values of their columns' types.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from holdfast.constraints import (
    Column,
    Condition,
    DenialConstraint,
    Family,
    InclusionDependency,
    NullsApart,
    OrderDependency,
    Predicate,
    PredicateSpace,
    Rule,
    Schema,
    UsageError,
)
from holdfast.constraints.columns import unknown_name
from holdfast.constraints.conditions import Atom, Cell, Comparison, MemberTest, NullTest, PatternTest
from holdfast.constraints.operators import EQUAL, EVERY_OUTCOME, GREATER, LESS
from holdfast.constraints.rules import Body
from holdfast.discovery.detection.conditions import check_literal, check_pattern


@dataclass(frozen=True)
class Compared:
    """The outcomes (bits) that a violation has between column `left` of t and column `right` of s."""

    left: int
    right: int
    allowed: int

    @property
    def mirror(self) -> "Compared":
        """The comparison with t and s exchanged."""
        turned = self.allowed & EQUAL | (self.allowed & LESS) << 2 | (self.allowed & GREATER) >> 2
        return Compared(self.right, self.left, turned)

    @property
    def needs_order(self) -> bool:
        """Whether less and greater are distinguished."""
        return self.allowed not in {EQUAL, LESS | GREATER, EVERY_OUTCOME, 0}


@dataclass(frozen=True)
class GroupColumns:
    """The columns of a key, or the left columns and the dependent of a functional dependency.

    Parameters
    ----------
    columns : the columns that are equal within a group.
    dependent : the column that must be equal too; None for a key.
    present : columns without a null; rows with a null there are in no group.
    """

    columns: tuple[int, ...]
    dependent: int | None
    present: tuple[int, ...] = ()


@dataclass(frozen=True)
class PairForm:
    """The conditions under which two rows (t, s) break a rule, all at once.

    Parameters
    ----------
    compared : a comparison for each column pair of the rule, in the order of the columns.
    t_tests, s_tests : tests of t alone, and of s alone.
    present : columns that the tests require not to be null, in t as in s.
    """

    compared: tuple[Compared, ...]
    t_tests: tuple[Atom, ...] = ()
    s_tests: tuple[Atom, ...] = ()
    present: tuple[int, ...] = ()

    @property
    def is_symmetric(self) -> bool:
        """Whether (s, t) breaks the rule whenever (t, s) does, by its form alone."""
        return self.t_tests == self.s_tests == () and {c.mirror for c in self.compared} == set(self.compared)

    @property
    def equalities(self) -> tuple[tuple[int, int], ...]:
        """The column pairs that have to be equal."""
        return tuple((c.left, c.right) for c in self.compared if c.allowed == EQUAL)

    @property
    def differences(self) -> tuple[Compared, ...]:
        """The column pairs that have to differ."""
        return tuple(c for c in self.compared if c.allowed == LESS | GREATER)

    @property
    def inequalities(self) -> tuple[Compared, ...]:
        """The column pairs that have to be in an order."""
        return tuple(c for c in self.compared if c.needs_order)

    @property
    def groups(self) -> GroupColumns | None:
        """The columns if the rule is a key or a functional dependency, else None."""
        own = all(compared.left == compared.right for compared in self.compared)
        tests = {len(self.t_tests), len(self.s_tests), len(self.present)}
        if not own or self.inequalities or len(tests) > 1 or len(self.differences) > 1:
            return None
        columns = tuple(column for column, _ in self.equalities)
        return GroupColumns(columns, next((c.left for c in self.differences), None), self.present)

    @property
    def is_possible(self) -> bool:
        """Whether each comparison has an outcome."""
        return all(compared.allowed for compared in self.compared)


@dataclass(frozen=True)
class RowForm:
    """The alternatives under which a row breaks a rule: all tests of one alternative pass."""

    alternatives: tuple[tuple[Atom, ...], ...]


@dataclass(frozen=True)
class ValueForm:
    """An inclusion of values."""

    dependency: InclusionDependency


Form = PairForm | RowForm | ValueForm


def form_of(rule: Rule, schemas: Mapping[str, Schema]) -> Form:
    """Return the form of a rule on tables, or raise an error that says why it does not fit."""
    try:
        if isinstance(rule.body, InclusionDependency):
            return _value_form(rule.body, schemas)
        if rule.table not in schemas:
            raise UsageError(unknown_name("there is no table", rule.table, schemas))
        schema = schemas[rule.table]
        schema.require(sorted(rule.columns, key=lambda name: name in schema))
        return _form_of_body(rule.body, schema)
    except UsageError as error:
        raise type(error)(f"rule {rule.name}: {error}") from error


def space_with(space: PredicateSpace, forms: Sequence[PairForm]) -> PredicateSpace:
    """Return a space extended by the column pairs and the orders that rules compare."""
    compared = [c for form in forms for c in form.compared]
    crossing = {(min(c.left, c.right), max(c.left, c.right)) for c in compared if c.left != c.right}
    ordered = {place for c in compared if c.needs_order for place in (c.left, c.right)}
    columns = tuple(
        Column(c.name, c.type, True, c.assumed) if place in ordered and not c.ordered_in(space.family) else c
        for place, c in enumerate(space.schema.columns)
    )
    schema = space.schema if columns == space.schema.columns else Schema(space.schema.table, columns)
    return PredicateSpace(schema, tuple(sorted({*space.crossing, *crossing})), space.family)


def _value_form(dependency: InclusionDependency, schemas: Mapping[str, Schema]) -> ValueForm:
    for side in (dependency.dependent, dependency.referenced):
        if side.table not in schemas:
            raise UsageError(unknown_name("there is no table", side.table, schemas))
        schemas[side.table].require([side.column])
    return ValueForm(dependency)


def _form_of_body(body: Body, schema: Schema) -> PairForm | RowForm:
    if isinstance(body, NullsApart):
        form = _form_of_body(body.body, schema)
        assert isinstance(form, PairForm)
        names = body.compared("t")
        present = tuple(map(schema.index, names)) if names == body.compared("s") else ()
        others = tuple(NullTest(Cell("t", name), False) for name in body.compared("s"))  # equal tests are shared
        return PairForm(form.compared, _added(form.t_tests, body.tests("t")), _added(form.s_tests, others), present)
    if isinstance(body, OrderDependency):
        return _pair_form(body.as_denial(), schema, Family.ORDER)
    if isinstance(body, DenialConstraint):
        return _pair_form(body, schema, Family.DENIAL)
    assert isinstance(body, Condition)
    return _form_of_condition(body, schema)


def _added(tests: tuple[Atom, ...], more: tuple[Atom, ...]) -> tuple[Atom, ...]:
    return tuple(dict.fromkeys((*tests, *more)))


def _pair_form(constraint: DenialConstraint, schema: Schema, family: Family) -> PairForm:
    return PairForm(_compared(constraint.predicates, schema, family))


def _form_of_condition(condition: Condition, schema: Schema) -> PairForm | RowForm:
    for atom in condition.atoms:
        _check_atom(atom, schema)
    if condition.rows != {"t", "s"}:
        return RowForm(condition.alternatives)
    (conjunction,) = condition.alternatives
    predicates, tests = [], {"t": list[Atom](), "s": list[Atom]()}
    for atom in conjunction:
        predicate = atom.predicate if isinstance(atom, Comparison) else None
        if predicate is None:
            tests[atom.cells[0].row].append(atom)
        else:
            predicates.append(predicate)
    return PairForm(_compared(predicates, schema, Family.DENIAL), tuple(tests["t"]), tuple(tests["s"]))


def _compared(predicates: Sequence[Predicate], schema: Schema, family: Family) -> tuple[Compared, ...]:
    """Return a comparison for each column pair, without outcomes where predicates exclude each other."""
    allowed: dict[tuple[int, int], int] = {}
    for predicate in predicates:
        _check_comparison(predicate.left, predicate.right, predicate, schema, family)
        pair = schema.index(predicate.left), schema.index(predicate.right)
        allowed[pair] = allowed.get(pair, EVERY_OUTCOME) & predicate.operator.outcomes
    return tuple(Compared(left, right, outcomes) for (left, right), outcomes in sorted(allowed.items()))


def _check_atom(atom: Atom, schema: Schema) -> None:
    if isinstance(atom, MemberTest):
        for comparison in atom.comparisons:
            check_literal(comparison, schema[atom.cell.column])
    elif isinstance(atom, PatternTest):
        check_pattern(atom, schema[atom.cell.column])
    elif isinstance(atom, Comparison):
        _check_compared(atom, schema)


def _check_compared(atom: Comparison, schema: Schema) -> None:
    if isinstance(atom.right, Cell):
        if atom.predicate is None:
            _check_comparison(atom.left.column, atom.right.column, atom, schema, Family.DENIAL)
        return
    column = schema[atom.left.column]
    check_literal(atom, column)
    if atom.operator.needs_order and not column.ordered_in(Family.DENIAL):
        raise UsageError(f"'{atom}': the values of {column.name} have no order; use = or !=, or declare it ordered")


def _check_comparison(left: str, right: str, shown: object, schema: Schema, family: Family) -> None:
    a, b = schema[left], schema[right]
    if a.type.group is not b.type.group:
        raise UsageError(f"'{shown}': {a} and {b} cannot be compared: only columns of one type group can")
    needs_order = getattr(shown, "operator").needs_order  # noqa: B009  (of a predicate or of a comparison)
    if needs_order and not (a.ordered_in(family) and b.ordered_in(family)):
        raise UsageError(f"'{shown}': these values have no order in {family.words}; use = or !=")
