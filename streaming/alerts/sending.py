"""Sends waiting messages to their receivers: on a thread of its own, in order for each alert, at least once.

    the oldest message of an alert that is due  ->  one attempt  ->  delivered or given up: delete; else: again, later

Invariant: nothing waits for this thread, and it ends within the seconds given to `close`, whatever receivers do.
"""

import datetime
import email.utils
import math
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from threading import Thread
from typing import Protocol

from holdfast.streaming.alerts.deciding import Message
from holdfast.streaming.alerts.posting import HttpAnswer, NoAnswer, Post, Receiver
from holdfast.streaming.alerts.waiting import Channel, Waiting
from holdfast.streaming.commits.output_rows import as_json, time_text

FIRST_PAUSE, LONGEST_PAUSE, LONGEST_ASKED = 1.0, 300.0, 86_400.0
_AGENT = f"holdfast/{version('holdfast')}"
_AGAIN = frozenset({408, 425, 429})


class Posting(Protocol):
    """Sends a message, as `Post` does."""

    def __call__(
        self, receiver: Receiver, body: bytes, headers: Mapping[str, str], at_most: float | None = None
    ) -> HttpAnswer:
        """Send a message."""

    def break_off(self) -> None:
        """End the current request."""


@dataclass
class Counts:
    """Counts since the start: delivered messages, failed attempts, messages given up, messages dropped."""

    sent: int = 0
    failed: int = 0
    given_up: int = 0
    dropped: int = 0


@dataclass
class _Pause:
    """The failed attempts of an alert's message, and the time of the next attempt."""

    tries: int
    until: float


