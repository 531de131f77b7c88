"""Serves the page over HTTP: its files, the answers as JSON, and an event for each commit.

    /                   the page
    /page/...           its style and its modules
    /api/<question>     an answer; parameters in the query
    /api/events         server-sent events: one when commits have arrived

Invariant: no request changes anything. Only requests whose Host header names this machine are answered, which stops
DNS rebinding, and only requests of the page itself; a browser loads nothing from other servers.
"""

import asyncio
import contextlib
import errno
import ipaddress
import json
import os
import socket
import threading
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.constraints import ExternalError, HoldfastError, UsageError
from holdfast.dashboard.answers import Answers
from holdfast.dashboard.background import Background
from holdfast.display.secrets import masked

PAGE = Path(__file__).parent / "page"
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_OWN_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_STILL_THERE_SECONDS = 15.0
_TRIES = 20


class Site:
    """The page, served from a port until it is closed.

    Parameters
    ----------
    answers : the answers to serve.
    host, port : the address to listen on; port 0 for any free port. A port in use is replaced by the next free port.
    """

    def __init__(self, answers: Answers, host: str, port: int) -> None:
        self._answers = answers
        self._ended = threading.Event()
        app = application(answers, allowed=_names(host), ended=self._ended)
        self._server = Background(app, _listening(host, port), "dashboard")
        self.port = self._server.port
        self.address = f"http://{_in_address(host)}:{self.port}/"

    def start(self) -> None:
        """Start serving in a thread of its own, and read the tables in advance."""
        self._server.start()
        threading.Thread(target=self._read_first, name="first look", daemon=True).start()

    def close(self) -> None:
        """Stop serving."""
        self._ended.set()
        self._server.close()

    def _read_first(self) -> None:
        with contextlib.suppress(HoldfastError):  # the first request reports the error
            for question in ("overview", "since"):
                self._answers.ask(question, {})


def application(answers: Answers, *, allowed: frozenset[str], ended: threading.Event | None = None) -> ASGIApp:
    """Return the page as an ASGI application.

    Parameters
    ----------
    allowed : the names of this machine that requests may use; empty for all addresses, and the name of the machine.
    ended : ends the event streams when it is set.
    """
    stopping = ended or threading.Event()

    async def page(_request: Request) -> Response:
        return FileResponse(PAGE / "index.html", headers={"Cache-Control": "no-cache"})

    async def answer(request: Request) -> Response:
        question = request.path_params["question"]
        try:
            found = await run_in_threadpool(answers.ask, question, dict(request.query_params))
        except UsageError as error:
            status = 400 if question in answers.questions else 404
            return _json({"error": masked(str(error))}, status)
        except HoldfastError as error:
            return _json({"error": masked(str(error))}, 503)
        return _json(found, 200)

    async def events(request: Request) -> Response:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(
            _state_events(answers, request, stopping), media_type="text/event-stream", headers=headers
        )

    async def refused(_request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return PlainTextResponse(f"{error.detail}\n", error.status_code, dict(error.headers or {}))

    routes = [
        Route("/", page),
        Route("/api/events", events),
        Route("/api/{question}", answer),
        Mount("/page", StaticFiles(directory=PAGE)),
    ]
    site = Starlette(routes=routes, exception_handlers={HTTPException: refused})
    return _Guarded(site, allowed)


class _Guarded:
    """Refuses requests that do not come from the page itself, and adds security headers to every response."""

    def __init__(self, app: ASGIApp, allowed: frozenset[str]) -> None:
        self._app = app
        self._allowed = allowed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # no web sockets
        refusal = self._refusal(scope)

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-cache")
            await send(message)

        app = self._app if refusal is None else PlainTextResponse(f"{refusal[1]}\n", refusal[0])
        await app(scope, receive, guarded)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        given: Mapping[bytes, bytes] = dict(scope["headers"])
        if scope["method"] not in {"GET", "HEAD"}:
            return 405, "only GET and HEAD are allowed"
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        if len(hosts) != 1 or not self._is_own(_host_name(hosts[0].decode("latin-1"))):
            return 421, "unknown host name: open the address that holdfast dashboard printed"
        is_foreign = given.get(b"sec-fetch-site", b"none") not in {b"same-origin", b"none"}
        if is_foreign and scope["path"] != "/":
            return 403, "only requests of the page itself are allowed"
        return None

    def _is_own(self, name: str) -> bool:
        if name in self._allowed or name in _OWN_NAMES:
            return True
        return not self._allowed and (_is_address(name) or name == socket.gethostname().lower())


async def _state_events(answers: Answers, request: Request, stopping: threading.Event) -> AsyncIterator[bytes]:
    """Yield an event for the current state and for each new one, and regularly a comment that keeps the stream open."""
    sent, quiet = None, 0.0
    while not stopping.is_set():
        try:
            state = await run_in_threadpool(answers.look)
        except HoldfastError:
            state = sent or ""  # the storage may recover; questions report the error
        if state != sent:
            sent, quiet = state, 0.0
            yield f"event: state\ndata: {json.dumps(state)}\n\n".encode()
        elif quiet >= _STILL_THERE_SECONDS:
            quiet = 0.0
            yield b": still there\n\n"
        slept = 0.0
        while slept < max(answers.every, _NAP_SECONDS) and not stopping.is_set():
            await asyncio.sleep(_NAP_SECONDS)
            slept += _NAP_SECONDS
        quiet += slept
        if await request.is_disconnected():
            return


_NAP_SECONDS = 0.1


def _json(answer: Mapping[str, Any], status: int) -> Response:
    body = json.dumps(answer, ensure_ascii=False, allow_nan=False, default=str, separators=(",", ":"))
    content = body.encode("utf-8", "backslashreplace")
    return Response(content, status, {"Cache-Control": "no-store"}, media_type="application/json")


def _listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens on a port, or on one of the next ports where the port is in use."""
    tried = range(port, min(port + _TRIES, 65_536) if port else 1)
    problem: OSError | None = None
    for number in tried:
        try:
            family = socket.getaddrinfo(host, number, type=socket.SOCK_STREAM)[0][0]
            return socket.create_server((host, number), family=family, backlog=64)
        except OSError as error:
            problem = error
            if error.errno != errno.EADDRINUSE:
                break
    assert problem is not None
    is_taken = problem.errno == errno.EADDRINUSE
    where = f"{host}, ports {port} to {tried[-1]}" if is_taken else host
    reason = problem.strerror if isinstance(problem, socket.gaierror) else os.strerror(problem.errno or 0)
    raise ExternalError(
        f"{where}: cannot be served ({reason}): name an address of this machine with --host, and a port that is free "
        "with --port; 0 takes any"
    )


def _names(host: str) -> frozenset[str]:
    """Return the names of this machine in requests; none where it listens on all addresses."""
    if _is_address(host) and ipaddress.ip_address(host).is_unspecified:
        return frozenset()
    return frozenset({host.lower(), *_OWN_NAMES})


def _host_name(given: str) -> str:
    """Return the name in a Host header, without its port.

    >>> [_host_name(given) for given in ("localhost:8050", "[::1]:80", "EXAMPLE.com", "")]
    ['localhost', '::1', 'example.com', '']
    """
    if given.startswith("["):
        return given[1:].partition("]")[0].lower()
    return given.partition(":")[0].lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _in_address(host: str) -> str:
    return f"[{host}]" if ":" in host else host
