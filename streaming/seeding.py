"""A state from its first rows to the maintainers of its tables: how it is written once, and taken over at each start.

    tables    number  name, settings, where the source begins, columns left out, as JSON
    progress  name    how far a table is, as JSON
    names     name NUL name of what was read from its source, where the source names it

Invariant: a state is ready with the last write of its seed, in one piece; what an interrupted seed left is wiped.
"""

import datetime
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.constraints import InclusionDependency, StateRefused
from holdfast.discovery.blocks.live import BLOCKS, MARKS
from holdfast.discovery.blocks.value_parts import ValueParts
from holdfast.discovery.detection.forms import form_of
from holdfast.discovery.inclusion.clusters import Clusters
from holdfast.discovery.inclusion.seeding import ColumnValues, clustering
from holdfast.state import codecs
from holdfast.state.commits import READY, SEEDING, Commits
from holdfast.state.store import Reader, Store, WriteBatch
from holdfast.streaming.alerts.deciding import Alert, turned
from holdfast.streaming.alerts.waiting import ALERTS, Waiting, put_carried
from holdfast.streaming.alerts.waiting import STATUS as ALERT_STATUS
from holdfast.streaming.maintainers.held_values import MEMBERS, VALUES, HeldValues
from holdfast.streaming.maintainers.holding import Restore
from holdfast.streaming.maintainers.in_memory import RowsInMemory
from holdfast.streaming.maintainers.inclusion import CLUSTERS, InclusionMaintainer
from holdfast.streaming.maintainers.maintainer import Maintainer
from holdfast.streaming.maintainers.rules import RULES, MonitoredRule
from holdfast.streaming.maintainers.value_rules import ValueRules
from holdfast.streaming.output_rows import OutputRows, Row
from holdfast.streaming.rule_reports import STATUS, RuleReports
from holdfast.streaming.standing import Scored, Standing

Clock = Callable[[], datetime.datetime]