class Sender:
    """Sends the messages of one store.

    Parameters
    ----------
    waiting : the messages to send.
    receivers : the receiver of each alert.
    note : takes a line about a failure, with its level.
    masked : removes secrets from stored and noted texts.
    post : sends one message.
    now, wall : the monotonic clock and the clock of the day, in seconds.
    dice : the random numbers for the length of pauses.
    """

    def __init__(
        self,
        waiting: Waiting,
        receivers: Mapping[Channel, Receiver],
        note: Callable[[str, str], object] = lambda _text, _level: None,
        masked: Callable[[str], str] = str,
        post: Posting | None = None,
        now: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        dice: random.Random | None = None,
    ) -> None:
        self._waiting = waiting
        self._receivers = dict(receivers)
        self._note = note
        self._masked = masked
        self._post = post or Post()
        self._now, self._wall = now, wall
        self._dice = dice or random.Random()  # noqa: S311  (of pauses, not of secrets)
        self._pauses: dict[Channel, _Pause] = {}
        self._closing_at: float | None = None
        self._tried_last: set[Channel] = set()
        self.counts = Counts()
        waiting.on_dropped = self._dropped
        self._thread = Thread(target=self._run, name="alerts", daemon=True)

    def start(self) -> None:
        """Send messages on the thread."""
        self._thread.start()

    def close(self, seconds: float = 5.0) -> int:
        """Try each alert once more within the seconds, and end; return how many messages the next start has to send."""
        self._closing_at = self._now() + seconds
        self._waiting.woken.set()
        if self._thread.ident is not None:
            self._thread.join(seconds)
            if self._thread.is_alive():
                self._post.break_off()
                self._thread.join(1.0)
        self._waiting.close()
        return self._waiting.count

    def turn(self) -> float | None:
        """Try one message that is due; return the seconds until the next one is due, None if no message waits."""
        heads = self._waiting.heads()
        if not heads:
            return None
        now = self._now()
        due = {channel: self._due(channel, now) for channel in heads}
        channel = min(due, key=due.__getitem__)
        if due[channel] > now:
            return None if due[channel] == math.inf else due[channel] - now
        key = heads[channel]
        message = self._waiting.read(key)
        if message is None:
            self._waiting.done(key)
        elif channel not in self._receivers:
            self._give_up(channel, key, message, "no alert of the configuration asks for it any more")
        else:
            self._try(channel, key, message)
        return 0.0

    def _due(self, channel: Channel, now: float) -> float:
        """Return when an alert may be tried next.

        While closing: at once, unless it failed since closing began, or the seconds given to `close` are over.
        """
        if self._closing_at is not None:
            is_over = channel in self._tried_last or now >= self._closing_at
            return math.inf if is_over else -math.inf
        pause = self._pauses.get(channel)
        return -math.inf if pause is None else pause.until

    def _try(self, channel: Channel, key: bytes, message: Message) -> None:
        receiver = self._receivers[channel]
        at_most = None if self._closing_at is None else max(0.1, self._closing_at - self._now())
        headers = {
            "Content-Type": "application/json",
            "User-Agent": _AGENT,
            "Idempotency-Key": message.key,
        }
        try:
            answer = self._post(receiver, as_json(message.body).encode(), headers, at_most)
        except NoAnswer as error:
            self._again(channel, message, str(error))
            return
        except Exception as error:  # noqa: BLE001  (other messages have to be sent)
            self._again(channel, message, f"{type(error).__name__}: {error}")
            return
        if 200 <= answer.status < 300:
            self._waiting.done(key)
            self._pauses.pop(channel, None)
            self.counts.sent += 1
        elif answer.status in _AGAIN or answer.status >= 500:
            self._again(channel, message, f"answered {answer.status}", self._retry_after(answer))
        else:
            redirect = "; redirects are not followed" if 300 <= answer.status < 400 else ""
            self._give_up(channel, key, message, f"answered {answer.status}{redirect}")

    def _again(self, channel: Channel, message: Message, reason: str, at_least: float = 0.0) -> None:
        """Note a failed attempt, and set the time of the next one."""
        pause = self._pauses.setdefault(channel, _Pause(0, 0.0))
        longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(pause.tries, 60))
        pause.tries += 1
        seconds = max(at_least, longest * self._dice.uniform(0.5, 1.0))
        pause.until = self._now() + seconds
        self.counts.failed += 1
        if self._closing_at is not None:
            self._tried_last.add(channel)
        if pause.tries == 1:  # later failures of the same outage are not noted
            self._note_failure(channel, message, reason, "it is tried again")
        self._store_failure(channel, message, reason, pause.tries)

    def _give_up(self, channel: Channel, key: bytes, message: Message, reason: str) -> None:
        self._store_failure(channel, message, reason, self._pauses[channel].tries + 1 if channel in self._pauses else 1)
        self._waiting.done(key)
        self._pauses.pop(channel, None)
        self.counts.given_up += 1
        self._note_failure(channel, message, reason, "it is given up")

    def _note_failure(self, channel: Channel, message: Message, reason: str, then: str) -> None:
        text = f"warning: {self._name(channel)}, commit {message.body['commit']}: {reason}: {then}"
        self._note(self._masked(text), "warning")

    def _store_failure(self, channel: Channel, message: Message, reason: str, tries: int) -> None:
        self._waiting.failed(
            {
                "at": time_text(datetime.datetime.fromtimestamp(self._wall(), datetime.UTC)),
                "alert": self._masked(self._name(channel)),
                "commit": message.body["commit"],
                "tries": tries,
                "error": self._masked(reason),
            }
        )

    def _dropped(self, count: int) -> None:
        self.counts.dropped += count
        self._note(
            f"warning: alerts: too many wait, the oldest {count} dropped without having been delivered", "warning"
        )

    def _name(self, channel: Channel) -> str:
        receiver = self._receivers.get(channel)
        return "an alert" if receiver is None else receiver.name

    def _retry_after(self, answer: HttpAnswer) -> float:
        """Return the seconds until the receiver wants another attempt, given by its header as seconds or a date."""
        text = (answer.retry_after or "").strip()
        if text.isdecimal():
            seconds = float(text[:9])
        else:
            try:
                seconds = email.utils.parsedate_to_datetime(text).timestamp() - self._wall()
            except (TypeError, ValueError, OverflowError):
                return 0.0
        return min(max(0.0, seconds), LONGEST_ASKED)

    def _run(self) -> None:
        while True:
            self._waiting.woken.clear()
            try:
                pause = self.turn()
            except Exception as error:  # noqa: BLE001  (of the store: batches fail too, and end the run)
                self._note(self._masked(f"warning: alerts: {type(error).__name__}: {error}"), "warning")
                pause = LONGEST_PAUSE
            if self._closing_at is not None and (pause is None or pause > 0):
                return
            if pause is None or pause > 0:
                self._waiting.woken.wait(pause)
