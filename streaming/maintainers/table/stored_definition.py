"""The definition of a stored table: the column pairs that are compared, the key, the families that are maintained.

    meta  <table> table     the definition, as JSON

The prefixes of the keys of a table's parts are `table_prefix`, `family_prefix`, `near_prefix` and `versions_prefix`.
"""

from dataclasses import dataclass

from holdfast.constraints import Family, PredicateSpace, StateRefused
from holdfast.discovery.denial.meaning import Meaning
from holdfast.discovery.kernels.hulls import FEWEST_PREDICATES
from holdfast.state import codecs
from holdfast.state.store import Reader, WriteBatch
from holdfast.streaming.maintainers.table.bounds import Bounds

_DEFINITION = 2
"""The version of the definition of the reported set: version 1 had constraints that no table can violate."""

_RANGE_OF_VERSIONS, _RANGE_OF_NEAR = 1, 3
_RANGE_OF_CERTIFICATE = {Family.DENIAL: 0, Family.ORDER: 2}
"""The range of numbers of each family with a certificate; certificates have one family of keys, so ranges differ."""


@dataclass(frozen=True)
class StoredDefinition:
    """The definition of a stored table.

    Parameters
    ----------
    space, coding : the column pairs that are compared, and those that the codes of rows must be able to compare.
    key : names of the columns that identify a row.
    bounds : the families that are maintained.
    remembers : whether the sequences of keys are remembered.
    retention : for how many seconds the sequences of keys without a row are remembered; None for ever.
    reported : the version of the definition of the reported set with which the table was seeded.
    """

    space: PredicateSpace
    coding: PredicateSpace
    key: tuple[str, ...]
    bounds: Bounds
    remembers: bool = False
    retention: float | None = None
    reported: int = _DEFINITION

    @classmethod
    def read(cls, store: Reader, table: int) -> "StoredDefinition":
        """Return the definition of the table with this number; raise `StateRefused` if this version cannot read it."""
        stored = store.get("meta", table_prefix(table) + b"table")
        if stored is None:
            raise StateRefused(f"the store holds no table number {table}: seed one first")
        meta = codecs.read_json(stored)
        if meta["format"] != codecs.FORMAT:
            raise StateRefused(
                f"the store has format {meta['format']}, this version reads {codecs.FORMAT}: use the version that "
                "wrote it, or seed anew"
            )
        space = PredicateSpace.from_json(meta["space"])
        coding = PredicateSpace.from_json(meta["coding"]) if "coding" in meta else space
        bounds = Bounds.of_fields(meta["bounds"])
        retention = meta.get("remembers", {}).get("retention")
        reported = meta.get("definition", 1)
        return cls(space, coding, tuple(meta["key"]), bounds, "remembers" in meta, retention, reported)

    def put(self, table: int, batch: WriteBatch) -> None:
        """Add the definition of the table with this number to a batch."""
        meta = {
            "format": codecs.FORMAT,
            "definition": self.reported,
            "space": self.space.to_json(),
            "key": list(self.key),
            "bounds": self.bounds.fields(),
        }
        if self.coding != self.space:
            meta["coding"] = self.coding.to_json()
        if self.remembers:
            meta["remembers"] = {"retention": self.retention}
        batch.put("meta", table_prefix(table) + b"table", codecs.json_bytes(meta))

    @property
    def reports_otherwise(self) -> bool:
        """Whether the version that seeded the table may have reported constraints that this version does not report."""
        bound = self.bounds.max_predicates
        if self.reported >= _DEFINITION or bound is None or 0 < bound < FEWEST_PREDICATES:
            return False
        return Meaning(self.space.of_family(Family.DENIAL)).has_cycle


def table_prefix(table: int) -> bytes:
    """Return the prefix of a table's rows, rules and definition."""
    return _prefix(0, table)


def family_prefix(family: Family, table: int) -> bytes:
    """Return the prefix of a family's certificate: for denial constraints it is the table's own number."""
    return _prefix(_RANGE_OF_CERTIFICATE[family], table)


def near_prefix(table: int) -> bytes:
    """Return the prefix of the constraints that nearly hold on a table."""
    return _prefix(_RANGE_OF_NEAR, table)


def versions_prefix(table: int) -> bytes:
    """Return the prefix of the versions of a table's keys."""
    return _prefix(_RANGE_OF_VERSIONS, table)


def _prefix(number_range: int, table: int) -> bytes:
    """Return the prefix of a part of a table: its number in the range of the part, each with 2^32 numbers."""
    return codecs.number((number_range << 32) + table)
