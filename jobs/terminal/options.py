"""The options that commands share.

Invariant: an option means the same in every command that has it; `ReadOptions` is made here only.
"""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.display.short_forms import KINDS
from holdfast.jobs.terminal.formats import csv_lines
from holdfast.jobs.terminal.logs import IS_JSON, LOWEST_LEVEL, let_rust_log
from holdfast.jobs.terminal.progress import LEVELS, LogOptions, progress_on

if TYPE_CHECKING:
    from fractions import Fraction

    from holdfast.jobs.terminal.progress import Progress
    from holdfast.tables import ReadOptions

Decorator = Callable[[Any], Any]

EXISTING = click.Path(exists=True, path_type=Path)
EXISTING_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
NEW_FILE = click.Path(dir_okay=False, path_type=Path)


MOST = 2**63 - 1
MOST_THREADS = 1_024


class Whole(click.IntRange):
    """A whole number; the help shows its smallest value alone.

    Parameters
    ----------
    least : the smallest number that is accepted.
    most : the largest number that is accepted; None for any number, where numbers above `MOST` mean `MOST`.
    """

    def __init__(self, least: int = 0, most: int | None = None) -> None:
        super().__init__(min=least)
        self._most = most

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        """Return the number, or an error that names the range."""
        number = super().convert(value, parameter, context)
        if self._most is not None and number > self._most:
            self.fail(f"{number} is not in the range {self.min}<=x<={self._most}.", parameter, context)
        return min(number, MOST)


def number(name: str, text: str, least: int = 0, most: int | None = None, **given: Any) -> Decorator:
    """Return an option with a whole number, and any attributes of an option."""
    attributes = {"metavar": "N", "help": text, "show_default": "default" in given, **given}
    return click.option(name, type=Whole(least, most), **attributes)


@dataclass(frozen=True)
class Answering:
    """How a command answers: --format, --output, --quiet, and --sentences and --formal in commands that have these."""

    format: str
    output: Path | None
    quiet: bool
    sentences: bool = False
    formal: bool = False

    @property
    def as_json(self) -> bool:
        """Whether the answer is made of JSON lines."""
        return self.format in {"json", "csv"}

    def lines(self, lines: Iterable[str]) -> Iterable[str]:
        """Return the lines of the answer as they are written: JSON lines as CSV, if that is asked for."""
        return csv_lines(lines) if self.format == "csv" else lines

    def progress(self) -> "Progress":
        """Return the progress for the command's notes, on standard error."""
        return progress_on(sys.stderr, LogOptions(self.quiet))


def _stacked(*options: Decorator) -> Decorator:
    """Return a decorator that adds several options, which the help lists in this order."""

    def add(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def _quietly(context: click.Context, _: click.Parameter, is_quiet: bool) -> bool:
    """With --quiet, leave out warnings of libraries too."""
    if is_quiet:
        context.meta[LOWEST_LEVEL] = "error"
    return is_quiet


quiet = click.option("--quiet", is_flag=True, callback=_quietly, help="No progress, no notes; errors are still shown.")


def _answering(formats: Sequence[str], text: str) -> Decorator:
    """Return the options that say how a command answers: --format, --output and --quiet."""
    return _stacked(
        click.option("--format", "format_", type=click.Choice(formats), default="text", help=text),
        click.option(
            "--output", type=NEW_FILE, metavar="FILE", help="File to write results to, completely or not at all."
        ),
        quiet,
    )


answering = _answering(["text", "json"], "Text, or JSON lines.")
"""How a command answers that describes something."""
listing = _answering(["text", "json", "csv"], "Text, JSON lines, or CSV.")
"""How a command answers that lists things."""
checking = _answering(["text", "json", "csv", "junit"], "Text, JSON lines, CSV, or the XML of JUnit.")
"""How a command answers that gives verdicts."""


sentences = click.option("--sentences", is_flag=True, help="Add each constraint in plain words.")
formal = click.option("--formal", is_flag=True, help="Write constraints as --format json has them: not(t.a = s.a).")

speaking = _stacked(
    click.option(
        "--log-level",
        type=click.Choice(LEVELS),
        default="info",
        show_default=True,
        metavar="LEVEL",
        help="Lowest level to write: debug, info, warning, error.",
    ),
    click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        default="text",
        help="Lines for people, or one JSON object each.",
    ),
)
"""Which notes a job writes while it runs: --log-level and --log-format."""


