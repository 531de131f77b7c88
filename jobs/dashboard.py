"""`holdfast dashboard`: serve the output tables as a page until Ctrl-C.

Invariant: standard output has one line, the address of the page, once the page is served.
"""

import os
import sys
import threading
import webbrowser
from ipaddress import ip_address

import click

from holdfast.dashboard.serving import Site
from holdfast.display.texts import printable
from holdfast.jobs.application.outputs import answers_of
from holdfast.jobs.application.stopping import handling_signals
from holdfast.jobs.configuration.reading import Configuration
from holdfast.jobs.terminal.progress import progress_on


def show_dashboard(configuration: Configuration, host: str, port: int, *, browser: bool) -> None:
    """Serve the page until a signal comes.

    Parameters
    ----------
    browser : whether the page is opened in a browser, where this machine has a screen.
    """
    progress = progress_on(sys.stderr)
    answers = answers_of(configuration)
    site = Site(answers, host, port)
    end = threading.Event()
    site.start()
    try:
        if port not in {0, site.port}:
            progress.note(f"port {port} is taken: {site.port} is used")
        if not _is_local(host):
            progress.note(
                f"everybody who can reach {host} can read these tables, values of rows included: there is no password",
                level="warning",
                event="open",
            )
        click.echo(printable(f"{configuration.settings.name}: {site.address} (Ctrl-C ends it)"))
        sys.stdout.flush()
        if browser and _has_screen():
            threading.Thread(target=webbrowser.open, args=(site.address,), daemon=True).start()
        with handling_signals(lambda _: end.set()):
            end.wait()
    finally:
        site.close()


def _is_local(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _has_screen() -> bool:
    """Whether a browser would open a window, and not take the terminal."""
    return sys.platform in {"darwin", "win32"} or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
