"""Which constraints need no line, since others of the list state them.

Invariant: a constraint that is left out holds wherever sound constraints of the list hold, or it has the form of a near
constraint, so that it is one, or follows from a smaller one.
"""

import sys
from collections.abc import Iterable, Mapping
from itertools import combinations, product

from holdfast.constraints import Constraint, DenialConstraint, NearConstraint, NearShape, OrderDependency
from holdfast.constraints.forms import simplest_form
from holdfast.constraints.operators import EQUAL, GREATER, LESS

_OUTCOMES = (LESS, EQUAL, GREATER)
_FAMILIES = {NearShape.KEY: "key", NearShape.CONSTANT: "fd", NearShape.ORDER: "od", NearShape.ORDER_DESC: "od"}


class NearForms:
    """The constraints that near constraints of some families can state.

    Parameters
    ----------
    bounds : by family, of `key`, `fd` and `od`, the most columns of a context; 0 for any number.

    Examples
    --------
    >>> from holdfast.constraints import parse_denial
    >>> forms = NearForms({"fd": 1, "od": 1})
    >>> said = ("t.a = s.a and t.b != s.b", "t.a = s.a and t.b < s.b and t.c > s.c", "t.a <= s.a and t.b > s.b")
    >>> [parse_denial(f"not({text})") in forms for text in said]
    [True, True, False]
    """

    def __init__(self, bounds: Mapping[str, int]) -> None:
        self._bounds = {family: most or sys.maxsize for family, most in bounds.items()}

    def __contains__(self, constraint: Constraint) -> bool:
        """Whether a near constraint can state a constraint."""
        near = simplest_form(constraint) if isinstance(constraint, DenialConstraint) else None
        return near is not None and len(near.context) <= self._bounds.get(_FAMILIES[near.shape], -1)


class Stated:
    """What some constraints that hold state together.

    Each of them forbids boxes of outcomes. A denial constraint follows from them if each combination of outcomes that
    it forbids is in one of these boxes.

    Parameters
    ----------
    constraints : keys, functional dependencies and order compatibilities that hold.

    Examples
    --------
    >>> from holdfast.constraints import parse_denial, parse_near
    >>> stated = Stated([parse_near("{}: miles ~ minutes"), parse_near("key(minutes)")])
    >>> said = ("t.miles < s.miles and t.minutes >= s.minutes", "t.miles <= s.miles and t.minutes > s.minutes")
    >>> [parse_denial(f"not({text})") in stated for text in said]
    [True, False]
    """

    def __init__(self, constraints: Iterable[NearConstraint]) -> None:
        self._boxes: dict[frozenset[str], list[dict[str, int]]] = {}
        for constraint in constraints:
            exact = constraint.exact
            denial = exact.as_denial() if isinstance(exact, OrderDependency) else exact
            for one in dict.fromkeys((denial, denial.mirror)):
                box = {left: outcomes for (left, _), outcomes in one.outcomes.items()}
                self._boxes.setdefault(frozenset(box), []).append(box)

    def __contains__(self, constraint: Constraint) -> bool:
        """Whether a constraint follows. O(3^size)."""
        if not isinstance(constraint, DenialConstraint) or constraint.crosses:
            return False
        names = [p.left for p in constraint.predicates]
        allowed = [[one for one in _OUTCOMES if one & p.operator.outcomes] for p in constraint.predicates]
        return all(self._forbids(dict(zip(names, outcomes, strict=True))) for outcomes in product(*allowed))

    def _forbids(self, outcomes: dict[str, int]) -> bool:
        """Whether one of the boxes has a combination of outcomes."""
        return any(
            all(box[name] & outcomes[name] for name in some)
            for size in range(1, len(outcomes) + 1)
            for some in combinations(outcomes, size)
            for box in self._boxes.get(frozenset(some), ())
        )


class Dependencies:
    """Functional dependencies of one table, and those that follow from them.

    Examples
    --------
    >>> from holdfast.constraints import parse_near
    >>> known = Dependencies()
    >>> texts = ("zip -> city", "city -> state", "zip -> state", "state, age -> tax", "zip, age -> tax", "zip -> tax")
    >>> [known.add(parse_near(text)) for text in texts]
    [True, True, False, True, False, True]
    """

    def __init__(self) -> None:
        self._known: list[tuple[frozenset[str], str]] = []

    def add(self, dependency: NearConstraint) -> bool:
        """Add a dependency; return False if it follows from those that were added. O(dependencies^2)."""
        context, target = frozenset(dependency.context), dependency.target[0]
        if target in self._determined(context):
            return False
        self._known.append((context, target))
        return True

    def _determined(self, columns: frozenset[str]) -> set[str]:
        """Return the columns that some columns determine."""
        found = set(columns)
        size = -1
        while size < len(found):
            size = len(found)
            found.update(target for context, target in self._known if context <= found)
        return found
