"""Constraints that nearly hold: keys, constants and order compatibilities, with their numbers of exceptions.

The *exceptions* of a constraint are the least number of rows, copies counted, without which it holds. The shapes are
those for which that number can be counted exactly and fast:

    key          key(X)              rows - groups of X
    constant     {X}: [] -> A        per group of X: size - largest class of A
    order        {X}: A ~ B          per group of X: size - longest subsequence in which B does not fall, by (A, B)
    order_desc   {X}: A ~ B desc     the same with the order of B reversed

A functional dependency is a constant in a context. Invariant: columns are distinct; the text is that of the constraint
that nearly holds, which `parse_near` reads back, so that identities do not change with the exceptions.
"""

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from holdfast.constraints.columns import Schema
from holdfast.constraints.denial import DenialConstraint, DenialKind, key
from holdfast.constraints.errors import UsageError
from holdfast.constraints.names import quoted
from holdfast.constraints.operators import Operator
from holdfast.constraints.order import InContext, OrderDependency
from holdfast.constraints.parsing import parse_rule_body
from holdfast.constraints.rules import Threshold
from holdfast.constraints.types import Family

LARGEST_SHARE = Fraction(1, 2)
JUMP = 2
"""How many times as many exceptions a jump leaves, at least."""
JUMP_ROWS = 10
"""How many more exceptions a jump leaves, at least, unless there were none before."""
DEFAULT_CONTEXT = 3
"""The most columns of a context where no number is given."""


class NearShape(enum.Enum):
    """The shapes of near constraints."""

    KEY = "key"
    CONSTANT = "constant"
    ORDER = "order"
    ORDER_DESC = "order_desc"

    @property
    def targets(self) -> int:
        """The number of targets of the shape."""
        return _TARGETS[self]


_TARGETS = {NearShape.KEY: 0, NearShape.CONSTANT: 1, NearShape.ORDER: 2, NearShape.ORDER_DESC: 2}


@dataclass(frozen=True, eq=False)
class NearConstraint(InContext):
    """A constraint that holds except for some rows.

    Parameters
    ----------
    shape : the shape.
    context : columns on which rows agree; for a key its own columns.
    target : no column (key), one (constant) or two.
    exceptions : the least number of rows without which it holds.
    rows : the number of rows of the table.

    Examples
    --------
    >>> near = NearConstraint(NearShape.CONSTANT, ("Zip",), ("City",), 3, 55_000)
    >>> str(near), str(near.exact.as_denial()), near.share
    ('{Zip}: [] -> City', 'not(t.Zip = s.Zip and t.City != s.City)', Fraction(3, 55000))
    >>> str(NearConstraint(NearShape.KEY, ("Zip", "City"), (), 0, 3))
    'key(Zip, City)'
    """

    shape: NearShape
    context: tuple[str, ...]
    target: tuple[str, ...]
    exceptions: int = 0
    rows: int = 0
    family: ClassVar[Family] = Family.NEAR

    def __init__(
        self, shape: NearShape, context: Iterable[str], target: Iterable[str], exceptions: int = 0, rows: int = 0
    ) -> None:
        super().__init__(context, target)
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "exceptions", exceptions)
        object.__setattr__(self, "rows", rows)
        if len(self.target) != shape.targets:
            raise UsageError(f"a near constraint of shape {shape.value} has {shape.targets} targets: {self.target}")
        if shape is NearShape.KEY and not self.context:
            raise UsageError("a key has at least one column")
        self._refuse_twice("near constraint")
        if not 0 <= exceptions <= rows:
            raise UsageError(f"near constraint {self}: {exceptions} exceptions of {rows} rows")

    @property
    def share(self) -> Fraction:
        """The share of rows that are exceptions; 0 for a table without rows."""
        return Fraction(self.exceptions, self.rows) if self.rows else Fraction(0)

    @property
    def exact(self) -> DenialConstraint | OrderDependency:
        """The constraint that holds without the exceptions."""
        if self.shape is NearShape.KEY:
            return key(self.context)
        return OrderDependency(self.context, self.target, opposite=self.shape is NearShape.ORDER_DESC)

    def counted(self, exceptions: int, rows: int) -> "NearConstraint":
        """Return the constraint with other numbers of exceptions and rows."""
        return NearConstraint(self.shape, self.context, self.target, exceptions, rows)

    def canonical(self, schema: Schema) -> "NearConstraint":
        """Return the constraint with context and targets in the table's column order."""
        context, target = (sorted(names, key=schema.index) for names in (self.context, self.target))
        return NearConstraint(self.shape, context, target, self.exceptions, self.rows)

    def fields(self) -> dict[str, Any]:
        """Return the fields of the JSON line that are specific to the family, in order."""
        return {
            "shape": self.shape.value,
            "context": list(self.context),
            "target": list(self.target),
            "exceptions": self.exceptions,
            "rows": self.rows,
            "share": round(float(self.share), 9),
            "size": self.size,
        }

    def _identity(self) -> tuple[object, ...]:
        return *super()._identity(), self.shape, self.exceptions, self.rows

    def __str__(self) -> str:
        if self.shape is NearShape.KEY:
            return f"key({', '.join(map(quoted, self.context))})"
        return str(self.exact)


