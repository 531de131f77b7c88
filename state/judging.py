"""Checks whether a state can be used. The class of the error says what is wrong.

    StateMissing               there is no store, or its seed did not end
    StateInUse                 another process has the store open
    StateOfAnotherApplication  the state has another `name`
    StateFormatUnknown         this version cannot read the format
    StateDamaged               a file is missing or altered
    StateTakenOver             the state was restored elsewhere, and continues there
    StateBehindBackup          the backup has commits that the state lost
    StateUnreachable           the disk or the backup failed: nothing is known of the state

Invariant: nothing is decided by the text of an error, and a state is changed only as far as opening its store does.
"""

from contextlib import closing
from pathlib import Path

from holdfast.constraints import StateDamaged, StateMissing
from holdfast.state.commits import READY, Identity, identity_of, last_commit
from holdfast.state.log import refuse_later_epochs
from holdfast.state.places import Place
from holdfast.state.rocks import RocksReader, RocksStore, holds_store
from holdfast.state.snapshots import reached, refuse_behind


def refuse_unusable(state: Path, application: str, backup: Place) -> Identity:
    """Return the identity of a state that is complete, seeded and not behind its backup; else raise. O(n).

    Parameters
    ----------
    state : the folder of the store.
    application : the application that the state has to belong to.
    backup : the backup with the folders of states.
    """
    if not holds_store(state):
        raise StateMissing(f"{state} holds no state: holdfast run seeds one")
    with closing(RocksStore(state)) as store:
        identity = identity_of(store, application)
        store.verify()
        last = last_commit(store)
    if identity is None or identity.status != READY:
        raise StateMissing(f"the seed of the state {state} did not come to its end: holdfast run seeds it anew")
    place = backup.at(identity.state_id)
    with reached(place):
        refuse_later_epochs(place, identity.epoch)
    refuse_behind(place, identity.epoch, last)
    return identity


def identity_read(reader: RocksReader, application: str) -> Identity | None:
    """Return the identity of a state that is read beside its writer; None if there is none yet.

    A reader ignores missing files, as the writer may just have removed them; but the identity is written first.
    """
    identity = identity_of(reader, application)
    if identity is None and not reader.is_empty:
        raise StateDamaged(
            f"the state {reader.path} is damaged (files of it are missing, or cannot be read). Restore it from its "
            "backup: holdfast rebuild; or seed anew: holdfast seed --replace"
        )
    return identity
