"""YAML 1.2 text to plain values, each with its place, environment variables filled in.

The parser is ruamel's; what a plain scalar means is YAML's core schema [YAML 1.2.2, 10.3.2] and nothing else, so
that `on`, `no` and `2024-01-01` are strings. Mapping keys are always strings, as they are written.

`${NAME}` in a value stands for an environment variable, `$${` for `${`. The variable's text is put in after
parsing: it can hold anything and never becomes structure.

Invariant: reading takes time in proportion to the text. Size, depth and what aliases expand to are bounded, and
no tag makes an object.
"""

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

from holdfast.jobs.configuration.problems import Path, Place, Problems
from holdfast.jobs.configuration.secrets import OPEN_ENDED, SHORTEST_SECRET, is_secret

MAX_BYTES = 1 << 20
MAX_DEPTH = 40
MAX_VALUES = 50_000

_NULL = re.compile(r"~|null|Null|NULL|")
_BOOLEAN = re.compile(r"true|True|TRUE|false|False|FALSE")
_INTEGER = re.compile(r"[-+]?[0-9]{1,300}|0o[0-7]{1,300}|0x[0-9a-fA-F]{1,300}")
_DECIMAL = r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
_FLOAT = re.compile(rf"{_DECIMAL}|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_VARIABLE = re.compile(r"\$\$\{|\$\{([^}\n]*)\}?")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_HALF_CHARACTER = re.compile("[\ud800-\udfff]")
_HIDING = OPEN_ENDED | {"webhook"}
_PREFIX = "tag:yaml.org,2002:"


# What the parser is known to raise on texts that are no YAML: its own errors, and what slips through them.
_BROKEN = (YAMLError, ValueError, TypeError, AttributeError, LookupError, AssertionError, RecursionError)


class Filled(str):
    """A text with environment variables filled in.

    Attributes
    ----------
    written : the text as the file has it, which is all of it that may be shown.
    """

    __slots__ = ("written",)
    written: str

    def __new__(cls, text: str, written: str) -> "Filled":
        """Keep both texts."""
        self = super().__new__(cls, text)
        self.written = written
        return self


class Keyed(dict[str, Any]):
    """A mapping that knows where it stands.

    Attributes
    ----------
    path : its path from the top of the document.
    """

    path: Path = ()


@dataclass
class Document:
    """A text's value, and the place of everything in it.

    Attributes
    ----------
    value : mappings (`Keyed`), lists, `str`, `Filled`, `int`, `float`, `bool`, None.
    values, keys : the places of values and of mapping keys, by path.
    """

    value: Any = None
    values: dict[Path, Place] = field(default_factory=dict)
    keys: dict[Path, Place] = field(default_factory=dict)

    def place(self, path: Path) -> Place:
        """Return where the value at `path` stands, or the nearest thing around it."""
        while path and path not in self.values:
            path = path[:-1]
        return self.values.get(path, Place(1, 1))


class _Node(NamedTuple):
    """A scalar's text, or a collection's items; `size` counts the values in it, itself included."""

    place: Place
    content: Any
    plain: bool = False
    size: int = 1


def read_yaml(text: str, environment: Mapping[str, str], problems: Problems) -> Document:
    r"""Read one document; whatever is wrong is added to `problems`.

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
        problems.add(Place(line, column), (), f"a character ({code}) that YAML does not allow: is this a text file?")
        return document
    try:
        root = _compose(text, problems)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(mark.line + 1, mark.column + 1) if mark else Place(1, 1)
        problems.add(place, (), f"not YAML: {_plain_words(error, text, place)}")
    except (
        YAMLError,
        ValueError,
        RecursionError,
        AttributeError,
        TypeError,
        IndexError,
        KeyError,
        AssertionError,
    ) as error:
        problems.add(Place(1, 1), (), f"not YAML: {str(error).splitlines()[0] if str(error) else type(error).__name__}")
    except _Refused:
        pass
    else:
        if root is not None:
            document.value = _Builder(document, environment, problems).value(root, ())
    return document


def core_value(text: str) -> Any:
    """Return what a plain scalar means in YAML's core schema.

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
        return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    return text


class _Refused(Exception):
    """The text is well formed and not taken; the problem is noted."""


def _compose(text: str, problems: Problems) -> _Node | None:
    """Turn ruamel's events into nodes, without recursion."""
    parser = YAML(typ="safe", pure=True)
    root: _Node | None = None
    open_nodes: list[tuple[_Node, str | None]] = []
    anchors: dict[str, _Node] = {}
    events: Iterator[Any] = parser.parse(text)
    documents = 0
    most = max(MAX_VALUES, len(text))  # more than that only aliases make
    for event in events:
        place = Place(event.start_mark.line + 1, event.start_mark.column + 1)

        def refuse(message: str, place: Place = place) -> None:
            problems.add(place, (), message)
            raise _Refused

        if isinstance(event, DocumentStartEvent):
            documents += 1
            if documents > 1:
                refuse("a second document (after '---'): a configuration is one document")
            if event.version not in {None, (1, 2)}:
                refuse("expected YAML 1.2: remove the %YAML line")
            continue
        tag, anchor = getattr(event, "tag", None), getattr(event, "anchor", None)
        finished: _Node | None = None
        if isinstance(event, (MappingStartEvent, SequenceStartEvent)):
            if tag is not None:
                refuse(f"the tag {tag} is not supported: remove it")
            if len(open_nodes) == MAX_DEPTH:
                refuse(f"more than {MAX_DEPTH} levels deep: a configuration needs no more than ten")
            content: Any = [] if isinstance(event, SequenceStartEvent) else ()
            open_nodes.append((_Node(place, ([], content)), anchor))
        elif isinstance(event, (MappingEndEvent, SequenceEndEvent)):
            node, anchor = open_nodes.pop()
            finished = node._replace(
                content=tuple(node.content[0]) if node.content[1] == () else list(node.content[0]),
                size=1 + sum(child.size for child in node.content[0]),
            )
        elif isinstance(event, ScalarEvent):
            if tag not in {None, f"{_PREFIX}str", "!"}:
                refuse(f"the tag {tag} is not supported: remove it")
            finished = _Node(place, event.value, plain=event.style is None and tag is None)
        elif isinstance(event, AliasEvent):
            if event.anchor not in anchors:
                refuse(f"*{event.anchor} refers to nothing: no &{event.anchor} is complete before it")
            # The alias' own place: a problem in it is shown where it is used.
            finished = anchors[event.anchor]
        if finished is not None:
            if finished.size > most:
                refuse(f"aliases and values make more than {most:,} values")
            if anchor is not None and not isinstance(event, AliasEvent):
                anchors[anchor] = finished
            if open_nodes:
                open_nodes[-1][0].content[0].append(finished)
            else:
                root = finished
    return root


class _Builder:
    """Turns nodes into values, noting places and what is wrong on the way."""

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

    def filled(self, text: str, place: Place, path: Path) -> str:
        """Put environment variables in."""

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


def _plain_words(error: MarkedYAMLError, text: str, place: Place) -> str:
    """Say what the parser met, without the excerpt of the file that it would print."""
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
