"""Seeding a state with its tables, and restoring the maintainers of its tables at each start.

    names     table NUL name of a file that was read from the table's source

Invariant: a state is ready with the last write of its seed, which is atomic; an interrupted seed is deleted.
"""

import datetime
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from holdfast.constraints import InclusionDependency, StateRefused
from holdfast.discovery.blocks.storage.manifest import BLOCKS, MARKS
from holdfast.discovery.blocks.values.parts import ValueParts
from holdfast.discovery.detection.forms import form_of
from holdfast.discovery.inclusion.clusters import Clusters
from holdfast.discovery.inclusion.seeding import ColumnValues, clustering
from holdfast.state.commits import READY, SEEDING, Commits
from holdfast.state.store import Reader, Store, WriteBatch
from holdfast.streaming.alerts.deciding import Alert, turned
from holdfast.streaming.alerts.waiting import ALERTS, Waiting, put_carried
from holdfast.streaming.alerts.waiting import STATUS as ALERT_STATUS
from holdfast.streaming.commits.concentration_rows import concentrations_of_seed
from holdfast.streaming.commits.draft import CommitDraft
from holdfast.streaming.commits.near_rows import near_of_seed
from holdfast.streaming.commits.output_rows import Row
from holdfast.streaming.commits.published_ranks import Ranking, Scored
from holdfast.streaming.commits.rule_reports import STATUS, RuleReports
from holdfast.streaming.commits.suspect_rows import suspects_of_seed
from holdfast.streaming.commits.table_records import (
    TableProgress,
    TableRecord,
    near_counts,
    progress_of,
    suspect_counts,
    tables_of,
)
from holdfast.streaming.maintainers.holdings.contract import Restore
from holdfast.streaming.maintainers.holdings.in_memory import RowsInMemory
from holdfast.streaming.maintainers.inclusion.held_values import MEMBERS, VALUES, HeldValues
from holdfast.streaming.maintainers.inclusion.maintainer import CLUSTERS, InclusionMaintainer
from holdfast.streaming.maintainers.maintainer import Maintainer
from holdfast.streaming.maintainers.near.maintainer import FAMILY as NEAR
from holdfast.streaming.maintainers.near.suspects import SuspectChanges
from holdfast.streaming.maintainers.rules.maintainer import RULES, MonitoredRule
from holdfast.streaming.maintainers.rules.state import RuleState
from holdfast.streaming.maintainers.rules.values import ValueRules

Clock = Callable[[], datetime.datetime]

NAMES = "names"
TAKEN_OVER = ("ledger", "progress", "skips", NAMES, STATUS)
"""The families that a state takes over from the state it replaces, besides tables. Their keys begin with the name of a
table, or are names of rules."""
_WIPED_AT_ONCE = 50_000
_FAMILIES = (
    *("tables", "rows", "values", "evidences", "covers", "progress", "attempts", "skips", "pending", "ranks"),
    *(BLOCKS, MARKS, NEAR, VALUES, MEMBERS, CLUSTERS, RULES, STATUS, NAMES, ALERTS, ALERT_STATUS),
)
_OF_TABLES = b"\0"
"""The prefix of the keys of tables in `meta`: they begin with a number, and no other key of `meta` does."""


def utc_now() -> datetime.datetime:
    """Return the time."""
    return datetime.datetime.now(datetime.UTC)


@dataclass(frozen=True)
class SeededTable:
    """A seeded table that is not in the state yet.

    Parameters
    ----------
    maintainer : the rows and constraints.
    record : the facts that a later start needs; the name is set by the seed.
    values : the values of the columns whose inclusions are maintained, or that rules name; empty if values are in
        files, None if none are followed.
    """

    maintainer: Maintainer
    record: TableRecord = field(default_factory=TableRecord)
    values: Sequence[ColumnValues] | None = None


@dataclass(frozen=True)
class Earlier:
    """The remains of an earlier state of the application; empty if there was none.

    Parameters
    ----------
    constraints, examples, near, exceptions, suspects, concentrations : the published rows of the output tables
        `constraints`, `violations`, `near_constraints`, `exceptions`, `suspects` and `concentrations`, which are not
        published again.
    broken : the names of the rules that were broken in their last line.
    commit : the last commit in the outputs.
    waiting : the messages that were not delivered.
    kept : other records that the new state takes over: positions of sources, lines of rules.
    left_out : the tables that are not monitored any more.
    cause : why the tables are seeded anew, where it is not that the state was lost.
    """

    constraints: Sequence[Row] = ()
    examples: Sequence[Row] = ()
    near: Sequence[Row] = ()
    exceptions: Sequence[Row] = ()
    suspects: Sequence[Row] = ()
    concentrations: Sequence[Row] = ()
    broken: Collection[str] = ()
    commit: int = 0
    waiting: Sequence[bytes] = ()
    kept: Iterable[WriteBatch] = ()
    left_out: Sequence[str] = ()
    cause: str | None = None


