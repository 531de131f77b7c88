"""How much the name of a column says that it refers to a column of another table: `customer_id` to `customers.id`.

A name is cut into words: at signs, at digits, and where small letters become capitals. Words are compared without the
ending of a plural, and an abbreviation with the word that it abbreviates: `cust` and `customers`, `dept` and
`department`. Words that only say that a column identifies something (`id`, `key`, `code`, ...) say nothing of what.
"""

import re
from collections.abc import Iterable
from functools import lru_cache

from holdfast.constraints import ColumnRef

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_a-zA-Z]+")
_GENERIC = frozenset("id ids key code no nr num number name ref fk pk sk uid uuid guid identifier ident".split())
_ENDINGS = ("id", "key", "code", "num")
_FEWEST_LETTERS = 3
_ABBREVIATED = 0.8
_HEAD = 0.7
_OWN_TABLE = 0.4


def refers(dependent: ColumnRef, referenced: ColumnRef) -> float:
    """Return from 0 to 1 how much the name of a column says that it refers to another one.

    The last word that names something counts most: `billing_customer_id` is of a customer, `customer_city` of a city.

    >>> def of(left, right):
    ...     return round(refers(ColumnRef(*left.split(".")), ColumnRef(*right.split("."))), 2)
    >>> of("orders.customer_id", "customers.id"), of("orders.o_custkey", "customer.c_custkey")
    (1.0, 1.0)
    >>> of("orders.BillingCustomerID", "customers.id"), of("orders.customer_city", "customers.id")
    (0.85, 0.15)
    >>> of("flights.tailnum", "planes.tailnum"), of("staff.dept", "departments.no"), of("flights.dest", "airports.faa")
    (1.0, 0.8, 0.0)

    A column called `id` is of its own table:

    >>> of("orders.id", "customers.id"), of("customer_details.id", "customers.id")
    (0.0, 0.4)
    """
    named = specific_words(dependent.column)
    if not named:
        theirs = specific_words(referenced.table)
        return _OWN_TABLE * max((_alike(word, theirs) for word in specific_words(dependent.table)), default=0.0)
    others = (*specific_words(referenced.column), *specific_words(referenced.table))
    found = [_alike(word, others) for word in named]
    head = found[-1]
    return _HEAD * head + (1 - _HEAD) * sum(found) / len(found)


@lru_cache(maxsize=1 << 14)
def specific_words(name: str) -> tuple[str, ...]:
    """Return the words of a name that name something, without endings.

    >>> specific_words("billing_customer_ids"), specific_words("o_custkey"), specific_words("categories2")
    (('billing', 'customer'), ('cust',), ('category',))
    """
    words = [word.lower() for word in _WORD.findall(name)]
    several = [word for word in words if len(word) > 1] or words
    return tuple(_stem(word) for word in several if word not in _GENERIC)


def _stem(word: str) -> str:
    """Return a word without the ending of a plural, or of an identifier."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) >= len(ending) + _FEWEST_LETTERS:
            return word.removesuffix(ending)
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith("s") and not word.endswith("ss") and len(word) > _FEWEST_LETTERS:
        return word[:-1]
    return word


def _alike(word: str, others: Iterable[str]) -> float:
    """Return how alike a word is to the most similar of some words."""
    return max((_same(word, other) for other in others), default=0.0)


def _same(word: str, other: str) -> float:
    """Return 1 for the same word, or a beginning of four letters or more; less for an abbreviation."""
    short, long = sorted((word, other), key=len)
    if short == long or (len(short) > _FEWEST_LETTERS and long.startswith(short)):
        return 1.0
    if len(short) < _FEWEST_LETTERS or len(long) < len(short) + 2 or short[0] != long[0]:
        return 0.0
    letters = iter(long)
    return _ABBREVIATED if all(letter in letters for letter in short) else 0.0
