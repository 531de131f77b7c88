"""Order dependencies in set-based canonical form [HyOD, 2], in both directions.

- constant, `{X}: [] -> A`: rows that agree on X agree on A. Violated by a *split*.
- order compatible, `{X}: A ~ B`: among rows that agree on X, A and B never order two rows in opposite ways.
  Violated by a *swap*. `{X}: A ~ B desc` is the same with B's order reversed.

Each is a denial constraint (`as_denial`), so one violation search serves both families.
Invariant: targets are distinct and not in the context. `A ~ B` and `B ~ A` are one value; context and pair
are written in column order where `canonical` made them.
"""

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from holdfast.constraints.columns import Schema
from holdfast.constraints.denial import DenialConstraint
from holdfast.constraints.errors import UsageError
from holdfast.constraints.names import quoted
from holdfast.constraints.operators import Operator
from holdfast.constraints.predicates import Predicate
from holdfast.constraints.types import Family


class OrderKind(enum.Enum):
    """The two forms of order dependencies."""

    CONSTANT = "constant"
    ORDER_COMPATIBLE = "order_compatible"


class InContext:
    """A constraint on some columns, its targets, among rows that agree on its context; the columns are distinct.

    Two of them are equal if the same columns are context and targets, in any order, and all else is equal.
    """

    context: tuple[str, ...]
    target: tuple[str, ...]

    def __init__(self, context: Iterable[str], target: Iterable[str]) -> None:
        object.__setattr__(self, "context", tuple(context))
        object.__setattr__(self, "target", tuple(target))

    @property
    def size(self) -> int:
        """The number of its columns."""
        return len(self.context) + len(self.target)

    @property
    def columns(self) -> frozenset[str]:
        """The names of its columns."""
        return frozenset((*self.context, *self.target))

    def _refuse_twice(self, noun: str) -> None:
        if len(self.columns) != self.size:
            raise UsageError(f"{noun} {self}: a column occurs twice")

    def _identity(self) -> tuple[object, ...]:
        return type(self), frozenset(self.context), frozenset(self.target)

    def __eq__(self, other: object) -> bool:
        return self._identity() == other._identity() if isinstance(other, InContext) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._identity())


@dataclass(frozen=True, eq=False)
class OrderDependency(InContext):
    """A constant or an order-compatible dependency.

    Parameters
    ----------
    context : columns on which rows agree; may be empty.
    target : one column (constant) or two (order compatible).
    opposite : for two columns, whether the second is in descending order.

    Examples
    --------
    >>> str(OrderDependency(("A", "B"), ("C",)))
    '{A, B}: [] -> C'
    >>> od = OrderDependency((), ("Salary", "Rate"))
    >>> str(od), str(od.as_denial())
    ('{}: Salary ~ Rate', 'not(t.Salary < s.Salary and t.Rate > s.Rate)')
    >>> od == OrderDependency((), ("Rate", "Salary"))
    True
    """

    context: tuple[str, ...]
    target: tuple[str, ...]
    opposite: bool = False
    family: ClassVar[Family] = Family.ORDER

    def __init__(self, context: Iterable[str], target: Iterable[str], *, opposite: bool = False) -> None:
        super().__init__(context, target)
        object.__setattr__(self, "opposite", opposite)
        if len(self.target) not in {1, 2} or (opposite and self.is_constant):
            raise UsageError(f"an order dependency has one target, or two with a direction; given {self.target}")
        self._refuse_twice("order dependency")

    @property
    def is_constant(self) -> bool:
        """Whether the dependency is `{X}: [] -> A`."""
        return len(self.target) == 1

    @property
    def kind(self) -> OrderKind:
        """The form of the dependency."""
        return OrderKind.CONSTANT if self.is_constant else OrderKind.ORDER_COMPATIBLE

    def as_denial(self) -> DenialConstraint:
        """Return the denial constraint that forbids its splits or swaps."""
        agree = [Predicate(name, Operator.EQUAL, name) for name in self.context]
        if self.is_constant:
            operators = [Operator.UNEQUAL]
        else:
            operators = [Operator.LESS, Operator.LESS if self.opposite else Operator.GREATER]
        return DenialConstraint([*agree, *(Predicate(a, o, a) for a, o in zip(self.target, operators, strict=True))])

    def canonical(self, schema: Schema) -> "OrderDependency":
        """Return the dependency with context and targets in the table's column order."""
        return OrderDependency(
            sorted(self.context, key=schema.index),
            sorted(self.target, key=schema.index),
            opposite=self.opposite,
        )

    def fields(self) -> dict[str, Any]:
        """Return the fields of the JSON line that are specific to the family, in order."""
        fields: dict[str, Any] = {
            "context": list(self.context),
            "kind": self.kind.value,
            "target": list(self.target),
        }
        if not self.is_constant:
            fields["direction"] = "opposite" if self.opposite else "same"
        return {**fields, "size": self.size}

    def _identity(self) -> tuple[object, ...]:
        return *super()._identity(), self.opposite

    def __str__(self) -> str:
        context = ", ".join(map(quoted, self.context))
        if self.is_constant:
            return f"{{{context}}}: [] -> {quoted(self.target[0])}"
        left, right = map(quoted, self.target)
        return f"{{{context}}}: {left} ~ {right}{' desc' if self.opposite else ''}"
