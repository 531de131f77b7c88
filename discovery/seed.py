"""The result of a discovery: the constraints of a table, and the evidences that prove them complete."""

from dataclasses import dataclass

from holdfast.discovery.explained import Explained
from holdfast.tables.arrays import Positions, Words


@dataclass(frozen=True)
class Seed:
    """The constraints of one family on a table, and their certificate.

    Parameters
    ----------
    masks : (k, W) the reported constraints as masks of the space.
    boxes : (n, W) the maximal boxes, of two mirror images the reported one: `masks`, and boxes that are vacuous or
        implied by other boxes (`denial/meaning.py`).
    evidences, witnesses : (e, W) and (e, 2): the certificate, each evidence with a pair of the table's rows.
    explained : the steps of the discovery.
    """

    masks: Words
    boxes: Words
    evidences: Words
    witnesses: Positions
    explained: Explained
