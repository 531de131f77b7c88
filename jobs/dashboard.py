"""`holdfast dashboard`: the output tables as a page, on this machine until Ctrl-C.

Invariant: standard output has one line, the address, once the page is served there.
"""

import os
import signal
import sys
import threading
import webbrowser
from ipaddress import ip_address

import click

from holdfast.dashboard.serving import Site
from holdfast.jobs.application.outputs import answers_of
from holdfast.jobs.configuration.reading import Configuration
from holdfast.jobs.terminal.output import printable
from holdfast.jobs.terminal.progress import progress_on


def show_dashboard(
    configuration: Configuration, host: str, port: int, *, browser: bool, ended: threading.Event | None = None
) -> None:
    """Serve the page until somebody ends it.

    Parameters
    ----------
    browser : opens it in a browser, where this machine has one.
    ended : ends it instead of signals.
    """
    progress = progress_on(sys.stderr)
    answers = answers_of(configuration)
    site = Site(answers, host, port, configuration.masked)
    end = ended or threading.Event()
    site.start()
    try:
        if port not in {0, site.port}:
            progress.note(f"port {port} is taken: {site.port} is used")
        if not _is_local(host):
            progress.note(
                f"whoever reaches {host} can read these tables, values of rows included: there is no password",
                level="warning",
                event="open",
            )
        click.echo(printable(f"{configuration.settings.name}: {site.address} (Ctrl-C ends it)"))
        sys.stdout.flush()
        if browser and _has_screen():
            threading.Thread(target=webbrowser.open, args=(site.address,), daemon=True).start()
        if ended is None:
            _wait_for_signals(end)
        else:
            end.wait()
    finally:
        site.close()


def _wait_for_signals(end: threading.Event) -> None:
    """Return once SIGTERM or Ctrl-C comes."""
    before = {number: signal.signal(number, lambda *_: end.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        end.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _is_local(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _has_screen() -> bool:
    """Whether a browser would open a window, and not take the terminal."""
    return sys.platform in {"darwin", "win32"} or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
