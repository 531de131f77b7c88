"""How far a search for all families goes on a table: as far as it ends within seconds.

The work of a search grows with the rows, and with the number of contexts: the sets of columns on the left of a
functional dependency, or between the braces of an order compatibility. Numbers from the command line are kept.
"""

from dataclasses import dataclass, replace
from math import comb

from holdfast.display.texts import counted
from holdfast.jobs.searches.request import SearchRequest

_LARGEST = 3
_MOST_WORK = 4e8
"""So many rows times contexts are counted in some five seconds."""
_MOST_CANDIDATES = 1e7
_FEW_COLUMNS, _SOME_COLUMNS, _MANY_COLUMNS = 30, 100, 250
_FEW_ROWS = 1_000_000


@dataclass(frozen=True)
class SearchBounds:
    """The bounds of a search for several families on one table.

    Parameters
    ----------
    request : the search, with its bounds.
    order_context : the most columns in the context of an order compatibility; None for as many as of others.
    has_denial : whether denial constraints are searched for.
    are_chosen : whether the size of the table decides.
    """

    request: SearchRequest
    order_context: int | None
    has_denial: bool = True
    are_chosen: bool = False

    @classmethod
    def of(cls, request: SearchRequest, rows: int, columns: int) -> "SearchBounds":
        """Return the bounds for a table: those of the command line, or without --family those that end soon."""
        if request.families is not None or request.near is not None:
            return cls(request, request.max_context)
        named = request.bounds
        context = request.max_context if "max_context" in named else _context(rows, columns)
        order_context = request.max_context if "max_context" in named else 1
        is_small = columns <= _FEW_COLUMNS and rows <= _FEW_ROWS
        predicates = request.max_predicates if "max_predicates" in named else _LARGEST if is_small else 2
        related = "related" if columns <= _SOME_COLUMNS else "none"
        cross_columns = request.cross_columns if "cross_columns" in named else related
        has_denial = columns <= _MANY_COLUMNS or bool(named & {"max_predicates", "cross_columns"} or request.space)
        searched = replace(request, max_context=context, max_predicates=predicates, cross_columns=cross_columns)
        return cls(searched, order_context, has_denial, are_chosen=True)

    def __str__(self) -> str:
        """Return how far the search goes, and the options that search for more; empty if the command line says it."""
        if not self.are_chosen:
            return ""
        request = self.request
        left, braces = _most(request.max_context, "column"), _most(self.order_context, "column")
        found = f"{left} in a key or left of ->, {braces} in braces (--max-context N for more)"
        if not self.has_denial:
            return f"{found}; no other denial constraints (--family dc)"
        found += f", {_most(request.max_predicates, 'predicate')} (--max-predicates N)"
        return found if request.cross_columns != "none" else f"{found}, no two different columns (--cross-columns)"


def _context(rows: int, columns: int) -> int:
    """Return the most columns of a context for which contexts are counted in time.

    >>> _context(336_776, 19), _context(2_000_000, 19), _context(2_000, 200), _context(50_000_000, 30)
    (3, 2, 2, 1)
    """
    sizes = range(_LARGEST, 1, -1)
    return next((size for size in sizes if _is_soon(rows, columns, size)), 1)


def _is_soon(rows: int, columns: int, size: int) -> bool:
    contexts = sum(comb(columns, k) for k in range(size + 1))
    return rows * contexts <= _MOST_WORK and contexts * columns <= _MOST_CANDIDATES


def _most(count: int | None, noun: str) -> str:
    return counted(count, noun) if count else f"any number of {noun}s"
