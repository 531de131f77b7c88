"""The messages of a store that wait to be sent: written with the commit that they are about, deleted when delivered.

    alerts        number of the commit, place in it   content of the alert, its number among alerts with this content,
                                                      key and body of the message, as JSON
    alert_status  "last_failure"                      the last failed attempt, for `holdfast status`
                  "delivered", number and place       empty; deleted with the next commit

Invariant: a message is in the store from the write of its commit until it is delivered, given up or dropped, and is
sent only after the log record of its commit is in the backup. Memory has only keys, at most `most` of them.

The delete of a delivered message is repeated in the next commit, of this process or of a later one, so that the log has
it too: a restored state sends again at most the messages delivered since its last commit, with the same keys.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, count
from threading import Event, Lock
from typing import Any

from holdfast.state import codecs
from holdfast.state.store import Reader, Store, WriteBatch
from holdfast.streaming.alerts.deciding import TABLES, Alert, Message, Turned, messages
from holdfast.streaming.commits.output_rows import OutputRows

ALERTS, STATUS = "alerts", "alert_status"
MOST_WAITING = 1_000
_LAST_FAILURE = b"last_failure"
_DELIVERED = b"delivered"

Channel = tuple[str, int]
"""One alert: its content, and its number among the alerts with the same content."""


class Waiting:
    """The waiting messages of one store.

    Parameters
    ----------
    store : has the messages.
    alerts : the configured alerts.
    most : the most messages that may wait; of more messages the oldest are dropped.

    Attributes
    ----------
    woken : set when messages were added; the sender waits for it.
    """

    def __init__(self, store: Store, alerts: Sequence[Alert] = (), most: int = MOST_WAITING) -> None:
        self._store = store
        self._alerts = tuple(alerts)
        self._most = most
        self.on_dropped: Callable[[int], object] = lambda _: None
        self._changing = Lock()
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
        self.woken = Event()

    @property
    def count(self) -> int:
        """How many messages wait."""
        return len(self._keys)

    @property
    def channels(self) -> list[Channel]:
        """The configured alerts, in their order."""
        seen: dict[str, count[int]] = {}
        return [(alert.content, next(seen.setdefault(alert.content, count()))) for alert in self._alerts]

    def decide(self, rows: OutputRows, rules: Sequence[Turned], change: WriteBatch) -> None:
        """Add the messages about a commit to the commit; they are sent only after `committed`.

        Parameters
        ----------
        rows : the rows that the commit publishes.
        rules : the rules that broke or recovered with the commit.
        """
        with self._changing:
            self._clearing = list(self._delivered)
            waiting = list(self._keys)
        decided: dict[bytes, tuple[Channel, Message]] = {}
        if self._alerts and (rules or rows.payload.keys() & set(TABLES)):
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
        """Let the messages of the last commit be sent: its log record is in the backup."""
        too_many, self._too_many = self._too_many, []
        with self._changing:
            self._delivered = [key for key in self._delivered if key not in self._clearing]
            for key in too_many:
                self._keys.pop(key, None)
            self._keys |= self._decided
            self._decided = {}
        self.woken.set()
        if too_many:
            self.on_dropped(len(too_many))

    # The sender's side

    def heads(self) -> dict[Channel, bytes]:
        """Return the key of the oldest message of each channel (an alert and its copy). O(messages)."""
        with self._changing:
            found: dict[Channel, bytes] = {}
            for key, channel in self._keys.items():
                found.setdefault(channel, key)
            return found

    def read(self, key: bytes) -> Message | None:
        """Return a message; None if it was dropped in the meantime."""
        with self._touching:
            stored = None if self._is_closed else self._store.get(ALERTS, key)
        if stored is None:
            return None
        message = codecs.read_json(stored)
        return Message(message["key"], message["body"])

    def done(self, key: bytes) -> None:
        """Delete a message that was delivered or given up."""
        batch = WriteBatch(ALERTS, {key: None})
        batch.put(STATUS, _DELIVERED + key, b"")
        if self._wrote(batch):
            with self._changing:
                if self._keys.pop(key, None) is not None:
                    self._delivered.append(key)

    def failed(self, failure: dict[str, Any]) -> None:
        """Note a failed attempt, for `holdfast status`."""
        self._wrote(WriteBatch(STATUS, {_LAST_FAILURE: codecs.json_bytes(failure)}))

    def close(self) -> None:
        """Stop using the store: a message that is being sent may be sent again."""
        with self._touching:
            self._is_closed = True

    def _wrote(self, batch: WriteBatch) -> bool:
        """Write a batch beside the commits, unless closed; return whether it was written."""
        with self._touching:
            if not self._is_closed:
                self._store.write(batch)
            return not self._is_closed


def carried(store: Reader) -> list[bytes]:
    """Return the waiting messages of a store, for the store that takes its place."""
    return [stored for _, stored in store.scan(ALERTS)]


def put_carried(left: Iterable[bytes], change: WriteBatch) -> None:
    """Add the messages of an earlier state to the first commit of its successor, before all other messages."""
    for place, stored in enumerate(left):
        change.put(ALERTS, codecs.number(0) + codecs.number(place), stored)


def alert_status(store: Reader) -> dict[str, Any]:
    """Return the figures of `holdfast status`: how many messages wait, and the last failed attempt."""
    stored = store.get(STATUS, _LAST_FAILURE)
    return {
        "alerts_waiting": sum(1 for _ in store.scan(ALERTS)),
        "alert_failure": None if stored is None else codecs.read_json(stored),
    }
