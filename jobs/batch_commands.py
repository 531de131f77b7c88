"""The commands on files: discover, check, query, exceptions, suspects, replay.

Invariant: arguments are checked before anything is read or written.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from holdfast.jobs.files.addresses import FileOrAddress, ReadableFile, refuse_addresses
from holdfast.jobs.files.overwriting import refuse_overwriting
from holdfast.jobs.terminal import options

if TYPE_CHECKING:
    from holdfast.jobs.configuration.reading import Configuration
    from holdfast.jobs.files.engines import SparkOptions
    from holdfast.jobs.searches.request import SearchRequest

_BOUNDS = ("max_context", "max_predicates", "cross_columns")

FILES = click.argument("files", nargs=-1, required=True, type=ReadableFile(), metavar="FILE...")


@click.command(short_help="Find the constraints that hold on files.")
@FILES
@options.family(
    "[key|fk|fd|od|dc|ind],...",
    "Keys, foreign keys, functional and order dependencies, denial constraints, inclusions; "
    "some of these but ind, or ind [default: all but ind; with --near key,fd,od].",
)
@options.kind
@options.near
@options.searching
@options.on_spark
@click.option(
    "--min-coverage",
    type=click.FloatRange(0, 1, min_open=True),
    metavar="SHARE",
    help="Share of values for which inclusions (ind) and foreign keys (fk) have to hold at least.",
)
@options.number("--top", "Only the N highest ranked sound constraints, best first [default without --family: 30].", 1)
@click.option("--all", "every", is_flag=True, help="List constraints that are not sound too, after the others.")
@click.option("--as-rules", is_flag=True, help="Write a rules file, to edit and use with holdfast check.")
@options.number("--examples", "With --near, list at most N exceptions of each constraint [default: 3; --spark: 0].")
@options.reading
@options.sentences
@options.formal
@options.listing
def discover(files: tuple[FileOrAddress, ...], **given: Any) -> None:
    """Find the constraints that hold on files.

    Without --family, constraints of all families are found, within limits that the size of each table allows, and each
    is written once, those that say most first: keys, foreign keys, functional dependencies, orders and others. The set
    of a named family is complete within --max-predicates or --max-context.

    FILE is CSV (.gz too), Parquet, Arrow or a Delta table; with --spark also the address of Parquet or of a Delta
    table. Foreign keys and inclusions are searched across all files, the other families in each file. With --near,
    constraints that hold except for a share of the rows: keys, functional dependencies and order compatibilities, with
    their exceptions, and with values that significantly many of these have; with --spark too, keys and functional
    dependencies with the number of their exceptions.
    """
    request = _search_request(files, given)
    from holdfast.jobs.discover import discover_files

    discover_files(request)


@click.command(short_help="Count and list violations of declared rules.")
@FILES
@click.option("--rules", type=options.EXISTING_FILE, metavar="FILE", help="File with one rule per line, or YAML.")
@click.option(
    "--rule", "rule_texts", multiple=True, metavar="TEXT", help="A rule, such as 'Zip -> City'; may be repeated."
)
@click.option(
    "--pairs", type=options.NEW_FILE, metavar="FILE", help="Write all violating pairs to this file (.csv or .parquet)."
)
@click.option("--exists", is_flag=True, help="Stop at the first violation of a rule without threshold.")
@options.number("--examples", "List at most N violations of each rule.", default=3)
@options.on_spark
@options.reading
@options.sentences
@options.checking
def check(files: tuple[FileOrAddress, ...], rules: Path | None, rule_texts: tuple[str, ...], **given: Any) -> int:
    """Count and list the violations of declared rules.

    \b
    A rule is any of
      not(t.State = s.State and t.Salary > s.Salary and t.Rate < s.Rate)
      key(AreaCode, Phone)
      Zip -> City, State
      {State}: Salary ~ Rate
      orders.o_custkey in customer.c_custkey
      t.Salary > 0 and t.State in ('MA', 'NY')
      t.Zip matches '[0-9]{5}'
      not(t.Salary <= 0)

    A line of a rules file is `name: rule`, with comments after #; a YAML file has the `rules` of a configuration, with
    thresholds and severities. With several files, a rule is checked on the file that has all its columns.

    The exit code is 1 if a rule of severity error is broken.
    """  # noqa: D301
    if rules is None and not rule_texts:
        raise click.UsageError("Name rules: --rules FILE, or --rule TEXT.")
    if given["pairs"] and given["exists"]:
        raise click.UsageError("--pairs writes all pairs, --exists stops at the first pair: leave one of them out.")
    spark = _spark_options(given, files)
    reading = options.read_options(given)
    refuse_overwriting({"--output": given["output"], "--pairs": given["pairs"]}, [*files, rules])
    from holdfast.jobs.check import check_files
    from holdfast.jobs.searches.request import CheckRequest

    request = CheckRequest(
        files=files,
        reading=reading,
        answering=_answering(given),
        spark=spark,
        threads=given["threads"],
        examples=given["examples"],
        rules_file=rules,
        rule_texts=rule_texts,
        pairs_file=given["pairs"],
        exists=given["exists"],
    )
    return check_files(request)


@click.command(short_help="Write the SQL query that proves a rule.")
@click.argument("rule", metavar="RULE")
@click.option("--table", metavar="NAME", help="The table in the query, such as orders or sales.orders [default: data].")
@click.option(
    "--dialect",
    type=click.Choice(["standard", "duckdb", "spark", "postgresql"]),
    default="standard",
    show_default=True,
    help="Engine whose quotes names have that are not plain lower-case words.",
)
@click.option("--near", is_flag=True, help="Count the exceptions, in place of listing violations.")
@click.option("--output", type=options.NEW_FILE, metavar="FILE", help="File to write the query to.")
def query(rule: str, table: str | None, dialect: str, output: Path | None, *, near: bool) -> None:
    """Write the SQL query that proves a rule, to run on the source table.

    \b
    RULE is any rule of holdfast check, such as
      key(AreaCode, Phone)
      Zip -> City
      {State}: Salary ~ Rate
      orders.o_custkey in customer.c_custkey
      not(t.Salary <= 0)

    DuckDB, Spark SQL and PostgreSQL run the same query, unless names need quotes. Its answer has a line for each
    violation and none if the rule holds; with --near, the number of exceptions.
    """  # noqa: D301
    from holdfast.jobs.query import write_query

    write_query(rule, table, dialect, output, near=near)


@click.command(short_help="List the rows for which a constraint does not hold.")
@click.argument("source", type=ReadableFile(), metavar="FILE|CONF")
@click.argument("constraint", metavar="CONSTRAINT")
@click.option("--table", metavar="NAME", help="With CONF: the table, if CONF has several.")
@options.reading
@click.option("--output", type=options.NEW_FILE, metavar="FILE", help="Write the rows to this file (.csv or .parquet).")
@options.quiet
def exceptions(source: FileOrAddress, constraint: str, table: str | None, **given: Any) -> None:
    """List the fewest rows without which a constraint holds: of a file, or of a live table.

    \b
    CONSTRAINT is any of
      key(AreaCode, Phone)
      Zip -> City
      {State}: Salary ~ Rate
      {State}: Age ~ Birth desc

    or {}: [] -> Country, a column of one value. Names with spaces or signs are in backquotes: '`Zip code` -> City'.

    Each row has its number in the file, from 1 on, and whether it is undecided: where several choices of rows are
    equally small, all their rows are listed as undecided. CONF, a configuration (.yaml or .yml), stands for the rows
    in its state, also while `holdfast run` runs; these rows have no numbers. Without --output the rows are written as
    CSV to standard output. Values that significantly many of the exceptions have are noted on standard error, with
    rules that hold on all rows without such a value.
    """  # noqa: D301
    from holdfast.jobs.exceptions import exceptions_of_file, exceptions_of_state

    refuse_addresses([source])
    answering = options.Answering("text", output=given["output"], quiet=given["quiet"])
    refuse_overwriting({"--output": given["output"]}, [source])
    configuration = _configuration_among([source], table, given["output"])
    if configuration is not None:
        exceptions_of_state(configuration, constraint, answering, table=table, threads=given["threads"])
        return
    exceptions_of_file(source, constraint, options.read_options(given), answering, threads=given["threads"])


@click.command(short_help="Find cells that are probably wrong.")
@click.argument("files", nargs=-1, required=True, type=ReadableFile(), metavar="FILE...|CONF")
@click.option("--table", metavar="NAME", help="With CONF: one table, if CONF has several.")
@click.option(
    "--near",
    type=options.Share(),
    metavar="SHARE",
    help="Use functional dependencies that hold except for this share of the rows [default: 1%; CONF: as it says].",
)
@options.number(
    "--max-context",
    "Most columns on the left of such a dependency; 0: any number [default: 3, or as many as are feasible; CONF: as it "
    "says].",
)
@click.option(
    "--min-score",
    type=click.FloatRange(0, 1),
    default=0.9,
    show_default=True,
    metavar="SCORE",
    help="Least probability that a cell is wrong.",
)
@options.number("--top", "Only the N surest suspects of each file or table.", 1)
@options.reading
@options.listing
def suspects(files: tuple[FileOrAddress, ...], table: str | None, **given: Any) -> None:
    """Find the cells of files, or of live tables, that are probably wrong, with the values that are expected.

    A cell is suspect if it explains why its row violates functional dependencies that hold for nearly all other rows:
    it is in all that the row violates, and in none that the row confirms. Each suspect has the number of its row in the
    file, from 1 on, and a score, the probability that it is wrong. Suspects are suggestions: nothing is changed.

    CONF, a configuration (.yaml or .yml), stands for the rows in its state, also while `holdfast run` runs; these rows
    have the values of their key in place of a number.
    """
    refuse_addresses(files)
    refuse_overwriting({"--output": given["output"]}, files)
    from holdfast.jobs.suspects import SuspectsRequest, suspects_of_files, suspects_of_state

    request = SuspectsRequest(
        share=given["near"],
        max_context=given["max_context"],
        min_score=given["min_score"],
        top=given["top"],
        threads=given["threads"],
    )
    answering = _answering(given)
    configuration = _configuration_among(files, table, given["output"])
    if configuration is None:
        suspects_of_files(files, options.read_options(given), answering, request)
    else:
        suspects_of_state(configuration, answering, request, table)


@click.command(short_help="Apply a file of changes, batch by batch.")
@click.argument("base", type=options.EXISTING, metavar="BASE")
@click.argument("changes", type=options.EXISTING, metavar="CHANGES")
@options.family("[dc|od|ind]", "Kind of constraints; with --near key,fd or key,fd,od [default: key,fd,od].")
@options.near
@options.replaying
@options.number("--batch-size", "Records of CHANGES in a batch.", 1, required=True)
@click.option("--key", metavar="COL,...", help="Columns that identify a row; deletes then need no other columns.")
@options.reading
@options.sentences
@options.answering
def replay(base: Path, changes: Path, key: str | None, **given: Any) -> None:
    """Apply a file of changes batch by batch, and print how each batch changes the constraints.

    CHANGES has the columns of BASE, and optionally a column _op with insert, delete or update. For several tables,
    BASE and CHANGES are folders with one file per table, whose records have a column _seq with their order. With
    --near, keys, functional dependencies and order compatibilities are maintained that hold except for a share of the
    rows.
    """
    near = given["near"]
    families = options.replayed_families_of(given["family"], near=near is not None)
    if near is not None and families not in (("key", "fd"), ("key", "fd", "od")):
        raise click.UsageError("replay --near maintains key,fd or key,fd,od: name one of these with --family.")
    if key is not None and not all(key.split(",")):
        raise click.BadParameter("expected names with commas between them", param_hint="--key")
    reading = options.read_options(given)
    outputs = {"--output": given["output"], "--write-space": given["write_space"]}
    refuse_overwriting(outputs, [base, changes, given["space"]])
    from holdfast.jobs.replay import ReplaySearch, replay_changes
    from holdfast.streaming.maintainers.table.bounds import Bounds, NearBounds

    replay_changes(
        base,
        changes,
        reading,
        _answering(given),
        ReplaySearch(
            bounds=Bounds(
                given["max_predicates"] if families == ("dc",) else None,
                given["max_context"] if families == ("od",) else None,
                None if near is None else NearBounds(near, given["max_context"], orders="od" in families),
            ),
            inclusion=families == ("ind",),
            cross_columns=given["cross_columns"],
            threads=given["threads"],
            space=given["space"],
            write_space=given["write_space"],
        ),
        batch_size=given["batch_size"],
        key=[] if key is None else key.split(","),
        explain=given["explain"],
    )


def _search_request(files: tuple[FileOrAddress, ...], given: dict[str, Any]) -> "SearchRequest":
    """Return the request of a search, or refuse options that do not go together."""
    near, spark = given["near"], given["spark"]
    families = options.families_of(given["family"], near=near is not None)
    if near is None and given["examples"] is not None:
        raise click.UsageError("--examples lists exceptions: add --near SHARE.")
    reading = options.read_options(given)
    spark_options = _spark_options(given, files)
    has_keys = "fk" in (families or ()) or (families is None and near is None)
    if given["every"] and given["top"] is None and not has_keys:
        raise click.UsageError("--all is for --top N: without --top all constraints are written.")
    if given["as_rules"] and given["format_"] != "text":
        raise click.UsageError("--as-rules writes lines for people to edit: leave out --format.")
    if given["as_rules"] and given["min_coverage"] is not None and families == ("ind",):
        raise click.UsageError("--as-rules writes constraints that hold: leave out --min-coverage.")
    outputs = {"--output": given["output"], "--write-space": given["write_space"]}
    refuse_overwriting(outputs, [*files, given["space"]])
    if near is not None:
        _refuse_beside_near(given, families)
    if families == ("ind",) and (given["space"] or given["write_space"]):
        raise click.UsageError("--space and --write-space are for one table: inclusions are across tables.")
    if near is None and families != ("ind",) and not has_keys and given["min_coverage"] is not None:
        raise click.UsageError("--min-coverage is for inclusions and foreign keys: add --family ind, or fk.")
    from holdfast.jobs.searches.request import SearchRequest

    same = "near max_predicates max_context space write_space threads top every as_rules explain kinds".split()
    is_across = near is not None and not {"ind", "fk"}.isdisjoint(families or ())
    source = click.get_current_context().get_parameter_source
    return SearchRequest(
        files=files,
        reading=reading,
        answering=_answering(given),
        spark=spark_options,
        families=families,
        bounds=frozenset(name for name in _BOUNDS if source(name) is not ParameterSource.DEFAULT),
        cross_columns=given["cross_columns"],
        min_coverage=float(1 - near) if is_across else given["min_coverage"],
        examples=given["examples"] if given["examples"] is not None else 0 if spark else 3,
        **{name: given[name] for name in same},
    )


def _refuse_beside_near(given: dict[str, Any], families: tuple[str, ...] | None) -> None:
    """Refuse options that have no meaning for near constraints."""
    if given["min_coverage"] is not None:
        raise click.UsageError("--near and --min-coverage both set how much may be missing: leave one of them out.")
    if families == ("ind",):
        if given["as_rules"]:
            raise click.UsageError("--as-rules writes inclusions that hold: leave out --near.")
        if given["examples"] is not None:
            raise click.UsageError("--examples is for rows: inclusions list values that are missing.")
        return
    if given["spark"] and "od" in (families or ()):
        raise click.UsageError("--spark counts exceptions of --family key,fd: leave out od, or --spark.")
    if given["spark"] and given["examples"]:
        raise click.UsageError("--examples lists rows in this process: leave it out, or --spark.")
    if given["write_space"]:
        raise click.UsageError("--write-space is for column pairs that are compared: leave out --near.")


def _spark_options(given: dict[str, Any], files: tuple[FileOrAddress, ...]) -> "SparkOptions | None":
    """Return the options of Spark, None without --spark; refuse options and files that need the other engine."""
    from holdfast.jobs.files.engines import BLOCK_ROWS, SparkOptions

    if not given["spark"]:
        for name in ("master", "spark_settings", "work", "block_rows"):
            if given[name]:
                option = "conf" if name == "spark_settings" else name.replace("_", "-")
                raise click.UsageError(f"--{option} is for Spark: add --spark.")
        refuse_addresses(files)
        return None
    for file in files:
        if isinstance(file, Path) and not (file.is_file() or file.is_dir()):
            raise click.UsageError(f"{file} is a pipe, which no executor can read: write it to a file.")
    return SparkOptions(given["master"], given["spark_settings"], given["work"], given["block_rows"] or BLOCK_ROWS)


def _answering(given: dict[str, Any]) -> options.Answering:
    words = {name: given.get(name, False) for name in ("sentences", "formal")}
    return options.Answering(given["format_"], given["output"], given["quiet"], **words)


def _configuration_among(
    sources: Sequence[FileOrAddress], table: str | None, output: Path | None
) -> "Configuration | None":
    """Return the configuration that is given in place of files, None where files are; refuse the other's options."""
    named = next((one for one in sources if isinstance(one, Path) and one.suffix.lower() in {".yaml", ".yml"}), None)
    if named is None:
        if table is not None:
            raise click.UsageError("--table is for a configuration: leave it out, or name CONF in place of FILE.")
        return None
    if len(sources) > 1:
        raise click.UsageError(f"{named} is a configuration: name it alone.")
    context = click.get_current_context()
    for name in ("strings", "typed_header", "null", "encoding", "delimiter", "limit"):
        if context.get_parameter_source(name) is not ParameterSource.DEFAULT:
            raise click.UsageError(f"--{name.replace('_', '-')} is for a file: leave it out with a configuration.")
    from holdfast.jobs.configuration.reading import load
    from holdfast.jobs.files.overwriting import refuse_overwriting_live

    configuration = load(named)
    refuse_overwriting_live(output, configuration)
    return configuration
