"""`holdfast demo`: a complete pipeline in one process, from the first rows to tables that can be queried.

    write a configuration and the first records  ->  `run` seeds and follows them
    send the changes of a step  ->  `run` calls with each batch  ->  print the account of the step  ->  the next step

The pipeline is that of jobs/run.py; the demo only sends changes and prints. Invariant: every run prints the same, but
for times, the folder and the ids in it; the folder is kept.
"""

import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.constraints import UsageError
from holdfast.jobs.application.stopping import handling_signals
from holdfast.jobs.terminal.console import console_on

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from holdfast.jobs.application.session import BackgroundSession
    from holdfast.jobs.demo.account import Account
    from holdfast.jobs.demo.feeds import Feed
    from holdfast.jobs.demo.tables import DemoStep
    from holdfast.streaming.incoming.arrivals import BadRecord
    from holdfast.streaming.maintainers.maintainer import BatchResult, Maintainer
    from holdfast.streaming.spark.running import Done

CONF = "holdfast.yaml"


def show(*, kafka: bool = False, folder: Path | None = None, quiet: bool = False) -> None:
    """Run the demo on standard output.

    Parameters
    ----------
    kafka : whether changes are sent as Debezium messages to a Kafka broker, instead of as files.
    folder : an empty folder for all files; None for a new temporary folder.
    quiet : whether explanations are left out.
    """
    console = console_on(sys.stdout)
    place = _empty(folder)
    console.print(f"Holdfast at work on a small table; everything is made in {place}", style="bold")
    from holdfast.jobs.demo.account import Account

    account = Account(console, quiet=quiet)
    starts = "Spark and a Kafka broker start" if kafka else "Spark starts"
    account.note(f"{starts}. The first time on a machine, jars are fetched and loops compiled: half a minute more.")
    began = time.monotonic()
    account.wait("starting")
    try:
        with _interruptible():
            _play(account, place, kafka=kafka)
    finally:
        account.waited()
    tables = place / "var" / "tables"
    account.outputs(tables)
    account.note(f"   Other programs can query the tables; each line can be run by {_program('python')}:\n")
    account.ways(ways(tables))
    account.note("\n   The changes, and the rule that is broken now:\n")
    account.ways({"a browser": f"{_program('holdfast')} dashboard {place / CONF}"})
    if not kafka:
        follow = f"{_program('holdfast')} run {place / CONF}"
        account.note(f"\n   More files of changes, renamed into {place / 'changes'}, are followed by: {follow}")
    took = time.monotonic() - began
    account.note(f"\n{took:.0f} s in all. {place} stays: remove it when you have seen it.")


def _play(account: "Account", folder: Path, *, kafka: bool) -> None:
    """Run the pipeline from the first records to the last change; with Kafka, also a broker."""
    spark = _session()
    spark.begin()
    from holdfast.jobs.demo.feeds import FolderFeed, TopicFeed, write_configuration
    from holdfast.jobs.demo.tables import steps, tax_records

    records = tax_records()
    with ExitStack() as ending:
        feed: Feed
        if kafka:
            from holdfast.jobs.demo.broker import running_broker

            data = tempfile.TemporaryDirectory(prefix="holdfast-broker-", ignore_cleanup_errors=True)  # it may end late
            address = ending.enter_context(running_broker(Path(ending.enter_context(data))))
            feed = TopicFeed(spark(), address)
        else:
            feed = FolderFeed(folder)
        write_configuration(folder / CONF, feed, records)
        from holdfast.jobs.application.watching import RunObserver
        from holdfast.jobs.configuration.reading import load
        from holdfast.jobs.run import run
        from holdfast.jobs.terminal.progress import LogOptions

        stop = threading.Event()
        story = _Story(account, feed, steps(records), stop)

        def seeded(tables: Mapping[str, "Maintainer"]) -> None:
            story.seeded(tables)
            spark()  # in the main thread, PySpark would replace the handler of Ctrl-C

        observer = RunObserver(seeded=seeded, ready=story.ready, done=story.done, stop=stop)
        run(load(folder / CONF), available_now=False, log=LogOptions(quiet=True), observer=observer)
        account.heading(len(story.steps) + 2, "Everything is in Delta tables.")


