"""The ranks of a table's constraints by their scores, published only where they changed.

A score is measured when its constraint appears, on the rows of that moment, and stays the same while rows change: it is
right as of the `commit` of its row. A constraint that appears again is measured again; after a restart all constraints
are, for the ranks published from then on.

Only the first ranks are published, so that a constraint that appears at the front changes at most a thousand rows.
"""

import heapq
from collections.abc import Mapping

PLACES = 1_000


def ranked(
    scores: Mapping[str, float], published: Mapping[str, int], places: int = PLACES
) -> tuple[dict[str, int], list[tuple[str, float, int | None]]]:
    """Return the ranks by constraint id, and (id, score, rank) of each row whose rank changed. O(n).

    Equal scores are ordered by id.

    Parameters
    ----------
    scores : the scores of all constraints of one table and family, by id.
    published : the ranks of their rows; rows that are not in it have none.
    places : how many ranks are published.

    Examples
    --------
    >>> ranked({"a": 0.5, "b": 0.9}, {})
    ({'b': 1, 'a': 2}, [('b', 0.9, 1), ('a', 0.5, 2)])
    >>> ranked({"a": 0.5}, {"a": 2})
    ({'a': 1}, [('a', 0.5, 1)])
    """
    best = heapq.nsmallest(places, scores.items(), key=lambda item: (-item[1], item[0]))
    ranks = {constraint_id: rank for rank, (constraint_id, _) in enumerate(best, 1)}
    moved: list[tuple[str, float, int | None]] = [
        (name, scores[name], rank) for name, rank in ranks.items() if published.get(name) != rank
    ]
    moved += [(name, scores[name], None) for name in published if name in scores and name not in ranks]
    return ranks, moved
