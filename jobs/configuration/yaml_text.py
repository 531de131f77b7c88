"""YAML 1.2 text to plain values, each with its position, with environment variables replaced.

The parser is ruamel's; plain scalars have the values of YAML's core schema [YAML 1.2.2, 10.3.2] alone, so that `on`,
`no` and `2024-01-01` are strings. Mapping keys are always strings, as they are written.

`${NAME}` in a value stands for an environment variable, `$${` for `${`. Variables are replaced after parsing, so that
their text never becomes structure, whatever it contains.

Invariant: reading takes time in proportion to the text. Size, depth and the expansion of aliases are bounded, and no
tag creates an object.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from holdfast.display.secrets import OPEN_ENDED, SHORTEST_SECRET, is_secret
from holdfast.jobs.configuration.problems import Path, Problems, TextPosition

MAX_BYTES = 1 << 20
MAX_DEPTH = 40
MAX_VALUES = 50_000

_NULL = re.compile(r"~|null|Null|NULL|")
_BOOLEAN = re.compile(r"true|True|TRUE|false|False|FALSE")
_INTEGER = re.compile(r"[-+]?[0-9]{1,300}|0o[0-7]{1,300}|0x[0-9a-fA-F]{1,300}")
_DECIMAL = r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
_FLOAT = re.compile(rf"{_DECIMAL}|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_VARIABLE = re.compile(r"\$\$\{|\$\{([^}\n]*)\}?")
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_HALF_CHARACTER = re.compile("[\ud800-\udfff]")
_HIDING = OPEN_ENDED | {"webhook"}
_PREFIX = "tag:yaml.org,2002:"


_NOT_YAML = (YAMLError, ValueError, TypeError, AttributeError, LookupError, AssertionError, RecursionError)
"""The errors that the parser raises on texts that are not YAML: its own, and errors that it does not catch."""


class Filled(str):
    """A text in which environment variables were replaced.

    Attributes
    ----------
    written : the text of the file; only this text may be printed.
    """

    __slots__ = ("written",)
    written: str

    def __new__(cls, text: str, written: str) -> "Filled":
        """Keep both texts."""
        self = super().__new__(cls, text)
        self.written = written
        return self


class Number(float):
    """A number that is not whole.

    Attributes
    ----------
    written : the number as it was written, which may have more digits than a float.
    """

    __slots__ = ("written",)
    written: str

    def __new__(cls, number: float, written: str) -> "Number":
        """Keep the number and its text."""
        self = super().__new__(cls, number)
        self.written = written
        return self


class Keyed(dict[str, Any]):
    """A mapping with its path.

    Attributes
    ----------
    path : the keys and indexes that lead to the mapping from the top of the document.
    """

    path: Path = ()


@dataclass
class Document:
    """The value of a text, with the position of each value and key.

    Attributes
    ----------
    value : mappings (`Keyed`), lists, `str`, `Filled`, `int`, `float`, `bool`, None.
    values, keys : the positions of values and of mapping keys, by path.
    """

    value: Any = None
    values: dict[Path, TextPosition] = field(default_factory=dict)
    keys: dict[Path, TextPosition] = field(default_factory=dict)

    def place(self, path: Path) -> TextPosition:
        """Return the position of the value at `path`, or of the innermost value around it that exists."""
        while path and path not in self.values:
            path = path[:-1]
        return self.values.get(path, TextPosition(1, 1))


class _Node(NamedTuple):
    """A scalar's text, or a collection's items; `size` counts the values in it, itself included."""

    place: TextPosition
    content: Any
    plain: bool = False
    size: int = 1


def read_yaml(text: str, environment: Mapping[str, str], problems: Problems) -> Document:
    r"""Read a document; add everything that is wrong to `problems`.

    Examples
    --------
    >>> problems = Problems()
    >>> read_yaml("on: [no, 0o17, '1']\nat: ${HOME}/x", {"HOME": "/h"}, problems).value
    {'on': ['no', 15, '1'], 'at': '/h/x'}
    >>> _ = read_yaml("a: 1\na: ${NONE}", {}, problems)
    >>> [(p.place.line, p.message) for p in problems.ordered()]
    [(2, 'is given twice, first in line 1: remove one')]
    """
    document = Document()
    unprintable = _UNPRINTABLE.search(text)
    if unprintable:
        line = text.count("\n", 0, unprintable.start()) + 1
        column = unprintable.start() - text.rfind("\n", 0, unprintable.start())
        code = f"U+{ord(unprintable[0]):04X}"
        problems.add(
            TextPosition(line, column), (), f"a character ({code}) that YAML does not allow: is this a text file?"
        )
        return document
    try:
        events = YAML(typ="safe", pure=True).parse(text)
        root = _Composer(problems, max(MAX_VALUES, len(text))).composed(events)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = TextPosition(mark.line + 1, mark.column + 1) if mark else TextPosition(1, 1)
        problems.add(place, (), f"not YAML: {_plain_words(error, text, place)}")
    except _NOT_YAML as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        problems.add(TextPosition(1, 1), (), f"not YAML: {reason}")
    except _Refused:
        pass
    else:
        if root is not None:
            document.value = _Builder(document, environment, problems).value(root, ())
    return document


def yaml_scalar(text: str) -> str:
    r"""Return a text as a YAML scalar in which no environment variable is replaced.

    >>> print(*map(yaml_scalar, ("tax_1", "true", "a\x85b: ${c}")))
    tax_1 "true" "a\u0085b: $${c}"
    """
    if _PLAIN_NAME.fullmatch(text) and core_value(text) == text:
        return text
    written = json.dumps(text, ensure_ascii=False).replace("${", "$${")
    return "".join(c if c.isprintable() or ord(c) > 0xFFFF else f"\\u{ord(c):04x}" for c in written)


def core_value(text: str) -> Any:
    """Return the value of a plain scalar in YAML's core schema.

    >>> [core_value(t) for t in ("~", "true", "no", "-3", "1e3", ".5", "1.2.3", "0x1F", "2024-01-01")]
    [None, True, 'no', -3, 1000.0, 0.5, '1.2.3', 31, '2024-01-01']
    """
    if _NULL.fullmatch(text):
        return None
    if _BOOLEAN.fullmatch(text):
        return text.lower() == "true"
    if _INTEGER.fullmatch(text):
        base = {"0o": 8, "0x": 16}.get(text[:2], 10)
        return int(text[2:] if base != 10 else text, base)
    if _FLOAT.fullmatch(text):
        written = text.lower().replace(".inf", "inf").replace(".nan", "nan")
        return Number(float(written), written)
    return text


class _Refused(Exception):
    """The document is well formed but not accepted; the reason is noted."""


class _Composer:
    """Turns ruamel's events into nodes, without recursion.

    Parameters
    ----------
    problems : takes the reason why a document is refused.
    most : how many values the document may have; aliases alone can make more values than the text has characters.
    """

    def __init__(self, problems: Problems, most: int) -> None:
        self._problems = problems
        self._most = most
        self._root: _Node | None = None
        self._open: list[tuple[_Node, str | None, list[_Node]]] = []
        self._anchors: dict[str, _Node] = {}
        self._documents = 0

    def composed(self, events: Iterator[Any]) -> _Node | None:
        """Return the root of the document; None where it is empty."""
        for event in events:
            place = TextPosition(event.start_mark.line + 1, event.start_mark.column + 1)
            problem = self._take(event, place)
            if problem:
                self._problems.add(place, (), problem)
                raise _Refused
        return self._root

    def _take(self, event: Any, place: TextPosition) -> str:
        """Take an event; return why the document is refused, else an empty text."""
        tag, anchor = getattr(event, "tag", None), getattr(event, "anchor", None)
        if isinstance(event, DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                return "a second document (after '---'): a configuration is one document"
            return "" if event.version in {None, (1, 2)} else "expected YAML 1.2: remove the %YAML line"
        if isinstance(event, (MappingStartEvent, SequenceStartEvent)):
            if tag is not None:
                return f"the tag {tag} is not supported: remove it"
            if len(self._open) == MAX_DEPTH:
                return f"more than {MAX_DEPTH} levels deep: a configuration needs no more than ten"
            content: Any = [] if isinstance(event, SequenceStartEvent) else ()
            self._open.append((_Node(place, content), anchor, []))
            return ""
        if isinstance(event, (MappingEndEvent, SequenceEndEvent)):
            node, anchor, children = self._open.pop()
            size = 1 + sum(child.size for child in children)
            return self._finish(node._replace(content=type(node.content)(children), size=size), anchor)
        if isinstance(event, ScalarEvent):
            if tag not in {None, f"{_PREFIX}str", "!"}:
                return f"the tag {tag} is not supported: remove it"
            return self._finish(_Node(place, event.value, plain=event.style is None and tag is None), anchor)
        if isinstance(event, AliasEvent):
            if anchor not in self._anchors:
                return f"*{anchor} refers to nothing: no &{anchor} is complete before it"
            return self._finish(self._anchors[anchor], None)
        return ""

    def _finish(self, node: _Node, anchor: str | None) -> str:
        """Add a complete node to the collection around it; return why the document is refused, else an empty text."""
        if node.size > self._most:
            return f"aliases and values make more than {self._most:,} values"
        if anchor is not None:
            self._anchors[anchor] = node
        if self._open:
            self._open[-1][2].append(node)
        else:
            self._root = node
        return ""


class _Builder:
    """Turns nodes into values, and notes positions and problems."""

    def __init__(self, document: Document, environment: Mapping[str, str], problems: Problems) -> None:
        self.document = document
        self.environment = environment
        self.problems = problems

    def value(self, node: _Node, path: Path) -> Any:
        self.document.values[path] = node.place
        if isinstance(node.content, str):
            return self.scalar(node, path)
        if isinstance(node.content, list):
            return [self.value(child, (*path, i)) for i, child in enumerate(node.content)]
        mapping = Keyed()
        mapping.path = path
        for key, child in zip(node.content[::2], node.content[1::2], strict=True):
            if not isinstance(key.content, str):
                self.problems.add(key.place, path, "a list or a mapping stands where a name is expected")
                continue
            name = key.content
            at = (*path, name)
            if name in mapping:
                first = self.document.keys[at].line
                self.problems.add(key.place, at, f"is given twice, first in line {first}: remove one")
                continue
            self.document.keys[at] = key.place
            mapping[name] = self.value(child, at)
        return mapping

    def scalar(self, node: _Node, path: Path) -> Any:
        text = node.content
        value = self.filled(text, node.place, path) if "${" in text else core_value(text) if node.plain else text
        if isinstance(value, str) and _HALF_CHARACTER.search(value):
            self.problems.add(node.place, path, "holds half a character (U+D800 to U+DFFF): remove it")
            return ""
        return value

    def filled(self, text: str, place: TextPosition, path: Path) -> str:
        """Return a text with environment variables replaced."""

        def replaced(match: re.Match[str]) -> str:
            name = match[1]
            if name is None:
                return "${"
            if not _VARIABLE_NAME.fullmatch(name) or not match[0].endswith("}"):
                self.problems.add(place, path, f"'{match[0]}' is no variable: write ${{NAME}}, or $${{ for a plain ${{")
            elif name not in self.environment:
                self.problems.add(place, path, f"the variable {name} is not set: set it, or write $${{ for a plain ${{")
            else:
                value = self.environment[name]
                is_hidden = is_secret(name) or any(is_secret(str(step)) or step in _HIDING for step in path)
                if is_hidden and len(value) >= SHORTEST_SECRET:
                    self.problems.secrets.add(value)
                return value
            return match[0]

        return Filled(_VARIABLE.sub(replaced, text), text)


def _plain_words(error: MarkedYAMLError, text: str, place: TextPosition) -> str:
    """Return the error of the parser in plain words, without its excerpt of the file."""
    lines = text.splitlines()
    line = lines[place.line - 1] if place.line <= len(lines) else ""
    problem = (error.problem or "the text ends too early").replace("<", "").replace(">", "")
    if "${" in line[max(0, place.column - 2) : place.column]:
        return 'inside braces or brackets a variable stands in quotes: "${NAME}"'
    if "\\t" in problem or "\t" in line[: place.column]:
        return "a tab where only spaces may stand: replace it with spaces"
    if "mapping values are not allowed" in problem:
        return "a ':' that does not belong here: check the indentation, and put a text that contains ': ' in quotes"
    if "%" in problem or "cannot start any token" in problem:
        return f"{problem}: put the text in quotes"
    context = f", {error.context}" if error.context else ""
    started = ""
    if error.context_mark and error.context_mark.line + 1 != place.line:
        started = f" that starts in line {error.context_mark.line + 1}"
    return f"{problem}{context}{started}"
