"""The pages of `docs/` as scripts: their console blocks are run, their YAML is read, their records are decoded.

    ```console            `$ cat FILE` makes a file of what follows it; `$ holdfast ...` runs in this process, and gives on
    ```                   standard output and then on standard error what follows it; `$ echo $?` is its exit code
    ```yaml               a whole configuration, or some of its sections; `# NAME` on its first line makes a file of it
    | record | ... |      a table of a page about records: what each record does, by the page's own configuration

`python -m tests.documentation PAGE...` writes what its commands say now into a page, to be looked at before it is committed.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from holdfast.jobs.command_line import exit_code_of

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if "notebooks" not in path.relative_to(DOCS).parts)

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILES = ("mkdir", "mv", "cp", "ls", "rm")
_VARYING = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ][0-9:.]+(?:Z|\+00:00)?"), "<time>"),
    (re.compile(r"seconds=[0-9.]+"), "seconds=<n>"),
    (re.compile(r"\b[0-9.]+ (?:s|ms|minutes?)\b"), "<n> s"),
    (re.compile(r" +"), " "),  # widths follow from the above
)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    language: str
    text: str

    @property
    def where(self) -> str:
        """The place to look at."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def file(self) -> str | None:
        """The name on its first line, where it is to be a file."""
        named = re.match(r"# ([\w.-]+\.(?:yaml|py))\n", self.text)
        return named[1] if named else None


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page."""
    text = page.read_text("utf-8")
    return [Block(page, text.count("\n", 0, m.start()) + 1, m[1], m[2]) for m in _BLOCK.finditer(text)]


def runs_spark(page: Path) -> bool:
    """Whether a page follows a source in its console blocks."""
    return any(b.language == "console" and re.search(r"^\$ holdfast run", b.text, re.MULTILINE) for b in blocks(page))


@dataclass
class Console:
    """One folder in which the console blocks of a page are run, one after the other."""

    folder: Path
    exit_code: int = 0

    def run(self, block: Block) -> str:
        """Return a block with what its commands say now."""
        if block.file is not None:
            (self.folder / block.file).write_text(block.text, "utf-8")
        if block.language != "console":
            return block.text
        said = []
        for step in filter(None, re.split(r"^(?=\$ )", block.text, flags=re.MULTILINE)):
            command, _, expected = step.partition("\n")
            blank = "\n" if expected.endswith("\n\n") or (not expected.strip() and expected) else ""
            said.append(f"{command}\n{self._answer(block, command.removeprefix('$ '), expected)}{blank}")
        return "".join(said)

    def _answer(self, block: Block, command: str, expected: str) -> str:
        words = shlex.split(command, comments=True)
        if words == ["echo", "$?"]:
            return f"{self.exit_code}\n"
        match words:
            case ["cat", name]:
                file = self.folder / name
                if not file.exists():
                    file.write_text(expected.rstrip("\n") + "\n", "utf-8")
                return file.read_text("utf-8")
            case ["holdfast", *arguments]:
                return self._holdfast(arguments)
            case ["python", name] if (self.folder / name).is_file():
                return self._process([sys.executable, name])
            case [tool, *_] if tool in _FILES:
                return self._process(words)
        raise AssertionError(f"{block.where}: nobody knows how to run '{command}'")

    def _holdfast(self, arguments: list[str]) -> str:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.chdir(self.folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            self.exit_code = exit_code_of(arguments)
        return (out.getvalue() + err.getvalue()).replace(str(self.folder), "/data")

    def _process(self, words: list[str]) -> str:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(words, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)
        self.exit_code = done.returncode
        return done.stdout + done.stderr


def alike(text: str) -> str:
    """Return a text without what differs from run to run.

    >>> alike("2026-01-02T03:04:05.6Z batch=1 seconds=0.25, restored in  1.4 s")
    '<time> batch=1 seconds=<n>, restored in <n> s'
    """
    for pattern, word in _VARYING:
        text = pattern.sub(word, text)
    return text


def write(page: Path) -> None:
    """Write what a page's commands say now into the page, where it is not alike what stands there."""
    with tempfile.TemporaryDirectory() as folder:
        console = Console(Path(folder).resolve())
        text = page.read_text("utf-8")
        for block in blocks(page):
            now = console.run(block)
            if alike(now) != alike(block.text):
                text = text.replace(f"```{block.language}\n{block.text}```", f"```{block.language}\n{now}```", 1)
        page.write_text(text, "utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        write(Path(name).resolve())
