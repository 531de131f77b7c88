"""Serves an ASGI application from a thread of its own."""

import socket
import threading
from typing import Any

import uvicorn
from starlette.types import ASGIApp

PATIENCE_SECONDS = 2


class Background:
    """Serves an application from a socket until it is closed.

    Parameters
    ----------
    app : the application.
    listening : a listening socket; it is closed with the server.
    name : the name of the thread.
    settings : further settings of uvicorn.
    """

    def __init__(self, app: ASGIApp, listening: socket.socket, name: str, **settings: Any) -> None:
        self._socket = listening
        self.port: int = listening.getsockname()[1]
        config = uvicorn.Config(
            app,
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            lifespan="off",
            timeout_graceful_shutdown=PATIENCE_SECONDS,
            **settings,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)

    def start(self) -> None:
        """Start serving."""
        self._thread.start()

    def close(self) -> None:
        """Stop serving, and release the port; connections of slow clients are closed."""
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(timeout=3 * PATIENCE_SECONDS)
        self._socket.close()

    def _serve(self) -> None:
        self._server.run(sockets=[self._socket])
