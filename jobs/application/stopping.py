"""How a command that runs for long is stopped: by signals, or by an event that its caller sets.

Invariant: a batch that was begun ends first; before the first batch a signal stops at once.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Stopped(BaseException):
    """A signal was received before the sources were followed; the next start repeats incomplete work."""


class Stop:
    """A request to stop: effective at once, or, while batches are applied, after the current batch."""

    def __init__(self, event: threading.Event | None = None) -> None:
        self.event = event or threading.Event()
        self.wait_for_batch = False

    def request(self, number: int) -> None:
        """Stop because of a signal; a second Ctrl-C interrupts."""
        if not self.wait_for_batch:
            raise Stopped
        if self.event.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.event.set()


@contextmanager
def handling_signals(handle: Callable[[int], object]) -> Iterator[None]:
    """Call a function with the number of each SIGTERM or Ctrl-C; only in the main thread, which gets signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    stopping = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda received, _frame: handle(received)) for number in stopping}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def stopped_by_signals(given: threading.Event | None = None) -> Iterator[Stop]:
    """Provide a stop that SIGTERM and Ctrl-C request, unless an event is given."""
    stop = Stop(given)
    if given is not None:
        yield stop
        return
    with handling_signals(stop.request):
        try:
            yield stop
        finally:
            stop.wait_for_batch = True
