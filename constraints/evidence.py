"""What one ordered pair of rows looks like through a predicate space: a point.

Per column pair of the space a pair of rows has exactly one outcome, so an evidence is one-hot: one bit of
each column pair's bits. It violates the constraint with mask `m` when it lies in its box:
`evidence & ~m == 0`.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Evidence:
    """The outcome vector of a pair of rows, as bits of a `PredicateSpace`.

    Parameters
    ----------
    bits : one bit set per column pair of the space that made it (`PredicateSpace.evidence`).
    """

    bits: int

    def lies_in(self, mask: int) -> bool:
        """Whether a pair with this evidence violates the constraint with `mask`."""
        return self.bits & ~mask == 0