NOTHING_EARLIER = Earlier()


def seed(
    commits: Commits,
    tables: Iterable[SeededTable],
    earlier: Earlier = NOTHING_EARLIER,
    now: Clock = utc_now,
    *,
    rules: Sequence[MonitoredRule] = (),
    alerts: Sequence[Alert] = (),
    watched: bool = False,
    clustered: Callable[[], tuple[Clusters, ValueParts]] | None = None,
) -> dict[str, Maintainer]:
    """Write seeded tables into an empty state, and return their maintainers by name; the last write makes it ready.

    Parameters
    ----------
    rules : all monitored rules; the maintainers have the rules of their tables already.
    alerts : the alerts that are sent about the seed.
    watched : whether only the values of columns that rules name are followed.
    clustered : writes the values of all tables into files, and clusters them; None if values are in the store.
    """
    if commits.identity.status != SEEDING:
        raise StateRefused(
            "the state is seeded already: use it (holdfast run), or replace it (holdfast seed --replace)"
        )
    store, cause = commits.store, earlier.cause
    _wipe(store)
    for part in earlier.kept:
        commits.bulk(part)
    if earlier.commit > commits.last:
        commits.continue_after(earlier.commit)
    draft = CommitDraft(commits, now())
    maintainers, values = _save_tables(tables, commits, draft, watched=watched)
    followed = None if values is None else _seeded_inclusion(values, clustered, store, commits, draft, watched=watched)
    inclusion = None if watched else followed
    for name in earlier.left_out:
        draft.rows.add("tables", {"table_name": name, "_gone": True})
    searched = _publish_constraints(store, maintainers, inclusion, earlier.constraints, cause, draft)
    states = _states_of_rules(store, maintainers, followed, rules, draft)
    draft.rows.first_examples(states, earlier.examples)
    near_of_seed(draft.rows, maintainers, earlier.near, earlier.exceptions, cause)
    suspects_of_seed(draft.rows, maintainers, earlier.suspects, searched, cause)
    concentrations_of_seed(draft.rows, maintainers, earlier.concentrations, searched)
    lines = RuleReports(store).publish(states, None, draft)
    put_carried(earlier.waiting, draft.change)
    Waiting(store, alerts).decide(draft.rows, turned(states, lines, earlier.broken), draft.change)
    draft.commit(status=READY)
    return {maintainer.name: maintainer for maintainer in maintainers}


def _save_tables(
    tables: Iterable[SeededTable], commits: Commits, draft: CommitDraft, *, watched: bool
) -> tuple[list[Maintainer], list[ColumnValues] | None]:
    """Write tables in bulk, one after another; return their maintainers, and the values that are followed, if any."""
    maintainers: list[Maintainer] = []
    values: list[ColumnValues] | None = None
    for number, table in enumerate(tables):
        maintainer = table.maintainer
        for part in maintainer.save(number, everything=True):
            commits.bulk(part)
        replace(table.record, name=maintainer.name).put(number, draft.change)
        draft.rows.table(maintainer, table.record.excluded, inclusion=table.values is not None and not watched)
        maintainers.append(maintainer)
        if table.values is not None:
            values = [*(values or ()), *table.values]
    return maintainers, values


def _publish_constraints(
    store: Reader,
    maintainers: Sequence[Maintainer],
    inclusion: InclusionMaintainer | None,
    published: Sequence[Row],
    cause: str | None,
    draft: CommitDraft,
) -> dict[str, int | None]:
    """Add to a commit the constraints that hold, their ranks, and the progress of tables.

    Returns for each table the commit as of which its suspects were searched.
    """
    searched: dict[str, int | None] = {}
    included = {} if inclusion is None else inclusion.counts
    counts = {maintainer.name: maintainer.count + included.get(maintainer.name, 0) for maintainer in maintainers}
    ranking = Ranking(store)
    subjects: list[Scored] = [*maintainers, *([] if inclusion is None else [inclusion])]
    moves = [ranking.seeded(subject) for subject in subjects]
    scores = {name: score for one in moves for name, score in one.score_of.items()}
    known = [(constraint, subject.name) for subject in subjects for constraint in subject.constraints]
    changed = draft.rows.seeded([(c, name or c.dependent.table) for c, name in known], counts, published, scores, cause)
    for maintainer in maintainers:
        name, at = maintainer.name, draft.rows.at
        before = progress_of(store, name)
        now = replace(
            before,
            rows=maintainer.row_count,
            constraints=counts[name],
            owed=maintainer.owed,
            **near_counts(maintainer.near_counts),
            **_suspect_counts(maintainer, before, draft.number),
            commit=draft.number,
            at=at,
        )
        if name in changed or before == TableProgress():
            now = replace(now, changed_commit=draft.number, changed_at=at)
        draft.put_progress(name, now)
        searched[name] = now.suspects_commit
    for subject, scored in zip(subjects, moves, strict=True):
        ranking.place(subject, scored, draft)
    return searched


