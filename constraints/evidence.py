"""The outcomes of an ordered pair of rows on all column pairs of a space: a point.

Per column pair of the space a pair of rows has exactly one outcome, so an evidence has exactly one bit of each column
pair's bits. It violates the constraint with mask `m` when it lies in the box of the mask:
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
