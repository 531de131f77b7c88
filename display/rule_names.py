"""Names of rules that a text declares without naming them.

Invariant: rules of one text have different names.
"""

from collections.abc import Sequence
from dataclasses import replace

from holdfast.constraints.nulls import NullsApart
from holdfast.constraints.rules import Rule
from holdfast.display.incidents import short_text


def named_by_text(rules: Sequence[Rule]) -> list[Rule]:
    """Return a rule as it is, several rules each with its own text as its name.

    >>> from holdfast.constraints.parsing import parse_rule_parts
    >>> parts = parse_rule_parts("Zip -> City, State nulls break")
    >>> [rule.name for rule in named_by_text([Rule("x", "tax", part.body) for part in parts[1:]])]
    ['Zip -> State nulls apart', 'not(t.Zip is null or t.City is null or t.State is null)']
    """
    return list(rules) if len(rules) == 1 else [replace(rule, name=_short(rule)) for rule in rules]


def _short(rule: Rule) -> str:
    if isinstance(rule.body, NullsApart):
        return f"{short_text(rule.text.removesuffix(' nulls apart'))} nulls apart"
    return short_text(rule.text)