def log_options(log_level: str, log_format: str, *, quiet: bool) -> LogOptions:
    """Return which notes a job writes, and apply the same to logs of libraries and to the error that ends the job."""
    log = LogOptions(quiet, log_level, log_format == "json")
    click.get_current_context().meta.update({IS_JSON: log.as_json, LOWEST_LEVEL: log.lowest_level})
    if log_level == "debug":
        let_rust_log()
    return log


reading = _stacked(
    click.option("--strings", metavar="COL,...|all", help="Columns to read as text."),
    click.option("--typed-header", is_flag=True, help="The header names types: age(Integer), or age int."),
    click.option(
        "--null",
        "null",
        multiple=True,
        metavar="TOKEN|auto",
        help="Text that stands for null [default: empty]; auto: also NA, NULL, -, ? and the like in columns of other "
        "types than text.",
    ),
    click.option("--encoding", default="utf-8", show_default=True, help="Encoding of text files."),
    click.option("--delimiter", default=",", show_default=True, help="One character, or 'tab'."),
    number("--threads", "Threads to use [default: all cores].", 1, MOST_THREADS),
    number("--limit", "Read only the first rows of each file.", metavar="ROWS"),
)
"""How files are read."""


def _spark_settings(_: click.Context, __: click.Parameter, pairs: tuple[str, ...]) -> dict[str, str]:
    """Return the settings of all options --conf, or raise an error for a text that is no setting."""
    settings = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.startswith("spark."):
            raise click.BadParameter(f"'{pair}' is no setting of Spark; expected spark.NAME=VALUE")
        settings[name] = value
    return settings


on_spark = _stacked(
    click.option("--spark", is_flag=True, help="Read and search on Spark."),
    click.option(
        "--master", metavar="URL", help="A Spark cluster: spark://HOST:PORT, k8s://URL, yarn [default: this machine]."
    ),
    click.option(
        "--conf",
        "spark_settings",
        multiple=True,
        callback=_spark_settings,
        metavar="NAME=VALUE",
        help="A setting of Spark; may be repeated.",
    ),
    click.option(
        "--work", metavar="FOLDER", help="Folder or object store for blocks of rows, reached by all executors."
    ),
    number("--block-rows", "Rows per block [default: 262144].", 1),
)
"""How Spark is used: --spark, --master, --conf (settings by name), --work and --block-rows."""


FAMILIES = ("key", "fk", "fd", "od", "dc", "ind")
REPLAYED, REPLAYED_NEAR = ("dc", "od", "ind"), ("key", "fd", "od")


class Share(click.ParamType["Fraction"]):
    """A share of the rows, such as 1%."""

    name = "share"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> "Fraction":
        """Return the share, or an error that names the range."""
        from holdfast.constraints import UsageError, parse_share

        try:
            return parse_share(value)
        except UsageError as error:
            self.fail(str(error), parameter, context)


def family(metavar: str, text: str) -> Decorator:
    """Return the option --family."""
    return click.option("--family", metavar=metavar, help=text)


def _kinds(_: click.Context, __: click.Parameter, given: str | None) -> tuple[str, ...]:
    """Return the kinds named by --kind, or raise an error."""
    return () if given is None else _named(given, KINDS, "--kind")


kind = click.option(
    "--kind",
    "kinds",
    metavar="KIND,...",
    callback=_kinds,
    help=f"Only constraints of these kinds: {', '.join(KINDS)}.",
)

