"""Finds the session cluster to talk to: TIDEMARK_URL and TIDEMARK_TOKEN, else what `make run` has left in its home.

The home is TIDEMARK_HOME, else `.tidemark` of the working directory or of the nearest directory above that has one with
a server's address in it. A token from there is sent to that address only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from runtime.client.errors import ClientError

URL_FILE = "url"
TOKEN_FILE = "admin-token"
HOME_NAME = ".tidemark"


@dataclass(frozen=True, slots=True)
class Server:
    """A session cluster's web process."""

    url: str
    """Without a slash at the end."""
    token: str


class NoServerError(ClientError):
    """No server is known."""


def find_server(environment: Mapping[str, str], directory: Path) -> Server:
    """The server that commands go to.

    Args:
        environment: TIDEMARK_URL, TIDEMARK_TOKEN, TIDEMARK_HOME.
        directory: where to look for a home from, upwards.

    Raises:
        NoServerError: there is none, or no token for it, or its address is none.
    """
    at_home = _at_home(environment, directory)
    given = environment.get("TIDEMARK_URL", "").rstrip("/")
    url = given or (at_home.url if at_home else "")
    if not url:
        raise NoServerError(
            f"no server: neither TIDEMARK_URL nor a running cluster's {HOME_NAME} here or above; "
            "start one with `make run` or set TIDEMARK_URL and TIDEMARK_TOKEN"
        )
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise NoServerError(f"TIDEMARK_URL must read http://host:port or https://host, not {url!r}")
    token = environment.get("TIDEMARK_TOKEN", "")
    if not token and at_home is not None and at_home.url == url:
        token = at_home.token
    if not token:
        raise NoServerError(f"no token for {url}: set TIDEMARK_TOKEN")
    return Server(url, token)


def _at_home(environment: Mapping[str, str], directory: Path) -> Server | None:
    named = environment.get("TIDEMARK_HOME")
    homes = [directory / named] if named else [parent / HOME_NAME for parent in (directory, *directory.parents)]
    for home in homes:
        url = _read(home / URL_FILE)
        if url:
            return Server(url.rstrip("/"), _read(home / TOKEN_FILE))
    return None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