def _suspect_counts(maintainer: Maintainer, before: TableProgress, commit: int) -> dict[str, Any]:
    """Return what the progress of a table says about its suspects, which may have been searched by an earlier state."""
    near = maintainer.near_maintainer
    changes = SuspectChanges() if near is None else near.suspects.changes
    return suspect_counts(changes, commit if changes.is_searched else before.suspects_commit)


def _states_of_rules(
    store: Store,
    maintainers: Sequence[Maintainer],
    followed: InclusionMaintainer | None,
    rules: Sequence[MonitoredRule],
    draft: CommitDraft,
) -> list[RuleState]:
    """Return the states of all rules, and save those on inclusions. Refuses inclusions that do not fit the columns."""
    schemas = {maintainer.name: maintainer.schema for maintainer in maintainers}
    for monitored in value_rules(rules):
        form_of(monitored.rule, schemas)
    across = ValueRules(followed, value_rules(rules))
    across.restore(store)
    draft.add(across.save())
    sizes = {maintainer.name: maintainer.row_count for maintainer in maintainers}
    states = [*(state for maintainer in maintainers for state in maintainer.rules), *across.states(sizes.__getitem__)]
    for maintainer in maintainers:
        maintainer.rule_maintainer.forget_changes()
    return states


def _seeded_inclusion(
    values: list[ColumnValues],
    clustered: Callable[[], tuple[Clusters, ValueParts]] | None,
    store: Store,
    commits: Commits,
    draft: CommitDraft,
    *,
    watched: bool,
) -> InclusionMaintainer:
    """Write the values of all columns, and add clusters to the last commit; return the maintainer of inclusions."""
    if clustered is not None:
        assert not values, "values are in files, or in the driver"
        clusters, files = clustered()
        draft.change.add(InclusionMaintainer.seed_files(clusters, files, watched=watched))
        return InclusionMaintainer(HeldValues(store, files), clusters, watched=watched)
    clusters, parts = clustering(values)
    draft.change.add(InclusionMaintainer.seed(clusters, parts, commits.load, watched=watched))
    return InclusionMaintainer(HeldValues(store), clusters, watched=watched)


def value_rules(rules: Sequence[MonitoredRule]) -> list[MonitoredRule]:
    """Return the rules that are inclusions."""
    return [monitored for monitored in rules if isinstance(monitored.rule.body, InclusionDependency)]


def table_rules(rules: Sequence[MonitoredRule], table: str) -> list[MonitoredRule]:
    """Return the rules about the rows of a table."""
    about = [monitored for monitored in rules if monitored.rule.table == table]
    return [monitored for monitored in about if not isinstance(monitored.rule.body, InclusionDependency)]


def restore(
    store: Store,
    threads: int | None = None,
    rules: Sequence[MonitoredRule] = (),
    rows: Callable[[str], Restore] = lambda _: RowsInMemory.restored,
) -> dict[str, Maintainer]:
    """Return the maintainers of all tables of a state, with their rules. O(n log n); of rows in blocks O(blocks).

    Parameters
    ----------
    rows : returns, for the name of a table, the function that restores its rows.
    """
    return {
        name: Maintainer.restore(store, number, threads, table_rules(rules, name), rows(name))
        for number, name in ((number, record.name) for number, record in tables_of(store))
    }


def name_key(source: str, name: str) -> bytes:
    """Return the key under which it is stored that a file of a source was read."""
    return f"{source}\0{name}".encode()


def _wipe(store: Store) -> None:
    """Delete the remains of an interrupted seed."""
    for family, prefix in (*((name, b"") for name in _FAMILIES), ("meta", _OF_TABLES)):
        while keys := [key for key, _ in islice(store.scan(family, prefix), _WIPED_AT_ONCE)]:
            store.write(WriteBatch(family, dict.fromkeys(keys)))
