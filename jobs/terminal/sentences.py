"""The option `--sentences`: each constraint in plain words, as a line below the constraint or as a field of its own.

Without the option, lines for programs keep the fields that they always had, and a text has one line a constraint.
"""

from collections.abc import Iterator

from holdfast.constraints import Condition, Constraint, NullsApart
from holdfast.constraints.sentences import sentence
from holdfast.jobs.terminal.options import Answering
from holdfast.jobs.terminal.output import one_line

_INDENT = " " * 4


def sentence_fields(constraint: Constraint | Condition | NullsApart, answering: Answering) -> dict[str, str]:
    """Return the field that `--sentences` adds to a line for programs."""
    return {"sentence": sentence(constraint)} if answering.sentences else {}


def sentence_lines(constraint: Constraint | Condition | NullsApart, answering: Answering) -> Iterator[str]:
    """Yield the line that `--sentences` adds for people."""
    if answering.sentences:
        yield one_line(f"{_INDENT}{sentence(constraint)}\n")
