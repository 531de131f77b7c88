"""What every family's constraints have in common: a text, an identity and a JSON line."""

import hashlib
import json
from typing import Any, Protocol

from holdfast.constraints.types import Family


class Constraint(Protocol):
    """A denial constraint, an order dependency, an inclusion dependency or a near constraint."""

    @property
    def family(self) -> Family:
        """Which family it is of."""

    def fields(self) -> dict[str, Any]:
        """Return the fields of its JSON line that only its family has."""

    def __str__(self) -> str: ...


def constraint_id(constraint: Constraint, table: str) -> str:
    """Return the identity that a constraint keeps over time: SHA-256 of family, table and text.

    >>> from holdfast.constraints.denial import key
    >>> constraint_id(key(["ident"]), "airport")[:16]
    '62b02798d675b486'
    """
    identity = [constraint.family.value, table, str(constraint)]
    return hashlib.sha256(json.dumps(identity, ensure_ascii=False, separators=(",", ":")).encode()).hexdigest()


def constraint_fields(constraint: Constraint, table: str) -> dict[str, Any]:
    """Return the JSON line of a constraint of `table` as plain values."""
    return {
        "family": constraint.family.value,
        "table": table,
        "constraint": str(constraint),
        "id": constraint_id(constraint, table),
        **constraint.fields(),
    }
