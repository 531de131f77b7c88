"""Commits, which apply each batch exactly once: the identity of a store, its ledger, its outbox and its log records.

    meta    "identity"            state id, epoch, application, status, as JSON
    meta    "commit"              number of the last commit
    meta    "first", "base"       number of the first commit of this state; of the commit that ended its last seed
    meta    "published"           the last commit of each output table, as JSON
    ledger  source                the last batch of this source, as JSON (`LedgerEntry`)
    outbox  number of the commit  the rows to publish, as JSON
    log     number of the commit  the record of the commit (`codecs.batch_bytes`), until it is in the backup

A commit is one write of the store: state, ledger, outbox and log record together. Numbers have no gaps. The record in
`log` is moved to the backup before any row of the commit is published, so that a restored state is never behind its
outputs.

The record of a commit is the whole write without the record itself, so replaying records on a snapshot gives the store.
The snapshot must contain the base: the writes of a seed before its end are in no record.
"""

import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from holdfast.constraints import StateFormatUnknown, StateOfAnotherApplication, StateRefused
from holdfast.state import codecs
from holdfast.state.store import Reader, Store, WriteBatch
from holdfast.state.upgrades import upgradable, upgrade

SEEDING, READY = "seeding", "ready"
_BASE, _PUBLISHED = b"base", b"published"
_RESUMED = ""
"""The query id of an entry after which a new query may begin; no query has this id."""


@dataclass(frozen=True)
class Identity:
    """The identity of a state.

    Parameters
    ----------
    state_id : a random id, which rows of outputs have too.
    epoch : increases with every restore from a backup.
    application : the name in the configuration.
    status : `seeding` until the first complete seed, then `ready`.
    """

    state_id: str
    epoch: int
    application: str
    status: str


@dataclass(frozen=True)
class LedgerEntry:
    """The last committed batch of one source.

    Parameters
    ----------
    query_id, batch_id : the ids of Spark.
    start, end : the offsets, as texts.
    commit : the number of the commit.
    """

    query_id: str
    batch_id: int
    start: str
    end: str
    commit: int


class StateCheckpointMismatch(StateRefused):
    """The checkpoint of the stream and the state are not at the same batch: the message says what to do."""


def base_of(record: WriteBatch) -> int:
    """Return the commit that a snapshot needs so that a record can be applied to it; 0 if any snapshot will do."""
    return codecs.read_number(record.changes.get(("meta", _BASE)) or b"")


def identity_of(store: Reader, application: str) -> Identity | None:
    """Return the identity of the state in a store; None if it has none yet.

    Raises `StateOfAnotherApplication` if the state belongs to another application, and `StateFormatUnknown` if this
    version cannot read its format.
    """
    stored = store.get("meta", b"identity")
    if stored is None:
        return None
    known = codecs.read_json(stored)
    if known["application"] != application:  # in every format
        raise StateOfAnotherApplication(
            f"the state is of the application '{known['application']}', not of '{application}': use another "
            "`state` folder, or the name it was made with"
        )
    found = _format_of(store)
    if not upgradable(found):
        raise StateFormatUnknown(
            f"the state has format {found}, this version reads {codecs.FORMAT}: use the version that wrote it, or "
            "seed anew: holdfast seed --replace"
        )
    return Identity(**known)


def state_id_of(store: Reader) -> str | None:
    """Return the id of a state of any application and format; None if there is none yet."""
    stored = store.get("meta", b"identity")
    return None if stored is None else str(codecs.read_json(stored)["state_id"])


def last_commit(store: Reader) -> int:
    """Return the number of the last commit of a store, 0 before the first."""
    return codecs.read_number(store.get("meta", b"commit") or b"")


def last_batch(store: Reader, source: str) -> LedgerEntry | None:
    """Return the last committed batch of a source; None if there is none."""
    stored = store.get("ledger", source.encode())
    return None if stored is None else LedgerEntry(**codecs.read_json(stored))


def unpublished_count(store: Reader) -> int:
    """Return how many commits of a store are not published yet."""
    return sum(1 for _ in store.scan("outbox"))


def _format_of(store: Reader) -> int:
    return codecs.read_number(store.get("meta", b"format") or b"")


