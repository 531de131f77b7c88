"""Numbers of constraints, and compared columns, in words."""

from holdfast.constraints import Family, PredicateSpace
from holdfast.display.texts import counted

_MOST_PAIRS = 20


def compared_across(space: PredicateSpace) -> str:
    """Return the pairs of different columns that a space compares, at most 20 of them."""
    names = space.schema.names
    shown = ", ".join(f"({names[a]}, {names[b]})" for a, b in space.crossing[:_MOST_PAIRS])
    more = len(space.crossing) - _MOST_PAIRS
    shown += f" and {counted(more, 'more pair')}" if more > 0 else ""
    return f"compared across: {shown or 'nothing'}; space {space.fingerprint[:16]}"


def counted_constraints(count: int, family: Family, bound: int) -> str:
    """Return a number of constraints of a family, with the bound of their size (0: none).

    >>> counted_constraints(2, Family.ORDER, 3)
    '2 order dependencies with at most 3 columns in the context'
    >>> counted_constraints(1, Family.DENIAL, 0)
    '1 denial constraint'
    """
    if family is Family.ORDER:
        columns = counted(bound, "column")
        found = counted(count, "order dependency", "order dependencies")
        return f"{found} with at most {columns} in the context" if bound else found
    found = counted(count, "denial constraint")
    return f"{found} of at most {counted(bound, 'predicate')}" if bound else found
