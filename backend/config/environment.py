"""What the processes read from their environment, and the few secrets kept in files of TIDEMARK_HOME.

Every variable of Tidemark is read here and nowhere else. Nothing of Django is imported, so that the supervisor can use
it before the settings can be loaded.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

DEFAULT_PORT = 8000
DEFAULT_SLOTS = 4
REDIS_URL_FILE = "redis-url"
SECRET_KEY_FILE = "secret-key"
ADMIN_TOKEN_FILE = "admin-token"
URL_FILE = "url"


class EnvironmentProblem(Exception):
    """A variable or TIDEMARK_HOME cannot be used; the message is one line that says what to do."""


def home() -> Path:
    """TIDEMARK_HOME, absolute; not necessarily there yet."""
    return Path(os.environ.get("TIDEMARK_HOME") or ".tidemark").resolve()


def integer(name: str, default: int, low: int, high: int) -> int:
    """An integer variable.

    Raises:
        EnvironmentProblem: it is no integer in [low, high].
    """
    text = os.environ.get(name) or str(default)
    if not text.isdecimal() or not low <= int(text) <= high:
        raise EnvironmentProblem(f"{name}={text} must be a whole number from {low} to {high}")
    return int(text)


def port() -> int:
    """TIDEMARK_PORT: where the web process listens."""
    return integer("TIDEMARK_PORT", DEFAULT_PORT, 1, 65535)


def slots() -> int:
    """TIDEMARK_SLOTS: slots that a TaskManager offers."""
    return integer("TIDEMARK_SLOTS", DEFAULT_SLOTS, 1, 10_000)


def spark_master() -> str:
    """TIDEMARK_SPARK_MASTER: where a TaskManager's slots live; by default in the TaskManager itself."""
    return os.environ.get("TIDEMARK_SPARK_MASTER") or f"local[{slots()},1]"


def checkpoint_directory() -> str:
    """TIDEMARK_CHECKPOINT_DIR: where jobs keep checkpoints that name no directory, a path or a URI. Slots on other
    machines need one that they share."""
    return os.environ.get("TIDEMARK_CHECKPOINT_DIR") or ""


def savepoint_directory() -> str:
    """TIDEMARK_SAVEPOINT_DIR: where savepoints go that name no directory."""
    return os.environ.get("TIDEMARK_SAVEPOINT_DIR") or ""


def storage_roots() -> list[str]:
    """TIDEMARK_STORAGE_ROOTS: further directories, joined by commas, below which checkpoints and savepoints may be."""
    return names("TIDEMARK_STORAGE_ROOTS")


def names(variable: str, default: str = "") -> list[str]:
    """A variable with comma-separated names."""
    return [name.strip() for name in os.environ.get(variable, default).split(",") if name.strip()]


def redis_url() -> str:
    """REDIS_URL, else the server that `make run` started for this home, else the usual local one."""
    return os.environ.get("REDIS_URL") or read_secret(REDIS_URL_FILE) or "redis://127.0.0.1:6379/0"


def read_secret(name: str) -> str | None:
    """A secret of this home, if it is there."""
    try:
        return (home() / name).read_text().strip() or None
    except OSError:
        return None


def write_secret(name: str, value: str) -> None:
    """Put a secret into this home, readable by its owner only; takes effect at once or not at all."""
    path = home() / name
    temporary = path.with_name(f".{name}-{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(f"{value}\n")
    temporary.replace(path)


def ensure_secret(name: str, given: str | None) -> str:
    """The given secret, else that of this home, else a new random one that is kept there.

    Raises:
        EnvironmentProblem: the home cannot be written to.
    """
    if given:
        return given
    kept = read_secret(name)
    if kept is not None:
        return kept
    path = home() / name
    value = secrets.token_urlsafe(48)
    temporary = path.with_name(f".{name}-{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.touch(0o600)
        temporary.write_text(f"{value}\n")
        try:
            # processes that start together must agree: the first one's link stays
            os.link(temporary, path)
        except FileExistsError:
            value = path.read_text().strip()
        finally:
            temporary.unlink()
    except OSError as error:
        raise EnvironmentProblem(f"TIDEMARK_HOME {home()} cannot be written to: {error.strerror}") from error
    return value


def secret_key() -> str:
    """Django's secret: TIDEMARK_SECRET_KEY, else a file of this home."""
    return ensure_secret(SECRET_KEY_FILE, os.environ.get("TIDEMARK_SECRET_KEY"))


def database() -> dict[str, Any]:
    """Django's database settings of DATABASE_URL: postgres://user:password@host:port/name?option=value or
    sqlite:///path; by default SQLite in this home.

    Raises:
        EnvironmentProblem: the URL is of another kind.
    """
    url = os.environ.get("DATABASE_URL") or ""
    if not url:
        return _sqlite(str(home() / "db.sqlite3"))
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        return _sqlite(unquote(parts.path.removeprefix("/")) or str(home() / "db.sqlite3"))
    if parts.scheme in ("postgres", "postgresql"):
        return {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": unquote(parts.path.removeprefix("/")),
            "USER": unquote(parts.username or ""),
            "PASSWORD": unquote(parts.password or ""),
            "HOST": unquote(parts.hostname or ""),
            "PORT": str(parts.port or ""),
            "CONN_HEALTH_CHECKS": True,
            "OPTIONS": dict(parse_qsl(parts.query)),
        }
    raise EnvironmentProblem(f"DATABASE_URL must begin with postgres:// or sqlite:///, not {parts.scheme or url!r}")


def _sqlite(name: str) -> dict[str, Any]:
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": name,
        "OPTIONS": {
            # readers must not wait for the writer, and a transaction must not turn from reader into writer midway:
            # SQLite refuses that at once, whatever the timeout
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        },
    }
