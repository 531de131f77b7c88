"""docs/operations.md has every refusal, and every refusal says what to do."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from holdfast.constraints import errors

ROOT = Path(__file__).parents[2]
REFUSALS = (errors.StateRefused, errors.ExternalError)
NAMED = {
    *(name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, REFUSALS)),
    *("StateCheckpointMismatch", "BatchKeepsFailing"),
}
ACTIONS = re.compile(
    r"holdfast (run|seed|rebuild|skip-batch)|start(s)? again|[Ss]top (it|this|one|what)|[Uu]se (another|the|that)|seed (one|it) |"
    r"restore (it|the)|choose another|name another|[Cc]orrect|[Cc]heck|make room|remove this|nothing to rebuild|see whether"
)
_INNER = {"its commits have their numbers", "parts of a seed may not be written over it"}
"""Ends of messages that no command leads to."""


def messages() -> list[tuple[str, str]]:
    """Return where each refusal is raised, and what it says, with … for what is filled in."""
    found = []
    for folder in ("state", "streaming", "jobs"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
                    continue
                if node.func.id in NAMED and node.args:
                    text = words(node.args[0])
                    if not any(text.endswith(end) for end in _INNER):
                        found.append((f"{path.relative_to(ROOT)}:{node.lineno}", text))
    return found


def words(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(words(value) for value in values)
        case ast.FormattedValue(value=ast.Call(func=ast.Name(id="way_out"))):
            return "make room"
        case ast.BinOp(left=left, right=right):
            return words(left) + words(right)
    return "…"


def known() -> list[re.Pattern[str]]:
    """Return what the tables say of messages: parts in backticks, with … between them where they belong together."""
    found = []
    for line in (ROOT / "docs" / "operations.md").read_text("utf-8").splitlines():
        cells = line.split(" | ")
        if line.startswith("| `"):
            for phrase in cells[0].removeprefix("| ").split(", `"):
                parts = re.findall(r"`([^`]+)`?", "`" + phrase.removeprefix("`"))
                found.append(re.compile(".*".join(map(re.escape, parts)), re.DOTALL))
    return found


@pytest.mark.parametrize(("where", "text"), [pytest.param(*one, id=one[0]) for one in messages()])
def test_a_refusal_is_in_the_manual_and_says_what_to_do(where: str, text: str) -> None:
    assert ACTIONS.search(text), f"{where} says no action: {text}"
    assert any(phrase.search(text) for phrase in known()), f"{where} is not in docs/operations.md: {text}"


def test_there_are_some() -> None:
    assert len(messages()) > 40
    assert len(known()) > 40
