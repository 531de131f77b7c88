"""How many pairs of rows swap two columns, in a sample of the pairs that agree on a context.

A pair that differs on A and on B either rises or falls on both, or is a *swap*: it rises on one and falls on the other.
An order compatibility has no swaps, one in the opposite direction has nothing else.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.discovery.kernels.near import ContextGroups
from holdfast.discovery.near.counting import Context, Counter
from holdfast.discovery.near.rows import NearRows
from holdfast.discovery.near.targets import NearTargets
from holdfast.discovery.threads import cut
from holdfast.indexes.threads import mapped
from holdfast.tables.arrays import Rows

SAMPLED = 4_000


@dataclass(frozen=True, eq=False)
class Swaps:
    """Sampled pairs of rows that agree on a context.

    Parameters
    ----------
    pairs : how many.
    differing : by two columns, how many of them differ on both.
    swapped : by two columns, how many of these are swaps.
    """

    pairs: int
    differing: NDArray[np.float64]
    swapped: NDArray[np.float64]

    @classmethod
    def of(cls, groups: ContextGroups, rows: NearRows) -> "Swaps":
        """Compare a sample of the pairs in groups. O(sample x columns^2)."""
        left, right = sampled_pairs(groups)
        signs = np.sign(rows.codes[:, left] - rows.codes[:, right]).astype(np.float32)  # codes are at least 0
        differing = (np.abs(signs) @ np.abs(signs).T).astype(np.float64)
        return cls(len(left), differing, (differing - signs @ signs.T) / 2)


def sampled_pairs(groups: ContextGroups, most: int = SAMPLED) -> tuple[Rows, Rows]:
    """Return the two sides of ordered pairs of rows in groups: of all pairs, or of `most` that are drawn by lot."""
    sizes = np.diff(groups.starts)
    ends = np.cumsum(sizes * (sizes - 1))
    total = int(ends[-1]) if len(ends) else 0
    drawn = np.arange(total) if total <= most else np.random.default_rng(0).integers(0, total, most)
    group = np.searchsorted(ends, drawn, side="right")
    first, second = np.divmod(drawn - ends[group] + sizes[group] * (sizes[group] - 1), sizes[group] - 1)
    second += second >= first
    return groups.rows[groups.starts[group] + first], groups.rows[groups.starts[group] + second]


def swaps_in(
    contexts: Iterable[Context], rows: NearRows, targets: NearTargets, *, threads: int = 1
) -> dict[Context, Swaps]:
    """Return the swaps in some contexts. O(n) for each, to find its groups."""

    def work(part: Sequence[Context]) -> dict[Context, Swaps]:
        counter = Counter(rows, targets)
        return {context: Swaps.of(counter.groups(context), rows) for context in part}

    found: dict[Context, Swaps] = {}
    for some in mapped(threads, work, cut(sorted(contexts), threads)):
        found |= some
    return found
