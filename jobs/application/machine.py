"""Checks whether a machine meets the requirements of Holdfast.

Invariant: every error is a finding in the list; a finding that is not `ok` has an action. Checks change nothing but the
cache folder (jars are downloaded), and remove the files that they write to try a folder.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import struct
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from holdfast.constraints.errors import ExternalError, HoldfastError
from holdfast.streaming.spark.cache import cache_folder
from holdfast.streaming.spark.errors import SetUpError
from holdfast.streaming.spark.jars import spark_jars
from holdfast.streaming.spark.java import java_home

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from packaging.requirements import Requirement
    from pyspark.sql import SparkSession

    from holdfast.discovery.blocks.storage.location import Storage

Status = Literal["ok", "warn", "fail"]

_OLDEST_PYTHON, _NEWEST_PYTHON = (3, 11), (3, 13)
_GIGABYTE = 1_000_000_000
_KAFKA_SECONDS = 5


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check; `action` is empty where nothing has to be done."""

    check: str
    status: Status
    found: str
    action: str = ""


def examine(
    *,
    paths: Mapping[str, str | Path] | None = None,
    kafka: str | None = None,
    start_spark: bool = False,
    spark_settings: Mapping[str, str] | None = None,
    blocks: Storage | None = None,
) -> list[Finding]:
    """Run every check.

    Takes a second, and the download of jars that are not in the cache; with Spark half a minute.

    Parameters
    ----------
    paths
        Folders that a job will write, by purpose (`state`, `backup`, `output`, `checkpoint`, `blocks`).
        Addresses of other storage (with `://`) are listed, not tried.
    kafka
        Brokers as `host:port`, separated by commas.
    start_spark
        Whether Spark is started too, to write and read a Delta table in a temporary folder.
    spark_settings, blocks
        Settings of Spark, and the storage of blocks, where executors then write and read files.
    """
    places = dict(paths or {})
    findings = [_python(), _packages(), _memory()]
    for name, place in {**places, "cache": cache_folder(), "temporary files": tempfile.gettempdir()}.items():
        findings += _place(name, place)
    findings += [_set_up("java", _java), _set_up("jars", _jars)]
    findings += [broker(server.strip()) for server in (kafka or "").split(",") if server.strip()]
    if start_spark:
        findings += _spark(dict(spark_settings or {}), blocks)
    return findings


def exit_code(findings: Iterable[Finding]) -> int:
    """Return the exit code of the command: 0, or that of an external failure."""
    return ExternalError.exit_code if any(finding.status == "fail" for finding in findings) else 0


def _python() -> Finding:
    found = f"{'.'.join(map(str, sys.version_info[:3]))} ({sys.executable})"
    if _OLDEST_PYTHON <= sys.version_info[:2] <= _NEWEST_PYTHON:
        return Finding("python", "ok", found)
    return Finding("python", "fail", found, "run Holdfast with Python 3.11, 3.12 or 3.13")


def _packages() -> Finding:
    """Compare the installed packages with the requirements of this version of Holdfast."""
    from packaging.requirements import Requirement

    try:
        texts = metadata.requires("holdfast") or []
    except metadata.PackageNotFoundError:
        return Finding("packages", "warn", "holdfast is not installed", "install it: pip install .")
    wanted = [one for one in map(Requirement, texts) if one.marker is None or one.marker.evaluate({"extra": ""})]
    wrong = [(requirement, found) for requirement in wanted if (found := _misfit(requirement))]
    if not wrong:
        return Finding("packages", "ok", f"{len(wanted)} as required")
    listed = ", ".join(f"{requirement.name} {found}" for requirement, found in wrong)
    install = " ".join(f"'{requirement}'" for requirement, _ in wrong)
    return Finding("packages", "fail", listed, f"pip install {install}")


def _misfit(requirement: Requirement) -> str:
    """Return the installed version where it does not satisfy a requirement, else an empty text."""
    try:
        installed = metadata.version(requirement.name)
    except metadata.PackageNotFoundError:
        return "is missing"
    return "" if requirement.specifier.contains(installed, prereleases=True) else installed


def _memory() -> Finding:
    size = _memory_bytes()
    if size >= 3 * _GIGABYTE:
        return Finding("memory", "ok", _gigabytes(size))
    action = "Spark and the state together need 3 GB: expect to hold small tables only, or use a larger machine"
    return Finding("memory", "warn", _gigabytes(size), action)


