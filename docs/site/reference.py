"""Generates the reference pages from the code: commands, configuration keys, output tables, Python API, errors.

A page has a line `<!-- made from the code: NAME -->`, which `filled` replaces with Markdown. Invariant: descriptions
come from the code alone; an option, a key or a column without a description is an error of the build.
"""

import ast
import datetime
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import pairwise
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import click
from pydantic import BaseModel
from pydantic.fields import FieldInfo

import holdfast
from holdfast.constraints import HoldfastError
from holdfast.jobs.command_line import holdfast as command_line
from holdfast.jobs.configuration import settings
from holdfast.jobs.configuration.quantities import duration_text
from holdfast.streaming.sinks.shapes import SHAPES, Shape

_MARK = re.compile(r"^<!-- made from the code: (\w+) -->$", re.MULTILINE)

_SCALARS = {
    "Texts": "a text, or a list of texts",
    "Constants": "a value, or a list of values",
    "Range": "`[least, greatest]`, `{min: ...}` or `{max: ...}`",
    "Text": "a text",
    "Option": "a text, a number, true or false",
    "Count": "a number from 0 on",
    "AtLeastOne": "a number from 1 on",
    "Flag": "true or false",
    "Duration": "a duration such as `5 minutes`",
    "Interval": "a duration such as `500 ms`",
    "Size": "a size such as `64 MB`",
    "Share": "a share such as `1%`",
    "Limit": "a number, or a share such as `0.1%`",
    "StoragePlace": "a path or an address (`s3://...`)",
    "LocalPlace": "a path",
    "LocalFile": "a path",
}
"""The description of each type of `jobs/configuration/quantities.py`."""


def filled(text: str) -> str:
    """Return a page with its marks replaced by generated Markdown.

    >>> filled("no mark")
    'no mark'
    """
    return _MARK.sub(lambda mark: PARTS[mark[1]](), text)


def commands() -> str:
    """Return every command with its usage, its help text and its options."""
    names = [name for _, named in _sections() for name in named]
    assert sorted(names) == sorted(command_line.commands), "a command is in no section"
    parts = []
    for title, named in _sections():
        parts.append(f"## {title}\n")
        parts += [_command(name, command_line.commands[name]) for name in named]
    return "\n".join(parts)


def configuration() -> str:
    """Return every section of a configuration, with its keys."""
    return "\n".join(_section(path, model) for path, model in sections())


def sections() -> Iterator[tuple[str, type[BaseModel]]]:
    """Yield each section of a configuration with its path, the configuration itself first."""
    waiting: list[tuple[str, type[BaseModel]]] = [("", settings.Settings)]
    while waiting:
        path, model = waiting.pop(0)
        yield path, model
        inner = []
        for name, field in model.model_fields.items():
            mark = "[]" if get_origin(_plain(field.annotation)) is tuple else ""
            inner += [(f"{path}.{name}{mark}".lstrip("."), found) for found in _models(field.annotation)]
        waiting = inner + waiting


def tables() -> str:
    """Return every output table with its columns."""
    return "\n".join(_table(shape) for shape in SHAPES.values())


def python() -> str:
    """Return directives for every public name."""
    parts = []
    for name in sorted(set(holdfast.__all__) - {"__version__"}, key=str.lower):
        kind = "autoclass" if inspect.isclass(getattr(holdfast, name)) else "autofunction"
        members = "\n   :members:" if kind == "autoclass" else ""
        parts.append(f"## {name}\n\n```{{eval-rst}}\n.. {kind}:: holdfast.{name}{members}\n```\n")
    return "\n".join(parts)


def errors() -> str:
    """Return the public errors with their exit codes."""
    rows = [
        (
            f"`{kind.__name__}`",
            str(kind.exit_code),
            (inspect.getdoc(kind) or "").partition("\n\n")[0].replace("\n", " "),
        )
        for kind in _kinds(HoldfastError)
    ]
    return _grid(("class", "exit code", "meaning"), rows)


PARTS: dict[str, Callable[[], str]] = {
    part.__name__: part for part in (commands, configuration, tables, python, errors)
}


def _sections() -> list[tuple[str, list[str]]]:
    from holdfast.jobs.command_line import _SECTIONS  # the order of `--help`

    return [(title, [command.name or "" for command in listed]) for title, listed in _SECTIONS.items()]


def _command(name: str, command: click.Command) -> str:
    # in the context of the group: click caches the option --help of a command
    context = click.Context(command, click.Context(command_line, **command_line.context_settings), name)
    usage = " ".join(["holdfast", name, *command.collect_usage_pieces(context)])
    lines = [f"### holdfast {name}\n", f"```text\n{usage}\n```\n", *_paragraphs(command.help or "")]
    options = [option for option in command.get_params(context) if isinstance(option, click.Option)]
    rows = []
    for option in options:
        record = option.get_help_record(context)
        if record is not None:
            spelled, meaning = record
            rows.append((f"`{spelled}`", _described(meaning, f"holdfast {name} {spelled}")))
    return "\n".join([*lines, _grid(("option", "meaning"), rows)])


def _paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs of a help text; a paragraph that click does not wrap becomes code."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        if paragraph.startswith("\b\n"):
            head, _, body = paragraph.removeprefix("\b\n").partition("\n")
            if body.startswith(" "):
                yield f"{head}\n\n```text\n{textwrap.dedent(body)}\n```\n"
            else:
                yield f"```text\n{paragraph.removeprefix(chr(8) + chr(10))}\n```\n"
        else:
            yield _escaped(paragraph) + "\n"


