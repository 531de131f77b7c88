"""All errors that users can see, under one root.

A message says what was given, what was expected and what to do. The class decides the exit code of the
command line, so that a script can tell a broken rule from bad data from a broken network. Invariant: an
exception that reaches the command line and is not a `HoldfastError` is a defect (exit code 70).
"""

from typing import ClassVar


class HoldfastError(Exception):
    """The root of all errors of Holdfast."""

    exit_code: ClassVar[int] = 70


class UsageError(HoldfastError, ValueError):
    """A command, a configuration or a constraint is not well formed: change the input."""

    exit_code = 2


class InputError(HoldfastError, ValueError):
    """The data do not fit their description: change the data, or the description."""

    exit_code = 3


class StateRefused(HoldfastError):
    """A stored state does not fit the request: the message names what to do.

    Subclasses say why. Only where that is `StateMissing` or `StateDamaged` does a command replace a state unasked.
    """

    exit_code = 4


class ExternalError(HoldfastError, OSError):
    """An external system failed (storage, network, Java, Kafka): repair it and start again."""

    exit_code = 5


class StateMissing(StateRefused):
    """There is no state, or only a state whose seed was not completed."""


class StateDamaged(StateRefused):
    """Files of the state are missing or were altered: restore it from its backup."""


class StateInUse(StateRefused):
    """Another process has the state open: stop that process, or wait for its end."""


class StateOfAnotherApplication(StateRefused):
    """The state was made under another `name`: use the state and the configuration that belong together."""


class StateFormatUnknown(StateRefused):
    """The state has a format that this version does not read: use the version that wrote it."""


class StateBehindBackup(StateRefused):
    """The backup has commits that the state lost: restore the state from it."""


class StateTakenOver(StateRefused):
    """The state was restored elsewhere and is used there: this copy is obsolete."""


class BackupDamaged(StateRefused):
    """A file of the backup is missing or was altered; the state itself may be whole."""


class StateUnreachable(StateRefused, ExternalError):
    """The storage of the state or of its backup failed: repair the storage and start again."""

    exit_code = 5


class UnknownColumn(UsageError, KeyError):
    """A constraint, a rule or an option names a column that the table does not have."""

    def __str__(self) -> str:  # KeyError would show the message in quotes
        return str(self.args[0])


class ConstraintSyntaxError(UsageError):
    """A text is not a constraint; the message points at the first wrong character.

    Attributes
    ----------
    problem, text, position : what is wrong, in which text, at which character (from 0).

    Examples
    --------
    >>> print(ConstraintSyntaxError("expected an operator", "not(t.A s.A)", 8))
    expected an operator, at character 9:
      not(t.A s.A)
              ^
    """

    def __init__(self, problem: str, text: str, position: int) -> None:
        self.problem = problem
        self.text = text
        self.position = position
        super().__init__(f"{problem}, at character {position + 1}:\n{_pointer(text, position)}")

    def __reduce__(self) -> tuple[type["ConstraintSyntaxError"], tuple[str, str, int]]:
        return type(self), (self.problem, self.text, self.position)


_WIDTH = 100


def _pointer(text: str, position: int) -> str:
    """Return the part of `text` around `position` on one line, and a caret below the character."""
    start = max(0, min(position - _WIDTH // 2, len(text) - _WIDTH))
    shown = "".join(" " if c.isspace() else c for c in text[start : start + _WIDTH])
    head = "..." if start else ""
    tail = "..." if start + _WIDTH < len(text) else ""
    return f"  {head}{shown}{tail}\n  {' ' * (len(head) + position - start)}^"
