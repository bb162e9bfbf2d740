"""Finds the session cluster to talk to: by TIDEMARK_URL and TIDEMARK_TOKEN, else by the home that `make run` left.

The home is TIDEMARK_HOME, else `.tidemark` of the working directory or of the nearest directory above that has one with
a server's address in it. A token from there is sent to that address only.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from runtime.client.errors import ClientError

URL_FILE = "url"
TOKEN_FILE = "admin-token"
LOCK_FILE = "lock"
"""Has the pid of the process that runs the home's cluster, or ran it last."""
HOME_NAME = ".tidemark"
TOKEN_HINT = "set TIDEMARK_TOKEN, or TIDEMARK_HOME to the home of its cluster"


@dataclass(frozen=True, slots=True)
class Server:
    """A session cluster's web process."""

    url: str
    """Without a slash at the end."""
    token: str
    home: Path | None = None
    """Where the address was found; None: it was given."""


class NoServerError(ClientError):
    """No server is known."""


def find_server(environment: Mapping[str, str], directory: Path) -> Server:
    """Return the server that commands go to.

    Args:
        environment: TIDEMARK_URL, TIDEMARK_TOKEN, TIDEMARK_HOME.
        directory: where to look for a home from, upwards.

    Raises:
        NoServerError: there is none, or no token for it, or the address is invalid.
    """
    at_home = _at_home(environment, directory)
    given = environment.get("TIDEMARK_URL", "").rstrip("/")
    url = given or (at_home.url if at_home else "")
    if not url:
        raise NoServerError(_no_server(environment.get("TIDEMARK_HOME"), directory))
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise NoServerError(f"TIDEMARK_URL must read http://host:port or https://host, not {url!r}")
    token = environment.get("TIDEMARK_TOKEN", "")
    if not token and at_home is not None and at_home.url == url:
        token = at_home.token
    if not token:
        raise NoServerError(f"no token for {url}: {TOKEN_HINT}")
    return Server(url, token, at_home.home if at_home is not None and at_home.url == url else None)


def _no_server(named_home: str | None, directory: Path) -> str:
    for home in _homes(named_home, directory):
        if (pid := _read(home / LOCK_FILE)) and _lives(pid):
            return f"the cluster of {home} is starting or ending (process {pid}): try again in a moment"
    if named_home:
        found = f"no cluster is running whose home is TIDEMARK_HOME, {directory / named_home}"
        return f"{found}: start it with `make run`, or name the home of the one that is running"
    return (
        f"no cluster found: no {HOME_NAME} here or above is the home of a running one. Start one with `make run`; "
        "if one runs with a TIDEMARK_HOME of its own, set the same here; if one runs elsewhere, set TIDEMARK_URL "
        "and TIDEMARK_TOKEN"
    )


def _at_home(environment: Mapping[str, str], directory: Path) -> Server | None:
    for home in _homes(environment.get("TIDEMARK_HOME"), directory):
        url = _read(home / URL_FILE)
        if url:
            return Server(url.rstrip("/"), _read(home / TOKEN_FILE), home)
    return None


def _homes(named_home: str | None, directory: Path) -> list[Path]:
    return [directory / named_home] if named_home else [d / HOME_NAME for d in (directory, *directory.parents)]


def _lives(pid: str) -> bool:
    with suppress(ValueError, ProcessLookupError):
        # another user's process may not be signalled, but is there
        with suppress(PermissionError):
            os.kill(int(pid), 0)
        return True
    return False


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
