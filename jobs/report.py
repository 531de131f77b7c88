"""`holdfast report`: write the dashboard as one file, with the current rows of the output tables.

Invariant: the file is complete, or not written, as with every `--output`.
"""

import datetime
import sys
from pathlib import Path

from holdfast.dashboard.reporting import page_with
from holdfast.jobs.application.outputs import answers_of
from holdfast.jobs.configuration.reading import Configuration
from holdfast.jobs.terminal.output import results_to
from holdfast.jobs.terminal.progress import LogOptions, progress_on


def write_report(configuration: Configuration, output: Path | None, *, quiet: bool) -> None:
    """Write the page to a file, or to standard output."""
    progress = progress_on(sys.stderr, LogOptions(quiet))
    page = page_with(answers_of(configuration), datetime.datetime.now(datetime.UTC))
    with results_to(output) as out:
        out.write(page)
    if output is not None:
        progress.note(f"{output}: {len(page.encode()) / 1e6:.1f} MB, values of rows included", event="report")
