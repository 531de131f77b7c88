"""The messages of a store that wait to be sent: part of the commit that they are about, gone once they are delivered.

    alerts        number of the commit, place in it   content of the alert, which of those with the same content,
                                                      key and body of the message, as JSON
    alert_status  "last_failure"                      what `holdfast status` says of the last try that failed
                  "delivered", number and place       nothing; until the next commit

Invariant: a message is in the store from the write of its commit until it is delivered, given up or dropped, and is
handed out only after the log record of its commit is in the backup. Memory has the keys alone, at most `most` of them.

What was delivered is deleted again with the next commit, of this process or of a later one, so that the log has it too:
a state that is restored tells again at most what was delivered since its last commit, with the same keys.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, count
from threading import Condition, Lock
from typing import Any

from holdfast.state import codecs
from holdfast.state.store import Reader, Store, WriteBatch
from holdfast.streaming.alerts.deciding import Alert, Message, Turned, messages
from holdfast.streaming.commits.output_rows import OutputRows

ALERTS, STATUS = "alerts", "alert_status"
MOST_WAITING = 1_000
_LAST_FAILURE = b"last_failure"
_DELIVERED = b"delivered"

Channel = tuple[str, int]
"""One alert: its content, and which of those with the same content."""


class Waiting:
    """The waiting messages of one store.

    Parameters
    ----------
    store : keeps them.
    alerts : what is asked for.
    most : how many may wait; where there are more, the oldest are dropped.
    """

    def __init__(self, store: Store, alerts: Sequence[Alert] = (), most: int = MOST_WAITING) -> None:
        self._store = store
        self._alerts = tuple(alerts)
        self._most = most
        self.on_dropped: Callable[[int], object] = lambda _: None
        self._changed = Condition()
        self._touching = Lock()
        self._keys: dict[bytes, Channel] = {}
        for key, stored in store.scan(ALERTS):
            message = codecs.read_json(stored)
            self._keys[key] = message["alert"], message["copy"]
        self._decided: dict[bytes, Channel] = {}
        self._too_many: list[bytes] = []
        self._delivered = [key.removeprefix(_DELIVERED) for key, _ in store.scan(STATUS, _DELIVERED)]
        self._clearing: list[bytes] = []
        self._is_closed = False
        self.version = 0

    @property
    def count(self) -> int:
        """How many wait."""
        return len(self._keys)

    @property
    def channels(self) -> list[Channel]:
        """The alerts that ask, in their order."""
        seen: dict[str, count[int]] = {}
        return [(alert.content, next(seen.setdefault(alert.content, count()))) for alert in self._alerts]

    def decide(self, rows: OutputRows, rules: Sequence[Turned], change: WriteBatch) -> None:
        """Add to a commit what is to be told of it; nothing of that is sent before `committed`.

        Parameters
        ----------
        rows : what the commit publishes.
        rules : those that broke or recovered with it.
        """
        with self._changed:
            self._clearing = list(self._delivered)
            waiting = list(self._keys)
        decided: dict[bytes, tuple[Channel, Message]] = {}
        if self._alerts and (rules or {"constraint_changes", "near_changes"} & rows.payload.keys()):
            found = {alert.content: messages([alert], rows, rules) for alert in set(self._alerts)}
            for channel in self.channels:
                for message in found[channel[0]]:
                    key = codecs.number(rows.commit) + codecs.number(len(decided))
                    decided[key] = channel, message
        order = [*waiting, *decided]
        self._too_many = order[: max(0, len(order) - self._most)] if decided else []
        self._decided = {key: channel for key, (channel, _) in decided.items() if key not in self._too_many}
        for key in self._decided:
            (alert, copy), message = decided[key]
            stored = {"alert": alert, "copy": copy, "key": message.key, "body": message.body}
            change.put(ALERTS, key, codecs.json_bytes(stored))
        for key in chain(self._clearing, self._too_many):
            change.delete(ALERTS, key)
        for key in self._clearing:
            change.delete(STATUS, _DELIVERED + key)

    def committed(self) -> None:
        """Hand out what was decided of the last commit, whose log record is in the backup."""
        too_many, self._too_many = self._too_many, []
        with self._changed:
            self._delivered = [key for key in self._delivered if key not in self._clearing]
            for key in too_many:
                self._keys.pop(key, None)
            self._keys |= self._decided
            self._decided = {}
            self._wake()
        if too_many:
            self.on_dropped(len(too_many))

    # The sender's side

    def heads(self) -> dict[Channel, bytes]:
        """Return the oldest message of each alert, by its key. O(messages)."""
        with self._changed:
            found: dict[Channel, bytes] = {}
            for key, channel in self._keys.items():
                found.setdefault(channel, key)
            return found

    def read(self, key: bytes) -> Message | None:
        """Return a message, unless it has been dropped in the meantime."""
        with self._touching:
            stored = None if self._is_closed else self._store.get(ALERTS, key)
        if stored is None:
            return None
        message = codecs.read_json(stored)
        return Message(message["alert"], message["key"], message["body"])

    def done(self, key: bytes) -> None:
        """Forget a message that was delivered, or given up."""
        batch = WriteBatch(ALERTS, {key: None})
        batch.put(STATUS, _DELIVERED + key, b"")
        if self._wrote(batch):
            with self._changed:
                if self._keys.pop(key, None) is not None:
                    self._delivered.append(key)

    def failed(self, failure: dict[str, Any]) -> None:
        """Note a try that failed, for `holdfast status`."""
        self._wrote(WriteBatch(STATUS, {_LAST_FAILURE: codecs.json_bytes(failure)}))

    def wait(self, seconds: float | None, seen: int) -> None:
        """Wait so long, or until there is another `version` than was seen: a message came, or `wake` was called."""
        with self._changed:
            if self.version == seen:
                self._changed.wait(seconds)

    def wake(self) -> None:
        """End a `wait`."""
        with self._changed:
            self._wake()

    def close(self) -> None:
        """Touch the store no more: what is under way then is told again."""
        with self._touching:
            self._is_closed = True

    def _wrote(self, batch: WriteBatch) -> bool:
        """Write beside the commits, which this does not hold up; say whether that may still be."""
        with self._touching:
            if not self._is_closed:
                self._store.write(batch)
            return not self._is_closed

    def _wake(self) -> None:
        self.version += 1
        self._changed.notify_all()


def carried(store: Reader) -> list[bytes]:
    """Return what waits in a store, for the one that takes its place."""
    return [stored for _, stored in store.scan(ALERTS)]


def put_carried(left: Iterable[bytes], change: WriteBatch) -> None:
    """Add to the first commit of a state what waited in the one before it: before all of its own."""
    for place, stored in enumerate(left):
        change.put(ALERTS, codecs.number(0) + codecs.number(place), stored)


def alert_status(store: Reader) -> dict[str, Any]:
    """Return what `holdfast status` says: how many wait, and the last try that failed."""
    stored = store.get(STATUS, _LAST_FAILURE)
    return {
        "alerts_waiting": sum(1 for _ in store.scan(ALERTS)),
        "alert_failure": None if stored is None else codecs.read_json(stored),
    }
