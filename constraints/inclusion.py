"""Unary inclusion dependencies: every non-null value of one column is a value of another.

Invariant: the two columns are different ones (`A in A` says nothing).
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from holdfast.constraints.columns import ColumnRef
from holdfast.constraints.errors import UsageError
from holdfast.constraints.types import Family


@dataclass(frozen=True, slots=True)
class InclusionDependency:
    """`dependent in referenced`, across tables or within one.

    Examples
    --------
    >>> str(InclusionDependency(ColumnRef("orders", "o_custkey"), ColumnRef("customer", "c_custkey")))
    'orders.o_custkey in customer.c_custkey'
    >>> InclusionDependency(ColumnRef("BattingPost", "3B"), ColumnRef("Teams", "3B")).named["dependent_column"]
    '3B'
    """

    dependent: ColumnRef
    referenced: ColumnRef
    family: ClassVar[Family] = Family.INCLUSION
    size: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if self.dependent == self.referenced:
            raise UsageError(f"{self.dependent} in itself holds always: name two different columns")

    @property
    def named(self) -> dict[str, str]:
        """The unquoted names of tables and columns, by field name, for programs."""
        return {
            "dependent_table": self.dependent.table,
            "dependent_column": self.dependent.column,
            "referenced_table": self.referenced.table,
            "referenced_column": self.referenced.column,
        }

    def fields(self) -> dict[str, Any]:
        """Return the fields of the JSON line that are specific to the family, in order."""
        return {"dependent": str(self.dependent), "referenced": str(self.referenced), **self.named, "size": self.size}

    def __str__(self) -> str:
        return f"{self.dependent} in {self.referenced}"
