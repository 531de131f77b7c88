"""The commands that come before live tables: init, validate, doctor, demo, pack, jars."""

from pathlib import Path

import click

from holdfast.jobs.files.overwriting import refuse_overwriting
from holdfast.jobs.terminal import options


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
    refuse_overwriting({"--output": output}, [conf])
    from holdfast.jobs.validate import validate_file

    return validate_file(conf, options.Answering(format_ == "json", output, quiet))


@click.command(short_help="Look whether this machine has what is needed.")
@click.argument("conf", type=click.Path(path_type=Path), required=False, metavar="[CONF]")
@click.option("--spark", is_flag=True, help="Start Spark, and write and read a Delta table with it.")
@click.option("--kafka", metavar="HOST:PORT", help="Ask this Kafka broker for its topics.")
@options.answering
def doctor(conf: Path | None, kafka: str | None, format_: str, output: Path | None, *, spark: bool, quiet: bool) -> int:
    """Look whether this machine has what Holdfast needs: Java, jars, Kafka, permissions."""
    refuse_overwriting({"--output": output}, [conf])
    from holdfast.jobs.doctor import diagnose

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
    """Pack this program, its Python and all it needs into one archive, which Spark unpacks on executors.

    Executors need nothing else than Spark and Java. Pack on a machine like theirs: same kind of processor, C library
    not newer. It takes some 270 MB, and a minute.
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


@click.command(short_help="Name the jars that spark-submit needs.")
def jars() -> None:
    """Name the jars that Spark needs beside its own, as `spark-submit --jars` takes them; fetch those that are missing.

    Only spark-submit needs to be told: a session that Holdfast starts brings them along.
    """
    from holdfast.streaming.spark.jars import spark_jars

    click.echo(",".join(map(str, spark_jars())))
