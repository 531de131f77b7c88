"""One HTTP request and its answer: bounded in time whatever the other side does, without following redirects."""

import base64
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from socket import SHUT_RDWR
from threading import Lock, Timer
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

CONNECT_SECONDS, READ_SECONDS, WHOLE_SECONDS = 5.0, 10.0, 30.0
_READ_AT_MOST = 1_024


@dataclass(frozen=True)
class Receiver:
    """A receiver of messages.

    Parameters
    ----------
    address : the URL; a user and a password in it are sent as the authorization.
    headers : the headers of each message.
    name : the name of the receiver in the log.
    """

    address: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    name: str = "alert"


@dataclass(frozen=True)
class HttpAnswer:
    """The answer of a receiver.

    Parameters
    ----------
    status : the HTTP status.
    retry_after : the header `Retry-After`.
    """

    status: int
    retry_after: str | None = None


class NoAnswer(Exception):
    """The receiver was not reached, or did not answer with HTTP."""


class Post:
    """Sends requests, one at a time; another thread may break off the current request.

    Parameters
    ----------
    connect, read, whole : the most seconds for connecting, for one wait for bytes, and for the whole request.
    """

    def __init__(
        self, connect: float = CONNECT_SECONDS, read: float = READ_SECONDS, whole: float = WHOLE_SECONDS
    ) -> None:
        self._connect, self._read, self._whole = connect, read, whole
        self._lock = Lock()
        self._connection: HTTPConnection | None = None
        self._is_cut = False

    def __call__(
        self, receiver: Receiver, body: bytes, headers: Mapping[str, str], at_most: float | None = None
    ) -> HttpAnswer:
        """Send a message; raise `NoAnswer` if no answer arrives.

        Parameters
        ----------
        at_most : the most seconds for the whole request, if less than usual.
        """
        whole = self._whole if at_most is None else min(self._whole, at_most)
        parts = urlsplit(receiver.address)
        sent = {**headers, **receiver.headers, **_authorization(parts)}
        connection, target = _connection(parts, min(self._connect, whole))
        timer = Timer(whole, self.break_off)
        timer.daemon = True
        with self._lock:
            self._connection, self._is_cut = connection, False
        timer.start()
        try:
            connection.connect()
            connection.sock.settimeout(min(self._read, whole))
            connection.request("POST", target, body, {"Connection": "close", **sent})
            response = connection.getresponse()
            answer = HttpAnswer(response.status, response.getheader("Retry-After"))
            with suppress(OSError, HTTPException):  # the status is all that counts
                response.read(_READ_AT_MOST)
        except (OSError, HTTPException) as error:
            raise NoAnswer("it took too long" if self._is_cut else _described(error)) from error
        else:
            if self._is_cut:  # a head that was cut off looks complete
                raise NoAnswer("it took too long")
            return answer
        finally:
            timer.cancel()
            with self._lock:
                self._connection = None
            connection.close()

    def break_off(self) -> None:
        """End the current request, as if the connection were cut."""
        with self._lock:
            self._is_cut = True
            sock = None if self._connection is None else getattr(self._connection, "sock", None)
            if sock is not None:
                with suppress(OSError):
                    sock.shutdown(SHUT_RDWR)


def _connection(parts: SplitResult, timeout: float) -> tuple[HTTPConnection, str]:
    """Return a connection, not open yet, through the proxy of the environment if any, and the target of the request."""
    host = parts.hostname or ""
    is_secure = parts.scheme == "https"
    port = parts.port or (443 if is_secure else 80)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    proxy = None if proxy_bypass(f"{host}:{port}") else getproxies().get(parts.scheme)
    through = urlsplit(proxy if "://" in proxy else f"http://{proxy}") if proxy else None
    at = (host, port) if through is None or not through.hostname else (through.hostname, through.port or 80)
    if is_secure:
        secured = HTTPSConnection(*at, timeout=timeout, context=ssl.create_default_context())
        if through is not None:
            secured.set_tunnel(host, port, headers=_authorization(through, "Proxy-Authorization"))
        return secured, target
    if through is None:
        return HTTPConnection(*at, timeout=timeout), target
    shown = f"[{host}]" if ":" in host else host
    return HTTPConnection(*at, timeout=timeout), f"http://{shown}:{port}{target}"


def _authorization(parts: SplitResult, name: str = "Authorization") -> dict[str, str]:
    """Return the header with the user and the password before the @ of an address."""
    if parts.username is None:
        return {}
    given = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {name: f"Basic {base64.b64encode(given.encode()).decode()}"}


def _described(error: Exception) -> str:
    """Return the class and the text of an error."""
    words = getattr(error, "strerror", None) or str(error)
    return f"{type(error).__name__}: {words}" if words else type(error).__name__
