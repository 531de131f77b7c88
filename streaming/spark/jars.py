"""The jars that Spark needs beside its own, and those of a broker for tests, by pinned lists.

Invariant: a path that this module returns was just read completely and has the pinned SHA-256, so no jar gets on a
class path unchecked. Jars are fetched by the Ivy that PySpark contains, run by plain Java, from Ivy's default (Maven
Central) or from the Maven repository that HOLDFAST_REPOSITORY names; descriptors and transitive dependencies are not
read.

A pin is a line `group:name:version sha256` of a file in `holdfast.conf`; a jar is kept as
`<cache folder>/jars/<group>_<name>-<version>.jar`.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import subprocess
from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import quoteattr

from holdfast.streaming.spark.cache import cache_folder, staging
from holdfast.streaming.spark.errors import JarMismatch, JarUnavailable
from holdfast.streaming.spark.java import java_home

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_log = logging.getLogger(__name__)
_TIMEOUT_SECONDS = 900


@dataclass(frozen=True, slots=True)
class JarPin:
    """One jar: its Maven coordinate and the SHA-256 of its bytes, in lower-case hexadecimal."""

    group: str
    name: str
    version: str
    sha256: str

    def __str__(self) -> str:
        return f"{self.group}:{self.name}:{self.version}"

    @property
    def file_name(self) -> str:
        """The name of the file in the cache."""
        return f"{self.group}_{self.name}-{self.version}.jar"


def spark_jars() -> list[Path]:
    """Return the jars for Delta tables and Kafka, fetched if they are not in the cache."""
    return fetch(pins("jars-spark.txt"))


def broker_jars() -> list[Path]:
    """Return the jars of a Kafka broker, for tests and the demo."""
    return fetch(pins("jars-broker.txt"))


def pins(file: str) -> list[JarPin]:
    """Read one of the pinned lists of `holdfast.conf`.

    Examples
    --------
    >>> [str(pin) for pin in pins("jars-spark.txt") if pin.group == "io.delta"]
    ['io.delta:delta-spark_4.2_2.13:4.4.0', 'io.delta:delta-storage:4.4.0']
    """
    lines = (files("holdfast.conf") / file).read_text(encoding="utf-8").splitlines()
    return [_pin(line) for line in lines if line and not line.startswith("#")]


def fetch(wanted: Sequence[JarPin], repository: str | None = None) -> list[Path]:
    """Return the jars of `wanted`, in that order, each checked; fetch jars that are not in the cache.

    Costs reading all of them (20 MB: 0.1 s) if they are in the cache; otherwise a run of Ivy. Raises `JarUnavailable`
    if the repository lacks a jar or cannot be reached, and `JarMismatch` if it has another jar than the pinned one.

    Parameters
    ----------
    wanted : the pins of the jars.
    repository : the address of a Maven repository; by default HOLDFAST_REPOSITORY, or Maven Central.
    """
    folder = cache_folder() / "jars"
    if _unfit(wanted, folder):
        with staging(folder) as made:
            if missing := _unfit(wanted, folder):  # another process may have fetched them
                source = repository or os.environ.get("HOLDFAST_REPOSITORY", "")
                _download(missing, source, made)
                for pin in missing:
                    (made / "jars" / pin.file_name).replace(folder / pin.file_name)
    return [folder / pin.file_name for pin in wanted]


def _pin(line: str) -> JarPin:
    coordinate, sha256 = line.split()
    group, name, version = coordinate.split(":")
    return JarPin(group, name, version, sha256)


def _unfit(wanted: Iterable[JarPin], folder: Path) -> list[JarPin]:
    """Return the pins whose jar is missing in `folder`, or differs from the pinned one."""
    return [pin for pin in wanted if _sha256(folder / pin.file_name) != pin.sha256]


def _sha256(file: Path) -> str | None:
    try:
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _download(missing: Sequence[JarPin], repository: str, into: Path) -> None:
    """Fetch the jars of `missing` into `into`/jars, and check them."""
    shown = _masked(repository) or "Maven Central"
    _log.info("fetching %d jars from %s", len(missing), shown)
    root = f" root={quoteattr(repository)}" if repository else ""
    (into / "settings.xml").write_text(_SETTINGS.format(root=root), encoding="utf-8")
    (into / "ivy.xml").write_text(_module(missing), encoding="utf-8")
    output = _run_ivy(into)
    found = {pin: _sha256(into / "jars" / pin.file_name) for pin in missing}
    if absent := [pin for pin in missing if found[pin] is None]:
        raise _unavailable(absent, shown, output)
    if wrong := [pin for pin in missing if found[pin] != pin.sha256]:
        raise JarMismatch(
            "\n".join(f"{pin} from {shown}: expected SHA-256 {pin.sha256}, found {found[pin]}" for pin in wrong),
            "nothing of it was kept; have the repository checked, or name another one in HOLDFAST_REPOSITORY",
        )


_SETTINGS = """\
<ivysettings>
  <settings defaultResolver="repository"/>
  <resolvers><ibiblio name="repository" m2compatible="true" usepoms="false"{root}/></resolvers>
