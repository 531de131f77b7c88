"""Groups of rows split by codes, and the pairs inside them that satisfy predicates, by plain loops.

Twin of `discovery/kernels/partitions.py`. A group is a list of rows for `t` and one for `s`; rows keep the order that
they came in.
"""

from collections.abc import Sequence

Group = tuple[tuple[int, ...], tuple[int, ...]]
Outcomes = int
LESS, EQUAL, GREATER = 1, 2, 4


def refined(
    groups: Sequence[Group], t_codes: Sequence[int], s_codes: Sequence[int], weight: Sequence[int] | None
) -> list[Group]:
    """Split groups into those that agree on a code, one after the other, without those that hold no pair.

    Where rows have weights both lists of a group are one and the same, and a row of weight 2 makes a pair with itself.
    """
    found = []
    for ts, ss in groups:
        for code in sorted({int(t_codes[t]) for t in ts}):
            of_t = tuple(t for t in ts if t_codes[t] == code)
            of_s = tuple(s for s in ss if s_codes[s] == code)
            if (sum(weight[t] for t in of_t) > 1) if weight is not None else (of_t and of_s):
                found.append((of_t, of_s))
    return found


def outcome(one: int, other: int) -> Outcomes:
    return LESS if one < other else EQUAL if one == other else GREATER


def violating(
    group: Group,
    left: Sequence[Sequence[int]],
    right: Sequence[Sequence[int]],
    weight: Sequence[int],
    predicates: Sequence[tuple[int, Outcomes]],
) -> set[tuple[int, int]]:
    """Return the pairs of a group that satisfy every predicate: a column pair, and the outcomes that it allows."""
    ts, ss = group
    return {
        (t, s)
        for t in ts
        for s in ss
        if (t != s or weight[t] > 1) and all(outcome(left[p][t], right[p][s]) & allowed for p, allowed in predicates)
    }
