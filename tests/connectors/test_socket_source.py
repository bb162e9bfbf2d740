"""The socket source against real sockets: records, ends, retries, bounds."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from runtime.common import Types
from runtime.common.typeinfo import RowTypeInfo
from runtime.connectors import BadRecords, NdjsonFormat, SocketSource
from runtime.operators.source import Boundedness, SourceError
from tests.connectors.rigs import SourceRig

ROW = RowTypeInfo([Types.LONG()], ["id"])


@pytest.fixture
def server() -> Iterator[socket.socket]:
    """Listens on a free port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(5)
        yield listening


def port_of(server: socket.socket) -> int:
    port: int = server.getsockname()[1]
    return port


def accept(rig: SourceRig, server: socket.socket) -> socket.socket:
    """The source's connection; a listening socket completes it without being asked, so one look is enough."""
    server.settimeout(0)
    accepted: list[socket.socket] = []

    def is_there() -> bool:
        try:
            accepted.append(server.accept()[0])
        except BlockingIOError:
            return False
        return True

    rig.run_until(is_there, "the connection")
    accepted[0].setblocking(True)
    return accepted[0]


def test_records_arrive_however_they_are_cut(server: socket.socket) -> None:
    source = SocketSource("localhost", port_of(server))
    assert source.boundedness is Boundedness.CONTINUOUS_UNBOUNDED
    assert source.produced_type() == Types.STRING()
    rig = SourceRig(source, 2)
    with accept(rig, server) as peer:
        peer.sendall("one\r\ntwo ü"[:-1].encode() + b"\xc3")
        rig.run_until(lambda: rig.values == ["one"], "the first record")
        peer.sendall(b"\xbc\n\nfour\nlast")
        rig.run_until(lambda: len(rig.values) == 4, "three more")
    rig.run_to_end()
    assert rig.values == ["one", "two ü", "", "four", "last"]


def test_a_delimiter_may_be_cut_and_several_bytes_long(server: socket.socket) -> None:
    rig = SourceRig(SocketSource("127.0.0.1", port_of(server), delimiter="||"))
    with accept(rig, server) as peer:
        peer.sendall(b"a|b|")
        rig.run_until(lambda: True, "half a delimiter")
        peer.sendall(b"|c\n||")
        rig.run_until(lambda: rig.values == ["a|b", "c\n"], "two records")
    rig.run_to_end()
    assert rig.values == ["a|b", "c\n"]


def test_batches_are_no_larger_than_asked_for(server: socket.socket) -> None:
    rig = SourceRig(SocketSource("127.0.0.1", port_of(server)))
    with accept(rig, server) as peer:
        peer.sendall(b"".join(b"%d\n" % i for i in range(100)))
    rig.run_to_end(max_rows=7)
    assert rig.values == [str(i) for i in range(100)]
    assert max(batch.num_rows for batch, _ in rig.outputs[0].batches) == 7


def test_no_more_is_read_than_fits_the_buffer(server: socket.socket) -> None:
    rig = SourceRig(SocketSource("127.0.0.1", port_of(server), buffer_bytes=1000))
    with accept(rig, server) as peer:
        peer.settimeout(5)
        peer.sendall(b"x" * 99 + b"\n" + b"y" * 99 + b"\n")
        rig.run_until(lambda: len(rig.values) == 2, "short records")
        peer.sendall(b"z" * 2000)
        with pytest.raises(SourceError, match="longer than 1000 bytes"):
            rig.run_until(lambda: False, "the error")
    rig.close()


def test_it_is_connected_again_when_the_server_hangs_up(server: socket.socket) -> None:
    rig = SourceRig(SocketSource("127.0.0.1", port_of(server), max_retries=1, retry_interval_ms=1000))
    for text in ("a", "b"):
        with accept(rig, server) as peer:
            peer.sendall(f"{text}1\n{text}2".encode())
            rig.run_until(lambda last=f"{text}1": last in rig.values, "a record")  # type: ignore[misc]
    accept(rig, server).close()
    rig.run_to_end()
    assert rig.values == ["a1", "a2", "b1", "b2"]


def test_retries_wait_for_the_interval(server: socket.socket) -> None:
    rig = SourceRig(SocketSource("127.0.0.1", port_of(server), max_retries=-1, retry_interval_ms=10_000))
    accept(rig, server).close()
    wakeups = lambda: rig.operators[0].next_wakeup_ms()  # noqa: E731
    rig.run_until(lambda: (wakeups() or 0) > rig.clock.now_ms() + 5000, "the end of the connection")
    due = wakeups()
    accept(rig, server).close()
    assert due is not None and rig.clock.now_ms() >= due
    rig.close()


def test_a_server_that_is_not_there_fails_the_source_after_the_retries(server: socket.socket) -> None:
    port = port_of(server)
    server.close()
    for retries in (0, 3):
        rig = SourceRig(SocketSource("127.0.0.1", port, max_retries=retries))
        with pytest.raises(SourceError, match=f"no connection to 127.0.0.1:{port}: "):
            rig.run_until(lambda: False, "the error")
        rig.close()


def test_records_have_a_format_and_bad_ones_a_policy(server: socket.socket) -> None:
    source = SocketSource(
        "127.0.0.1", port_of(server), message_format=NdjsonFormat(ROW), bad_records=BadRecords.to_side_output()
    )
    rig = SourceRig(source)
    with accept(rig, server) as peer:
        peer.sendall(b'{"id": 1}\n\n{"id"\n{"id": 4}\n')
    rig.run_to_end()
    assert [row.id for row in rig.values] == [1, 4]
    (letter,) = rig.dead_letters
    assert (letter.origin, letter.position, letter.data) == (f"127.0.0.1:{port_of(server)}", "record 3", b'{"id"')


def test_a_restored_source_connects_again(server: socket.socket) -> None:
    first = SourceRig(SocketSource("127.0.0.1", port_of(server)))
    with accept(first, server) as peer:
        peer.sendall(b"a\n")
        first.run_until(lambda: first.values == ["a"], "a record")
        snapshots = first.snapshot()
        first.close()
    second = SourceRig(SocketSource("127.0.0.1", port_of(server)), snapshots=snapshots)
    with accept(second, server) as peer:
        peer.sendall(b"b\n")
    second.run_to_end()
    assert second.values == ["b"]


@pytest.mark.parametrize(
    "options", [{"port": 0}, {"delimiter": ""}, {"max_retries": -2}, {"buffer_bytes": 0}, {"retry_interval_ms": -1}]
)
def test_options_out_of_range_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        SocketSource(**{"host": "localhost", "port": 1, **options})  # type: ignore[arg-type]