</ivysettings>
"""


def _module(wanted: Iterable[JarPin]) -> str:
    lines = (
        f"<dependency org={quoteattr(pin.group)} name={quoteattr(pin.name)} rev={quoteattr(pin.version)}"
        ' transitive="false" conf="default->default"/>'
        for pin in wanted
    )
    head = '<ivy-module version="2.0"><info organisation="holdfast" module="jars"/>'
    configurations = '<configurations><conf name="default"/></configurations>'
    return "\n".join([head, configurations, "<dependencies>", *lines, "</dependencies>", "</ivy-module>", ""])


def _run_ivy(folder: Path) -> str:
    """Run Ivy with the files in `folder`; return its output."""
    pyspark = find_spec("pyspark")  # not imported, which takes a second
    places = pyspark.submodule_search_locations if pyspark else None
    shipped = sorted(Path(place) for top in places or () for place in Path(top, "jars").glob("ivy-*.jar"))
    if not shipped:
        raise JarUnavailable("the installed pyspark has no ivy-*.jar", "install the pinned version of pyspark")
    command: list[str | Path] = [java_home().java, f"-Divy.default.ivy.user.dir={folder / 'home'}"]
    command += ["-jar", shipped[-1], "-settings", folder / "settings.xml", "-ivy", folder / "ivy.xml"]
    command += ["-cache", folder / "cache", "-confs", "default"]
    command += ["-retrieve", f"{folder / 'jars'}/[organisation]_[artifact]-[revision].[ext]"]
    try:
        ran = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {_TIMEOUT_SECONDS} seconds"
    return ran.stdout


def _unavailable(absent: Sequence[JarPin], repository: str, output: str) -> JarUnavailable:
    causes = dict.fromkeys(re.findall(r"Server access error.*?\((.+)\)$|(no answer within.+)", output, re.MULTILINE))
    cause = next((text for pair in causes for text in pair if text), "not found")
    advice = "name a repository that has them in HOLDFAST_REPOSITORY"
    if "PKIX" in cause or "certificate" in cause:
        advice = "name the file with your authority's certificates in SSL_CERT_FILE, or add them to Java's own"
    elif cause != "not found":
        advice = f"check the network (a proxy goes in JAVA_TOOL_OPTIONS, as -Dhttps.proxyHost=...), or {advice}"
    # If one jar fails Ivy retrieves none; its summary, in a frame of colons, names those that failed.
    failed = set(re.findall(r"^\s*:: (\S+?#\S+?;[^\s!:]+)", output, re.MULTILINE))
    listed = ", ".join(str(pin) for pin in absent if not failed or f"{pin.group}#{pin.name};{pin.version}" in failed)
    return JarUnavailable(f"could not fetch {listed} from {repository} ({_masked(cause)})", advice)


def _masked(address: str) -> str:
    """Return `address` without its user and password."""
    return re.sub(r"(?<=://)[^/@\s]+@", "***@", address)
