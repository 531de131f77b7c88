"""What makes a batch happen exactly once: the store's identity, its ledger, its outbox and its log records.

    meta    "identity"            state id, epoch, application, status, as JSON
    meta    "commit"              number of the last commit
    meta    "first", "base"       number of the first commit of this state; of the one that ended its last seed
    meta    "published"           the last commit that each output table has, as JSON
    ledger  source                the last batch of this source, as JSON (`LedgerEntry`)
    outbox  number of the commit  what is to be published of it, as JSON
    log     number of the commit  the record of the commit (`codecs.batch_bytes`), until it is in the backup

A commit is one write of the store: state, ledger, outbox and log record together. Numbers have no gaps. What is in
`log` is moved to the backup before anything of the commit is published, so that a restored state is never behind its
outputs.

The record of a commit holds the whole write but its own copy, so that replaying records on a snapshot gives the store:
on one that has the base. What a seed writes in bulk before its end is in no record.
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
"""Stands for a query that is still to begin where the last one ended: no query is called so."""


@dataclass(frozen=True)
class Identity:
    """Whose state this is.

    Parameters
    ----------
    state_id : random; outputs carry it.
    epoch : rises with every take-over of a backup.
    application : the name in the configuration.
    status : `seeding` until the first complete seed, then `ready`.
    """

    state_id: str
    epoch: int
    application: str
    status: str


@dataclass(frozen=True)
class LedgerEntry:
    """The last batch of one source that was committed.

    Parameters
    ----------
    query_id, batch_id : what Spark calls it.
    start, end : its offsets, as texts.
    commit : its number here.
    """

    query_id: str
    batch_id: int
    start: str
    end: str
    commit: int


class StateCheckpointMismatch(StateRefused):
    """The stream's checkpoint and the state do not follow each other: the message names the way out."""


def base_of(record: WriteBatch) -> int:
    """Return the commit that a snapshot has to have for a record to be applied to it; 0 where any will do."""
    return codecs.read_number(record.changes.get(("meta", _BASE)) or b"")


def identity_of(store: Reader, application: str) -> Identity | None:
    """Return whose state a store has; None where it has none yet.

    Raises
    ------
    StateOfAnotherApplication
        Where the state is not of this application.
    StateFormatUnknown
        Where this version does not read the state's format.
    """
    stored = store.get("meta", b"identity")
    if stored is None:
        return None
    known = codecs.read_json(stored)
    if known["application"] != application:  # which every format has
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
    """Return the name of a state of any application and format; None where there is none yet."""
    stored = store.get("meta", b"identity")
    return None if stored is None else str(codecs.read_json(stored)["state_id"])


def last_commit(store: Reader) -> int:
    """Return the number of the last commit of a store, 0 before the first."""
    return codecs.read_number(store.get("meta", b"commit") or b"")


def last_batch(store: Reader, source: str) -> LedgerEntry | None:
    """Return the last batch of a source that a store has."""
    stored = store.get("ledger", source.encode())
    return None if stored is None else LedgerEntry(**codecs.read_json(stored))


def unpublished_count(store: Reader) -> int:
    """Return how many commits of a store are to be published yet."""
    return sum(1 for _ in store.scan("outbox"))


def _format_of(store: Reader) -> int:
    return codecs.read_number(store.get("meta", b"format") or b"")


class Commits:
    """The one way into a store.

    Parameters
    ----------
    store : open; nobody else writes to it.
    application : whose state it has to be; a new store becomes this application's.

    Attributes
    ----------
    store : the store.
    identity : whose state it is.
    upgraded_from : the format that it had until now, where it was an earlier one.
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
        """Return the way into an empty store that is to be seeded, and then to take the place of another one."""
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
        """The number of the commit that a snapshot has to have for the records behind it to be enough."""
        return codecs.read_number(self.store.get("meta", _BASE) or b"")

    def is_done(self, source: str, query_id: str, batch_id: int, start: str, end: str) -> bool:
        """Return whether a batch is committed already; refuse one that does not follow the last one."""
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
        """Return the last batch of a source."""
        return last_batch(self.store, source)

    def resume(self, source: str, change: WriteBatch) -> None:
        """Add to a change that a new stream begins where the last batch of a source ended."""
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
        """Write a batch's change of state with its place in the ledger and what is to be published; return its number.

        `batch` has any commit number; it gets the one of this commit.
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
        """Let the commits of a new state come behind those that an earlier one published: their order stays one."""
        if self.identity.status != SEEDING:
            raise StateRefused("the state is seeded already: its commits have their numbers")
        last = max(number, self.last)
        self.store.write(WriteBatch("meta", {b"commit": codecs.number(last), b"first": codecs.number(last + 1)}))

    def bulk(self, change: WriteBatch) -> None:
        """Write a part of a seed, while the status is `seeding`: it counts only once a commit says `ready`."""
        if self.identity.status != SEEDING:
            raise StateRefused("the state is seeded already: parts of a seed may not be written over it")
        self.store.write(change)

    def load(self, family: str, items: Iterable[tuple[bytes, bytes]]) -> None:
        """Write sorted keys of a seed into a family that has none of them, as `bulk` does."""
        if self.identity.status != SEEDING:
            raise StateRefused("the state is seeded already: parts of a seed may not be written over it")
        self.store.load(family, items)

    def unlogged(self) -> Iterator[tuple[int, bytes]]:
        """Yield the records that are not in the backup yet, in order."""
        for key, record in self.store.scan("log"):
            yield codecs.read_number(key), record

    def unpublished(self) -> Iterator[tuple[int, Any]]:
        """Yield what is to be published yet, in order of the commits."""
        for key, payload in self.store.scan("outbox"):
            yield codecs.read_number(key), codecs.read_json(payload)

    def logged(self, number: int) -> None:
        """Delete a record that is in the backup."""
        self.store.write(WriteBatch("log", {codecs.number(number): None}))

    @property
    def published_to(self) -> dict[str, int]:
        """The last commit that each output table has, as far as it was noted."""
        stored = self.store.get("meta", _PUBLISHED)
        return {} if stored is None else dict(codecs.read_json(stored))

    def published(self, number: int, tables: Mapping[str, int] | None = None) -> None:
        """Drop everything up to a commit from the outbox: it is in the output tables.

        Parameters
        ----------
        tables : the last commit that brought rows to each of some tables.
        """
        done = [key for key, _ in self.store.scan("outbox") if codecs.read_number(key) <= number]
        batch = WriteBatch("outbox", dict.fromkeys(done))
        noted = self.published_to | dict(tables or {})
        if noted:
            batch.put("meta", _PUBLISHED, codecs.json_bytes(noted))
        self.store.write(batch)


def _first_meta(identity: Identity) -> dict[bytes, bytes]:
    return {b"identity": codecs.json_bytes(asdict(identity)), b"format": codecs.number(codecs.FORMAT)}
