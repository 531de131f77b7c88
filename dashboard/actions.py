"""What a person can do about a constraint: the lines for files of the configuration that the page offers to copy.

The page changes nothing itself. Who starts it gives the functions, since the forms of these files belong to the
configuration.
"""

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.constraints.mutes import Mutes


def _no_mutes() -> tuple[Mutes, str | None]:
    return Mutes(), None


@dataclass(frozen=True)
class Actions:
    """The actions of one configuration.

    Parameters
    ----------
    rule_line, mute_line : return the line that declares a constraint as a rule, or mutes it, given table and text; None
        where the page offers no such action.
    mutes_file : the name of the file of mutes; None where the configuration names none.
    mutes : returns the muted constraints as of now, and the problem of their file, if it cannot be used.
    """

    rule_line: Callable[[str, str], str] | None = None
    mute_line: Callable[[str, str], str] | None = None
    mutes_file: str | None = None
    mutes: Callable[[], tuple[Mutes, str | None]] = _no_mutes
