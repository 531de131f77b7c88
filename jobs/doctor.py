"""`holdfast doctor`: check this machine, and print the findings with their actions.

Invariant: the exit code is that of an external failure exactly when a check failed; warnings do not count.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from holdfast.display.secrets import masked, masked_settings
from holdfast.jobs.application.machine import Finding, examine, exit_code
from holdfast.jobs.configuration.table_settings import KafkaSource
from holdfast.jobs.files.overwriting import refuse_overwriting_live
from holdfast.jobs.terminal.options import Answering
from holdfast.jobs.terminal.output import json_line, results_to

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


def diagnose(conf: Path | None, answering: Answering, *, spark: bool, kafka: str | None) -> int:
    """Check the machine and the folders and servers of a configuration, print the findings, return the exit code."""
    paths: dict[str, str | Path] = {}
    servers = [kafka] if kafka else []
    more: dict[str, Any] = {}
    if conf is not None:
        from holdfast.jobs.configuration.reading import load

        configuration = load(conf)
        refuse_overwriting_live(answering.output, configuration)
        settings = configuration.settings
        paths = {**settings.places}
        if settings.engine == "spark":
            from holdfast.discovery.blocks.storage.location import Storage

            blocks = Storage.at(settings.blocks_place, settings.storage_options)
            more = {"spark_settings": settings.spark, "blocks": blocks}
        sources = [table.source for table in settings.tables]
        servers += [server for source in sources if isinstance(source, KafkaSource) for server in source.servers]
    with answering.progress().task("examining this machine"):
        findings = examine(paths=paths, kafka=",".join(dict.fromkeys(servers)) or None, start_spark=spark, **more)
    with results_to(answering.output) as stream:
        if answering.as_json:
            stream.writelines(json_line(masked_settings(asdict(finding))) for finding in findings)
        else:
            width = max(len(finding.check) for finding in findings)
            colour = answering.output is None and stream.isatty()
            stream.writelines(masked(_line(finding, width, colour=colour)) for finding in findings)
    return exit_code(findings)


def _line(finding: Finding, width: int, *, colour: bool) -> str:
    status = f"{finding.status:<5}"
    if colour:
        status = click.style(status, fg=_COLOURS[finding.status], bold=True)
    line = f"{status} {finding.check:<{width}}  {finding.found}\n"
    if finding.action:
        line += f"{'':<5} {'':<{width}}  -> {finding.action}\n"
    return line
