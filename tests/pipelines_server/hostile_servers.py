"""Servers that let their clients wait: on real sockets, of this machine."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import BufferedIOBase
from typing import Final

_LOGGED_IN: Final = b"R\0\0\0\x08\0\0\0\0" + b"Z\0\0\0\x05I"
_DONE: Final = b"C\0\0\0\x06D\0" + b"Z\0\0\0\x05T"
Talk = Callable[[BufferedIOBase, BufferedIOBase, threading.Event], None]


@contextmanager
def serving(talk: Talk) -> Iterator[int]:
    """The port of a server.

    Args:
        talk: the conversation with a client: what it sends, what it is sent, and whether the server is to end.
    """
    is_over = threading.Event()

    class Handler(socketserver.StreamRequestHandler):
        wbufsize = 0

        def handle(self) -> None:
            # the client has left
            with suppress(ConnectionError, ValueError):
                talk(self.rfile, self.wfile, is_over)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield int(server.server_address[1])
        finally:
            is_over.set()
            server.shutdown()
            thread.join()


def is_silent(sent: BufferedIOBase, answers: BufferedIOBase, is_over: threading.Event) -> None:
    """Takes what it is sent, and says nothing."""
    while sent.read1(1 << 16):
        pass


def drips(sent: BufferedIOBase, answers: BufferedIOBase, is_over: threading.Event) -> None:
    """Sends a byte of an answer, and a while later the next."""
    answers.write(b"+")
    while not is_over.wait(0.1):
        answers.write(b"x")


def scans_for_ever(sent: BufferedIOBase, answers: BufferedIOBase, is_over: threading.Event) -> None:
    """A Redis whose keyspace has no end, and one stream at its beginning."""
    while command := _command(sent):
        match command[0].upper():
            case b"SCAN" if command[1] == b"0":
                answers.write(b"*2\r\n$1\r\n7\r\n*1\r\n$5\r\nbeats\r\n")
            case b"SCAN":
                answers.write(b"*2\r\n$1\r\n7\r\n*0\r\n")
            case b"HELLO":
                answers.write(b"%1\r\n$5\r\nproto\r\n:3\r\n")
            case _:
                answers.write(b"+OK\r\n")


def _command(sent: BufferedIOBase) -> list[bytes]:
    count = sent.readline()
    found = []
    for _ in range(int(count[1:] or b"0")):
        length = int(sent.readline()[1:])
        found.append(sent.read(length + 2)[:-2])
    return found


def logs_in(queries: list[bytes]) -> Talk:
    """A PostgreSQL that lets everybody in and begins transactions, but reads no table; it notes what it is asked."""

    def talk(sent: BufferedIOBase, answers: BufferedIOBase, is_over: threading.Event) -> None:
        sent.read(int.from_bytes(sent.read(4), "big") - 4)
        answers.write(_LOGGED_IN)
        # others than simple queries are of tables
        while sent.read(1) == b"Q":
            query = sent.read(int.from_bytes(sent.read(4), "big") - 4).rstrip(b"\0")
            queries.append(query)
            if query.startswith((b"BEGIN", b"SET")):
                answers.write(_DONE)
        is_silent(sent, answers, is_over)

    return talk
