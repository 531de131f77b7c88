"""The page over HTTP: what is served, to whom, with which headers, and how it hears of commits."""

from __future__ import annotations

import http.client
import json
import re
import socket
import threading
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest

from holdfast.constraints import ExternalError
from holdfast.dashboard.serving import PAGE, Site
from holdfast.display.secrets import forget, remember
from tests.dashboard.conftest import ZIP_CITY

if TYPE_CHECKING:
    from holdfast.dashboard.answers import Answers
    from tests.dashboard.tables import Written

_PATIENCE_SECONDS = 30


def asked(site: Site, path: str, method: str = "GET", **headers: str) -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=_PATIENCE_SECONDS)
    connection.request(method, path, headers=headers)
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response, body


def answer(site: Site, question: str, **given: str) -> dict[str, Any]:
    response, body = asked(site, f"/api/{question}?{urlencode(given)}")
    assert response.status == 200, body
    found: dict[str, Any] = json.loads(body)
    return found


def test_page_and_its_files(site: Site) -> None:
    response, body = asked(site, "/")
    assert (response.status, response.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert b'src="page/app.js"' in body
    for file in PAGE.iterdir():
        response, body = asked(site, f"/page/{file.name}")
        assert response.status == 200
        assert body == file.read_bytes()
        if file.suffix == ".js":
            assert response.headers["Content-Type"].startswith("text/javascript")


@pytest.mark.parametrize("path", ["/", "/page/style.css", "/api/overview", "/nope", "/api/nope"])
def test_every_answer_forbids_what_is_from_elsewhere(site: Site, path: str) -> None:
    response, _ = asked(site, path)
    policy = response.headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert response.headers["Referrer-Policy"] == "no-referrer"
    assert response.headers["Access-Control-Allow-Origin"] is None
    assert response.headers["Server"] is None


def test_the_page_names_no_other_place() -> None:
    for file in PAGE.iterdir():
        text = file.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "://" not in text, file.name
        assert "innerHTML" not in text, file.name
        assert "document.write" not in text, file.name
        assert "style=" not in text, file.name


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "rebound.example"}, 421),
        ({"Host": "127.0.0.1.rebound.example:80"}, 421),
        ({"Host": "192.168.0.1"}, 421),
        ({"Host": ""}, 421),
        ({"Host": "localhost:8050"}, 200),
        ({"Host": "[::1]:8050"}, 200),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
    ],
)
def test_who_may_ask(site: Site, headers: dict[str, str], status: int) -> None:
    response, body = asked(site, "/api/constraints", **headers)
    assert response.status == status
    assert (ZIP_CITY.encode() in body) is False
    assert (b"constraint" in body) is (status == 200)


def test_a_link_from_elsewhere_opens_the_page(site: Site) -> None:
    assert asked(site, "/", **{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"})[0].status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_nothing_can_be_changed(site: Site, method: str) -> None:
    assert asked(site, "/api/overview", method)[0].status == 405


@pytest.mark.parametrize(
    "path", ["/page/../answers.py", "/page/%2e%2e/answers.py", "/page//etc/passwd", "/holdfast.yaml"]
)
def test_no_other_file_is_served(site: Site, path: str) -> None:
    assert asked(site, path)[0].status == 404


def test_answers(site: Site) -> None:
    found = answer(site, "changes", q="zip city", change="disappeared")
    assert [row["constraint"] for row in found["rows"]] == [ZIP_CITY]
    response, body = asked(site, "/api/changes?limit=x")
    assert (response.status, response.headers["Cache-Control"]) == (400, "no-store")
    assert json.loads(body) == {"error": "limit is 'x': expected a whole number"}
    assert asked(site, "/api/nope")[0].status == 404


def test_storage_that_fails_is_told_without_secrets(written: Written, answers: Answers) -> None:
    remember([str(written.folder)])
    site = Site(answers, "127.0.0.1", 0)
    site.start()
    answer(site, "overview")
    for file in (written.place / "constraint_changes").rglob("*.parquet"):
        file.write_bytes(b"PAR1 no more")
    response, body = asked(site, "/api/changes?q=x")
    site.close()
    assert response.status == 503
    assert "could not be read" in json.loads(body)["error"]
    assert str(written.folder) not in body.decode()
    forget()


def test_hostile_values_are_json(written: Written, site: Site) -> None:
    hostile = "</script><script>alert(1)</script>\u202e\x00\x1b[31m"
    row = {"Id": 1, "Zip": hostile, "City": "\ud800"}
    written.put(written.disappeared("not(t.Zip = s.Zip)", [row, {**row, "Id": 2}]))
    response, body = asked(site, "/api/changes?limit=1")
    assert response.headers["Content-Type"] == "application/json"
    (found,) = json.loads(body)["rows"]
    assert found["witness"]["rows"][0][0] == hostile


class Listener:
    """A browser that listens for commits."""

    def __init__(self, site: Site) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=_PATIENCE_SECONDS)
        self.connection.request("GET", "/api/events")
        self.response = self.connection.getresponse()

    def next(self) -> str:
        """Return the next state that is told."""
        while True:
            line = self.response.readline()
            assert line, "the events ended"
            if line.startswith(b"data: "):
                state: str = json.loads(line.removeprefix(b"data: "))
                return state


def test_commits_are_told(written: Written, site: Site) -> None:
    listener = Listener(site)
    assert listener.response.headers["Content-Type"].startswith("text/event-stream")
    assert listener.next() == answer(site, "overview")["state"]
    written.put(written.appeared("not(t.Phone = s.Phone)"))
    state = listener.next()
    while answer(site, "constraints")["total"] != 3:  # tables get a commit one after the other
        state = listener.next()
    assert answer(site, "changes")["total"] == 7
    assert state


def test_listeners_do_not_keep_it_from_ending(answers: Answers) -> None:
    site = Site(answers, "127.0.0.1", 0)
    site.start()
    listener = Listener(site)
    listener.next()
    ending = threading.Thread(target=site.close)
    ending.start()
    ending.join(_PATIENCE_SECONDS)
    assert not ending.is_alive()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", site.port), timeout=1)


def test_a_port_that_is_taken_gives_way_to_the_next(site: Site, answers: Answers) -> None:
    other = Site(answers, "127.0.0.1", site.port)
    other.start()
    assert site.port < other.port < site.port + 20
    assert answer(other, "overview")["application"] == "shop"
    other.close()


def test_an_address_that_is_not_of_this_machine(answers: Answers) -> None:
    with pytest.raises(
        ExternalError, match=r"^192\.0\.2\.1: cannot be served \(Cannot assign requested address\).*--host"
    ):
        Site(answers, "192.0.2.1", 8_050)


def test_all_addresses_are_asked_by_address_or_name(answers: Answers) -> None:
    site = Site(answers, "0.0.0.0", 0)
    site.start()
    assert asked(site, "/", Host="192.168.0.1")[0].status == 200
    assert asked(site, "/", Host=socket.gethostname())[0].status == 200
    assert asked(site, "/", Host="rebound.example")[0].status == 421
    site.close()


def test_all_modules_are_asked_for_at_once() -> None:
    page = (PAGE / "index.html").read_text("utf-8")
    named = set(re.findall(r'href="page/(\w+\.js)"', page)) | {"app.js"}
    assert named == {file.name for file in PAGE.glob("*.js")}