def parse_near(text: str) -> NearConstraint:
    """Read a constraint of a shape that may nearly hold, without a number of exceptions.

    >>> str(parse_near("Zip -> City")), str(parse_near("not(t.a = s.a)")), str(parse_near("{X}: A ~ B desc"))
    ('{Zip}: [] -> City', 'key(a)', '{X}: A ~ B desc')
    """
    body = parse_rule_body(text)
    found = near_form(body)
    if found is None:
        raise UsageError(
            f"'{body}': exceptions are counted of keys, functional dependencies and order dependencies only: expected "
            "key(A, B), A -> B, {A}: [] -> B, {A}: B ~ C or {A}: B ~ C desc"
        )
    return found


def near_form(body: object) -> NearConstraint | None:
    """Return a constraint as a near constraint; None where exceptions of its kind are not counted."""
    if isinstance(body, OrderDependency):
        if body.is_constant:
            return NearConstraint(NearShape.CONSTANT, body.context, body.target)
        shape = NearShape.ORDER_DESC if body.opposite else NearShape.ORDER
        return NearConstraint(shape, body.context, body.target)
    if isinstance(body, DenialConstraint) and body.kind is not DenialKind.OTHER:
        equal = [p.left for p in body.predicates if p.operator is Operator.EQUAL]
        unequal = [p.left for p in body.predicates if p.operator is Operator.UNEQUAL]
        return NearConstraint(NearShape.CONSTANT if unequal else NearShape.KEY, equal, unequal)
    return None


def order_form(body: object) -> NearConstraint | None:
    """Return a denial constraint that states an order compatibility as a near constraint; None for others.

    >>> from holdfast.constraints.parsing import parse_denial
    >>> str(order_form(parse_denial("not(t.A = s.A and t.B < s.B and t.C > s.C)")))
    '{A}: B ~ C'
    """
    if not isinstance(body, DenialConstraint) or body.crosses:
        return None
    equal = [p.left for p in body.predicates if p.operator is Operator.EQUAL]
    others = [p for p in body.predicates if p.operator is not Operator.EQUAL]
    operators = [p.operator for p in others]
    if len(others) != 2 or not {*operators} <= {Operator.LESS, Operator.GREATER}:
        return None
    shape = NearShape.ORDER_DESC if operators[0] is operators[1] else NearShape.ORDER
    return NearConstraint(shape, equal, [p.left for p in others])


def has_jumped(fewer: Any, more: Any) -> Any:
    """Whether a change between two numbers of exceptions, or arrays of these, is a jump.

    A jump begins or ends with no exceptions, or leaves at least twice as many exceptions, and at least ten more.

    >>> has_jumped(0, 1), has_jumped(4, 33), has_jumped(4, 13), has_jumped(40, 79), has_jumped(1, 0)
    (True, True, False, False, False)
    """
    return (fewer < more) & ((fewer == 0) | ((more >= JUMP * fewer) & (more - fewer >= JUMP_ROWS)))


def parse_share(given: int | float | str | Fraction) -> Fraction:
    """Read the share of rows that may be exceptions: `"1%"`, or a number such as 0.01.

    A float means its shortest decimal number: 0.01 is one hundredth.

    >>> parse_share("0.1%"), parse_share(0.01)
    (Fraction(1, 1000), Fraction(1, 100))
    """
    expected = "expected a share of the rows from 0% to 50%, such as 1% or 0.1%"
    if isinstance(given, str):
        try:
            share = Threshold.parse(given).share
        except UsageError:
            share = None
        if share is None:
            raise UsageError(f"share '{given}': {expected}")
    else:
        try:
            share = Fraction(repr(given) if isinstance(given, float) else given)
        except (ValueError, TypeError):
            raise UsageError(f"share {given!r}: {expected}, or a number such as 0.01") from None
    if not 0 <= share <= LARGEST_SHARE:
        raise UsageError(f"share {given}: {expected}")
    return share
