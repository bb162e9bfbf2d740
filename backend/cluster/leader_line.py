"""The leader's line: a TCP connection from every standby, over which only its seal is sent. It breaks when the leader
dies. Whoever does not say the seal within seconds, or more than that, is no standby, and is disconnected.

A killed process's connections are reset by its machine within milliseconds, long before its lease ends. A line that was
reset counts as the process's end if no other can be opened: a network that breaks resets nothing, and for a frozen
process its machine still accepts. The lease itself must stand still, too (`lease.DEAD_MS`).
"""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from ipaddress import ip_address

from backend.cluster.seals import is_seal, line_seal

#: standbys that connect before the leader has accepted the earlier ones
BACKLOG = 128
CONNECT_TIMEOUT_S = 0.2
#: connections whose seal has not come; the oldest gives way. A standby's comes with its connection
MAX_UNSEALED = 32
SEAL_TIMEOUT_S = 5.0
#: a cluster has a few JobManagers; the rest is room for lines that break unseen
MAX_LINES = 256
SEAL_CHARS = 64


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
        self._lines: list[_Line] = []
        # numeric: looking up the name of a machine that is gone may take seconds
        number, port = self._socket.getsockname()[:2]
        self.address = f"{number}:{port}"

    def accept(self) -> None:
        """Accept what has connected, and forget what has disconnected, or is no standby's. The machine holds the lines
        in the meantime."""
        with suppress(OSError):
            # strangers may connect faster than this accepts
            for _ in range(2 * BACKLOG):
                connection, _ = self._socket.accept()
                connection.setblocking(False)
                self._lines.append(_Line(connection))
                self._read(self._lines[-1:])
                if len(self._lines) > MAX_LINES + MAX_UNSEALED:
                    self._disconnect(self._excess())
        self._read(list(self._lines))
        self._disconnect(self._excess())

    @property
    def num_lines(self) -> int:
        """Of standbys, and of those that may be some."""
        return len(self._lines)

    def close(self) -> None:
        """End all lines: this process no longer leads."""
        self._disconnect(list(self._lines))
        self._socket.close()

    def _read(self, lines: list[_Line]) -> None:
        expected = line_seal(self.address)
        self._disconnect([line for line in lines if not line.read(expected)])

    def _excess(self) -> list[_Line]:
        sealed = [line for line in self._lines if line.is_sealed]
        unsealed = [line for line in self._lines if not line.is_sealed]
        return sealed[: max(0, len(sealed) - MAX_LINES)] + unsealed[: max(0, len(unsealed) - MAX_UNSEALED)]

    def _disconnect(self, lines: list[_Line]) -> None:
        for line in lines:
            line.connection.close()
            self._lines.remove(line)


class _Line:
    """The listener's end of a connection."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.is_sealed = False
        self._said = b""
        self._since_s = time.monotonic()

    def read(self, expected: str) -> bool:
        """Take what has come; return whether this is, or may still become, the line of a standby."""
        try:
            said = self.connection.recv(SEAL_CHARS + 1)
        except BlockingIOError:
            return self.is_sealed or time.monotonic() - self._since_s < SEAL_TIMEOUT_S
        except OSError:
            return False
        self._said += said
        if not said or len(self._said) > SEAL_CHARS:
            return False
        if len(self._said) == SEAL_CHARS:
            self.is_sealed = is_seal(self._said.decode("latin-1"), expected)
            return self.is_sealed
        return time.monotonic() - self._since_s < SEAL_TIMEOUT_S


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
        with suppress(OSError):
            # a new connection takes so few bytes at once
            self._line.sendall(line_seal(address).encode())
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
