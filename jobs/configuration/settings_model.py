"""What every section of a configuration has in common: it cannot change, and knows its names.

Invariant: a section is shown (`str`, `repr`) with its secrets masked; a key that it does not know is a problem
with the place of that key, and does not hide what else is wrong.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationInfo, model_validator

from holdfast.constraints.columns import unknown_name
from holdfast.jobs.configuration.problems import Problems
from holdfast.jobs.configuration.secrets import MASK, OPEN_ENDED, masked_settings
from holdfast.jobs.configuration.yaml_text import Document, Keyed


@dataclass(frozen=True)
class Reading:
    """What validation knows about the file under way: where relative paths start, and where problems go."""

    folder: str
    document: Document
    problems: Problems


class Section(BaseModel):
    """A mapping of a configuration."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True, hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _without_unknown_keys(cls, given: Any, info: ValidationInfo) -> Any:
        """Note every key that is none, and go on without it; a key without a value is one not given."""
        if not isinstance(given, Keyed) or not isinstance(info.context, Reading):
            return given
        for key in given:
            if key not in cls.model_fields:
                path = (*given.path, key)
                place = info.context.document.keys.get(path) or info.context.document.place(path)
                info.context.problems.add(place, path, unknown_name("unknown key", key, cls.model_fields))
        fields = cls.model_fields
        return {k: v for k, v in given.items() if k in fields and (v is not None or fields[k].is_required())}

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        """Show secrets masked."""
        for name, value in super().__repr_args__():
            if name in OPEN_ENDED:
                yield name, dict.fromkeys(value, MASK)
            else:
                yield name, _shown(value, name or "")


def _shown(value: Any, name: str) -> Any:
    """Mask a value that is no section; sections mask themselves."""
    if isinstance(value, Section):
        return value
    if isinstance(value, (list, tuple)):
        return [_shown(item, name) for item in value]
    return masked_settings(value, name)
