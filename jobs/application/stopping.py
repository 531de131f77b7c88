"""How a run is stopped: by signals, or by whoever runs it.

Invariant: a batch that was begun ends first; before that a signal stops at once.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Stopped(BaseException):
    """Somebody asked to stop before anything was followed; what is half done the next start does anew."""


class Stop:
    """Whether somebody asked to stop: at once, or, once batches are applied, after the one that was begun."""

    def __init__(self, event: threading.Event | None = None) -> None:
        self.event = event or threading.Event()
        self.wait_for_batch = False

    def ask(self, *, again_interrupts: bool) -> None:
        """Note that somebody asked."""
        if not self.wait_for_batch:
            raise Stopped
        if self.event.is_set() and again_interrupts:
            raise KeyboardInterrupt
        self.event.set()


@contextmanager
def stopped_by_signals(given: threading.Event | None = None) -> Iterator[Stop]:
    """Stop on SIGTERM and Ctrl-C, unless an event is given; a second Ctrl-C interrupts."""
    stop = Stop(given)
    if given is not None or threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def asked(number: int, _frame: object) -> None:
        stop.ask(again_interrupts=number == signal.SIGINT)

    before = {number: signal.signal(number, asked) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        stop.wait_for_batch = True
        for number, handler in before.items():
            signal.signal(number, handler)
