"""Reads declared rules: from a file of lines, from a YAML file, and from `--rule`.

    tax_rate: not(t.State = s.State and t.Salary > s.Salary and t.Rate < s.Rate)    # a comment
    Zip -> City                                                                     # its name is its text
    `at: noon`: key(Phone)                                                          # a name in backquotes
    places: Zip -> City, State                             # two rules, called places.City and places.State

The name of a line ends at its first ':'. A name with a colon, an opening bracket or the start of a comment is written
in backquotes, as names of columns are. `#` starts a comment unless it is part of a name, as in `Item#`. A YAML file has
the `rules` of a configuration, a list of rules alone, or a whole configuration.

Invariant: the rules have distinct names and are well formed; all problems are reported together, with their lines.
"""

import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path as FilePath

from holdfast.constraints import InclusionDependency, Rule, Schema, UsageError, parse_rule_parts
from holdfast.constraints.columns import unknown_name
from holdfast.display.rule_names import named_by_text
from holdfast.jobs.configuration.problems import ConfigurationError, Enough, Path, Problems, TextPosition
from holdfast.jobs.configuration.reading import content_of, decoded, validated
from holdfast.jobs.configuration.rules import build_rules, named_columns
from holdfast.jobs.configuration.settings import RuleSettings, Settings
from holdfast.jobs.configuration.settings_model import Reading
from holdfast.jobs.configuration.yaml_text import Document, Keyed, read_yaml

MAX_BYTES = 64 << 20
COMMAND_LINE = "--rule"
YAML_ENDINGS = frozenset({".yaml", ".yml"})

_NAME = re.compile(r"\s*+(?:`((?:[^`]|``)*)`|((?:(?!\s#)[^:`({\[∀\\])*)):\s*")
_PIECE = re.compile(r"`[^`]*`|'[^']*'|(?<![^\s)`'])#")
_YAML_START = re.compile(r"\s*(?:rules\s*:\s*(?:#.*)?|-(?:\s.*)?)")

_Found = defaultdict[str, Problems]


@dataclass(frozen=True)
class Declared:
    """A rule, and where it was declared.

    Parameters
    ----------
    rule : the rule; its table is empty where the declaration names none, and `placed` finds it.
    origin, place : the file and the position in it; `--rule` for the command line.
    columns : the columns of all rules of the same declaration, which are about one table.
    """

    rule: Rule
    origin: str
    place: TextPosition
    columns: frozenset[str]


def read_rules(
    file: FilePath | None, texts: Sequence[str], tables: Sequence[str], origin: str = COMMAND_LINE
) -> list[Declared]:
    """Read the rules of a file and of the command line (`origin`), for tables of these names.

    Their columns are checked later, by `placed`.
    """
    reader = _Reader(tables)
    with suppress(Enough):
        if file is not None:
            reader.file(file)
        for text in texts:
            reader.line(text, origin)
    _refuse(reader.found)
    return reader.declared


def placed(declared: Sequence[Declared], schemas: Mapping[str, Schema]) -> list[Rule]:
    """Return the rules with their tables; raise an error with all rules that do not fit the tables."""
    found = _Found(Problems)
    rules = []
    reported: set[tuple[str, TextPosition, frozenset[str], str]] = set()
    for one in declared:
        rule = one.rule
        having = [name for name, schema in schemas.items() if one.columns <= set(schema.names)]
        if not rule.table and len(having) == 1:
            rule = replace(rule, table=having[0])
        missing = [(one.origin, one.place, one.columns, text) for text in _missing(rule, one.columns, having, schemas)]
        new = [problem[-1] for problem in missing if problem not in reported]  # once for all rules of a declaration
        reported.update(missing)
        with suppress(Enough):
            for problem in [f"rule {rule.name}: {problem}" for problem in new] if missing else unfit(rule, schemas):
                found[one.origin].add(one.place, (), problem)
        rules.append(rule)
    _refuse(found)
    return rules


def _refuse(found: _Found) -> None:
    """Raise an error with all problems, if there are any."""
    errors = [ConfigurationError(origin, problems.ordered()) for origin, problems in found.items() if problems]
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise UsageError("\n".join(map(str, errors)))


def _missing(
    rule: Rule, columns: frozenset[str], having: Sequence[str], schemas: Mapping[str, Schema]
) -> Iterator[str]:
    """Yield a problem for each table and column of a rule that does not exist."""
    if not rule.table:
        yield from _no_one_table(columns, having, schemas)
        return
    for table, column in named_columns(rule):
        if table not in schemas:
            yield unknown_name("there is no table", table, schemas)
        elif column not in schemas[table]:
            yield unknown_name(f"table {table} has no column", column, schemas[table].names)


def unfit(rule: Rule, schemas: Mapping[str, Schema]) -> Iterator[str]:
    """Yield the reason why a rule whose columns exist cannot be checked, such as their types."""
    from holdfast.discovery.detection.forms import form_of

    try:
        form_of(rule, schemas)
    except UsageError as error:
        yield str(error)