near = click.option("--near", type=Share(), metavar="SHARE", help="Share of rows that may be exceptions, such as 1%.")


def families_of(given: str | None, *, near: bool) -> tuple[str, ...] | None:
    """Return the families named by --family, or raise an error; None for all."""
    if given is None:
        return None
    named = _named(given, FAMILIES)
    if len(named) > 1 and "ind" in named:
        text = f"Inclusions are searched for alone: name one family, not {given}; fk is searched for with others."
        raise click.BadParameter(text, param_hint="'--family'")
    if near and named == ("dc",):
        text = "'dc' is not one of key, fd, od, ind: name one of these too, and both are listed together."
        raise click.BadParameter(text, param_hint="'--family'")
    return named


def replayed_families_of(given: str | None, *, near: bool) -> tuple[str, ...]:
    """Return the families that `replay` maintains, or raise an error."""
    if given is None:
        if not near:
            raise click.UsageError("Name what to search for: --family dc, od or ind, or --near SHARE.")
        return REPLAYED_NEAR
    named = _named(given, (*REPLAYED_NEAR, "ind") if near else REPLAYED)
    if len(named) > 1 and not near:
        text = f"One family is searched for at a time: name one family, not {given}."
        raise click.BadParameter(text, param_hint="'--family'")
    return named


def _named(given: str, known: Sequence[str], option: str = "--family") -> tuple[str, ...]:
    named = tuple(dict.fromkeys(given.split(",")))
    for name in named:
        if name not in known:
            raise click.BadParameter(f"'{name}' is not one of {', '.join(known)}.", param_hint=f"'{option}'")
    return named


_LARGEST_CONTEXT = "Largest context of an order dependency or near constraint; 0: any size"


def _searching(context: Decorator) -> Decorator:
    """Return the options that say which constraints are searched for; `context` is the option --max-context."""
    return _stacked(
        number("--max-predicates", "Largest denial constraint; 0: any size.", default=4),
        context,
        click.option(
            "--cross-columns",
            type=click.Choice(["auto", "related", "none"]),
            default="auto",
            show_default=True,
            help="Which columns are compared with other columns: those that share values, those that share values "
            "beyond chance, or none.",
        ),
        click.option(
            "--no-cross-columns", "cross_columns", flag_value="none", help="The same as --cross-columns none."
        ),
        click.option("--space", type=EXISTING_FILE, metavar="FILE", help="Types and column pairs to use."),
        click.option(
            "--write-space", type=NEW_FILE, metavar="FILE", help="File for the types and pairs that were used."
        ),
        click.option("--explain", is_flag=True, help="Note each step and how long it took."),
    )


searching = _searching(
    number("--max-context", f"{_LARGEST_CONTEXT} [default: 3; of near constraints fewer if 3 are not feasible].")
)
"""Which constraints are searched for, and in which predicate space."""

replaying = _searching(number("--max-context", f"{_LARGEST_CONTEXT}.", default=3))
"""The same for constraints that are maintained."""


def read_options(given: Mapping[str, Any]) -> "ReadOptions":
    """Return the options for reading files among those of a command, or raise an error."""
    import codecs

    from holdfast.constraints import UsageError
    from holdfast.tables import ReadOptions

    encoding, delimiter, strings = given["encoding"], given["delimiter"], given["strings"] or ""
    try:
        codecs.lookup(encoding)
    except (LookupError, ValueError):
        raise UsageError(f"--encoding {encoding}: unknown; expected one such as utf-8, latin-1 or cp1252") from None
    return ReadOptions(
        delimiter={"tab": "\t", "\\t": "\t"}.get(delimiter, delimiter),
        encoding=encoding,
        null_tokens=tuple(text for text in given["null"] if text != "auto") or ("",),
        nulls_by_look="auto" in given["null"],
        typed_header=given["typed_header"],
        strings="all" if strings == "all" else frozenset(name for name in strings.split(",") if name),
        limit=given["limit"],
    )
