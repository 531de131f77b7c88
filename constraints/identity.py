"""The interface of constraints of all families: text, identity and JSON line."""

import hashlib
import json
from typing import Any, Protocol

from holdfast.constraints.types import Family


class Constraint(Protocol):
    """A denial constraint, an order dependency, an inclusion dependency or a near constraint."""

    @property
    def family(self) -> Family:
        """The family of the constraint."""

    def fields(self) -> dict[str, Any]:
        """Return the fields of the JSON line that are specific to the family."""

    def __str__(self) -> str: ...


def constraint_id(constraint: Constraint, table: str) -> str:
    """Return the lasting identity of a constraint: SHA-256 of family, table and text.

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
