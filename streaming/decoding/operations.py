"""What `_op` says of a record: one definition for files, topics and `replay`."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.streaming.incoming.arrivals import UNREADABLE
from holdfast.streaming.incoming.netting import DELETE, INSERT, UPDATE

OPERATION = "_op"
CODES = {"insert": INSERT, "update": UPDATE, "delete": DELETE}


def operations_of(texts: pa.Array, otherwise: int) -> tuple[NDArray[np.int8], Callable[[int], str]]:
    """Return the operation of each record, UNREADABLE where its word is unknown, and what is wrong with such a one.

    Parameters
    ----------
    texts : the words.
    otherwise : what a record does without one.

    Examples
    --------
    >>> operations, problem = operations_of(pa.array(["delete", None, "remove"]), INSERT)
    >>> operations.tolist(), problem(2)
    ([2, 0, -1], "_op is 'remove': expected insert, update or delete")
    """
    coded = pc.dictionary_encode(texts)
    words = coded.dictionary.to_pylist()
    known = np.array([*(CODES.get(word, UNREADABLE) for word in words), otherwise], np.int8)
    places = np.asarray(pc.fill_null(coded.indices, len(words)))

    def problem(row: int) -> str:
        place = int(places[row])
        word = "" if place == len(words) else words[place]
        said = f"is '{word[:80]}'" if word else "is empty"
        return f"{OPERATION} {said}: expected insert, update or delete"

    return known[places], problem
