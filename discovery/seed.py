"""What a discovery hands on: the constraints of a table, and what proves them complete."""

from dataclasses import dataclass

from holdfast.discovery.explained import Explained
from holdfast.tables.arrays import Positions, Words


@dataclass(frozen=True)
class Seed:
    """The constraints of one family on a table, and their certificate.

    Parameters
    ----------
    masks : (k, W) the reported constraints as masks of the space.
    boxes : (n, W) the maximal boxes, of two mirror images the reported one: beside `masks` those that say nothing, or
        what another one says (`denial/meaning.py`).
    evidences, witnesses : (e, W) and (e, 2): the certificate, each evidence with a pair of the table's rows.
    explained : how it was found.
    """

    masks: Words
    boxes: Words
    evidences: Words
    witnesses: Positions
    explained: Explained
