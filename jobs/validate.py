"""`holdfast validate`: check a configuration, and print how its settings were understood.

Invariant: the printed settings are those that would run, defaults included, without secrets. Options are printed by
name only, since any of them may be a secret.
"""

import datetime
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from holdfast.constraints import InclusionDependency, Rule, Threshold
from holdfast.display.secrets import masked, masked_settings, without
from holdfast.display.texts import counted, printable
from holdfast.jobs.configuration.problems import ConfigurationError, Problem, written
from holdfast.jobs.configuration.quantities import duration_text
from holdfast.jobs.configuration.reading import Configuration, load
from holdfast.jobs.configuration.settings import Settings
from holdfast.jobs.configuration.table_settings import KafkaSource, TableSettings, has_suspects
from holdfast.jobs.files.overwriting import refuse_overwriting_live
from holdfast.jobs.terminal.options import Answering
from holdfast.jobs.terminal.output import json_line, results_to


def validate_file(file: Path, answering: Answering, *, offline: bool = False) -> int:
    """Check a configuration, its data unless `offline`, print its settings, and return the exit code.

    As text, errors are raised, and so written to standard error; as JSON they are the result.
    """
    from holdfast.jobs.application.checking import refuse_misfits

    try:
        configuration = load(file)
        if not offline:
            refuse_misfits(configuration)
    except ConfigurationError as error:
        if not answering.as_json:
            raise
        with results_to(answering.output) as stream:
            stream.write(json_line({"valid": False, "file": str(file), "errors": _listed(error.problems)}))
        return error.exit_code
    refuse_overwriting_live(answering.output, configuration)
    with results_to(answering.output) as stream:
        if answering.as_json:
            stream.write(without(configuration.secrets, json_line(masked_settings(_fields(configuration)))))
        else:
            stream.writelines(printable(masked(line)) + "\n" for line in summary(configuration))
    if not answering.quiet:
        for warning in configuration.warnings:
            click.echo("warning: " + printable(warning.located(str(file))), err=True)
    return 0


def summary(configuration: Configuration) -> Iterator[str]:
    """Yield the settings of a configuration, as lines for people."""
    settings = configuration.settings
    yield f"{configuration.file} is valid."
    yield ""
    yield f"{settings.name}: a batch every {duration_text(settings.trigger.interval)}"
    for name, place in settings.places.items():
        yield f"  {name:<11} {place}"
    if settings.engine == "spark":
        yield f"  {'engine':<11} Spark at {settings.spark.get('spark.master', 'this machine')}: rows are in blocks"
    yield ""
    for table in settings.tables:
        yield from _table_lines(table, settings.engine)
    yield ""
    denial, order, inclusion = (getattr(settings.constraints, n) for n in ("denial", "order", "inclusion"))
    yield "constraints"
    if denial:
        size = f"at most {denial.max_predicates} predicates" if denial.max_predicates else "all sizes"
        crossing = denial.cross_columns if isinstance(denial.cross_columns, str) else _pairs(denial.cross_columns)
        yield f"  denial      {size}, cross columns {crossing}"
    if order:
        yield f"  order       {f'context of at most {order.max_context}' if order.max_context else 'all sizes'}"
    if inclusion:
        yield "  inclusion   all columns of all tables"
    if not settings.constraints.families:
        yield "  none is discovered, rules alone are watched"
    if configuration.rules:
        yield ""
        yield "rules"
        width = max(len(rule.name) for rule in configuration.rules)
        for rule in configuration.rules:
            yield f"  {rule.name:<{width}}  {_rule_text(rule)}"
    if settings.alerts:
        yield ""
        yield "alerts"
        for alert in settings.alerts:
            filters = (alert.rule, alert.table, alert.family, alert.kind)
            about = ", ".join(name for name in filters if name) or "everything"
            address = masked_settings({"webhook": alert.webhook})["webhook"]
            yield f"  {', '.join(alert.on)}: {about} -> {address}"
    if settings.mutes is not None:
        yield ""
        yield f"mutes in {settings.mutes}: {_mutes_text(settings)}"
    if settings.prometheus is not None:
        yield ""
        yield f"figures for Prometheus at {settings.prometheus.address}, port {settings.prometheus.port}"


