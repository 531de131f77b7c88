"""Whether a state can be used. What is wrong with one is the class of the error that is raised.

    StateMissing               no store, or none that was seeded to its end
    StateInUse                 another process has it open
    StateOfAnotherApplication  its `name` is another one
    StateFormatUnknown         this version does not read its format
    StateDamaged               a file is missing or altered
    StateTakenOver             it was restored elsewhere, and goes on there
    StateBehindBackup          its backup has commits that it lost
    StateUnreachable           its disk or its backup failed: nothing is known of it

Invariant: nothing is decided by the words of an error, and a state is changed by no more than opening its store does.
"""

from pathlib import Path

from holdfast.constraints import StateDamaged, StateMissing
from holdfast.state.commits import READY, Identity, identity_of, last_commit
from holdfast.state.log import refuse_later_epochs
from holdfast.state.places import Place
from holdfast.state.rocks import RocksReader, RocksStore, holds_store
from holdfast.state.snapshots import reached, refuse_behind


def refuse_unusable(state: Path, application: str, backup: Place) -> Identity:
    """Return whose state it is, where it is whole, seeded and not behind its backup; else raise why not. O(n).

    Parameters
    ----------
    state : the folder of the store.
    application : whose state it has to be.
    backup : where the folders of states are in the backup.
    """
    if not holds_store(state):
        raise StateMissing(f"{state} holds no state: holdfast run seeds one")
    store = RocksStore(state)
    try:
        identity = identity_of(store, application)
        store.verify()
        last = last_commit(store)
    finally:
        store.close()
    if identity is None or identity.status != READY:
        raise StateMissing(f"the seed of the state {state} did not come to its end: holdfast run seeds it anew")
    place = backup.at(identity.state_id)
    with reached(place):
        refuse_later_epochs(place, identity.epoch)
    refuse_behind(place, identity.epoch, last)
    return identity


def identity_read(reader: RocksReader, application: str) -> Identity | None:
    """Return whose state is read beside its writer; None where it has none yet.

    A reader passes over files that are gone, as the writer may just have removed them; but the identity is written
    first.
    """
    identity = identity_of(reader, application)
    if identity is None and not reader.is_empty:
        raise StateDamaged(
            f"the state {reader.path} is damaged (files of it are missing, or cannot be read). Restore it from its "
            "backup: holdfast rebuild; or seed anew: holdfast seed --replace"
        )
    return identity
