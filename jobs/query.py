"""`holdfast query`: the SQL query that proves a rule, as a text for the source's own engine.

Invariant: the rule is read as `holdfast check --rule` reads it; no data are read. A text that declares several rules
has a query for each.
"""

from pathlib import Path

from holdfast.constraints import InclusionDependency, UsageError, parse_near
from holdfast.constraints.queries import query
from holdfast.jobs.configuration.rules_files import read_rules
from holdfast.jobs.terminal.output import results_to


def write_query(text: str, table: str | None, dialect: str, output: Path | None, *, near: bool) -> None:
    """Write the query of a rule, with a semicolon at its end."""
    written = []
    for declared in read_rules(None, [text], [], "RULE"):
        rule = declared.rule
        if table is not None and isinstance(rule.body, InclusionDependency):
            raise UsageError(f"--table is for rules on one table: '{rule.text}' names its tables itself")
        written.append(query(parse_near(rule.text) if near else rule, table, dialect=dialect))
    with results_to(output) as out:
        out.write("\n".join(f"{one};\n" for one in written))