def _table_lines(table: TableSettings, engine: str) -> Iterator[str]:
    yield f"table {table.name}"
    yield f"  {'key':<11} {', '.join(table.key) if table.key else 'none: a row is identified by all its columns'}"
    if table.columns:
        typed = [name + (f" {c.type}" if c.type else "") for name, c in table.columns.items()]
        yield f"  {'declared':<11} {', '.join(typed)}"
    for name in ("include", "exclude"):
        if getattr(table, name):
            yield f"  {name:<11} {', '.join(getattr(table, name))}"
    if table.seed is not None:
        version = "" if table.seed.version is None else f", version {table.seed.version}"
        yield f"  {'seed':<11} {table.seed.path}{version}"
    else:
        snapshot = table.source is not None and table.source.format == "delta"
        yield f"  {'seed':<11} {'the snapshot of its source' if snapshot else 'none: starts empty'}"
    yield f"  {'source':<11} {_source_text(table)}"
    if table.near is not None:
        most = f"contexts of at most {table.near.max_context}" if table.near.max_context else "contexts of all sizes"
        orders = ", without order compatibilities" if table.near.orders is False else ""
        yield f"  {'near':<11} {Threshold(share=table.near.share)} of the rows may be exceptions, {most}{orders}"
        if engine == "spark":
            yield f"  {'suspects':<11} none, nor where exceptions are: both are searched with engine: embedded alone"
        elif not has_suspects(table):
            yield f"  {'suspects':<11} not searched, nor where exceptions are"
    if table.sequence is not None:
        kept = "" if table.sequence_retention is None else f", kept for {duration_text(table.sequence_retention)}"
        yield f"  {'sequence':<11} {table.sequence}{kept}"


def _source_text(table: TableSettings) -> str:
    source = table.source
    if source is None:
        return "none: stays as it is"
    options = f" (options: {', '.join(sorted(source.options))})" if source.options else ""
    if isinstance(source, KafkaSource):
        text = f"Kafka topic {source.topic} at {','.join(source.servers)}, {source.encoding}, from {start_text(source)}"
    elif source.format == "files":
        text = f"{source.encoding} files renamed into {source.path}"
    else:
        text = f"change feed of the Delta table {source.path}"
    return text + options


def start_text(source: KafkaSource) -> str:
    """Return the start of a topic as the configuration writes it."""
    if source.start is None:
        return "earliest"
    if isinstance(source.start, Mapping):
        return "{" + ", ".join(f"{partition}: {offset}" for partition, offset in source.start.items()) + "}"
    return source.start.isoformat() if isinstance(source.start, datetime.datetime) else source.start


def _mutes_text(settings: Settings) -> str:
    muted, published = _mutes(settings)
    known = "no output tables could be read" if published is None else f"{published:,} published"
    return f"{counted(muted, 'constraint')}, {known}"


def _mutes(settings: Settings) -> tuple[int, int | None]:
    """Return how many constraints are muted, and how many of these are or were published; None if not known."""
    from holdfast.jobs.application.outputs import published_mutes  # takes long to import

    return published_mutes(settings)


def _rule_text(rule: Rule) -> str:
    table = "" if isinstance(rule.body, InclusionDependency) else f"{rule.table}: "
    threshold = [rule.threshold] if rule.threshold else []
    return "; ".join([f"{table}{rule.text}", *threshold, rule.severity.value])


def _pairs(pairs: tuple[tuple[str, str], ...]) -> str:
    return ", ".join(f"{a}/{b}" for a, b in pairs)


def _fields(configuration: Configuration) -> dict[str, Any]:
    settings = configuration.settings
    return {
        "valid": True,
        "file": configuration.file,
        "name": settings.name,
        **settings.places,
        "engine": settings.engine,
        "interval": duration_text(settings.trigger.interval),
        "tables": [
            {
                "name": table.name,
                "key": list(table.key or ()),
                "columns": {name: None if c.type is None else str(c.type) for name, c in table.columns.items()},
                "seed": None if table.seed is None else table.seed.path,
                "source": None if table.source is None else table.source.format,
                "encoding": getattr(table.source, "encoding", None),
                "near": None if table.near is None else str(Threshold(share=table.near.share)),
            }
            for table in settings.tables
        ],
        "families": [family.value for family in settings.constraints.families],
        "rules": [
            {"rule": r.name, "table": r.table, "constraint": r.text, "severity": r.severity.value}
            for r in configuration.rules
        ],
        "mutes": None
        if settings.mutes is None
        else {"file": settings.mutes, **dict(zip(("constraints", "published"), _mutes(settings), strict=True))},
        "warnings": _listed(configuration.warnings),
    }


def _listed(problems: tuple[Problem, ...]) -> list[dict[str, Any]]:
    return [
        {"line": p.place.line, "column": p.place.column, "path": written(p.path), "message": masked(p.message)}
        for p in problems
    ]
