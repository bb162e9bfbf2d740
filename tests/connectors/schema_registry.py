"""A real schema registry for tests: Apicurio, in memory, with Confluent's API; `scripts/kafka.sh registry` has it."""

from __future__ import annotations

import base64
import json
import ssl
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from backend.supervisor.checks import free_port
from tests.connectors.kafka_broker import skip_without_java, write_certificate
from tests.support.waiting import wait_until

HOME = Path(__file__).parents[2] / ".kafka" / "registry"


class RunningRegistry:
    """A registry."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/apis/ccompat/v7"

    def ask(self, path: str, body: Any = None, method: str | None = None) -> Any:
        """Send a request as another client would; returns the answer."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def register(self, subject: str, schema: Any, kind: str = "AVRO") -> int:
        """Add a schema to a subject; returns its id."""
        body = {"schema": json.dumps(schema), "schemaType": kind}
        return int(self.ask(f"/subjects/{subject}/versions", body)["id"])

    def answers(self) -> bool:
        with suppress(OSError, ValueError):
            return isinstance(self.ask("/subjects"), list)
        return False


def check_registry() -> None:
    """Skip the test if no registry can be started here, or fail it where a broker is required."""
    why = ""
    if not any(HOME.glob("apicurio-registry-app-*-runner.jar")):
        why = "there is no schema registry (scripts/kafka.sh registry fetches it, with Maven)"
    skip_without_java(why)


@contextmanager
def running_registry(directory: Path) -> Iterator[RunningRegistry]:
    """A registry that ends with the block.

    Args:
        directory: for its log.
    """
    check_registry()
    port = free_port()
    [jar] = HOME.glob("apicurio-registry-app-*-runner.jar")
    flags = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dquarkus.http.host=127.0.0.1")
    with (directory / "registry.log").open("wb") as log:
        command = ("java", *flags, f"-Dquarkus.http.port={port}", "-jar", str(jar))
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=HOME)
    registry = RunningRegistry(port)
    try:
        wait_until(registry.answers, 180, "the schema registry's start")
        yield registry
    finally:
        process.kill()
        process.wait()


@contextmanager
def guarded(registry: RunningRegistry, directory: Path, user: str, password: str) -> Iterator[tuple[int, Path]]:
    """Port and certificate of a server with TLS that lets one user through to a registry."""
    expected = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()

    class Guard(BaseHTTPRequestHandler):
        def handle_request(self) -> None:
            if self.headers.get("Authorization") != expected:
                self._answer(401, b'{"error_code": 401, "message": "who is there?"}')
                return
            length = int(self.headers.get("Content-Length") or 0)
            data = self.rfile.read(length) if length else None
            kept = {"Content-Type": self.headers.get("Content-Type", "application/json")}
            request = urllib.request.Request(registry.url + self.path, data, kept, method=self.command)
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:
                    self._answer(answer.status, answer.read())
            except urllib.error.HTTPError as error:
                self._answer(error.code, error.read())

        do_GET = do_POST = handle_request  # noqa: N815

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    certificate = directory / "guard.pem"
    write_certificate(certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with ThreadingHTTPServer(("127.0.0.1", 0), Guard) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_address[1], Path(f"{certificate}.crt")
        finally:
            server.shutdown()
            thread.join()
