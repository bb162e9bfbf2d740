"""The leader's line, over real connections: what standbys have, and what strangers do not get."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from backend.cluster import leader_line
from backend.cluster.leader_line import BACKLOG, MAX_UNSEALED, LeaderListener, LeaderProbe
from backend.cluster.seals import line_seal
from tests.support.waiting import wait_until


@pytest.fixture
def listener() -> Iterator[LeaderListener]:
    listener = LeaderListener("127.0.0.1")
    yield listener
    listener.close()


@pytest.fixture
def standby() -> Iterator[LeaderProbe]:
    probe = LeaderProbe()
    yield probe
    probe.close()


def connect(listener: LeaderListener) -> socket.socket:
    host, _, port = listener.address.rpartition(":")
    connection = socket.create_connection((host, int(port)), 10)
    connection.settimeout(10)
    return connection


def lines_of(listener: LeaderListener) -> int:
    listener.accept()
    return listener.num_lines


def is_closed(connection: socket.socket, listener: LeaderListener) -> bool:
    listener.accept()
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def test_a_standby_has_its_line_until_the_leader_ends(
    listener: LeaderListener, standby: LeaderProbe, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not standby.has_ended(listener.address)
    listener.accept()
    monkeypatch.setattr(leader_line, "SEAL_TIMEOUT_S", 0.0)
    listener.accept()
    assert listener.num_lines == 1
    listener.close()
    wait_until(lambda: standby.has_ended(listener.address), 10, "the end of the leader")


def test_a_flood_of_strangers_takes_few_connections_and_no_standbys_line(
    listener: LeaderListener, standby: LeaderProbe
) -> None:
    assert not standby.has_ended(listener.address)
    listener.accept()
    with ExitStack() as strangers:
        for _ in range(4):
            for _ in range(BACKLOG // 2):
                strangers.enter_context(connect(listener))
            listener.accept()
            assert listener.num_lines <= MAX_UNSEALED + 1
        with LateStandby(listener) as late:
            for _ in range(MAX_UNSEALED):
                strangers.enter_context(connect(listener))
            listener.accept()
            assert not is_closed(late, listener)
    wait_until(lambda: lines_of(listener) == 1, 10, "the end of the strangers")
    assert not standby.has_ended(listener.address)


class LateStandby:
    """A standby that connects in the midst of a flood."""

    def __init__(self, listener: LeaderListener) -> None:
        self._listener = listener

    def __enter__(self) -> socket.socket:
        self._connection = connect(self._listener)
        self._connection.sendall(line_seal(self._listener.address).encode())
        return self._connection

    def __exit__(self, *_: object) -> None:
        self._connection.close()


def test_who_says_nothing_is_disconnected(listener: LeaderListener, monkeypatch: pytest.MonkeyPatch) -> None:
    with connect(listener) as silent, connect(listener) as slow:
        slow.sendall(b"0")
        listener.accept()
        assert listener.num_lines == 2
        monkeypatch.setattr(leader_line, "SEAL_TIMEOUT_S", 0.0)
        wait_until(lambda: is_closed(silent, listener) and is_closed(slow, listener), 10, "their ends")
        assert listener.num_lines == 0


@pytest.mark.parametrize(
    "said",
    [
        pytest.param("0" * 64, id="zeros"),
        pytest.param("é" * 32, id="no ASCII"),
        # of another key in each test run
        pytest.param(line_seal("127.0.0.1:1"), id="another line's seal"),
        pytest.param("GET / HTTP/1.1\r\n" * 8, id="HTTP"),
    ],
)
def test_who_says_something_else_is_disconnected(listener: LeaderListener, said: str) -> None:
    with connect(listener) as stranger:
        stranger.sendall(said.encode())
        wait_until(lambda: is_closed(stranger, listener), 10, "the end of the stranger")
    assert lines_of(listener) == 0


def test_a_standby_says_no_more_than_its_seal(listener: LeaderListener) -> None:
    with connect(listener) as talker:
        talker.sendall(line_seal(listener.address).encode())
        wait_until(lambda: lines_of(listener) == 1, 10, "the line")
        talker.sendall(b"more")
        wait_until(lambda: is_closed(talker, listener), 10, "its end")
    assert lines_of(listener) == 0
