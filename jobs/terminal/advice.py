"""Advice in messages, as it can be typed: commands that it names get the configuration that the user named.

What refuses a state or an output does not know the file of the configuration, so its messages name commands alone.
"""

import re
import shlex
from collections.abc import Sequence

_ENDINGS = (".yaml", ".yml")
_COMMANDS = "seed|run|rebuild|status|validate|doctor|skip-batch|incidents|suspects|dashboard|report"
_ADVICE = re.compile(
    rf"\bholdfast(?:\s+)(?:{_COMMANDS})(?:\s+--[a-z-]++)*+(?![\w-])(?!\s+(?:--)?\S*(?:\.ya?ml\b|\{{|CONF\b))"
)


def configuration_in(arguments: Sequence[str]) -> str | None:
    """Return the configuration among the arguments of a command; None if there is none.

    >>> configuration_in(["run", "--available-now", "shop.yaml"]), configuration_in(["discover", "a.csv"])
    ('shop.yaml', None)
    """
    return next((text for text in arguments if text.endswith(_ENDINGS) and not text.startswith("-")), None)


def as_typed(message: str, configuration: str | None) -> str:
    """Return a message whose advice names the configuration.

    Examples
    --------
    >>> as_typed("Restore it: holdfast rebuild; or seed anew: holdfast seed --replace", "my shop.yaml")
    "Restore it: holdfast rebuild 'my shop.yaml'; or seed anew: holdfast seed --replace 'my shop.yaml'"
    >>> as_typed("holdfast seed --replace shop.yaml, or holdfast rebuild --from-source", "shop.yaml")
    'holdfast seed --replace shop.yaml, or holdfast rebuild --from-source shop.yaml'
    """
    if configuration is None:
        return message
    return _ADVICE.sub(lambda found: f"{found[0]} {shlex.quote(configuration)}", message)
