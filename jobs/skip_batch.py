"""`holdfast skip-batch`: mark a batch that keeps failing for quarantine, or for another try."""

import sys
from contextlib import closing
from pathlib import Path

from holdfast.constraints import StateMissing
from holdfast.display.texts import printable
from holdfast.jobs.application.opening import no_state
from holdfast.jobs.application.replacing import recovered
from holdfast.jobs.configuration.reading import Configuration
from holdfast.jobs.terminal.progress import progress_on
from holdfast.state.commits import READY, Commits
from holdfast.state.rocks import RocksStore, holds_store
from holdfast.streaming.incoming.attempts import Attempts


def skip(configuration: Configuration, source: str, *, retry: bool) -> None:
    """Mark the failed batch of a source for quarantine; with `retry`, for another try."""
    settings = configuration.settings
    recovered(settings, progress_on(sys.stderr))
    if not holds_store(Path(settings.state)):
        raise no_state(configuration)
    with closing(RocksStore(Path(settings.state))) as store:
        if Commits(store, settings.name).identity.status != READY:
            raise StateMissing(
                f"{settings.state} is not seeded to the end, so no batch can have failed: holdfast run seeds it"
            )
        attempts = Attempts(store)
        position = attempts.retry(source) if retry else attempts.skip(source)
    outcome = "will be tried again" if retry else "will go into quarantine"
    text = (
        f"table {source}: batch {position.batch_id}, from {position.start or 'the start'} to {position.end}, {outcome} "
        f"with the next holdfast run {configuration.file}"
    )
    sys.stderr.write(printable(text) + "\n")
