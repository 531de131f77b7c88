"""The commands on live tables, each of which reads a configuration file.

Invariant: the configuration is read, and refused with all its errors, before the command does anything else.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.jobs.files.overwriting import refuse_overwriting, refuse_overwriting_live
from holdfast.jobs.terminal import options

if TYPE_CHECKING:
    from holdfast.jobs.configuration.reading import Configuration

CONF = click.argument("conf", type=click.Path(path_type=Path), metavar="CONF")


@click.command(short_help="Build the state from the seeds.")
@CONF
@click.option("--replace", is_flag=True, help="Replace an existing state.")
@options.quiet
@options.speaking
def seed(conf: Path, log_level: str, log_format: str, *, replace: bool, quiet: bool) -> None:
    """Build the state from the seeds; refused if a state exists."""
    log = options.log_options(log_level, log_format, quiet=quiet)
    configuration = _load(conf)
    from holdfast.jobs.seed import seed_state

    seed_state(configuration, replace=replace, log=log)


@click.command(short_help="Follow the sources and maintain the constraints.")
@CONF
@click.option("--available-now", is_flag=True, help="Process all available changes, then stop.")
@options.quiet
@options.speaking
def run(conf: Path, log_level: str, log_format: str, *, available_now: bool, quiet: bool) -> None:
    """Follow the sources and maintain the constraints, until stopped.

    Seeds first if there is no state. Ctrl-C and SIGTERM end the run after the current batch, with exit code 0.
    """
    log = options.log_options(log_level, log_format, quiet=quiet)
    configuration = _load(conf)
    from holdfast.jobs.run import run as follow

    follow(configuration, available_now=available_now, log=log)


@click.command(short_help="Show the state of tables and rules.")
@CONF
@options.sentences
@options.answering
def status(conf: Path, format_: str, output: Path | None, *, quiet: bool, sentences: bool) -> int:
    """Show the state of each table and rule; exit code 1 if a rule of severity error is broken.

    Works while `holdfast run` runs, and needs no Java.
    """
    configuration = _load_beside(output, conf)
    from holdfast.jobs.status import show_status

    return show_status(configuration, options.Answering(format_, output, quiet, sentences))


@click.command(short_help="Show what commits did to constraints.")
@CONF
@click.option("--last", type=options.Whole(1), default=20, show_default=True, help="Number of incidents to show.")
@click.option("--table", metavar="TABLE", help="Only incidents of this table.")
@options.listing
def incidents(conf: Path, last: int, table: str | None, format_: str, output: Path | None, *, quiet: bool) -> None:
    """Show what commits did to constraints: one entry for each commit and table, the newest first.

    An entry has the number of constraints that ended or recovered, the file or offsets of the batch, the row that did
    it, the first of the constraints, and how many of them changed back since. Reads the output tables, also while
    `holdfast run` writes them.
    """
    configuration = _load_beside(output, conf)
    from holdfast.jobs.application.stored_rows import named_tables
    from holdfast.jobs.incidents import show_incidents

    named_tables(configuration, table)  # refuses a table that is not one of them
    show_incidents(configuration, last, table, options.Answering(format_, output, quiet))


@click.command(short_help="Restore the state from backup or source.")
@CONF
@click.option("--from-source", is_flag=True, help="Seed again, if the backup is lost too.")
@options.quiet
def rebuild(conf: Path, *, from_source: bool, quiet: bool) -> None:
    """Restore the state from its backup, or seed it again; the outputs continue where they were.

    Refuses to replace a state that can be used; a damaged state is moved aside.
    """
    configuration = _load(conf)
    from holdfast.jobs.rebuild import rebuild_state

    rebuild_state(configuration, from_source=from_source, quiet=quiet)


@click.command("skip-batch", short_help="Quarantine a batch that keeps failing.")
@CONF
@click.argument("source", metavar="SOURCE")
@click.option("--retry", is_flag=True, help="Try the batch again instead, as often as before.")
def skip_batch(conf: Path, source: str, *, retry: bool) -> None:
    """Quarantine the batch that keeps failing, so that the stream can continue.

    SOURCE is the table whose source delivered the batch. The next `holdfast run` puts its records into quarantine.
    """
    configuration = _load(conf)
    known = [table.name for table in configuration.settings.tables if table.source is not None]
    if source not in known:
        from holdfast.constraints import UsageError
        from holdfast.constraints.columns import unknown_name

        raise UsageError(unknown_name(f"{conf} has no table with a source called", source, known))
    from holdfast.jobs.skip_batch import skip

    skip(configuration, source, retry=retry)


@click.command(short_help="Show tables, constraints and rules in a browser.")
@CONF
@click.option("--port", type=click.IntRange(0, 65_535), default=8_050, show_default=True, help="0: any free port.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address of this machine to listen on.")
@click.option("--no-browser", is_flag=True, help="Print the address without opening a browser.")
def dashboard(conf: Path, port: int, host: str, *, no_browser: bool) -> None:
    """Show changes, constraints and broken rules in a browser, until Ctrl-C.

    Reads the output tables, also while `holdfast run` writes them; needs neither Java nor a network. If the port is in
    use, the next free port is taken.
    """
    configuration = _load(conf)
    from holdfast.jobs.dashboard import show_dashboard

    show_dashboard(configuration, host, port, browser=not no_browser)


@click.command(short_help="Write the dashboard as one HTML file.")
@CONF
@click.option(
    "-o",
    "--output",
    type=options.NEW_FILE,
    metavar="FILE",
    help="File to write, completely or not at all [default: standard output].",
)
@options.quiet
def report(conf: Path, output: Path | None, *, quiet: bool) -> None:
    """Write changes, constraints and broken rules as one HTML file.

    The file is the page of `holdfast dashboard` with its current data: it opens anywhere, without a network. The page
    names the limits on the data in the file.
    """
    configuration = _load_beside(output, conf)
    from holdfast.jobs.report import write_report

    write_report(configuration, output, quiet=quiet)


def _load(conf: Path) -> "Configuration":
    from holdfast.jobs.configuration.reading import load

    return load(conf)


def _load_beside(output: Path | None, conf: Path) -> "Configuration":
    """Read a configuration; refuse an output that would replace the configuration or a file of its tables."""
    refuse_overwriting({"--output": output}, [conf])
    configuration = _load(conf)
    refuse_overwriting_live(output, configuration)
    return configuration
