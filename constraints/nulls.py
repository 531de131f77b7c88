"""How a declared rule treats nulls, and the parts of a rule.

    equal    two nulls are equal, and below every value: what a rule about two rows has by default
    apart    a null satisfies no comparison: what conditions on one row and inclusions have by default
    break    as `apart`, and a row that has a null in a compared column breaks the rule

A declaration has one part, or several: `fd: zip -> city, state` has two dependencies, and `nulls: break` on a rule
about two rows adds the condition that no compared column is null. Each part is a rule with counts of its own.

Invariant: what `nulls` means is in the bodies of the parts; nothing else remembers it.
"""

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from holdfast.constraints.conditions import Cell, Comparison, Condition, MemberTest, NullTest, PatternTest
from holdfast.constraints.denial import DenialConstraint
from holdfast.constraints.errors import UsageError
from holdfast.constraints.inclusion import InclusionDependency
from holdfast.constraints.order import OrderDependency
from holdfast.constraints.predicates import Predicate

Paired = DenialConstraint | OrderDependency | Condition
"""A constraint of pairs of rows, or a condition that no pair of rows may satisfy."""


class Nulls(enum.Enum):
    """How a rule treats nulls."""

    EQUAL = "equal"
    APART = "apart"
    BREAK = "break"


@dataclass(frozen=True, slots=True)
class NullsApart:
    """A rule about pairs of rows, in which a null satisfies no comparison.

    Examples
    --------
    >>> from holdfast.constraints.denial import key
    >>> print(NullsApart(key(["tailnum"])))
    not(t.tailnum = s.tailnum) nulls apart
    """

    body: Paired

    @property
    def columns(self) -> frozenset[str]:
        """The names of its columns."""
        return self.body.columns

    @property
    def predicates(self) -> tuple[Predicate, ...]:
        """The comparisons between the two rows."""
        if isinstance(self.body, Condition):
            found = [atom.predicate for atom in self.body.atoms if isinstance(atom, Comparison)]
            return tuple(predicate for predicate in found if predicate is not None)
        constraint = self.body.as_denial() if isinstance(self.body, OrderDependency) else self.body
        return constraint.predicates

    def compared(self, row: str) -> tuple[str, ...]:
        """Return the columns of row `t` or `s` that are compared with the other row."""
        return tuple(dict.fromkeys(p.left if row == "t" else p.right for p in self.predicates))

    def tests(self, row: str) -> tuple[NullTest, ...]:
        """Return the tests that the compared columns of row `t` or `s` are not null."""
        return tuple(NullTest(Cell("t" if row == "t" else "s", name), False) for name in self.compared(row))

    def __str__(self) -> str:
        return f"{body_text(self.body)} nulls apart"


Body = DenialConstraint | OrderDependency | InclusionDependency | Condition | NullsApart
"""A `Condition` must not occur; constraints of the other types must hold."""


@dataclass(frozen=True, slots=True)
class RulePart:
    """A part of a declaration, which is a rule.

    Parameters
    ----------
    body : what must hold, or the condition that must not occur.
    ending : the part's own word behind the name of the declaration; empty for a declaration of one part.
    """

    body: Body
    ending: str = ""

    def named(self, name: str) -> str:
        """Return the name of the rule, for the name of the declaration.

        >>> from holdfast.constraints.denial import key
        >>> RulePart(key(["zip"]), "nulls").named("places"), RulePart(key(["zip"])).named("places")
        ('places.nulls', 'places')
        """
        return f"{name}.{self.ending}" if self.ending else name


def with_nulls(parts: Sequence[RulePart], nulls: Nulls | None) -> tuple[RulePart, ...]:
    """Return the parts of a declaration with `nulls`; raise `UsageError` where its form does not take them.

    >>> from holdfast.constraints.denial import key
    >>> for part in with_nulls([RulePart(key(["zip"]))], Nulls.BREAK):
    ...     print(part.named("places"), part.body, sep=": ")
    places: not(t.zip = s.zip) nulls apart
    places.nulls: t.zip is null
    """
    if nulls is None:
        return tuple(parts)
    columns = dict.fromkeys(name for part in parts for name in _compared(part.body))
    if not columns:
        raise UsageError("'nulls' has no meaning here, as the rule compares no values: remove it")
    found = [RulePart(_with(part.body, nulls, columns), part.ending) for part in parts]
    if nulls is Nulls.BREAK and not isinstance(found[0].body, Condition):
        found.append(RulePart(_missing(columns), "nulls"))
    return tuple(found)


def body_text(body: Body) -> str:
    """Return the text of a body; a condition as `not(...)`, or as what is required where `not(...)` would negate twice.

    >>> from holdfast.constraints.conditions import Literal
    >>> print(body_text(Condition.of(MemberTest(Cell("t", "State"), (Literal("MA", True),), is_member=False))))
    t.State in ('MA')
    >>> print(body_text(Condition.of(NullTest(Cell("t", "State"), True))))
    not(t.State is null)
    """
    if not isinstance(body, Condition):
        return str(body)
    is_negative = any(
        (isinstance(atom, MemberTest) and not atom.is_member) or (isinstance(atom, PatternTest) and not atom.is_match)
        for atom in body.atoms
    )
    is_plain = not is_pairwise(body) and all(len(conjunction) == 1 for conjunction in body.alternatives)
    return str(body.negated) if is_negative and is_plain else f"not({body})"


def is_pairwise(body: Body) -> bool:
    """Whether violations are pairs of rows."""
    if isinstance(body, Condition):
        return body.rows == {"t", "s"}
    return not isinstance(body, InclusionDependency)


def _with(body: Body, nulls: Nulls, columns: Iterable[str]) -> Body:
    if is_pairwise(body):
        assert not isinstance(body, InclusionDependency | NullsApart)
        return body if nulls is Nulls.EQUAL else NullsApart(body)
    if nulls is Nulls.EQUAL:
        raise UsageError(
            "'nulls: equal' is for rules that compare two rows with each other: write apart, which this rule has by "
            "default, or break"
        )
    return body | _missing(columns) if isinstance(body, Condition) and nulls is Nulls.BREAK else body


def _missing(columns: Iterable[str]) -> Condition:
    """Return the condition that one of some columns is null."""
    return Condition(tuple((NullTest(Cell("t", name), True),) for name in columns))


def _compared(body: Body) -> list[str]:
    """Return the columns that a rule compares, in their order; of an inclusion, the dependent column."""
    if isinstance(body, InclusionDependency):
        return [body.dependent.column]
    if not is_pairwise(body):
        assert isinstance(body, Condition)
        asked = [atom for atom in body.atoms if isinstance(atom, Comparison | MemberTest | PatternTest)]
        return [cell.column for atom in asked for cell in atom.cells]
    assert not isinstance(body, NullsApart)
    apart = NullsApart(body)
    return [*apart.compared("t"), *apart.compared("s")]
