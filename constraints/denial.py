"""Denial constraints: boxes of outcomes that no pair of rows may fall into.

A denial constraint forbids every ordered pair of distinct rows `(t, s)` that satisfies all its predicates.
Predicates on one column pair are merged into one (`<=` and `!=` are `<`), so a constraint allows per column
pair a set of outcomes, and everything on the pairs it does not mention: a box. Then

- one constraint *implies* another when its box contains the other's: a pair in the smaller box is in the larger box;
- the *mirror image* exchanges the two rows: it forbids the same pairs, written the other way round.

Invariant: no two predicates on the same column pair; the box is not empty. Two constraints are equal when
their boxes are; the order of predicates is for people, and canonical when a `PredicateSpace` made it.
"""

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from holdfast.constraints.errors import UsageError
from holdfast.constraints.operators import Operator
from holdfast.constraints.predicates import Predicate
from holdfast.constraints.types import Family


class DenialKind(enum.Enum):
    """The common names of denial constraints."""

    KEY = "key"
    CONSTANT = "constant"
    FUNCTIONAL_DEPENDENCY = "functional_dependency"
    OTHER = "other"


@dataclass(frozen=True, eq=False)
class DenialConstraint:
    """`not(p and q and ...)`, for every ordered pair of distinct rows.

    Parameters
    ----------
    predicates : at most one per column pair after merging; none at all forbids every pair.

    Examples
    --------
    >>> same_state = Predicate("State", Operator.EQUAL, "State")
    >>> richer = Predicate("Salary", Operator.GREATER, "Salary")
    >>> taxed_less = Predicate("Rate", Operator.LESS, "Rate")
    >>> rule = DenialConstraint((same_state, richer, taxed_less))
    >>> str(rule)
    'not(t.State = s.State and t.Salary > s.Salary and t.Rate < s.Rate)'
    >>> str(rule.mirror)
    'not(t.State = s.State and t.Salary < s.Salary and t.Rate > s.Rate)'
    >>> DenialConstraint((richer, taxed_less)).implies(rule)
    True
    """

    predicates: tuple[Predicate, ...]
    family: ClassVar[Family] = Family.DENIAL

    def __init__(self, predicates: Iterable[Predicate]) -> None:
        object.__setattr__(self, "predicates", tuple(_merged(predicates)))

    @cached_property
    def outcomes(self) -> dict[tuple[str, str], int]:
        """The outcomes of its box by column pair; other column pairs are unconstrained."""
        return {p.column_pair: p.operator.outcomes for p in self.predicates}

    @property
    def mirror(self) -> "DenialConstraint":
        """The same constraint with the two rows exchanged."""
        return DenialConstraint(p.mirror for p in self.predicates)

    @property
    def crosses(self) -> bool:
        """Whether any predicate compares two different columns."""
        return any(p.crosses for p in self.predicates)

    @property
    def size(self) -> int:
        """The number of column pairs that it constrains."""
        return len(self.predicates)

    @property
    def columns(self) -> frozenset[str]:
        """The names of its columns."""
        return frozenset(name for p in self.predicates for name in p.column_pair)

    @property
    def kind(self) -> DenialKind:
        """Its kind."""
        if self.crosses or not self.predicates:
            return DenialKind.OTHER
        operators = [p.operator for p in self.predicates]
        equal, unequal = operators.count(Operator.EQUAL), operators.count(Operator.UNEQUAL)
        if equal == len(operators):
            return DenialKind.KEY
        if equal + unequal != len(operators) or unequal != 1:
            return DenialKind.OTHER
        return DenialKind.FUNCTIONAL_DEPENDENCY if equal else DenialKind.CONSTANT

    def implies(self, other: "DenialConstraint") -> bool:
        """Whether `other` holds on every table on which this constraint holds, by their boxes alone.

        O(size). Written orientations count: ask `self.mirror.implies(other)` too where both may stand.
        """
        theirs = other.outcomes
        return all(theirs.get(pair, 0b111) & ~mine == 0 for pair, mine in self.outcomes.items())

    def fields(self) -> dict[str, Any]:
        """Return the fields of the JSON line that are specific to the family, in order."""
        return {
            "kind": self.kind.value,
            "predicates": [{"left": p.left, "op": str(p.operator), "right": p.right} for p in self.predicates],
            "size": self.size,
        }

    def __eq__(self, other: object) -> bool:
        return self.outcomes == other.outcomes if isinstance(other, DenialConstraint) else NotImplemented

    def __hash__(self) -> int:
        return hash(frozenset(self.outcomes.items()))

    def __str__(self) -> str:
        return f"not({' and '.join(map(str, self.predicates))})"


def key(columns: Iterable[str]) -> DenialConstraint:
    """No two rows agree on all of `columns`.

    >>> str(key(["AreaCode", "Phone"]))
    'not(t.AreaCode = s.AreaCode and t.Phone = s.Phone)'
    """
    return DenialConstraint(Predicate(name, Operator.EQUAL, name) for name in columns)


def functional_dependency(determinants: Iterable[str], dependent: str) -> DenialConstraint:
    """Rows that agree on all of `determinants` agree on `dependent`.

    >>> str(functional_dependency(["Zip"], "City"))
    'not(t.Zip = s.Zip and t.City != s.City)'
    """
    agree = [Predicate(name, Operator.EQUAL, name) for name in determinants]
    return DenialConstraint([*agree, Predicate(dependent, Operator.UNEQUAL, dependent)])


def _merged(predicates: Iterable[Predicate]) -> list[Predicate]:
    """Return one predicate per column pair, in order of first appearance."""
    merged: dict[tuple[str, str], Predicate] = {}
    for predicate in predicates:
        pair = predicate.column_pair
        if pair in merged:
            both = merged[pair].operator.outcomes & predicate.operator.outcomes
            if not both:
                raise UsageError(
                    f"'{merged[pair]}' and '{predicate}' exclude each other: no pair of rows could ever violate this"
                )
            merged[pair] = Predicate(pair[0], Operator(both), pair[1])
        else:
            merged[pair] = predicate
    return list(merged.values())
