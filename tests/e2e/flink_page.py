"""Flink's own web page, from the jar that scripts/flink_ui.sh fetches, in front of a cluster of Tidemark.

A server on loopback hands out the page's files, and passes everything else on to the cluster with the administrator's
token: the page knows no login.
"""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from mimetypes import guess_type
from pathlib import Path
from zipfile import ZipFile

from tests.cluster.stack import ROOT

JARS = ROOT / ".flink-ui"
#: of the connection, not of what is passed on
_OWN_HEADERS = {"connection", "keep-alive", "transfer-encoding", "content-length", "host", "authorization", "cookie"}


def jar() -> Path | None:
    """Return the jar with the page; None: it was not fetched."""
    return next(iter(sorted(JARS.glob("flink-runtime-web-*.jar"))), None)


@dataclass
class FlinkPage:
    """The page's address, and what the cluster has answered it."""

    url: str
    answers: list[tuple[str, str, int]] = field(default_factory=list)
    """Method, path and status of each request that was passed on."""

    def refused(self) -> list[tuple[str, str, int]]:
        return [answer for answer in self.answers if answer[2] >= 400]


@contextmanager
def serving(archive: Path, port: int, token: str) -> Iterator[FlinkPage]:
    """Serve the page in front of the cluster whose web process listens at a port of this machine."""
    with ZipFile(archive) as files:
        contents = {f"/{name[4:]}": files.read(name) for name in files.namelist() if name.startswith("web/")}
    contents["/"] = contents["/index.html"]
    shown = FlinkPage("")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            content = contents.get(self.path.partition("?")[0]) if self.command == "GET" else None
            if content is not None:
                kind = guess_type(self.path)[0] or ("text/html" if self.path == "/" else "application/octet-stream")
                self.reply(200, [("Content-Type", kind)], content)
                return
            size = int(self.headers.get("Content-Length") or 0)
            headers = {name: value for name, value in self.headers.items() if name.lower() not in _OWN_HEADERS}
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            try:
                connection.request(
                    self.command, self.path, self.rfile.read(size), {**headers, "Authorization": f"Bearer {token}"}
                )
                answer = connection.getresponse()
                body = answer.read()
            finally:
                connection.close()
            shown.answers.append((self.command, self.path, answer.status))
            self.reply(answer.status, answer.getheaders(), body)

        def reply(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
            self.send_response(status)
            for name, value in headers:
                if name.lower() not in _OWN_HEADERS:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    for method in ("GET", "HEAD", "POST", "PATCH", "PUT", "DELETE"):
        setattr(Handler, f"do_{method}", Handler.answer)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, name="flink-page", daemon=True)
    thread.start()
    shown.url = f"http://127.0.0.1:{server.server_port}/"
    try:
        yield shown
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