def _section(path: str, model: type[BaseModel]) -> str:
    meanings = attribute_docstrings(model)
    title = f"`{path}`" if path else "The file"
    if variants := [v for v in ("files", "kafka", "delta") if model.__name__.lower().startswith(v)]:
        title += f" with `format: {variants[0]}`"
    rows = [
        (
            f"`{name}`",
            _expected(model, name, field),
            _default(model, field),
            _described(meanings.get(name), f"{model.__name__}.{name}"),
        )
        for name, field in model.model_fields.items()
    ]
    return f"## {title}\n\n{_first_sentence(model)}\n\n" + _grid(("key", "expected", "default", "meaning"), rows)


@cache
def attribute_docstrings(model: type[BaseModel]) -> dict[str, str]:
    """Return the description below each field of a section."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(model))).body[0]
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for field, below in pairwise(tree.body):
        if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
            continue
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            found[field.target.id] = str(below.value.value)
    return found


def _expected(model: type[BaseModel], name: str, field: FieldInfo) -> str:
    if any(_models(field.annotation)):
        listed = get_origin(_plain(field.annotation)) is tuple
        mapping = _annotation(model, name).startswith("Mapping")
        kind = "a list of sections" if listed else "a section by column" if mapping else "a section"
        return f"{kind}, see below"
    if choices := _choices(field.annotation):
        listed = get_origin(_plain(field.annotation)) is tuple
        return ("one or several of " if listed else "") + ", ".join(f"`{choice}`" for choice in choices)
    if name in _OTHERS and model is not settings.Settings:
        return _OTHERS[name]
    written = _annotation(model, name)
    for alias, words in _SCALARS.items():
        if re.search(rf"\b{alias}\b", written):
            if "Mapping" in written:
                return f"a mapping to {words}"
            return words if "tuple" not in written else "a list of texts"
    raise LookupError(f"{model.__name__}.{name}: no words for {written}; give them in docs/site/reference.py")


_OTHERS = {
    "cross_columns": "`auto`, `none`, or pairs of columns",
    "share": "a share of the rows, such as `1%`",
    "suspects": "`auto`, `off`, or a number of batches",
    "type": "a column type",
    "encoding": "a name of an encoding",
    "delimiter": "one character",
    "null_tokens": "a text, a list of texts, or `auto`",
    "strings": "`all`, a column, or a list of columns",
    "servers": "`host:port`, with commas",
    "start": "`earliest`, `latest`, a time, or offsets",
}
"""The descriptions of fields with validators of their own."""


def _annotation(model: type[BaseModel], name: str) -> str:
    tree = ast.parse(textwrap.dedent(inspect.getsource(model))).body[0]
    assert isinstance(tree, ast.ClassDef)
    for field in tree.body:
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and field.target.id == name:
            return ast.unparse(field.annotation)
    raise LookupError(f"{model.__name__} has no field '{name}'")


def _default(model: type[BaseModel], field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.default
    if model is settings.RetentionSettings and value is None:
        return "`forever`"
    if isinstance(value, BaseModel) or value is None or value in ((), {}):
        return ""
    return f"`{_written(value)}`"


def _written(value: Any) -> str:
    if isinstance(value, datetime.timedelta):
        return duration_text(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float | Fraction):
        return f"{float(value * 100):g}%"
    if isinstance(value, int) and value >= 1_000_000:
        return f"{value // 1_000_000} MB"
    if isinstance(value, tuple):
        return "[" + ", ".join(f'"{part}"' for part in value) + "]"
    return str(value)


def _table(shape: Shape) -> str:
    notes = [shape.description]
    notes.append(f"Merged by `{shape.key}`." if shape.key else "Appended to.")
    if shape.change_feed:
        notes.append("Has a change data feed.")
    if shape.partition_by:
        notes.append(f"Partitioned by {', '.join(f'`{name}`' for name in shape.partition_by)}.")
    if shape.aged_by:
        notes.append(f"`retention.{shape.name}` says how long rows stay, by `{shape.aged_by}`.")
    rows = [(f"`{name}`", f"`{kind}`", _described(text, f"{shape.name}.{name}")) for name, kind, text in shape.columns]
    return f"## {shape.name}\n\n{' '.join(notes)}\n\n" + _grid(("column", "type", "meaning"), rows)


def _kinds(root: type[HoldfastError]) -> Iterator[type[HoldfastError]]:
    yield root
    for kind in root.__subclasses__():
        if kind.__module__ == HoldfastError.__module__:
            yield from _kinds(kind)


def _first_sentence(kind: type) -> str:
    return (inspect.getdoc(kind) or "").partition("\n\n")[0].replace("\n", " ")


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        if get_origin(annotation) is not Literal:
            yield from _models(part)


def _choices(annotation: Any) -> tuple[Any, ...]:
    """Return the values of a `Literal`; none for other types."""
    plain = _plain(annotation)
    if get_origin(plain) is Literal:
        return get_args(plain)
    if get_origin(plain) is tuple:
        return _choices(get_args(plain)[0])
    return ()


def _plain(annotation: Any) -> Any:
    """Return an annotation without `Annotated` and None."""
    if get_origin(annotation) is Annotated:
        return _plain(get_args(annotation)[0])
    if get_origin(annotation) in {Union, UnionType}:
        parts = [part for part in get_args(annotation) if part is not type(None)]
        return _plain(parts[0]) if len(parts) == 1 else annotation
    return annotation


def _described(meaning: str | None, of: str) -> str:
    if not meaning or not meaning.strip():
        raise LookupError(f"{of} has no description: add it where {of} is defined")
    return _escaped(meaning)


def _escaped(text: str) -> str:
    """Return a text with the special characters of Markdown escaped, except in code."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([\\*_<>\[\]])", r"\\\1", part) for part in parts)


def _grid(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"
