"""Constraints in plain words, for people who read tables and alerts.

The sentence says the same as the text; it is not parsed back.
"""

from collections.abc import Sequence

from holdfast.constraints.denial import DenialConstraint, DenialKind
from holdfast.constraints.identity import Constraint
from holdfast.constraints.inclusion import InclusionDependency
from holdfast.constraints.operators import Operator
from holdfast.constraints.order import OrderDependency
from holdfast.constraints.predicates import Predicate

_WORDS = {
    Operator.EQUAL: "the same {} as",
    Operator.UNEQUAL: "another {} than",
    Operator.LESS: "a lower {} than",
    Operator.LESS_EQUAL: "a {} not above that of",
    Operator.GREATER: "a higher {} than",
    Operator.GREATER_EQUAL: "a {} not below that of",
}
_CROSSING = {
    Operator.EQUAL: "equal to",
    Operator.UNEQUAL: "different from",
    Operator.LESS: "below",
    Operator.LESS_EQUAL: "not above",
    Operator.GREATER: "above",
    Operator.GREATER_EQUAL: "not below",
}


def sentence(constraint: Constraint) -> str:
    """Return a constraint as a sentence.

    >>> from holdfast.constraints.columns import ColumnRef
    >>> print(sentence(OrderDependency(("State",), ("Salary", "Rate"))))
    Among rows with the same State, Rate never falls as Salary rises.
    >>> print(sentence(InclusionDependency(ColumnRef("orders", "customer"), ColumnRef("customers", "id"))))
    Every value of orders.customer is a value of customers.id.
    >>> print(sentence(OrderDependency((), ("Age", "Birth"), opposite=True)))
    Birth never rises as Age rises.

    >>> from holdfast.constraints.parsing import parse_denial
    >>> for text in (
    ...     "not(t.AreaCode = s.AreaCode and t.Phone = s.Phone)",
    ...     "not(t.Zip = s.Zip and t.City != s.City)",
    ...     "not(t.State = s.State and t.Salary > s.Salary and t.Rate < s.Rate)",
    ...     "not(t.State != s.State)",
    ...     "not(t.Low > s.High)",
    ... ):
    ...     print(sentence(parse_denial(text)))
    No two rows have the same AreaCode and Phone.
    Rows with the same Zip have the same City.
    No row has the same State as, a higher Salary than and a lower Rate than another row.
    All rows have the same State.
    No row has a Low above the High of another row.
    """
    if isinstance(constraint, InclusionDependency):
        return f"Every value of {constraint.dependent} is a value of {constraint.referenced}."
    if isinstance(constraint, OrderDependency):
        return _order(constraint)
    if not isinstance(constraint, DenialConstraint):
        raise TypeError(f"no sentence for {type(constraint).__name__}")
    names = [p.left for p in constraint.predicates]
    match constraint.kind:
        case DenialKind.KEY:
            return f"No two rows have the same {_listed(names)}."
        case DenialKind.CONSTANT:
            return f"All rows have the same {names[0]}."
        case DenialKind.FUNCTIONAL_DEPENDENCY:
            fixed = next(p.left for p in constraint.predicates if p.operator is Operator.UNEQUAL)
            return f"Rows with the same {_listed([n for n in names if n != fixed])} have the same {fixed}."
    if not constraint.predicates:
        return "There are no two rows."
    own = [_WORDS[p.operator].format(p.left) for p in constraint.predicates if not p.crosses]
    crossing = [_crossing(p) for p in constraint.predicates if p.crosses]
    if not own:
        return f"No row has {_listed(crossing)} of another row."
    within = f", with {_listed(crossing)} of that row" if crossing else ""
    return f"No row has {_listed(own)} another row{within}."


def _order(dependency: OrderDependency) -> str:
    context, target = dependency.context, dependency.target
    if dependency.is_constant:
        among = f"Rows with the same {_listed(context)}" if context else "All rows"
        return f"{among} have the same {target[0]}."
    among = f"Among rows with the same {_listed(context)}, " if context else ""
    return f"{among}{target[1]} never {'rises' if dependency.opposite else 'falls'} as {target[0]} rises."


def _crossing(predicate: Predicate) -> str:
    return f"a {predicate.left} {_CROSSING[predicate.operator]} the {predicate.right}"


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
