"""`holdfast check`: read files, count the violations of declared rules, write the verdicts.

Invariant: rules are read, and refused with all their errors, before any data; verdicts are written once all rules are
counted, also those that are broken.
"""

from typing import Any

from holdfast.constraints import Severity
from holdfast.display.texts import counted
from holdfast.jobs.configuration.rules_files import placed, read_rules
from holdfast.jobs.files.addresses import paths_of
from holdfast.jobs.files.engines import engine_for
from holdfast.jobs.files.pairs import pairs_writing, write_pairs
from holdfast.jobs.searches.contract import note_warnings
from holdfast.jobs.searches.request import CheckRequest
from holdfast.jobs.terminal.check_lines import json_lines, junit, summary, text_lines
from holdfast.jobs.terminal.output import one_line, results_to

BROKEN = 1


def check_files(request: CheckRequest) -> int:
    """Check declared rules on tables; return the exit code."""
    from holdfast.tables import table_names

    answering, reading, pairs_file = request.answering, request.reading, request.pairs_file
    names = table_names(paths_of(request.files))
    if pairs_file is not None:
        pairs_writing(pairs_file)
    declared = read_rules(request.rules_file, request.rule_texts, names)
    progress = answering.progress()
    with engine_for(request.spark, progress) as engine:
        tables: dict[str, Any] = {}
        for name, file in zip(names, request.files, strict=True):
            with progress.task(f"reading {file.name}") as task:
                tables[name] = engine.read(file, reading, None, task.describe)
            note_warnings(tables[name].warnings, progress)
        rules = placed(declared, {name: table.schema for name, table in tables.items()})
        with progress.task("checking") as task:
            checked = engine.check(
                tables,
                rules,
                exists=request.exists,
                examples=request.examples,
                threads=request.threads,
                texts=reading.strings == "all",
                report=task.describe,
            )
            if pairs_file is not None:
                task.describe(f"writing {pairs_file.name}")
                written = write_pairs(pairs_file, checked)
                progress.note(f"{pairs_file}: {counted(written, 'pair')}")
        with results_to(answering.output) as out:
            if answering.format == "junit":
                out.write(junit(checked, answering))
            elif answering.as_json:
                out.writelines(map(one_line, answering.lines(json_lines(checked, answering))))
            else:
                out.writelines(map(one_line, text_lines(checked, answering, named=len(tables) > 1)))
    progress.note(summary(checked, len(tables)))
    is_broken = any(result.broken and result.rule.severity is Severity.ERROR for result in checked)
    return BROKEN if is_broken else 0
