"""Debian's Chromium, driven by Playwright, as far as this machine has it."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_ARGUMENTS = (
    *("--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)


def chromium() -> str | None:
    """Return the path of a Chromium; None where there is none."""
    given = os.environ.get("HOLDFAST_CHROMIUM")
    return given or next((path for path in map(shutil.which, NAMES) if path is not None), None)


@contextmanager
def browser(path: str) -> Iterator[Browser]:
    """Start it, without a window; as root it has no sandbox of its own."""
    from playwright.sync_api import sync_playwright

    arguments = [*_ARGUMENTS, *(("--no-sandbox",) if os.getuid() == 0 else ())]
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=arguments)
        try:
            yield started
        finally:
            started.close()
