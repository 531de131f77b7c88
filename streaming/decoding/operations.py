"""The operation of a record by the word in one of its fields: `_op` of files, topics and `replay`, `op` of Debezium."""

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.streaming.incoming.arrivals import UNREADABLE
from holdfast.streaming.incoming.netting import DELETE, INSERT, UPDATE

OPERATION = "_op"
CODES = {"insert": INSERT, "update": UPDATE, "delete": DELETE}


def operations_of(
    texts: pa.Array,
    otherwise: int,
    codes: Mapping[str, int] = CODES,
    name: str = OPERATION,
    expected: str = "insert, update or delete",
) -> tuple[NDArray[np.int8], Callable[[int], str]]:
    """Return the operation of each record, UNREADABLE where its word is unknown, and the reason by the record's number.

    Parameters
    ----------
    texts : the words.
    otherwise : the operation of a record without a word.
    codes : the operation that each word stands for.
    name, expected : the field with the word, and the words that a reason lists.

    Examples
    --------
    >>> operations, problem = operations_of(pa.array(["delete", None, "remove"]), INSERT)
    >>> operations.tolist(), problem(2)
    ([2, 0, -1], "_op is 'remove': expected insert, update or delete")
    """
    coded = pc.dictionary_encode(texts)
    words = coded.dictionary.to_pylist()
    known = np.array([*(codes.get(word, UNREADABLE) for word in words), otherwise], np.int8)
    places = np.asarray(pc.fill_null(coded.indices, len(words)))

    def problem(row: int) -> str:
        place = int(places[row])
        word = "" if place == len(words) else words[place]
        found = f"is '{word[:80]}'" if word else "is empty"
        return f"{name} {found}: expected {expected}"

    return known[places], problem
