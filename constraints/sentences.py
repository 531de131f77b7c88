"""Constraints and rules as sentences, for tables, alerts and notebooks.

The sentence means exactly what the text means, nulls included; it is not parsed back. The two rows are called "a row"
and "another":

    columns that must be the same     Among rows with the same State, ...
    comparisons with the other row    ... no row with a higher Salary than another has a lower Rate.
    predicates that cross columns     ... no row has its Low above the High of another.
    tests of one row alone            ... no row whose Country is 'IT' has ...

Invariant: a name stands as it does in the text, in backquotes where it is no plain word or would read as one of the
sentence's own; so different constraints have different sentences, whatever their columns are called.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from holdfast.constraints.conditions import (
    Atom,
    Cell,
    Comparison,
    Condition,
    Literal,
    MemberTest,
    NullTest,
    PatternTest,
)
from holdfast.constraints.denial import DenialConstraint, DenialKind
from holdfast.constraints.identity import Constraint
from holdfast.constraints.inclusion import InclusionDependency
from holdfast.constraints.names import quoted
from holdfast.constraints.near import NearConstraint
from holdfast.constraints.nulls import NullsApart
from holdfast.constraints.operators import Operator
from holdfast.constraints.order import OrderDependency
from holdfast.constraints.predicates import Predicate

_COMPARED = {
    Operator.EQUAL: "the same {}",
    Operator.UNEQUAL: "a different {}",
    Operator.LESS: "a lower {}",
    Operator.LESS_EQUAL: "an equal or lower {}",
    Operator.GREATER: "a higher {}",
    Operator.GREATER_EQUAL: "an equal or higher {}",
}
_PLACED = {
    Operator.EQUAL: "equal to",
    Operator.UNEQUAL: "different from",
    Operator.LESS: "below",
    Operator.LESS_EQUAL: "not above",
    Operator.GREATER: "above",
    Operator.GREATER_EQUAL: "not below",
}
_IS = {
    Operator.EQUAL: "is",
    Operator.UNEQUAL: "is not",
    Operator.LESS: "is below",
    Operator.LESS_EQUAL: "is at most",
    Operator.GREATER: "is above",
    Operator.GREATER_EQUAL: "is at least",
}
_BESIDE = {Operator.EQUAL: "equals", Operator.UNEQUAL: "differs from"}  # another column of the same row
_OWN_WORDS = frozenset(
    "a above all among an and another any as at below beside but different differs equal equals every falls for "
    "from has have higher in is its least leaving lower match matches missing most neither never no nor not of one or "
    "out present rises row rows same table than that the there to two value where while whose with "
    "All Among Any Every No Rows The There".split()
)


def sentence(constraint: Constraint | Condition | NullsApart) -> str:
    """Return a constraint, or the body of a rule, as a sentence.

    >>> from holdfast.constraints.columns import ColumnRef
    >>> print(sentence(OrderDependency(("State",), ("Salary", "Rate"))))
    Among rows with the same State, Rate never falls as Salary rises.
    >>> print(sentence(InclusionDependency(ColumnRef("orders", "customer"), ColumnRef("customers", "id"))))
    Every value of orders.customer is a value of customers.id.
    >>> print(sentence(OrderDependency((), ("Age", "Birth"), opposite=True)))
    Birth never rises as Age rises.
    >>> from holdfast.constraints.near import NearShape
    >>> print(sentence(NearConstraint(NearShape.CONSTANT, ("Zip",), ("City",), 3, 55_000)))
    Rows with the same Zip have the same City, but for 3 of 55,000 rows.

    >>> from holdfast.constraints.parsing import parse_rule_body
    >>> for text in (
    ...     "not(t.AreaCode = s.AreaCode and t.Phone = s.Phone)",
    ...     "not(t.Zip = s.Zip and t.City != s.City)",
    ...     "not(t.State = s.State and t.Salary > s.Salary and t.Rate < s.Rate)",
    ...     "not(t.State != s.State)",
    ...     "not(t.Low > s.High)",
    ...     "not(t.Salary <= 0 or t.`Date paid` is null)",
    ...     "not(t.Country = 'IT' and t.Zip = s.Zip and t.City != s.City)",
    ...     "t.State in ('MA', 'NY') and t.Zip matches '[0-9]{5}'",
    ...     "Zip -> City nulls apart",
    ...     "not(t.Low > s.High) nulls apart",
    ... ):
    ...     print(sentence(parse_rule_body(text)))
    No two rows have the same AreaCode and Phone.
    Rows with the same Zip have the same City.
    Among rows with the same State, no row with a higher Salary than another has a lower Rate.
    All rows have the same State.
    No row has its Low above the High of another.
    There is no row where Salary is at most 0, or where `Date paid` is missing.
    Among rows with the same Zip, no row whose Country is 'IT' has a different City than another.
    There is no row where State is neither 'MA' nor 'NY', or where Zip does not match '[0-9]{5}'.
    Rows with the same Zip have the same City, leaving out rows where Zip or City is missing.
    No row has its Low above the High of another, leaving out comparisons with a missing value.
    """
    if isinstance(constraint, InclusionDependency):
        return f"Every value of {constraint.dependent} is a value of {constraint.referenced}."
    if isinstance(constraint, OrderDependency):
        return _order(constraint)
    if isinstance(constraint, DenialConstraint):
        return _denial(constraint)
    if isinstance(constraint, NearConstraint):
        return _near(constraint)
    if isinstance(constraint, Condition):
        return _condition(constraint)
    if isinstance(constraint, NullsApart):
        return _apart(constraint)
    raise TypeError(f"no sentence for {type(constraint).__name__}")


def _order(dependency: OrderDependency) -> str:
    context, target = dependency.context, [_name(column) for column in dependency.target]
    if dependency.is_constant:
        among = f"Rows with the same {_names(context)}" if context else "All rows"
        return f"{among} have the same {target[0]}."
    moves = f"{target[1]} never {'rises' if dependency.opposite else 'falls'} as {target[0]} rises."
    return _among(context, moves)


def _denial(constraint: DenialConstraint) -> str:
    names = [p.left for p in constraint.predicates]
    match constraint.kind:
        case DenialKind.KEY:
            return f"No two rows have the same {_names(names)}."
        case DenialKind.CONSTANT:
            return f"All rows have the same {_names(names)}."
        case DenialKind.FUNCTIONAL_DEPENDENCY:
            fixed = next(p.left for p in constraint.predicates if p.operator is Operator.UNEQUAL)
            return f"Rows with the same {_names([n for n in names if n != fixed])} have the same {_name(fixed)}."
    if not constraint.predicates:
        return "The table has at most one row."
    return _pairs(_Sides(constraint.predicates))


def _near(near: NearConstraint) -> str:
    exact = sentence(near.exact)
    rows = f"{near.rows:,} row{'' if near.rows == 1 else 's'}"
    return f"{exact[:-1]}, but for {near.exceptions:,} of {rows}." if near.exceptions else exact


def _condition(forbidden: Condition) -> str:
    if len(forbidden.rows) < 2:
        cases = (_joined([_asked(atom) for atom in alternative]) for alternative in forbidden.alternatives)
        return f"There is no row {', or '.join(f'where {case}' for case in cases)}."
    (alternative,) = forbidden.alternatives  # a rule on pairs has no `or`
    return _pairs(_Sides.of(alternative))


def _apart(constraint: NullsApart) -> str:
    left_out = "comparisons with a missing value"
    if constraint.compared("t") == constraint.compared("s"):
        names = " or ".join(_name(column) for column in constraint.compared("t"))
        left_out = f"rows where {names} is missing"
    return f"{sentence(constraint.body)[:-1]}, leaving out {left_out}."


@dataclass(frozen=True)
class _Sides:
    """A forbidden condition on two rows: their comparisons, and the tests of each row alone."""

    predicates: tuple[Predicate, ...]
    own: tuple[Atom, ...] = ()
    others: tuple[Atom, ...] = ()

    @classmethod
    def of(cls, atoms: Sequence[Atom]) -> "_Sides":
        found = [(atom, atom.predicate if isinstance(atom, Comparison) else None) for atom in atoms]
        alone = [atom for atom, predicate in found if predicate is None]
        return cls(
            tuple(predicate for _, predicate in found if predicate is not None),
            tuple(atom for atom in alone if atom.cells[0].row == "t"),
            tuple(atom for atom in alone if atom.cells[0].row == "s"),
        )


def _pairs(sides: _Sides) -> str:
    """Return the sentence that no two rows satisfy a condition."""
    same = [p.left for p in sides.predicates if p.operator is Operator.EQUAL and not p.crosses]
    compared = [p for p in sides.predicates if p.operator is not Operator.EQUAL and not p.crosses]
    crossing = [p for p in sides.predicates if p.crosses]
    alone = bool(sides.own or sides.others)
    if not crossing and not alone and len(compared) > 1 and all(p.operator is Operator.UNEQUAL for p in compared):
        either = " or ".join(f"the same {_name(p.left)}" for p in compared)
        return _among(same, f"any two {'' if same else 'rows '}have {either}.")
    row, another = f"no row{_whose(sides.own)}", f"another{_whose(sides.others)}"
    if not compared and not crossing:
        has = f"has the same {_names(same)} as" if same else "is there beside"
        return _capital(f"{row} {has} {another}.")
    words = [_COMPARED[p.operator].format(_name(p.left)) for p in compared]
    if not crossing:
        if len(words) > 1 and not alone:
            return _among(same, f"{row} with {_joined(words[:-1])} than {another} has {words[-1]}.")
        return _among(same, f"{row} has {_joined(words)} than {another}.")
    first = crossing[0]
    has = (
        f"{_joined(words)} than"
        if words
        else f"its {_name(first.left)} {_PLACED[first.operator]} the {_name(first.right)} of"
    )
    rest = [
        f"its {_name(p.left)} is {_PLACED[p.operator]} that row's {_name(p.right)}"
        for p in crossing[0 if words else 1 :]
    ]
    return _among(same, f"{row} has {has} {another}{' while ' if rest else ''}{_joined(rest)}.")


def _whose(atoms: Sequence[Atom]) -> str:
    return f" whose {_joined([_asked(atom) for atom in atoms])}" if atoms else ""


def _asked(atom: Atom) -> str:
    """Return the words for an atom on a single row."""
    if isinstance(atom, NullTest):
        return f"{_name(atom.cell.column)} is {'missing' if atom.is_null else 'present'}"
    if isinstance(atom, MemberTest):
        return f"{_name(atom.cell.column)} is {_one_of([str(literal) for literal in atom.literals], atom.is_member)}"
    if isinstance(atom, PatternTest):
        pattern = str(Literal(atom.pattern, is_text=True))
        return f"{_name(atom.cell.column)} {'matches' if atom.is_match else 'does not match'} {pattern}"
    left = _name(atom.left.column)
    if isinstance(atom.right, Cell):
        return f"{left} {_BESIDE.get(atom.operator, _IS[atom.operator])} {_name(atom.right.column)}"
    return f"{left} {_IS[atom.operator]} {atom.right}"


def _one_of(values: Sequence[str], is_member: bool) -> str:
    """Return the words for one of some values, or for none of them."""
    if len(values) == 1:
        return values[0] if is_member else f"not {values[0]}"
    listed = f"{', '.join(values[:-1])} {'or' if is_member else 'nor'} {values[-1]}"
    return listed if is_member else f"neither {listed}"


def _among(same: Sequence[str], said: str) -> str:
    return f"Among rows with the same {_names(same)}, {said}" if same else _capital(said)


def _capital(said: str) -> str:
    """Return a sentence with a capital letter, unless it begins with a name."""
    return said[0].upper() + said[1:] if said.startswith(("no row", "any two")) else said


def _names(columns: Iterable[str]) -> str:
    return _joined([_name(column) for column in columns])


def _name(column: str) -> str:
    return f"`{column}`" if column in _OWN_WORDS else quoted(column)


def _joined(parts: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))
