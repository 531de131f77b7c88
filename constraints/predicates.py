"""A predicate compares a value of one row with a value of another: `t.A op s.B`.

`t` is always the left row and `s` the right one: a predicate written the other way round is the same
predicate with its operator mirrored.
"""

from dataclasses import dataclass

from holdfast.constraints.names import quoted
from holdfast.constraints.operators import Operator


@dataclass(frozen=True, slots=True)
class Predicate:
    """`t.left op s.right`.

    Examples
    --------
    >>> p = Predicate("Salary", Operator.GREATER, "Bonus")
    >>> str(p), str(p.mirror), str(p.inverse)
    ('t.Salary > s.Bonus', 't.Bonus < s.Salary', 't.Salary <= s.Bonus')
    """

    left: str
    operator: Operator
    right: str

    @property
    def mirror(self) -> "Predicate":
        """The predicate with the two rows exchanged."""
        return Predicate(self.right, self.operator.mirror, self.left)

    @property
    def inverse(self) -> "Predicate":
        """The predicate that holds exactly where this predicate does not."""
        return Predicate(self.left, self.operator.inverse, self.right)

    @property
    def column_pair(self) -> tuple[str, str]:
        """The two columns that the predicate compares."""
        return self.left, self.right

    @property
    def crosses(self) -> bool:
        """Whether the predicate compares two different columns."""
        return self.left != self.right

    def __str__(self) -> str:
        return f"t.{quoted(self.left)} {self.operator} s.{quoted(self.right)}"
