"""What `--sentences` adds to an answer: each constraint in plain words, below its line or as a field of its own.

It is asked for, since lines for programs have the fields that they always had, and a text has one line a constraint.
"""

from collections.abc import Iterator

from holdfast.constraints import Condition, Constraint
from holdfast.constraints.sentences import sentence
from holdfast.jobs.terminal.options import Answering
from holdfast.jobs.terminal.output import one_line

_INDENT = " " * 4


def said_fields(constraint: Constraint | Condition, answering: Answering) -> dict[str, str]:
    """Return the field that a JSON line has more."""
    return {"sentence": sentence(constraint)} if answering.sentences else {}


def said_lines(constraint: Constraint | Condition, answering: Answering) -> Iterator[str]:
    """Yield the line that a text has more."""
    if answering.sentences:
        yield one_line(f"{_INDENT}{sentence(constraint)}\n")