class Commits:
    """Writes commits to a store.

    Parameters
    ----------
    store : an open store, to which nothing else writes.
    application : the application of the state; a new store becomes a state of this application.

    Attributes
    ----------
    store : the store.
    identity : the identity of the state.
    upgraded_from : the earlier format of the state, if it was upgraded; else None.
    """

    def __init__(self, store: Store, application: str) -> None:
        self.store = store
        known = identity_of(store, application)
        if known is None:
            known = Identity(secrets.token_hex(16), 0, application, SEEDING)
            store.write(WriteBatch("meta", _first_meta(known)))
        self.identity = known
        found = _format_of(store)
        self.upgraded_from = found if found != codecs.FORMAT else None
        if self.upgraded_from is not None:
            change = upgrade(store, found)
            if self.identity.status == READY:
                self.commit(change, {})
            else:
                store.write(change)

    @classmethod
    def succeeding(cls, store: Store, earlier: "Commits") -> "Commits":
        """Return the commits of an empty store that will be seeded, and then take the place of an earlier one."""
        meta = {
            **_first_meta(replace(earlier.identity, status=SEEDING)),
            b"commit": codecs.number(earlier.last),
            b"first": codecs.number(earlier.first),
            _PUBLISHED: codecs.json_bytes(earlier.published_to),
        }
        store.write(WriteBatch("meta", meta))
        return cls(store, earlier.identity.application)

    @property
    def last(self) -> int:
        """The number of the last commit, 0 before the first."""
        return last_commit(self.store)

    @property
    def first(self) -> int:
        """The number of the first commit of this state."""
        return codecs.read_number(self.store.get("meta", b"first") or codecs.number(1))

    @property
    def base(self) -> int:
        """The number of the commit that a snapshot needs so that it and later records give the store."""
        return codecs.read_number(self.store.get("meta", _BASE) or b"")

    def is_done(self, source: str, query_id: str, batch_id: int, start: str, end: str) -> bool:
        """Return whether a batch is committed already; refuse a batch that does not follow the last one."""
        last = self.entry(source)
        if last is None:
            return False
        if (last.query_id, last.batch_id, last.end) == (query_id, batch_id, end):
            return True
        if last.query_id == _RESUMED and batch_id == 0 and not start:
            return False
        follows = batch_id == last.batch_id + 1 if last.query_id == query_id else batch_id == 0
        if follows and start == last.end:
            return False
        raise StateCheckpointMismatch(
            f"source {source}: the checkpoint is at batch {batch_id}, from {start} to {end}, and the state at batch "
            f"{last.batch_id}, up to {last.end}. One of them was restored or lost without the other: `holdfast "
            "rebuild` brings them together"
        )

    def entry(self, source: str) -> LedgerEntry | None:
        """Return the last committed batch of a source; None if there is none."""
        return last_batch(self.store, source)

    def resume(self, source: str, change: WriteBatch) -> None:
        """Let a new stream begin where the last batch of a source ended, with a batch of changes."""
        last = self.entry(source)
        assert last is not None
        entry = replace(last, query_id=_RESUMED, batch_id=-1)
        change.put("ledger", source.encode(), codecs.json_bytes(asdict(entry)))

    def commit(
        self,
        change: WriteBatch,
        outbox: Any,
        *,
        source: str = "",
        batch: LedgerEntry | None = None,
        status: str = READY,
    ) -> int:
        """Write changes of the state with an entry for the ledger and rows to publish; return the number of the commit.

        The commit number in `batch` is replaced by the number of this commit.
        """
        number = self.last + 1
        whole = WriteBatch()
        whole.add(change)
        whole.put("meta", b"commit", codecs.number(number))
        if batch is not None:
            whole.put("ledger", source.encode(), codecs.json_bytes({**asdict(batch), "commit": number}))
        if status != self.identity.status:
            self.identity = Identity(self.identity.state_id, self.identity.epoch, self.identity.application, status)
            whole.put("meta", b"identity", codecs.json_bytes(asdict(self.identity)))
            whole.put("meta", _BASE, codecs.number(number))
        whole.put("outbox", codecs.number(number), codecs.json_bytes(outbox))
        record = codecs.batch_bytes(whole)
        whole.put("log", codecs.number(number), record)
        self.store.write(whole)
        return number

    def continue_after(self, number: int) -> None:
        """Let the numbers of a new state's commits follow those that an earlier state published."""
        if self.identity.status != SEEDING:
            raise StateRefused("the state is seeded already: its commits have their numbers")
        last = max(number, self.last)
        self.store.write(WriteBatch("meta", {b"commit": codecs.number(last), b"first": codecs.number(last + 1)}))

    def bulk(self, change: WriteBatch) -> None:
        """Write a part of a seed, while the status is `seeding`; it becomes valid with the commit that sets `ready`."""
        if self.identity.status != SEEDING:
            raise StateRefused("the state is seeded already: parts of a seed may not be written over it")
        self.store.write(change)

    def load(self, family: str, items: Iterable[tuple[bytes, bytes]]) -> None:
        """Write sorted keys of a seed into a family that has none of them, like `bulk`."""
        if self.identity.status != SEEDING:
            raise StateRefused("the state is seeded already: parts of a seed may not be written over it")
        self.store.load(family, items)

    def unlogged(self) -> Iterator[tuple[int, bytes]]:
        """Yield the commits that are not in the backup yet, and their records, in order."""
        for key, record in self.store.scan("log"):
            yield codecs.read_number(key), record

    def unpublished(self) -> Iterator[tuple[int, Any]]:
        """Yield the commits that are not published yet, and their rows, in order."""
        for key, payload in self.store.scan("outbox"):
            yield codecs.read_number(key), codecs.read_json(payload)

    def logged(self, number: int) -> None:
        """Delete a record that is in the backup."""
        self.store.write(WriteBatch("log", {codecs.number(number): None}))

    @property
    def published_to(self) -> dict[str, int]:
        """The last commit of each output table, as far as it was noted."""
        stored = self.store.get("meta", _PUBLISHED)
        return {} if stored is None else dict(codecs.read_json(stored))

    def published(self, number: int, tables: Mapping[str, int] | None = None) -> None:
        """Delete all commits up to a number from the outbox: they are in the output tables.

        Parameters
        ----------
        tables : the last commit with rows for each table.
        """
        done = [key for key, _ in self.store.scan("outbox") if codecs.read_number(key) <= number]
        batch = WriteBatch("outbox", dict.fromkeys(done))
        noted = self.published_to | dict(tables or {})
        if noted:
            batch.put("meta", _PUBLISHED, codecs.json_bytes(noted))
        self.store.write(batch)


def _first_meta(identity: Identity) -> dict[bytes, bytes]:
    return {b"identity": codecs.json_bytes(asdict(identity)), b"format": codecs.number(codecs.FORMAT)}
