"""Configurations that nobody would write: whatever the text, nothing but a refusal comes out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.constraints import UsageError
from holdfast.display.secrets import masked
from holdfast.jobs.configuration.problems import ConfigurationError, TextPosition
from holdfast.jobs.configuration.reading import read_configuration
from holdfast.jobs.validate import summary
from tests.unit.test_configuration import GOOD, SHIPPED, TOP, shipped

if TYPE_CHECKING:
    from collections.abc import Iterator

PIECES = [
    "{",
    "}",
    "[",
    "]",
    ":",
    "- ",
    "&a ",
    "*a",
    "!!str ",
    "|",
    ">",
    "'",
    '"',
    "#",
    "%",
    "@",
    "`",
    "~",
    "${X}",
    "${",
    "$${",
]
PIECES += [
    "\n",
    "\n  ",
    "\t",
    "? ",
    "<<: ",
    "null",
    "no",
    "-1",
    "1e400",
    ".nan",
    "0x",
    "\u2028",
    "\ufeff",
    "e\u0301",
    "\x00",
    "---",
    "...",
]


def mutations() -> st.SearchStrategy[str]:
    """Return shipped configurations with pieces replaced, put in, or taken out."""
    change = st.tuples(st.integers(0, 6_000), st.integers(0, 12), st.sampled_from(PIECES) | st.text(max_size=4))

    def changed(text: str, changes: list[tuple[int, int, str]]) -> str:
        for start, length, piece in changes:
            at = start % (len(text) + 1)
            text = text[:at] + piece + text[at + length :]
        return text

    texts = st.sampled_from([GOOD, *map(shipped, SHIPPED)])
    return st.builds(changed, texts, st.lists(change, max_size=6))


def trees() -> st.SearchStrategy[str]:
    """Return YAML made of known names and odd values in the wrong places."""
    names = st.sampled_from(
        [
            "name",
            "state",
            "backup",
            "output",
            "checkpoint",
            "tables",
            "source",
            "seed",
            "format",
            "kafka",
            "files",
            "path",
            "encoding",
            "key",
            "columns",
            "include",
            "exclude",
            "constraints",
            "denial",
            "cross_columns",
            "rules",
            "fd",
            "forbid",
            "od",
            "inclusion",
            "alerts",
            "on",
            "webhook",
            "spark",
            "start",
            "options",
        ]
    )
    scalars = st.one_of(names, st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)).map(repr)
    return st.recursive(
        scalars,
        lambda inner: (
            st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]")
            | st.lists(st.tuples(names, inner), max_size=5).map(
                lambda items: "{" + ", ".join(f"{k}: {v}" for k, v in items) + "}"
            )
        ),
        max_leaves=12,
    )


def blocks() -> Iterator[st.SearchStrategy[str]]:
    keys = ("tables", "rules", "alerts", "constraints", "quarantine", "trigger", "state", "storage_options")
    for key in keys:
        yield trees().map(lambda tree, key=key: f"{GOOD}{key}2: 1\n{key}: {tree}\n")  # type: ignore[misc]
        yield trees().map(lambda tree, key=key: f"{TOP}tables:\n  - name: tax\n    {key}: {tree}\n    seed: {tree}\n")  # type: ignore[misc]
        yield trees().map(lambda tree, key=key: f"{key}: {tree}\n")  # type: ignore[misc]


@given(text=st.one_of(mutations(), trees(), *blocks(), st.text(), st.binary()))
@example(text="a: " + "9" * 5_000)
@example(text="? |-\n  " + "x" * 2_000 + "\n: 1")
def test_nothing_but_usage_errors_comes_out(text: str | bytes) -> None:
    content = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    try:
        configuration = read_configuration(content, "c.yaml", "/srv/app", {"X": "1", "HOOK_TOKEN": "x"})
    except UsageError as error:
        assert str(error).startswith(("1 error in", *(f"{n} errors in" for n in range(2, 1_000))))
        assert isinstance(error, ConfigurationError)
        assert all(p.place >= TextPosition(1, 1) for p in error.problems)
    else:
        assert all(masked(line) for line in summary(configuration) if line)
