"""The leader's line: a TCP connection from every standby, over which nothing is sent. It breaks when the leader dies.

A killed process's connections are reset by its machine within milliseconds, long before its lease ends. A line that was
reset counts as the process's end if no other can be opened: a network that breaks resets nothing, and for a frozen
process its machine still accepts. The lease itself must stand still, too (`lease.DEAD_MS`).
"""

from __future__ import annotations

import socket
from contextlib import suppress
from ipaddress import ip_address

#: standbys that connect before the leader has accepted the earlier ones
BACKLOG = 128
CONNECT_TIMEOUT_S = 0.2


class LeaderListener:
    """Listens while this process lives. Used by one thread.

    Args:
        host: interface to listen on, by which other jobmanagers reach this one.

    Raises:
        OSError: this machine cannot listen there.
    """

    def __init__(self, host: str) -> None:
        family = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][0]
        self._socket = socket.create_server((host, 0), family=family, backlog=BACKLOG)
        self._socket.setblocking(False)
        self._lines: list[socket.socket] = []
        # numeric: looking up the name of a machine that is gone may take seconds
        number, port = self._socket.getsockname()[:2]
        self.address = f"{number}:{port}"

    def accept(self) -> None:
        """Accept what has connected, and forget what has disconnected. The machine holds the lines in the meantime."""
        with suppress(OSError):
            while True:
                line, _ = self._socket.accept()
                line.setblocking(False)
                self._lines.append(line)
        for line in [line for line in self._lines if _is_broken(line)]:
            line.close()
            self._lines.remove(line)

    def close(self) -> None:
        """End all lines: this process no longer leads."""
        for line in self._lines:
            line.close()
        self._lines.clear()
        self._socket.close()


class LeaderProbe:
    """A standby's end of the line. Used by one thread."""

    def __init__(self) -> None:
        self._address = ""
        self._line: socket.socket | None = None
        self._was_connected = False

    def has_ended(self, address: str) -> bool:
        """Return whether the process at that address is not there any more, as far as can be seen; takes up to 0.2 s.

        Elsewhere than on this machine, it must have been reached before.

        Args:
            address: host:port of the current leader; "": it has none.
        """
        if address != self._address:
            self.close()
            self._address, self._was_connected = address, False
        if not address:
            return False
        if self._line is not None and not _is_broken(self._line):
            return False
        self.close()
        host, _, port = address.rpartition(":")
        try:
            self._line = socket.create_connection((host, int(port)), CONNECT_TIMEOUT_S)
        except (OSError, ValueError) as error:
            # no firewall refuses on behalf of this machine itself
            is_certain = isinstance(error, ConnectionRefusedError) and ip_address(host).is_loopback
            return self._was_connected or is_certain
        self._line.setblocking(False)
        self._was_connected = True
        return False

    def close(self) -> None:
        """End the line."""
        if self._line is not None:
            self._line.close()
            self._line = None


def _is_broken(line: socket.socket) -> bool:
    try:
        return line.recv(64) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
