"""The commands to set up Holdfast: init, validate, doctor, demo, pack, jars."""

from pathlib import Path

import click

from holdfast.jobs.files.overwriting import refuse_overwriting
from holdfast.jobs.terminal import options


@click.command(short_help="Write a commented configuration.")
@click.argument("file", type=options.NEW_FILE, default="holdfast.yaml", metavar="[FILE]")
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
def init(file: Path, *, force: bool) -> None:
    """Write a commented configuration to start from [default: holdfast.yaml]."""
    from holdfast.jobs.init import write_default

    write_default(file, force=force)


@click.command(short_help="Check a configuration; report all errors.")
@click.argument("conf", type=click.Path(path_type=Path), metavar="CONF")
@click.option("--offline", is_flag=True, help="Check the file alone.")
@options.answering
def validate(conf: Path, format_: str, output: Path | None, *, offline: bool, quiet: bool) -> int:
    """Check a configuration: report all its errors, or how its settings were understood.

    Looks at the data too: whether seeds and folders exist, have the columns that are named, and rules fit their types.
    `holdfast doctor CONF` checks this machine.
    """
    refuse_overwriting({"--output": output}, [conf])
    from holdfast.jobs.validate import validate_file

    return validate_file(conf, options.Answering(format_, output, quiet), offline=offline)


@click.command(short_help="Check whether this machine meets the requirements.")
@click.argument("conf", type=click.Path(path_type=Path), required=False, metavar="[CONF]")
@click.option("--spark", is_flag=True, help="Also start Spark, and write and read a Delta table.")
@click.option("--kafka", metavar="HOST:PORT", help="Also check this Kafka broker.")
@options.answering
def doctor(conf: Path | None, kafka: str | None, format_: str, output: Path | None, *, spark: bool, quiet: bool) -> int:
    """Check whether this machine meets the requirements of Holdfast: Java, jars, Kafka, permissions."""
    refuse_overwriting({"--output": output}, [conf])
    from holdfast.jobs.doctor import diagnose

    return diagnose(conf, options.Answering(format_, output, quiet), spark=spark, kafka=kafka)


@click.command(short_help="Run a complete example pipeline within a minute.")
@click.option("--kafka", is_flag=True, help="Send the changes through a Kafka broker, as Debezium does.")
@click.option("--folder", type=click.Path(path_type=Path), metavar="DIR", help="An empty folder [default: a new one].")
@click.option("--quiet", is_flag=True, help="Print results without explanations.")
def demo(folder: Path | None, *, kafka: bool, quiet: bool) -> None:
    """Run a complete example pipeline in one process, within a minute.

    Seeds a small table, streams inserts, updates and deletes, prints the constraints that appear and disappear, and
    keeps the Delta tables. Changes are read from files; with --kafka from a broker, which the demo starts and stops.
    """
    from holdfast.jobs.demo.pipeline import show

    show(kafka=kafka, folder=folder, quiet=quiet)


@click.command(short_help="Pack this program and its Python for Spark's executors.")
@click.option(
    "-o",
    "--output",
    type=options.NEW_FILE,
    default="env.tar.gz",
    metavar="FILE",
    help="The archive [default: env.tar.gz].",
)
@options.quiet
def pack(output: Path, *, quiet: bool) -> None:
    """Pack this program, its Python and its dependencies into one archive, which Spark unpacks on executors.

    Executors need only Spark and Java. Pack on a machine like theirs: with the same kind of processor, and a C library
    that is not newer. The archive has about 270 MB, and packing takes a minute.
    """
    import sys

    from holdfast.jobs.pack import pack as write
    from holdfast.jobs.terminal.progress import LogOptions, progress_on

    progress = progress_on(sys.stderr, LogOptions(quiet))
    size = write(output, progress)
    progress.note(
        f"{output}, {size / 1e6:.0f} MB. With it:\n"
        f"  spark.archives={output}#env\n"
        "  spark.pyspark.python=./env/bin/python"
    )


@click.command(short_help="Print the jars that spark-submit needs.")
def jars() -> None:
    """Print the jars that Spark needs beside its own, as an argument of `spark-submit --jars`; download missing jars.

    Only spark-submit needs this argument: a session that Holdfast starts loads the jars itself.
    """
    from holdfast.streaming.spark.jars import spark_jars

    click.echo(",".join(map(str, spark_jars())))
