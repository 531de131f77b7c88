"""A state from its first rows to the maintainers of its tables: how it is written once, and taken over at each start.

    names     name NUL name of what was read from its source, where the source names it

Invariant: a state is ready with the last write of its seed, in one piece; what an interrupted seed left is wiped.
"""

import datetime
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

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
from holdfast.streaming.commits.draft import CommitDraft
from holdfast.streaming.commits.near_rows import near_of_seed
from holdfast.streaming.commits.output_rows import Row
from holdfast.streaming.commits.rule_reports import STATUS, RuleReports
from holdfast.streaming.commits.standing import Scored, Standing
from holdfast.streaming.commits.table_records import TableProgress, TableRecord, near_counts, progress_of, tables_of
from holdfast.streaming.maintainers.holdings.contract import Restore
from holdfast.streaming.maintainers.holdings.in_memory import RowsInMemory
from holdfast.streaming.maintainers.inclusion.held_values import MEMBERS, VALUES, HeldValues
from holdfast.streaming.maintainers.inclusion.maintainer import CLUSTERS, InclusionMaintainer
from holdfast.streaming.maintainers.maintainer import Maintainer
from holdfast.streaming.maintainers.near.maintainer import FAMILY as NEAR
from holdfast.streaming.maintainers.rules.maintainer import RULES, MonitoredRule
from holdfast.streaming.maintainers.rules.state import RuleState
from holdfast.streaming.maintainers.rules.values import ValueRules

Clock = Callable[[], datetime.datetime]

NAMES = "names"
TAKEN_OVER = ("ledger", "progress", "skips", NAMES, STATUS)
"""What a state that takes another one's place has of it, besides tables: keys begin with a table's name, or are a
rule's."""
_WIPED_AT_ONCE = 50_000
_FAMILIES = (
    *("tables", "rows", "values", "evidences", "covers", "progress", "attempts", "skips", "pending", "ranks"),
    *(BLOCKS, MARKS, NEAR, VALUES, MEMBERS, CLUSTERS, RULES, STATUS, NAMES, ALERTS, ALERT_STATUS),
)
_OF_TABLES = b"\0"
"""What `meta` says of a table is under its number, and no name begins so."""


def utc_now() -> datetime.datetime:
    """Return the time."""
    return datetime.datetime.now(datetime.UTC)


@dataclass(frozen=True)
class SeededTable:
    """A table that is taken over.

    Parameters
    ----------
    maintainer : its rows and constraints.
    record : what a later start has to know of it, but its name.
    values : of its columns, where inclusions are maintained; of those that rules name, where only these are. None of
        them where they are in files.
    """

    maintainer: Maintainer
    record: TableRecord = field(default_factory=TableRecord)
    values: Sequence[ColumnValues] | None = None


@dataclass(frozen=True)
class Earlier:
    """What an earlier state of the application left: nothing where there was none.

    Parameters
    ----------
    constraints, examples, near, exceptions : rows of the output tables `constraints`, `violations`, `near_constraints`
        and `exceptions`: what they say is not said again.
    broken : the rules that were broken as it was published last.
    commit : the last one that is in the outputs.
    waiting : messages that were not delivered.
    kept : what else stays as it is: where sources are, what was told of rules.
    left_out : its tables that are not monitored any more.
    """

    constraints: Sequence[Row] = ()
    examples: Sequence[Row] = ()
    near: Sequence[Row] = ()
    exceptions: Sequence[Row] = ()
    broken: Collection[str] = ()
    commit: int = 0
    waiting: Sequence[bytes] = ()
    kept: Iterable[WriteBatch] = ()
    left_out: Sequence[str] = ()


NOTHING_EARLIER = Earlier()


