"""The probability that rows drawn by chance have a value at least as often as counted: the hypergeometric tail.

Probabilities are logarithms, because many are below the smallest float.
"""

from math import lgamma, log

import numpy as np


def log_tail(rows: int, valued: int, drawn: int, found: int) -> float:
    """Return the logarithm of the probability that at least `found` of the drawn rows have a value. O(drawn).

    Parameters
    ----------
    rows, valued : the number of rows, and of those that have the value.
    drawn : the number of rows that are drawn, without putting any back.

    Examples
    --------
    Two of five rows have the value. Both are among three drawn ones in 3 of 10 cases:

    >>> round(float(np.exp(log_tail(5, 2, 3, 2))), 12), log_tail(5, 2, 3, 0), log_tail(5, 5, 3, 3)
    (0.3, 0.0, 0.0)
    """
    least, most = max(0, drawn + valued - rows), min(drawn, valued)
    if found <= least:
        return 0.0
    if found > most:
        return -np.inf
    first = _log_choices(valued, found) + _log_choices(rows - valued, drawn - found) - _log_choices(rows, drawn)
    each = np.arange(found, most, dtype=np.float64)
    ratios = (valued - each) / (each + 1) * ((drawn - each) / (rows - valued - drawn + each + 1))
    logs = np.concatenate([[0.0], np.cumsum(np.log(ratios))])
    highest = float(logs.max())
    return min(0.0, first + highest + log(float(np.exp(logs - highest).sum())))


def _log_choices(count: int, chosen: int) -> float:
    """Return the logarithm of the number of ways to choose some of `count` things."""
    return lgamma(count + 1) - lgamma(chosen + 1) - lgamma(count - chosen + 1)