NAMES = "names"
TAKEN_OVER = ("ledger", "progress", "skips", NAMES, STATUS)
"""What a state that takes another one's place has of it, besides tables: keys begin with a table's name, or are a
rule's."""
_WIPED_AT_ONCE = 50_000
_FAMILIES = (
    *("tables", "rows", "values", "evidences", "covers", "progress", "attempts", "skips", "pending", "ranks"),
    *(BLOCKS, MARKS, VALUES, MEMBERS, CLUSTERS, RULES, STATUS, NAMES, ALERTS, ALERT_STATUS),
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
    about : what a later start has to know of it: settings, where its source begins, columns left out.
    values : of its columns, where inclusions are maintained; of those that rules name, where only these are. None of
        them where they are in files.
    """

    maintainer: Maintainer
    about: Mapping[str, Any] = field(default_factory=dict)
    values: Sequence[ColumnValues] | None = None


@dataclass(frozen=True)
class Told:
    """Who is told of a seed, and what they were told of the state before.

    Parameters
    ----------
    alerts : what is asked for.
    broken : the rules that were broken as it was published last.
    waiting : messages that were not delivered.
    """

    alerts: Sequence[Alert] = ()
    broken: Collection[str] = ()
    waiting: Sequence[bytes] = ()


NOBODY_TOLD = Told()


def seed(
    store: Store,
    commits: Commits,
    tables: Iterable[SeededTable],
    published: Sequence[Row] = (),
    after: int = 0,
    now: Clock = utc_now,
    *,
    rules: Sequence[MonitoredRule] = (),
    watched: bool = False,
    clustered: Callable[[], tuple[Clusters, ValueParts]] | None = None,
    shown: Sequence[Row] = (),
    taken_over: Iterable[WriteBatch] = (),
    left_out: Sequence[str] = (),
    cause: str | None = None,
    told: Told = NOBODY_TOLD,
) -> dict[str, Maintainer]:
    """Write newly seeded tables into an empty state, and return them; it is ready with the last write, in one piece.

    Parameters
    ----------
    published : rows of the `constraints` table that an earlier state left: what they say already is not said again.
    after : the last commit that is in the outputs.
    rules : those that are monitored; the tables have theirs already.
    watched : whether values are those that rules name alone.
    clustered : writes the values of all tables into files and clusters them, where they are in files.
    shown : rows of the `violations` table with the examples that an earlier state left.
    taken_over : what else an earlier state has that stays as it is: where sources are, what was told of rules.
    left_out : tables that an earlier state had.
    cause : why this is done, where it is neither the first time nor a loss.
    told : who is told of what the seed finds.
    """
    if commits.identity.status != SEEDING:
        raise StateRefused(
            "the state is seeded already: use it (holdfast run), or replace it (holdfast seed --replace)"
        )
    _wipe(store)
    for part in taken_over:
        commits.bulk(part)
    if after > commits.last:
        commits.continue_after(after)
    rows = OutputRows(commits.identity, commits.last + 1, now())
    last = WriteBatch()
    maintainers = []
    values: list[ColumnValues] | None = None
    for number, table in enumerate(tables):
        maintainer = table.maintainer
        for part in maintainer.save(number, everything=True):
            commits.bulk(part)
        last.put("tables", codecs.number(number), codecs.json_bytes({**table.about, "name": maintainer.name}))
        rows.table(maintainer, table.about.get("excluded", ()), inclusion=table.values is not None and not watched)
        maintainers.append(maintainer)
        if table.values is not None:
            values = [*(values or ()), *table.values]
    followed = None if values is None else _seeded_inclusion(values, clustered, store, commits, last, watched=watched)
    inclusion = None if watched else followed
    included = {} if inclusion is None else inclusion.counts
    counts = {maintainer.name: maintainer.count + included.get(maintainer.name, 0) for maintainer in maintainers}
    for name in left_out:
        rows.table_gone(name)
    standing = Standing(store)
    subjects: list[Scored] = [*maintainers, *([] if inclusion is None else [inclusion])]
    moves = [standing.seeded(subject) for subject in subjects]
    scores = {name: score for one in moves for name, score in one.score_of.items()}
    known = [(constraint, subject.name) for subject in subjects for constraint in subject.constraints]
    changed = rows.seeded([(c, name or c.dependent.table) for c, name in known], counts, published, scores, cause)
    for maintainer in maintainers:
        progress = progress_of(store, maintainer.name)
        if maintainer.name in changed or not progress:
            progress |= {"changed_commit": commits.last + 1, "changed_at": rows.at}
        progress |= {"rows": maintainer.row_count, "constraints": counts[maintainer.name]}
        progress |= {"owed": maintainer.owed, "commit": commits.last + 1, "at": rows.at}
        last.put("progress", maintainer.name.encode(), codecs.json_bytes(progress))
    for subject, scored in zip(subjects, moves, strict=True):
        rows.places(standing.places(subject, scored, last, now().timestamp()))
    schemas = {maintainer.name: maintainer.schema for maintainer in maintainers}
    for monitored in value_rules(rules):
        form_of(monitored.rule, schemas)
    across = ValueRules(followed, value_rules(rules))
    across.restore(store)
    for part in across.save():
        last.add(part)
    sizes = {maintainer.name: maintainer.row_count for maintainer in maintainers}
    states = [*(state for maintainer in maintainers for state in maintainer.rules), *across.states(sizes.__getitem__)]
    rows.first_examples(states, shown)
    for maintainer in maintainers:
        maintainer.rules_told()
    lines = RuleReports(store).lines(states, None, commits.last + 1, now().timestamp(), last).lines
    for line in lines:
        rows.rule(line)
    put_carried(told.waiting, last)
    Waiting(store, told.alerts).decide(rows, turned(states, lines, told.broken), last)
    commits.commit(last, rows.payload, status=READY)
    return {maintainer.name: maintainer for maintainer in maintainers}


def _seeded_inclusion(
    values: list[ColumnValues],
    clustered: Callable[[], tuple[Clusters, ValueParts]] | None,
    store: Store,
    commits: Commits,
    last: WriteBatch,
    *,
    watched: bool,
) -> InclusionMaintainer:
    """Write the values of all columns, the rest with the last write; return what keeps their inclusions."""
    if clustered is not None:
        assert not values, "values are in files, or in the driver"
        clusters, files = clustered()
        last.add(InclusionMaintainer.seed_files(clusters, files, watched=watched))
        return InclusionMaintainer(HeldValues(store, files), clusters, watched=watched)
    clusters, parts = clustering(values)
    last.add(InclusionMaintainer.seed(clusters, parts, commits.load, watched=watched))
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
        for number, name in ((number, about["name"]) for number, about in tables_of(store))
    }


def tables_of(store: Reader) -> list[tuple[int, dict[str, Any]]]:
    """Return the number of each table, and what was noted when it was seeded."""
    return [(codecs.read_number(key), codecs.read_json(about)) for key, about in store.scan("tables")]


def name_key(source: str, name: str) -> bytes:
    """Return under which key it is stored that a source's file, or what else it names, was read."""
    return f"{source}\0{name}".encode()


def progress_of(store: Reader, table: str) -> dict[str, Any]:
    """Return how far a table is."""
    stored = store.get("progress", table.encode())
    return {} if stored is None else codecs.read_json(stored)


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
