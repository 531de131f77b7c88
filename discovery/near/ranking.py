"""How much a near constraint tells a person: a score from 0 to 1, two thirds of it *strength*, one third shortness.

The *strength* says how far violations are below chance, from 0 to 1: one minus their rate, divided by the lowest rate
that chance gives. An *informative* row is a row of a group of the context, but for the first one of the group.

    constant  {X}: [] -> A   rate: exceptions by informative row
                             chance: the rate of A alone, and of A in X without each of its columns
    order     {X}: A ~ B     rate: swaps by pair of rows that agrees on X and differs on A and on B, in a sample
                             chance: one half, and the rate in X without each of its columns
    key       key(X)         rate: rows that are not alone
                             chance: where one column is shuffled against the others; of one column, all rows

A context that explains no more than a part of it has no strength, however few exceptions it leaves. A rate is not taken
as it was counted, but as high as so few rows allow: e violations of m are (e + 2) / (m + 4). So what holds since almost
no row could break it has no strength either.

*Shortness* is four symbols, the fewest possible of a constraint, divided by those of this one (two rows, operators and
columns, as for the other families).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from holdfast.constraints import NearShape
from holdfast.constraints.scores import Score
from holdfast.discovery.near.counting import Candidate, Context
from holdfast.discovery.near.lattice import NearMember
from holdfast.discovery.near.swaps import Swaps
from holdfast.discovery.near.targets import KEY, NearTargets

_FEWEST_SYMBOLS = 4
_OPERATORS = {NearShape.KEY: 0, NearShape.CONSTANT: 1, NearShape.ORDER: 2, NearShape.ORDER_DESC: 1}
_MARGIN = 2


@dataclass(frozen=True)
class NearScores:
    """Ranks members of a near set by counts on their rows.

    Parameters
    ----------
    rows : how many the table has.
    targets : of the table.
    counts : the exceptions of the candidates that `needed` names.
    swaps : of the contexts that `swapping` names; without them order compatibilities have no strength.
    """

    rows: int
    targets: NearTargets
    counts: Mapping[Candidate, int]
    swaps: Mapping[Context, Swaps] = field(default_factory=dict)

    def score(self, member: NearMember) -> Score:
        """Return the score of a member of the near set."""
        shape, target = self.targets.form(member.number)
        columns = len(member.context) + len(target)
        symbols = 2 + columns + _OPERATORS[shape] + bool(member.context)
        strength = self.strength(member)
        return Score((2 * strength + min(1.0, _FEWEST_SYMBOLS / symbols)) / 3, strength, self._support(member))

    def strength(self, member: NearMember) -> float:
        """Return how far the violations of a member are below chance."""
        shape, _ = self.targets.form(member.number)
        if shape is NearShape.KEY:
            return self._of_key(member)
        count, least = (self._violations, 1.0) if shape is NearShape.CONSTANT else (self._swaps, 0.5)
        violations, informative = count(member.context, member.number)
        for part in parts(member.context):
            among, of = count(part, member.number)
            least = min(least, among / of if of else 0.0)
        return _below((violations + _MARGIN) / (informative + 2 * _MARGIN), least)

    def _support(self, member: NearMember) -> float:
        """Return how many rows could be exceptions."""
        shape, _ = self.targets.form(member.number)
        if shape is NearShape.KEY:
            return self.rows - 1
        count = self._violations if shape is NearShape.CONSTANT else self._swaps
        return count(member.context, member.number)[1]

    def _of_key(self, member: NearMember) -> float:
        """Compare the rows that are not alone with those that would not be if one column were shuffled.

        A pair that agrees on the other columns agrees on a shuffled one with k values once in k cases, or more often.
        At least as many pairs agree on the others as if all groups of these had as many rows.
        """
        expected = float(self.rows)
        for column in member.context if len(member.context) > 1 else ():
            others = tuple(other for other in member.context if other != column)
            values, groups = (self.rows - self.counts[one, KEY] for one in ((column,), others))
            pairs = max(self.rows - groups, self.rows * (self.rows / groups - 1) / 2)
            expected = min(expected, pairs / values)
        return _below(member.exceptions + _MARGIN, expected)

    def _violations(self, context: Context, number: int) -> tuple[float, float]:
        """Return the exceptions of a constant, and the informative rows of its context."""
        return self.counts[context, number], self.counts[context, KEY] if context else self.rows - 1

    def _swaps(self, context: Context, number: int) -> tuple[float, float]:
        """Return estimated swaps and differing pairs, scaled from the sampled pairs to the informative rows."""
        shape, target = self.targets.form(number)
        swaps = self.swaps[context]
        differing, swapped = float(swaps.differing[target]), float(swaps.swapped[target])
        if shape is NearShape.ORDER_DESC:
            swapped = differing - swapped
        rows = self.counts[context, KEY] if context else self.rows - 1
        by_pair = rows / swaps.pairs if swaps.pairs else 0.0
        return swapped * by_pair, differing * by_pair


def needed(members: Iterable[NearMember], targets: NearTargets) -> set[Candidate]:
    """Return the candidates whose exceptions say how strong some members are."""
    found: set[Candidate] = set()
    for member in members:
        shape, _ = targets.form(member.number)
        contexts = [member.context, *parts(member.context)]
        found.update((context, KEY) for context in contexts if context)
        if shape is NearShape.KEY:
            found.update(((column,), KEY) for column in member.context)
        elif shape is NearShape.CONSTANT:
            found.update((context, member.number) for context in contexts)
    return found


def swapping(members: Iterable[NearMember], targets: NearTargets) -> set[Context]:
    """Return the contexts whose swaps say how strong some members are."""
    orders = [member for member in members if targets.form(member.number)[0].targets == 2]
    return {context for member in orders for context in (member.context, *parts(member.context))}


def parts(context: Context) -> list[Context]:
    """Return a context without each of its columns, and the empty one.

    >>> parts((1, 4)), parts((7,)), parts(())
    ([(4,), (1,), ()], [()], [])
    """
    without = [context[:i] + context[i + 1 :] for i in range(len(context))]
    return without if len(context) < 2 else [*without, ()]


def _below(found: float, chance: float) -> float:
    """Return how far a number is below what chance gives, from 0 to 1."""
    return max(0.0, 1.0 - found / chance) if chance else 0.0
