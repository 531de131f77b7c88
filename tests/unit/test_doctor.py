"""The doctor finds what is there and what is not, and every finding that is not ok says what to do."""

from __future__ import annotations

import json
import socket
import threading
from dataclasses import asdict
from typing import TYPE_CHECKING

from holdfast.jobs.application.machine import Finding, examine, exit_code

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def _by_check(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.check: finding for finding in findings}


def test_this_machine_is_fit(tmp_path: Path) -> None:
    findings = examine(paths={"state": tmp_path / "var" / "state"})
    assert [finding for finding in findings if finding.status == "fail"] == []
    assert exit_code(findings) == 0
    found = _by_check(findings)
    assert found["write state"] == Finding("write state", "ok", str(tmp_path))
    assert found["jars"].found.startswith("6 as pinned")
    assert {"python", "packages", "memory", "disk state", "write cache", "java"} <= found.keys()
    assert list(tmp_path.iterdir()) == []


def test_what_fails_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "file" / "cache"))
    (tmp_path / "file").write_text("")
    findings = examine(
        paths={"state": tmp_path / "file" / "state", "backup": "s3://bucket/backup"}, kafka="127.0.0.1:9, here"
    )
    found = _by_check(findings)
    for check in ("write state", "jars", "kafka 127.0.0.1:9", "kafka here"):
        assert found[check].status == "fail", found[check]
    assert found["write backup"].status == "warn"
    assert "HOLDFAST_CACHE" in found["jars"].action
    assert all(finding.action for finding in findings if finding.status != "ok")
    assert exit_code(findings) == 5
    for finding in findings:
        record = json.loads(json.dumps(asdict(finding)))
        assert record.keys() == {"check", "status", "found", "action"}


def test_port_that_is_not_kafka() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(100)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        answering = threading.Thread(target=answer)
        answering.start()
        server = f"127.0.0.1:{listener.getsockname()[1]}"
        finding = _by_check(examine(kafka=server))[f"kafka {server}"]
        answering.join()
    assert finding.status == "warn"
    assert "encrypted" in finding.action
