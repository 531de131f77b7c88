"""`holdfast init`: write the commented configuration of the package to a file.

Invariant: an existing file is replaced only with --force, and in one step.
"""

from importlib import resources
from pathlib import Path

import click

from holdfast.constraints import UsageError
from holdfast.jobs.terminal.output import results_to


def default_configuration() -> str:
    """Return the text of the commented default configuration."""
    return resources.files("holdfast.conf").joinpath("default.yaml").read_text(encoding="utf-8")


def write_default(file: Path, *, force: bool) -> None:
    """Write the default configuration to `file`."""
    if file.exists() and not force:
        raise UsageError(f"{file} exists already: name another file, or replace it with --force")
    if not file.parent.is_dir():
        raise UsageError(f"{file.parent} is no folder: create it first")
    with results_to(file) as stream:
        stream.write(default_configuration())
    click.echo(f"Wrote {file}. Next: edit it for your tables, then run: holdfast validate {file}", err=True)