def _no_one_table(columns: frozenset[str], having: Sequence[str], schemas: Mapping[str, Schema]) -> Iterator[str]:
    if having:
        yield (
            f"tables {', '.join(having)} have its columns: name the table in a YAML rules file, as in "
            f"- {{name: ..., table: {having[0]}, forbid: ...}}"
        )
        return
    every = dict.fromkeys(name for schema in schemas.values() for name in schema.names)
    unknown = sorted(columns - set(every))
    for column in unknown:
        yield unknown_name("no table has a column", column, every)
    if not unknown:
        owned = {name: sorted(columns & set(schema.names)) for name, schema in schemas.items()}
        parts = "; ".join(f"{name} has {', '.join(names)}" for name, names in owned.items() if names)
        yield f"no table has all its columns ({parts}): a rule is about one table, or an inclusion"


class _Reader:
    """Collects rules, and their problems by origin."""

    def __init__(self, tables: Sequence[str]) -> None:
        self.declared: list[Declared] = []
        self.found = _Found(Problems)
        self._tables: Mapping[str, None] = dict.fromkeys(tables)
        self._only = tables[0] if len(tables) == 1 else ""
        self._named: dict[str, str] = {}

    def file(self, file: FilePath) -> None:
        origin = str(file)
        problems = self.found[origin]
        content = content_of(file, MAX_BYTES)
        if len(content) > MAX_BYTES:
            problems.add(TextPosition(1, 1), (), f"is larger than {MAX_BYTES >> 20} MiB: this is no rules file")
            return
        text = decoded(content, problems)
        if text is None:
            return
        lines = [line.removesuffix("\r") for line in text.split("\n")]
        written = [(number, line) for number, line in enumerate(lines, 1) if line.strip() and line.lstrip()[0] != "#"]
        if not written:
            problems.add(TextPosition(1, 1), (), "has no rule: expected lines such as 'zip_city: Zip -> City'")
        elif file.suffix.lower() in YAML_ENDINGS or _YAML_START.fullmatch(written[0][1]):
            self._yaml(read_yaml(text, os.environ, problems), origin, str(file.resolve().parent))
        else:
            for number, line in written:
                self.line(line, origin, number)

    def line(self, text: str, origin: str, number: int = 0) -> None:
        """Read `name: body`, or a body without a name."""
        head = _NAME.match(text)
        start = head.end() if head else len(text) - len(text.lstrip())
        body = _without_comment(text[start:])
        place = TextPosition(number, start + 1) if number else TextPosition()
        name = body
        if head:
            name = head[2].strip() if head[1] is None else head[1].replace("``", "`")
        if head and not (name and body):
            problem = "needs a rule after its ':'" if name else "needs a name before its ':'"
            self.found[origin].add(place, (), f"{problem}, as in 'zip_city: Zip -> City'")
            return
        try:
            parts = parse_rule_parts(body)
            first = parts[0].body
            table = first.dependent.table if isinstance(first, InclusionDependency) else self._only
            rules = [Rule(part.named(name), table, part.body) for part in parts]
            rules = rules if head else named_by_text(rules)
        except UsageError as error:
            self._name(name, origin, place)
            self.found[origin].add(place, (), str(error))
            return
        columns = frozenset(column for rule in rules for column in rule.columns)
        for rule in rules:
            self._name(rule.name, origin, place)
            self.declared.append(Declared(rule, origin, place, columns))

    def _name(self, name: str, origin: str, place: TextPosition) -> None:
        where = f"{origin}:{place.line}" if place.line else origin
        if name in self._named:
            problem = f"'{name}' is the name of a rule already ({self._named[name]}): choose another"
            self.found[origin].add(place, (), problem)
        self._named.setdefault(name, where)

    def _yaml(self, document: Document, origin: str, folder: str) -> None:
        problems = self.found[origin]
        at, rules = _rules_in(document, problems)
        reading = Reading(folder, document, problems)
        for i, item in enumerate(rules):
            path = (*at, i)
            if isinstance(item, Keyed) and isinstance(item.get("name"), str):
                self._name(item["name"], origin, document.place((*path, "name")))
            settings = validated(RuleSettings, item, reading, path)
            if settings is None:
                continue
            if self._only and settings.table is None and settings.inclusion is None:
                settings = settings.model_copy(update={"table": self._only})

            def refuse(below: Path, message: str, path: Path = path) -> None:
                problems.add(document.place((*path, *below)), (*path, *below), message)

            made = build_rules(settings, self._tables, refuse)
            columns = frozenset(column for rule in made for column in rule.columns)
            for rule in made:
                if rule.name != settings.name:
                    self._name(rule.name, origin, document.place((*path, "name")))
                self.declared.append(Declared(rule, origin, document.place((*path, settings.form)), columns))


def _rules_in(document: Document, problems: Problems) -> tuple[Path, list[object]]:
    """Return the list of rules in a document, and its path."""
    at: Path = ()
    rules = document.value
    if isinstance(rules, Keyed):
        for key in rules:
            if key not in Settings.model_fields:
                problems.add(document.keys[(key,)], (key,), unknown_name("unknown key", key, Settings.model_fields))
        at, rules = ("rules",), rules.get("rules")
    if isinstance(rules, list) and rules:
        return at, rules
    if not problems:
        problems.add(document.place(at), at, "expected a list of rules, as in '- {name: zip_city, fd: Zip -> City}'")
    return at, []


def _without_comment(text: str) -> str:
    comment = next((piece for piece in _PIECE.finditer(text) if piece[0] == "#"), None)
    return text[: comment.start() if comment else None].rstrip()
