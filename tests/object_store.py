"""A small object store on loopback that speaks as much of S3 as backups and readers of tables need, and fails when it is told to."""

from __future__ import annotations

import hashlib
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from collections.abc import Callable

PAGE = 3
_RANGE = re.compile(r"bytes=([0-9]+)-([0-9]+)")


class ObjectStore:
    """Buckets in memory: every name is a bucket.

    Attributes
    ----------
    objects : content by `bucket/key`.
    asked : the requests that came, as `GET bucket/key`.
    fails : says of a request which status it gets instead of an answer; None where it is answered.
    """

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.parts: dict[str, dict[int, bytes]] = {}
        self.asked: list[str] = []
        self.fails: Callable[[str], int | None] = lambda _: None
        self.lock = threading.Lock()
        store = self

        class Handler(_Handler):
            objects = store

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def options(self) -> dict[str, str]:
        """What delta-rs and others have to know to reach it."""
        return {
            "aws_access_key_id": "anybody",
            "aws_secret_access_key": "verysecretkey",
            "aws_endpoint_url": f"http://127.0.0.1:{self._server.server_port}",
            "aws_region": "us-east-1",
            "allow_http": "true",
            "aws_s3_locking_provider": "delta-rs alone knows this",
            "fs.s3a.access.key": "Hadoop alone knows this",
        }

    def close(self) -> None:
        """Stop it."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    objects: ObjectStore

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def _handle(self) -> None:
        url = urlsplit(self.path)
        key, query = unquote(url.path).lstrip("/"), parse_qs(url.query, keep_blank_values=True)
        body = self._body()
        store = self.objects
        with store.lock:
            store.asked.append(f"{self.command} {key}")
            status = store.fails(store.asked[-1])
            answer = (status, b"<Error><Code>Told</Code><Message>to fail</Message></Error>") if status else None
            code, content = answer or getattr(self, f"_{self.command.lower()}")(key, query, body)
        whole = len(content)
        part = _RANGE.fullmatch(self.headers.get("Range", "")) if code == 200 else None
        if part is not None:
            first, last = int(part[1]), min(int(part[2]), whole - 1)
            code, content = 206, content[first : last + 1]
        self.send_response(code)
        if part is not None:
            self.send_header("Content-Range", f"bytes {first}-{last}/{whole}")
        self.send_header("ETag", f'"{hashlib.md5(content).hexdigest()}"')
        self.send_header("Last-Modified", "Thu, 19 Nov 2026 00:00:00 GMT")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _handle  # noqa: N815  (what the base class calls)

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _put(self, key: str, query: dict[str, list[str]], body: bytes) -> tuple[int, bytes]:
        if "uploadId" in query:
            self.objects.parts[query["uploadId"][0]][int(query["partNumber"][0])] = body
            return 200, body
        if self.headers.get("If-None-Match") == "*" and key in self.objects.objects:
            return 412, b"<Error><Code>PreconditionFailed</Code></Error>"
        self.objects.objects[key] = body
        return 200, b""

    def _get(self, key: str, query: dict[str, list[str]], body: bytes) -> tuple[int, bytes]:
        if "list-type" in query:
            return 200, self._listed(key, query)
        if key not in self.objects.objects:
            return 404, b"<Error><Code>NoSuchKey</Code></Error>"
        return 200, self.objects.objects[key]

    _head = _get

    def _delete(self, key: str, query: dict[str, list[str]], body: bytes) -> tuple[int, bytes]:
        self.objects.objects.pop(key, None)
        return 204, b""

    def _post(self, key: str, query: dict[str, list[str]], body: bytes) -> tuple[int, bytes]:
        if "delete" in query:
            names = [str(one.text) for one in ElementTree.fromstring(body).iter() if one.tag.endswith("Key")]
            for name in names:
                self.objects.objects.pop(f"{key.rstrip('/')}/{name}", None)
            gone = "".join(f"<Deleted><Key>{escape(name)}</Key></Deleted>" for name in names)
            return 200, f"<DeleteResult>{gone}</DeleteResult>".encode()
        if "uploads" in query:
            number = f"upload{len(self.objects.parts)}"
            self.objects.parts[number] = {}
            return (
                200,
                f"<InitiateMultipartUploadResult><UploadId>{number}</UploadId></InitiateMultipartUploadResult>".encode(),
            )
        parts = self.objects.parts.pop(query["uploadId"][0])
        self.objects.objects[key] = b"".join(parts[number] for number in sorted(parts))
        return 200, b"<CompleteMultipartUploadResult><ETag>e</ETag></CompleteMultipartUploadResult>"

    def _listed(self, bucket: str, query: dict[str, list[str]]) -> bytes:
        prefix, delimiter = query.get("prefix", [""])[0], query.get("delimiter", [""])[0]
        keys, folders = [], set()
        for name in sorted(self.objects.objects):
            own, _, key = name.partition("/")
            if own != bucket.rstrip("/") or not key.startswith(prefix):
                continue
            rest = key[len(prefix) :]
            if delimiter and delimiter in rest:
                folders.add(prefix + rest.split(delimiter)[0] + delimiter)
            else:
                keys.append((key, len(self.objects.objects[name])))
        start = int(query.get("continuation-token", ["0"])[0])
        page, more = keys[start : start + PAGE], start + PAGE < len(keys)
        lines = [
            f"<Contents><Key>{escape(key)}</Key><Size>{size}</Size><ETag>e</ETag>"
            "<LastModified>2026-11-19T00:00:00.000Z</LastModified></Contents>"
            for key, size in page
        ]
        if not start:
            lines += [f"<CommonPrefixes><Prefix>{escape(one)}</Prefix></CommonPrefixes>" for one in sorted(folders)]
        if more:
            lines.append(f"<NextContinuationToken>{start + PAGE}</NextContinuationToken>")
        return f"<ListBucketResult><IsTruncated>{str(more).lower()}</IsTruncated>{''.join(lines)}</ListBucketResult>".encode()
