"""Receivers of alerts on loopback that answer as they are told."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_PATIENCE_SECONDS = 60
HANG, CUT, RUBBISH, DRIP = "hang", "cut", "rubbish", "drip"


@dataclass(frozen=True)
class Got:
    """A request that came in whole."""

    path: str
    headers: Mapping[str, str]
    body: Any

    @property
    def key(self) -> str:
        return self.headers["idempotency-key"]


class Webhook:
    """Notes what comes, and answers what it is told to: a status, a status with headers, or one of the words above.

    What stands in `answers` is used up from the front; then everything is answered with `then`.
    """

    def __init__(self) -> None:
        self.got: list[Got] = []
        self.answers: list[Any] = []
        self.then: Any = 200
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._ending = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    def close(self) -> None:
        self._ending.set()
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def bodies(self, path: str) -> list[Any]:
        """Return what came to a path, each key once."""
        return list({got.key: got.body for got in list(self.got) if got.path == path}.values())

    def _accept(self) -> None:
        while not self._ending.is_set():
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            reader = connection.makefile("rb")
            method, path, _ = reader.readline().decode().split()
            headers = {}
            while (line := reader.readline().decode("latin-1").strip()) != "":
                name, _, value = line.partition(":")
                headers[name.lower()] = value.strip()
            body = reader.read(int(headers["content-length"]))
            answer = self.answers.pop(0) if self.answers else self.then
            self.got.append(Got(path, headers, json.loads(body)))
            assert method == "POST"
            if answer == HANG:
                self._ending.wait(_PATIENCE_SECONDS)
            elif answer == CUT:
                connection.sendall(b"HTTP/1.1 20")
            elif answer == RUBBISH:
                connection.sendall(b"\x00\x01\x02\r\n\r\n")
            elif answer == DRIP:
                for letter in b"HTTP/1.1 200 " + b"O" * 60_000:
                    connection.sendall(bytes([letter]))
                    if self._ending.wait(0.05):
                        return
            else:
                status, more = answer if isinstance(answer, tuple) else (answer, {})
                lines = [f"HTTP/1.1 {status} x", "Content-Length: 0", *(f"{n}: {v}" for n, v in more.items()), "", ""]
                connection.sendall("\r\n".join(lines).encode())


@contextlib.contextmanager
def webhook() -> Iterator[Webhook]:
    """Run a receiver."""
    running = Webhook()
    try:
        yield running
    finally:
        running.close()


def wait_until(seen: Callable[[], bool]) -> None:
    """Wait until something is seen."""
    end = time.monotonic() + _PATIENCE_SECONDS
    while not seen():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.02)