def _memory_bytes() -> int:
    """Return the memory that this process may use: that of the machine, or the limit of its container."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    files = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
    limits = (file.read_text().strip() for file in files if file.is_file())
    return min([machine, *(int(limit) for limit in limits if limit.isdigit())])


def _place(name: str, place: str | Path) -> Iterator[Finding]:
    """Try to write in a folder, or in the parent where it will be created, and check the free space."""
    if "://" in str(place):
        yield Finding(f"write {name}", "warn", "not on a local disk: not tried", "seed or run will try it")
        return
    folder = Path(place).expanduser().absolute()
    try:
        while not folder.exists():
            folder = folder.parent
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".holdfast-"):
            pass
        free = shutil.disk_usage(folder).free
    except OSError as error:
        action = f"let this user write in {folder}, or name another folder"
        yield Finding(f"write {name}", "fail", f"{folder}: {error.strerror}", action)
        return
    yield Finding(f"write {name}", "ok", str(folder))
    if free >= _GIGABYTE:
        yield Finding(f"disk {name}", "ok", f"{_gigabytes(free)} free")
    else:
        status: Status = "warn" if free >= _GIGABYTE / 10 else "fail"
        yield Finding(f"disk {name}", status, f"{_gigabytes(free)} free", f"make room in {folder}: 1 GB")


def _set_up(name: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(name, "ok", look())
    except SetUpError as error:
        return Finding(name, "fail", error.found, error.action)


def _java() -> str:
    found = java_home()
    return f"{found.version} from {found.source} ({found.path})"


def _jars() -> str:
    jars = spark_jars()
    return f"{len(jars)} as pinned ({jars[0].parent})"


def broker(server: str) -> Finding:
    """Ask a broker which API versions it supports, the first request of every client."""
    check = f"kafka {server}"
    host, _, port = server.rpartition(":")
    if not host or not port.isdigit():
        return Finding(check, "fail", "not a broker's address", "give it as host:port")
    try:
        connection = socket.create_connection((host.strip("[]"), int(port)), timeout=_KAFKA_SECONDS)
    except OSError as error:
        action = "check the address, that the broker runs, and the firewall between"
        return Finding(check, "fail", error.strerror or str(error), action)
    # Length, then ApiVersions (18) in version 0, a correlation id, no client id [Kafka protocol guide].
    correlation = 0x686F6C64
    body = struct.pack(">hhih", 18, 0, correlation, -1)
    with connection:
        try:
            connection.sendall(struct.pack(">i", len(body)) + body)
            answer = connection.makefile("rb").read(10)
        except OSError:
            answer = b""
    if len(answer) == 10 and struct.unpack(">iih", answer)[1:] == (correlation, 0):
        return Finding(check, "ok", "answers")
    return Finding(
        check,
        "warn",
        "the port is open, but does not answer as Kafka without encryption does",
        "where it is encrypted, give the source's kafka.security.protocol; otherwise check the port",
    )


def _spark(settings: dict[str, str], blocks: Storage | None) -> Iterator[Finding]:
    from holdfast.streaming.spark.session import is_local, session

    try:
        spark = session("holdfast-doctor", settings)
        try:
            if is_local(str(spark.sparkContext.master)):  # executors elsewhere cannot read a temporary folder
                with tempfile.TemporaryDirectory() as folder:
                    spark.range(3).write.format("delta").save(f"{folder}/table")
                    rows = spark.read.format("delta").load(f"{folder}/table").count()
                found = f"a Delta table with {rows} rows written and read"
            else:
                found = f"{spark.range(3).count()} rows counted at {spark.sparkContext.master}"
            yield Finding("spark", "ok", f"Spark {spark.version}: {found}")
            if blocks is not None:
                yield _blocks(spark, blocks)
        finally:
            spark.stop()
    except SetUpError as error:
        yield Finding("spark", "fail", error.found, error.action)
    except Exception as error:  # noqa: BLE001  # whatever Spark raises is the finding
        yield Finding("spark", "fail", _first_line(error), "see Spark's own messages above")


def _blocks(spark: SparkSession, blocks: Storage) -> Finding:
    """Let executors write, read and remove files in the storage of blocks."""
    from holdfast.streaming.spark.executors import SparkExecutors

    executors = SparkExecutors(spark)
    folder = Path(blocks.address)
    made = [] if "://" in blocks.address else [p for p in (folder, *folder.parents) if not p.exists()]
    try:
        blocks.open().prepare()
        tasks = [f"doctor-{secrets.token_hex(8)}" for _ in range(4 * executors.cores)]
        hosts = set(executors.run(partial(_tried, blocks), tasks))
    except (HoldfastError, OSError) as error:
        action = "correct 'blocks.path', and let this machine and all executors write there"
        return Finding("executors write blocks", "fail", _first_line(error), action)
    finally:
        for folder in made:
            with suppress(OSError):
                folder.rmdir()
    return Finding("executors write blocks", "ok", f"{blocks.address}, from {', '.join(sorted(hosts))}")


def _tried(blocks: Storage, name: str) -> str:
    place = blocks.open()
    place.put(name, name.encode())
    read = place.get(name)
    place.remove([name])
    if read != name.encode():
        raise OSError(f"{place.path(name)} was not there after it was written")
    return socket.gethostname()


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _gigabytes(size: int) -> str:
    return f"{size / _GIGABYTE:.1f} GB"
