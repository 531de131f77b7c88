"""What a process and all that it started show to others: their command lines, and where they listen. Linux only."""

from __future__ import annotations

import ipaddress
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")
_LISTENS = "0A"


def tree(pid: int) -> list[int]:
    """Return a process and its descendants, as far as they are there now."""
    parents: dict[int, int] = {}
    for folder in _PROC.iterdir():
        if folder.name.isdecimal():
            with suppress(OSError):
                said = (folder / "stat").read_text(errors="replace")
                parents[int(folder.name)] = int(said.rpartition(")")[2].split()[1])
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


def command_lines(pid: int) -> list[str]:
    """Return what `ps` shows of a process and its descendants."""
    found = []
    for one in tree(pid):
        with suppress(OSError):
            found.append((_PROC / str(one) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return found


def listening(pid: int) -> set[tuple[str, int]]:
    """Return the addresses and ports at which a process and its descendants take connections."""
    sockets = set()
    for one in tree(pid):
        with suppress(OSError):
            for descriptor in (_PROC / str(one) / "fd").iterdir():
                with suppress(OSError):
                    sockets.add(str(descriptor.readlink()))
    found = set()
    for table in ("tcp", "tcp6"):
        with suppress(FileNotFoundError):  # a machine without IPv6
            for line in (_PROC / "net" / table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTENS and f"socket:[{fields[9]}]" in sockets:
                    address, _, port = fields[1].partition(":")
                    found.add((_address(address), int(port, 16)))
    return found


def _address(text: str) -> str:
    """Return an address out of words of 32 bits, each of them little end first."""
    words = [bytes.fromhex(text[i : i + 8])[::-1] for i in range(0, len(text), 8)]
    return str(ipaddress.ip_address(b"".join(words)))


def is_loopback(address: str) -> bool:
    """Whether only this machine reaches an address."""
    found = ipaddress.ip_address(address)
    mapped = getattr(found, "ipv4_mapped", None)
    return bool((mapped or found).is_loopback)
