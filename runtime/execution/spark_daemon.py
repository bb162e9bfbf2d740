"""The process that Spark's JVM starts as its Python daemon: it has the zygote fork the daemon, and ends when that does.

Imports next to nothing: the zygote imports the engine while the JVM starts. Without a zygote this process imports the
engine itself, and is the daemon.
"""

from __future__ import annotations

import importlib
import json
import os
import socket
import sys
from pathlib import Path

#: environment variable: path of the socket at which a zygote listens
ZYGOTE = "TIDEMARK_ZYGOTE"
STANDARD_STREAMS = (0, 1, 2)


def main() -> None:
    """Be Spark's daemon, or stand for it."""
    daemon = _forked_by_zygote()
    if daemon is None:
        importlib.import_module("runtime.execution.zygote").run_daemon()
        return
    # whoever has a copy of the other end has ended: the daemon, and its workers
    while daemon.recv(4096):
        pass


def _forked_by_zygote() -> socket.socket | None:
    """Return a connection to a daemon that has this process's streams, arguments and environment; None: no zygote."""
    path = os.environ.pop(ZYGOTE, None)
    if path is None:
        return None
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    request = {"arguments": sys.argv, "environment": dict(os.environ), "path": sys.path, "directory": str(Path.cwd())}
    try:
        connection.connect(path)
        body = json.dumps(request).encode()
        socket.send_fds(connection, [len(body).to_bytes(8, "big")], STANDARD_STREAMS)
        connection.sendall(body)
        if connection.recv(1) != b"y":
            connection.close()
            return None
    except OSError:
        connection.close()
        return None
    return connection


if __name__ == "__main__":
    main()
