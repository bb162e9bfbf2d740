"""The REST client where servers are busy, or answer before they have been told everything."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.client.rest import SUBMIT_TIMEOUT_S, RequestRefusedError, RestClient
from runtime.client.server import Server
from runtime.testing import ManualClock
from tests.client.fake_cluster import JOB_ID, FakeCluster

BODY = b'{"errors": ["much too big"]}'
ANSWER = b"HTTP/1.1 413 Too Large\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(BODY) + BODY


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster().serving() as serving:
        yield serving


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def client(cluster: FakeCluster, clock: ManualClock) -> RestClient:
    """Return a client that does not really wait."""
    return RestClient(
        cluster.server,
        sleep=lambda seconds: clock.advance(round(seconds * 1000)),
        monotonic=lambda: clock.monotonic_ms() / 1000,
    )


@pytest.mark.parametrize("status", [503, 429])
def test_a_busy_server_is_asked_again_when_it_says(
    cluster: FakeCluster, client: RestClient, clock: ManualClock, tmp_path: Path, status: int
) -> None:
    cluster.busy_status = status
    program = tmp_path / "program.py"
    program.write_text("pass")
    began = clock.monotonic_ms()
    cluster.busy = [3]
    name = client.upload(program)
    cluster.busy = [7, 20]
    assert client.run(name, (), {}, None, None) == JOB_ID
    assert clock.monotonic_ms() - began == 30_000
    assert len(cluster.calls) == 5


def test_a_server_that_stays_busy_is_given_up_on_within_the_time_limit(
    cluster: FakeCluster, client: RestClient, clock: ManualClock
) -> None:
    began = clock.monotonic_ms()
    cluster.busy = [100] * 10
    with pytest.raises(RequestRefusedError, match="try again in 100 s"):
        client.run("program", (), {}, None, None)
    assert clock.monotonic_ms() - began == 200_000 < SUBMIT_TIMEOUT_S * 1000


def test_other_refusals_are_final(cluster: FakeCluster, client: RestClient) -> None:
    cluster.answers["POST /v1/jars/program/run"] = (503, {"errors": ["no leader"]})
    with pytest.raises(RequestRefusedError, match="no leader"):
        client.run("program", (), {}, None, None)
    assert len(cluster.calls) == 1


@pytest.mark.parametrize(("answer", "message"), [(ANSWER, "much too big"), (ANSWER[:-9], "HTTP status 413")])
def test_an_answer_before_the_end_of_the_upload_is_shown(tmp_path: Path, answer: bytes, message: str) -> None:
    """The server answers and resets the connection, perhaps within the answer, while megabytes are still to be sent."""
    program = tmp_path / "program.py"
    program.write_bytes(b"#" * (32 << 20))
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(1024)
                connection.sendall(answer)

        server = threading.Thread(target=serve)
        server.start()
        try:
            client = RestClient(Server(f"http://127.0.0.1:{listening.getsockname()[1]}", "token"))
            with pytest.raises(RequestRefusedError, match=message) as refused:
                client.upload(program)
        finally:
            server.join()
    assert refused.value.status == 413
