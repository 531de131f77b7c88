"""Minimal hitting sets by trying every set of vertices.

Twin of `discovery/kernels/hitting_sets.py`, as `HittingSetSearch` offers it. A set is asked for where it has a vertex
of every edge, none that it could do without, not all vertices of any group, and vertices of at most so many groups.
"""

from collections.abc import Sequence
from itertools import combinations

Vertices = frozenset[int]


def minimal_hitting_sets(
    edges: Sequence[Vertices], groups: Sequence[Vertices], bound: int, within: Vertices
) -> set[Vertices]:
    """Return the sets among some vertices; `bound` 0 allows any number of groups."""
    found: set[Vertices] = set()
    for size in range(len(within) + 1):
        for chosen in combinations(sorted(within), size):
            tried = frozenset(chosen)
            if all(tried & edge for edge in edges) and not any(smaller < tried for smaller in found):
                found.add(tried)
    return {s for s in found if _is_allowed(s, groups, bound)}


def _is_allowed(tried: Vertices, groups: Sequence[Vertices], bound: int) -> bool:
    touched = [group for group in groups if group & tried]
    return not any(group <= tried for group in groups) and (bound == 0 or len(touched) <= bound)
