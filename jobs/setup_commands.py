"""The commands that come before live tables: init, validate, doctor, demo."""

from pathlib import Path

import click

from holdfast.jobs import options


@click.command(short_help="Write a commented configuration.")
@click.argument("file", type=options.NEW_FILE, default="holdfast.yaml", metavar="[FILE]")
@click.option("--force", is_flag=True, help="Replace FILE where it is there already.")
def init(file: Path, *, force: bool) -> None:
    """Write a commented configuration to start from [default: holdfast.yaml]."""
    from holdfast.jobs.init import write_default

    write_default(file, force=force)


@click.command(short_help="Check a configuration, all errors at once.")
@click.argument("conf", type=click.Path(path_type=Path), metavar="CONF")
@options.answering
def validate(conf: Path, format_: str, output: Path | None, *, quiet: bool) -> int:
    """Check a configuration: all its errors at once, or what it was understood to say.

    Looks at the file alone; `holdfast doctor CONF` looks at the places that it names.
    """
    from holdfast.jobs.validate import validate_file

    return validate_file(conf, options.Answering(format_ == "json", output, quiet))


@click.command(short_help="Look whether this machine has what is needed.")
@click.argument("conf", type=click.Path(path_type=Path), required=False, metavar="[CONF]")
@click.option("--spark", is_flag=True, help="Start Spark, and write and read a Delta table with it.")
@click.option("--kafka", metavar="HOST:PORT", help="Ask this Kafka broker for its topics.")
@options.answering
def doctor(conf: Path | None, kafka: str | None, format_: str, output: Path | None, *, spark: bool, quiet: bool) -> int:
    """Look whether this machine has what Holdfast needs: Java, jars, Kafka, permissions."""
    from holdfast.jobs.diagnosis import diagnose

    return diagnose(conf, options.Answering(format_ == "json", output, quiet), spark=spark, kafka=kafka)


@click.command(short_help="Show a whole pipeline at work, within a minute.")
@click.option("--kafka", is_flag=True, help="Send the changes through a Kafka broker, as Debezium does.")
@click.option("--folder", type=click.Path(path_type=Path), metavar="DIR", help="An empty folder [default: a new one].")
@click.option("--quiet", is_flag=True, help="No notes beside the results.")
def demo(folder: Path | None, *, kafka: bool, quiet: bool) -> None:
    """Show a whole pipeline at work in one process, within a minute.

    Seeds a small table, streams inserts, updates and deletes, prints what appeared and disappeared, and leaves Delta
    tables to look at. Changes come as files; with --kafka from a broker, which it starts and stops.
    """
    from holdfast.jobs.demo import show

    show(kafka=kafka, folder=folder, quiet=quiet)