def ways(tables: Path) -> dict[str, str]:
    """Return a line of Python for each engine that can query the tables."""
    place = repr(str(tables / "constraints"))
    question = "select sentence, since_commit from held where kind = 'key'"
    columns = '"sentence", "since_commit"'
    held = f"deltalake.QueryBuilder().register('held', deltalake.DeltaTable({place}))"
    keys, every = (f"{held}.execute({text})" for text in (f'"{question}"', "'select * from held'"))
    return {
        "pandas": f"import deltalake, pyarrow; print(pyarrow.table({keys}).to_pandas())",
        "DuckDB": (
            f'import deltalake, duckdb, pyarrow; held = pyarrow.table({every}); print(duckdb.sql("{question}"))'
        ),
        "Spark": (
            "from holdfast.streaming.spark.session import session; "
            f'session("look").read.format("delta").load({place}).select({columns}).show(99, False)'
        ),
    }


class _Story:
    """Sends the steps, each after the batches of the step before are committed and printed.

    Its methods are called by `run`, one at a time.

    Parameters
    ----------
    account, feed, steps : the account to print on, and the steps that the feed sends.
    stop : ends the run after the last step.
    """

    def __init__(self, account: "Account", feed: "Feed", steps: Sequence["DemoStep"], stop: threading.Event) -> None:
        self._account = account
        self._feed = feed
        self.steps = steps
        self._stop = stop
        self._number = 0
        self._sent = self._left = 0
        self._sent_at = 0.0
        self._results: list[BatchResult] = []
        self._bad: list[BadRecord] = []

    def seeded(self, tables: Mapping[str, "Maintainer"]) -> None:
        """Print the constraints that hold on the first records."""
        for maintainer in tables.values():
            self._account.heading(
                1, f"{maintainer.row_count:,} tax records are read; the constraints that hold on them are found."
            )
            self._account.seeded(maintainer)

    def ready(self, _spark: "SparkSession") -> None:
        """Send the first step."""
        self._next()

    def done(self, done: "Done") -> None:
        """Print a step, once all its records are committed."""
        arrived = done.arrived
        self._left -= len(arrived.records) + len(arrived.bad) + arrived.skipped
        self._results.append(done.result)
        self._bad += arrived.bad
        if self._left > 0:
            return
        took = time.monotonic() - self._sent_at
        self._account.applied(self._results, self._bad, self._sent, took, is_first=self._number == 1)
        if self._number == len(self.steps):
            self._stop.set()
        else:
            self._next()

    def _next(self) -> None:
        step = self.steps[self._number]
        self._number += 1
        self._results, self._bad = [], []
        self._account.heading(self._number + 1, step.title)
        self._account.wait("on its way")
        self._sent_at = time.monotonic()
        self._sent = self._left = self._feed.put(self._number + 1, step.changes)


class _Interrupted(BaseException):
    """Ctrl-C was pressed. A KeyboardInterrupt during a call of Java would print a traceback."""


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end the demo at any moment."""

    def interrupt(_number: int) -> None:
        raise _Interrupted

    try:
        with handling_signals(interrupt):
            yield
    except _Interrupted:
        raise KeyboardInterrupt from None


def _session() -> "BackgroundSession":
    """Return a session for the demo: a run this short is over before the optimising compiler pays."""
    from holdfast.jobs.application.session import BackgroundSession
    from holdfast.streaming.spark.session import session_settings

    options = f"{session_settings()['spark.driver.extraJavaOptions']} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    return BackgroundSession("holdfast-demo", {"spark.driver.extraJavaOptions": options})


def _program(name: str) -> str:
    """Return the path of a program of this environment, relative to the current folder if possible."""
    path = Path(sys.executable).with_name(name)
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def _empty(folder: Path | None) -> Path:
    """Return an empty folder: the given one, or a new one."""
    if folder is None:
        return Path(tempfile.mkdtemp(prefix="holdfast-demo-")).resolve()
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if any(folder.iterdir()):
            raise UsageError(f"{folder} is not empty: name a folder that is, or one that does not exist yet")
    except FileExistsError:
        raise UsageError(f"{folder} is a file: name a folder") from None
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror}") from error
    return folder.resolve()
