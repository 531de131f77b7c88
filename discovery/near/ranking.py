"""Scores of near constraints, from 0 to 1: the mean of two scores.

- *succinctness*: four symbols, the fewest possible of a constraint, divided by those of this one (two rows, operators
  and columns, as for the other families).
- *strength*: the share of the possible exceptions that are missing. A constant has at most as many exceptions as its
  column has in the whole table, and as the key of its context has; a compatibility at most as many as without a
  context, and as the constant of either column has. One exception of ten thousand possible is evidence; one of two, in
  a context that is nearly a key, is chance.
"""

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.constraints import NearShape
from holdfast.discovery.near.counting import Candidate, Context
from holdfast.discovery.near.lattice import NearMember
from holdfast.discovery.near.targets import KEY, NearTargets

_FEWEST_SYMBOLS = 4
_OPERATORS = {NearShape.KEY: 0, NearShape.CONSTANT: 1, NearShape.ORDER: 2, NearShape.ORDER_DESC: 1}


@dataclass(frozen=True)
class NearScores:
    """Scores members by the counts that bound their exceptions.

    Parameters
    ----------
    rows : the number of rows of the table.
    targets : the targets of the table.
    count : returns the exceptions of a candidate of `bounding`.
    """

    rows: int
    targets: NearTargets
    count: Callable[[Context, int], int]

    def score(self, member: NearMember) -> float:
        """Return the score of a member of the near set."""
        shape, target = self.targets.form(member.number)
        columns = len(member.context) + len(target)
        symbols = 2 + columns + _OPERATORS[shape] + bool(member.context)
        return (min(1.0, _FEWEST_SYMBOLS / symbols) + self.strength(member)) / 2

    def strength(self, member: NearMember) -> float:
        """Return the share of the possible exceptions that a member does not have."""
        possible = self.possible(member)
        return 1.0 - member.exceptions / possible if possible else 0.0

    def possible(self, member: NearMember) -> int:
        """Return an upper bound of the exceptions of a member, by its columns and parts alone."""
        return min([max(self.rows - 1, 0), *(self.count(*one) for one in bounding(member, self.targets))])


def bounding(member: NearMember, targets: NearTargets) -> list[Candidate]:
    """Return the candidates whose exceptions bound those of a member."""
    shape, target = targets.form(member.number)
    if shape is NearShape.KEY:
        return []
    found: list[Candidate] = [(member.context, KEY), ((), member.number)] if member.context else []
    return found + [(member.context, 1 + column) for column in target if len(target) == 2]