def seed(
    store: Store,
    commits: Commits,
    tables: Iterable[SeededTable],
    earlier: Earlier = NOTHING_EARLIER,
    now: Clock = utc_now,
    *,
    rules: Sequence[MonitoredRule] = (),
    alerts: Sequence[Alert] = (),
    watched: bool = False,
    clustered: Callable[[], tuple[Clusters, ValueParts]] | None = None,
    cause: str | None = None,
) -> dict[str, Maintainer]:
    """Write newly seeded tables into an empty state, and return them; it is ready with the last write, in one piece.

    Parameters
    ----------
    rules : those that are monitored; the tables have theirs already.
    alerts : what is to be told of what the seed finds.
    watched : whether values are those that rules name alone.
    clustered : writes the values of all tables into files and clusters them, where they are in files.
    cause : why this is done, where it is neither the first time nor a loss.
    """
    if commits.identity.status != SEEDING:
        raise StateRefused(
            "the state is seeded already: use it (holdfast run), or replace it (holdfast seed --replace)"
        )
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
        draft.rows.table_gone(name)
    _publish_constraints(store, maintainers, inclusion, earlier.constraints, cause, draft)
    states = _states_of_rules(store, maintainers, followed, rules, draft)
    draft.rows.first_examples(states, earlier.examples)
    near_of_seed(draft.rows, maintainers, earlier.near, earlier.exceptions, cause)
    lines = RuleReports(store).publish(states, None, draft)
    put_carried(earlier.waiting, draft.change)
    Waiting(store, alerts).decide(draft.rows, turned(states, lines, earlier.broken), draft.change)
    draft.commit(status=READY)
    return {maintainer.name: maintainer for maintainer in maintainers}


def _save_tables(
    tables: Iterable[SeededTable], commits: Commits, draft: CommitDraft, *, watched: bool
) -> tuple[list[Maintainer], list[ColumnValues] | None]:
    """Write tables in bulk, one after another; return them, and the values that are followed, if any are."""
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
) -> None:
    """Add to a commit the constraints that hold, their places, and how far tables are."""
    included = {} if inclusion is None else inclusion.counts
    counts = {maintainer.name: maintainer.count + included.get(maintainer.name, 0) for maintainer in maintainers}
    standing = Standing(store)
    subjects: list[Scored] = [*maintainers, *([] if inclusion is None else [inclusion])]
    moves = [standing.seeded(subject) for subject in subjects]
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
            commit=draft.number,
            at=at,
        )
        if name in changed or before == TableProgress():
            now = replace(now, changed_commit=draft.number, changed_at=at)
        draft.put_progress(name, now)
    for subject, scored in zip(subjects, moves, strict=True):
        standing.place(subject, scored, draft)


def _states_of_rules(
    store: Store,
    maintainers: Sequence[Maintainer],
    followed: InclusionMaintainer | None,
    rules: Sequence[MonitoredRule],
    draft: CommitDraft,
) -> list[RuleState]:
    """Return what is known of all rules; add to a commit what is stored of those about values."""
    schemas = {maintainer.name: maintainer.schema for maintainer in maintainers}
    for monitored in value_rules(rules):
        form_of(monitored.rule, schemas)
    across = ValueRules(followed, value_rules(rules))
    across.restore(store)
    draft.add(across.save())
    sizes = {maintainer.name: maintainer.row_count for maintainer in maintainers}
    states = [*(state for maintainer in maintainers for state in maintainer.rules), *across.states(sizes.__getitem__)]
    for maintainer in maintainers:
        maintainer.rules_told()
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
    """Write the values of all columns, the rest with the last write; return what keeps their inclusions."""
    if clustered is not None:
        assert not values, "values are in files, or in the driver"
        clusters, files = clustered()
        draft.change.add(InclusionMaintainer.seed_files(clusters, files, watched=watched))
        return InclusionMaintainer(HeldValues(store, files), clusters, watched=watched)
    clusters, parts = clustering(values)
    draft.change.add(InclusionMaintainer.seed(clusters, parts, commits.load, watched=watched))
    return InclusionMaintainer(HeldValues(store), clusters, watched=watched)


def value_rules(rules: Sequence[MonitoredRule]) -> list[MonitoredRule]:
    """Return the rules that are about values: inclusions."""
    return [monitored for monitored in rules if isinstance(monitored.rule.body, InclusionDependency)]


def table_rules(rules: Sequence[MonitoredRule], table: str) -> list[MonitoredRule]:
    """Return the rules that are about the rows of a table."""
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
    rows : returns what takes the rows of a table over, by its name.
    """
    return {
        name: Maintainer.restore(store, number, threads, table_rules(rules, name), rows(name))
        for number, name in ((number, record.name) for number, record in tables_of(store))
    }


def name_key(source: str, name: str) -> bytes:
    """Return under which key it is stored that a source's file, or what else it names, was read."""
    return f"{source}\0{name}".encode()


def _wipe(store: Store) -> None:
    """Take away what an interrupted seed left."""
    for family, prefix in (*((name, b"") for name in _FAMILIES), ("meta", _OF_TABLES)):
        while True:
            batch = WriteBatch()
            for key, _ in store.scan(family, prefix):
                batch.delete(family, key)
                if len(batch) >= _WIPED_AT_ONCE:
                    break
            if not len(batch):
                break
            store.write(batch)
