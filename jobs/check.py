"""`holdfast check`: read files, count what breaks declared rules, show it.

Invariant: rules are read, and refused with all that is wrong with them, before any data are; results are written when
all rules are done with, also those that are broken.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.constraints import Severity
from holdfast.jobs.configuration.rules_files import placed, read_rules
from holdfast.jobs.files.addresses import Place, paths_of
from holdfast.jobs.files.engines import Spread, engine
from holdfast.jobs.files.pairs import pairs_writing, write_pairs
from holdfast.jobs.terminal.check_lines import json_lines, summary, text_lines
from holdfast.jobs.terminal.counts import counted
from holdfast.jobs.terminal.options import Answering
from holdfast.jobs.terminal.output import one_line, results_to

if TYPE_CHECKING:
    from holdfast.tables import ReadOptions

BROKEN = 1


def check_files(
    files: Sequence[Place],
    reading: "ReadOptions",
    answering: Answering,
    *,
    rules_file: Path | None,
    rule_texts: Sequence[str],
    pairs_file: Path | None,
    exists: bool,
    examples: int,
    threads: int | None,
    spread: Spread | None = None,
) -> int:
    """Check declared rules on tables; return the exit code."""
    from holdfast.tables import table_names

    names = table_names(paths_of(files))
    if pairs_file is not None:
        pairs_writing(pairs_file)
    declared = read_rules(rules_file, rule_texts, names)
    progress = answering.progress()
    with engine(spread, progress) as way:
        tables: dict[str, Any] = {}
        for name, file in zip(names, files, strict=True):
            with progress.task(f"reading {file.name}") as task:
                tables[name] = way.read(file, reading, None, task.describe)
            for warning in way.warnings(tables[name]):
                progress.note(f"warning: {warning}")
        rules = placed(declared, {name: way.schema(table) for name, table in tables.items()})
        with progress.task("checking") as task:
            checked = way.check(
                tables,
                rules,
                exists=exists,
                examples=examples,
                threads=threads,
                texts=reading.strings == "all",
                report=task.describe,
            )
            if pairs_file is not None:
                task.describe(f"writing {pairs_file.name}")
                written = write_pairs(pairs_file, checked)
                progress.note(f"{pairs_file}: {counted(written, 'pair')}")
        with results_to(answering.output) as out:
            if answering.as_json:
                lines = json_lines(checked, answering)
            else:
                lines = text_lines(checked, answering, named=len(tables) > 1)
            out.writelines(map(one_line, lines))
    progress.note(summary(checked, len(tables)))
    return BROKEN if any(one.broken and one.rule.severity is Severity.ERROR for one in checked) else 0
