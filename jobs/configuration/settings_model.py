"""The base class of all sections of a configuration: immutable, with secrets masked where they are printed.

Invariant: `str` and `repr` of a section mask its secrets; an unknown key is a problem at the place of that key, and the
other problems of the section are found all the same.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationInfo, model_validator

from holdfast.constraints.columns import unknown_name
from holdfast.display.secrets import MASK, OPEN_ENDED, masked_settings
from holdfast.jobs.configuration.problems import Problems
from holdfast.jobs.configuration.yaml_text import Document, Keyed


@dataclass(frozen=True)
class Reading:
    """The context of a validation: the folder where relative paths start, the file, and the problems found so far."""

    folder: str
    document: Document
    problems: Problems


class Section(BaseModel):
    """A mapping of a configuration."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True, hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _without_unknown_keys(cls, given: Any, info: ValidationInfo) -> Any:
        """Note unknown keys as problems, and leave them out; leave out optional keys without a value."""
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
        """Yield the fields as they are printed, with secrets masked."""
        for name, value in super().__repr_args__():
            if name in OPEN_ENDED:
                yield name, dict.fromkeys(value, MASK)
            else:
                yield name, _shown(value, name or "")


def _shown(value: Any, name: str) -> Any:
    """Return a value with secrets masked; a section masks its own secrets."""
    if isinstance(value, Section):
        return value
    if isinstance(value, (list, tuple)):
        return [_shown(item, name) for item in value]
    return masked_settings(value, name)
