"""Environment variables of the processes, and the few secrets kept in files of TIDEMARK_HOME.

Every Tidemark variable is read here and nowhere else. This module does not import Django, so that the supervisor can
use it before the settings can be loaded.
"""

from __future__ import annotations

import ipaddress
import os
import re
import secrets
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from runtime.client.confinement import Confinement
from runtime.common.references import FILES_VARIABLE, VARIABLES_VARIABLE, ReferenceRules
from runtime.common.secrets import ENVIRONMENT_PREFIX, SECRETS_FILE, SecretStore

DEFAULT_PORT = 8000
DEFAULT_SLOTS = 4
DEFAULT_REDIS_PREFIX = "tidemark"
DEFAULT_JOBMANAGERS = 1
DEFAULT_WEB_PROCESSES = 1
DEFAULT_DRAIN_TIMEOUT_S = 30
DEFAULT_KEPT_LOGS = 20
DEFAULT_JOB_LOGS_MIB = 4096
DEFAULT_KEPT_JOBS = 500
DEFAULT_SUBMISSIONS_PER_MINUTE = 240
"""Two programs are planned at a time, for a second or so: a script that submits without a pause stays below."""
DEFAULT_SAVEPOINTS_PER_MINUTE = 60
"""Of a user: a script that asks for one of each of many jobs stays below it, one that does not wait does not."""
DEFAULT_JOBS_PER_USER = 200
"""More than a user needs who shares a cluster, and fewer than a script starts that looks at nothing it has started."""
DEFAULT_SOCKETS_PER_USER = 100
"""Each tab of a browser has one."""
DEFAULT_QUOTA_MIB = 10_240
"""Forty programs of the largest size, or many thousands of usual ones."""
DEFAULT_QUOTA_PROGRAMS = 10_000
"""Each version of a pipeline that is deployed is one."""
ROUTES = {
    "admin",
    "api",
    "applications",
    "config",
    "datasets",
    "jars",
    "jobmanager",
    "jobs",
    "livez",
    "login",
    "metrics",
    "overview",
    "readyz",
    "savepoint-disposal",
    "static",
    "taskmanagers",
    "ui",
    "v1",
    "ws",
}
"""First parts of the server's own paths. A base path may not begin with one: nobody could tell which is meant."""
MIN_KEPT_JOBS = 100
"""The overview lists as many."""
REDIS_URL_FILE = "redis-url"
SECRET_KEY_FILE = "secret-key"
ADMIN_TOKEN_FILE = "admin-token"
URL_FILE = "url"

MIN_SECRET_CHARS = 32
"""Of keys and tokens that are given: `openssl rand -hex 16` has as many. Shorter ones can be guessed offline."""
LOOPBACK_HOSTS = ("localhost",)
UNIX_SOCKET = "unix"
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_BASE_PATH = re.compile(r"(?:/[A-Za-z0-9_~-][A-Za-z0-9_.~-]*)*")
_REDIS_PREFIX = re.compile(r"[A-Za-z0-9_.:-]{1,100}")
#: how soon a connection to a server that is gone is given up; without these the kernel waits for minutes or for ever
_POSTGRESQL_CONNECTION = {
    "connect_timeout": "5",
    "keepalives": "1",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "15000",
}
#: how long the server may take, in ms. Every statement is short, and is repeated, or its client is told to retry. A
#: process that is frozen within a transaction must not hold its locks until it thaws
_POSTGRESQL_SESSION = {
    "lock_timeout": 5_000,
    "statement_timeout": 30_000,
    "idle_in_transaction_session_timeout": 20_000,
}


class EnvironmentProblem(Exception):
    """An environment variable or TIDEMARK_HOME is unusable; the message is one line that says what to do."""


def home() -> Path:
    """Return TIDEMARK_HOME as an absolute path; it may not exist yet."""
    return Path(os.environ.get("TIDEMARK_HOME") or ".tidemark").resolve()


def host() -> str:
    """Return TIDEMARK_HOST: the address that the web process listens on, without brackets."""
    return (os.environ.get("TIDEMARK_HOST") or "127.0.0.1").strip("[]")


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address; a name other than localhost may be anybody's."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host in LOOPBACK_HOSTS


def check_exposure(host: str) -> None:
    """Check that passwords and tokens do not travel in the clear.

    Raises:
        EnvironmentProblem: other machines reach the address, and neither TLS nor its absence is declared.
    """
    is_declared = is_on("TIDEMARK_HTTPS", default=False) or is_on("TIDEMARK_INSECURE", default=False)
    if not is_loopback(host) and not is_declared:
        raise EnvironmentProblem(
            f"TIDEMARK_HOST={host} is reached from other machines, and tokens would travel in the clear: put a proxy "
            "with TLS in front and set TIDEMARK_HTTPS=1, or set TIDEMARK_INSECURE=1 if nobody can listen in"
        )


def check_secret(name: str, value: str) -> str:
    """Return a secret that was given.

    Raises:
        EnvironmentProblem: it is too short to be one.
    """
    if len(value) < MIN_SECRET_CHARS:
        raise EnvironmentProblem(
            f"{name} has {len(value)} characters and needs {MIN_SECRET_CHARS} or more: `openssl rand -hex 32` makes one"
        )
    return value


def integer(name: str, default: int, low: int, high: int) -> int:
    """Read an integer variable.

    Raises:
        EnvironmentProblem: it is not an integer in [low, high].
    """
    text = os.environ.get(name) or str(default)
    if not text.isdecimal() or not low <= int(text) <= high:
        raise EnvironmentProblem(f"{name}={text} must be a whole number from {low} to {high}")
    return int(text)


def port() -> int:
    """Return TIDEMARK_PORT: the port that the web process listens on."""
    return integer("TIDEMARK_PORT", DEFAULT_PORT, 1, 65535)


def base_path() -> str:
    """Return TIDEMARK_BASE_PATH: what the paths of all addresses begin with, "/tidemark"; "": they are at the root.

    Raises:
        EnvironmentProblem: it is none, or begins as one of the server's own paths does.
    """
    given = os.environ.get("TIDEMARK_BASE_PATH") or ""
    path = f"/{given.strip('/')}".rstrip("/")
    if not _BASE_PATH.fullmatch(path):
        raise EnvironmentProblem(
            f"TIDEMARK_BASE_PATH={given} must read /name or /name/name, of letters, digits and _ . ~ -"
        )
    first = path.split("/")[1] if path else ""
    if first in ROUTES:
        raise EnvironmentProblem(f"TIDEMARK_BASE_PATH={given} begins as the server's own /{first}: choose another name")
    return path


def slots() -> int:
    """Return TIDEMARK_SLOTS: the number of task slots that a TaskManager offers."""
    return integer("TIDEMARK_SLOTS", DEFAULT_SLOTS, 1, 10_000)


def drain_timeout_s() -> int:
    """Return TIDEMARK_DRAIN_TIMEOUT: seconds that a TaskManager that gets SIGTERM has to hand over its jobs."""
    return integer("TIDEMARK_DRAIN_TIMEOUT", DEFAULT_DRAIN_TIMEOUT_S, 0, 86_400)


def log_format() -> str:
    """Return TIDEMARK_LOG_FORMAT, of the processes' own logs: "line" or "json".

    Raises:
        EnvironmentProblem: it is neither.
    """
    given = os.environ.get("TIDEMARK_LOG_FORMAT") or "line"
    if given not in ("line", "json"):
        raise EnvironmentProblem(f"TIDEMARK_LOG_FORMAT={given} must be line or json")
    return given


def kept_logs() -> int:
    """Return TIDEMARK_KEPT_LOGS: of so many of its newest attempts the logs of a job are kept."""
    return integer("TIDEMARK_KEPT_LOGS", DEFAULT_KEPT_LOGS, 1, 1_000_000)


def job_logs_mib() -> int:
    """Return TIDEMARK_JOB_LOGS_MIB: of all attempts and slots of a job so much is kept of the logs; 0: everything."""
    return integer("TIDEMARK_JOB_LOGS_MIB", DEFAULT_JOB_LOGS_MIB, 0, 1 << 30)


def allowed_programs() -> str:
    """Return TIDEMARK_ALLOWED_PROGRAMS: a file of sha256 digests, as `sha256sum` writes it, of the only programs that
    are taken; empty: all are."""
    return os.environ.get("TIDEMARK_ALLOWED_PROGRAMS") or ""


def submissions_per_minute() -> int:
    """Return TIDEMARK_SUBMISSIONS_PER_MINUTE: so much a user may submit; 0: without a limit."""
    return integer("TIDEMARK_SUBMISSIONS_PER_MINUTE", DEFAULT_SUBMISSIONS_PER_MINUTE, 0, 1_000_000)


def savepoints_per_minute() -> int:
    """Return TIDEMARK_SAVEPOINTS_PER_MINUTE: so many savepoints and checkpoints a user may ask for; 0: no limit."""
    return integer("TIDEMARK_SAVEPOINTS_PER_MINUTE", DEFAULT_SAVEPOINTS_PER_MINUTE, 0, 1_000_000)


def jobs_per_user() -> int:
    """Return TIDEMARK_JOBS_PER_USER: so many jobs that have not ended a user may have; 0: no limit."""
    return integer("TIDEMARK_JOBS_PER_USER", DEFAULT_JOBS_PER_USER, 0, 1_000_000)


def sockets_per_user() -> int:
    """Return TIDEMARK_SOCKETS_PER_USER: so many WebSockets a user may have open; 0: without a limit."""
    return integer("TIDEMARK_SOCKETS_PER_USER", DEFAULT_SOCKETS_PER_USER, 0, 1_000_000)


def quota_mib() -> int:
    """Return TIDEMARK_QUOTA_MIB: so much the programs of a user may take in the storage; 0: without a limit."""
    return integer("TIDEMARK_QUOTA_MIB", DEFAULT_QUOTA_MIB, 0, 1 << 30)


def quota_programs() -> int:
    """Return TIDEMARK_QUOTA_PROGRAMS: so many programs a user may have; 0: without a limit."""
    return integer("TIDEMARK_QUOTA_PROGRAMS", DEFAULT_QUOTA_PROGRAMS, 0, 1_000_000)


def environments_mib() -> int:
    """Return TIDEMARK_ENVIRONMENTS_MIB: so much the Python packages of all jobs may take in the storage; 0: without a
    limit."""
    return integer("TIDEMARK_ENVIRONMENTS_MIB", DEFAULT_QUOTA_MIB, 0, 1 << 30)


def admin_quota_mib() -> int:
    """Return TIDEMARK_ADMIN_QUOTA_MIB: as TIDEMARK_QUOTA_MIB, for administrators; by default without a limit."""
    return integer("TIDEMARK_ADMIN_QUOTA_MIB", 0, 0, 1 << 30)


def admin_quota_programs() -> int:
    """Return TIDEMARK_ADMIN_QUOTA_PROGRAMS: likewise of TIDEMARK_QUOTA_PROGRAMS."""
    return integer("TIDEMARK_ADMIN_QUOTA_PROGRAMS", 0, 0, 1_000_000)


def kept_jobs() -> int:
    """Return TIDEMARK_KEPT_JOBS: so many of the jobs that have ended are kept, and as many of those with snapshots."""
    return integer("TIDEMARK_KEPT_JOBS", DEFAULT_KEPT_JOBS, MIN_KEPT_JOBS, 1_000_000)


def jobmanagers() -> int:
    """Return TIDEMARK_JOBMANAGERS: how many of them `make run` starts; one leads, the others stand by."""
    return integer("TIDEMARK_JOBMANAGERS", DEFAULT_JOBMANAGERS, 1, 10)


def web_processes() -> int:
    """Return TIDEMARK_WEB_PROCESSES: so many `make run` starts, which share a port; one answers on one core."""
    return integer("TIDEMARK_WEB_PROCESSES", DEFAULT_WEB_PROCESSES, 1, 32)


def spark_master() -> str:
    """Return TIDEMARK_SPARK_MASTER: where a TaskManager's slots run; by default in local Spark of the TaskManager."""
    return os.environ.get("TIDEMARK_SPARK_MASTER") or f"local[{slots()},1]"


def storage_directory() -> str:
    """Return TIDEMARK_STORAGE_DIR: the directory (path or URI) of everything that processes on several machines share:
    uploaded programs, logs of jobs, and, unless configured otherwise, checkpoints and savepoints."""
    return os.environ.get("TIDEMARK_STORAGE_DIR") or ""


def checkpoint_directory() -> str:
    """Return TIDEMARK_CHECKPOINT_DIR: the checkpoint directory (path or URI) of jobs that configure none. Slots on
    other machines need a shared one."""
    return os.environ.get("TIDEMARK_CHECKPOINT_DIR") or ""


def savepoint_directory() -> str:
    """Return TIDEMARK_SAVEPOINT_DIR: the directory of savepoints that name none."""
    return os.environ.get("TIDEMARK_SAVEPOINT_DIR") or ""


def storage_roots() -> list[str]:
    """Return TIDEMARK_STORAGE_ROOTS: further directories (comma-separated) that may hold checkpoints and savepoints."""
    return names("TIDEMARK_STORAGE_ROOTS")


def confinement() -> Confinement:
    """Return what programs that are planned may see of this machine: nothing of this cluster's files, and no network
    unless TIDEMARK_PLAN_NETWORK=1."""
    database = urlsplit(os.environ.get("DATABASE_URL") or "")
    places = [
        str(home()),
        unquote(database.path.removeprefix("/")) if database.scheme == "sqlite" else "",
        *(local_path(place) for place in (storage_directory(), checkpoint_directory(), savepoint_directory())),
    ]
    return Confinement(
        hidden=[str(Path(place).resolve()) for place in places if place],
        has_network=is_on("TIDEMARK_PLAN_NETWORK", default=False),
    )


def preview_confinement() -> Confinement:
    """Return the same of programs that are previewed or tested: they have the network if TIDEMARK_PREVIEW_NETWORK=1."""
    return replace(confinement(), has_network=is_on("TIDEMARK_PREVIEW_NETWORK", default=False))


def local_path(location: str) -> str:
    """Return the path of a directory on this machine; "": it is none."""
    parts = urlsplit(location)
    return unquote(parts.path) if parts.scheme in ("", "file") else ""


def is_on(variable: str, *, default: bool) -> bool:
    """Return whether a switch is on: 1, or 0; empty: the default.

    Raises:
        EnvironmentProblem: it is something else. Whoever writes "false" or "yes" must not get the opposite.
    """
    text = os.environ.get(variable) or ""
    if text not in ("", "0", "1"):
        raise EnvironmentProblem(f"{variable}={text} must be 0 or 1")
    return default if not text else text == "1"


def names(variable: str, default: str = "") -> list[str]:
    """Return the items of a comma-separated variable."""
    return [name.strip() for name in os.environ.get(variable, default).split(",") if name.strip()]


def trusted_proxies() -> list[Network | str]:
    """Return TIDEMARK_TRUSTED_PROXIES: addresses and networks of the proxies whose X-Forwarded-For is believed, and
    `unix` for whatever connects through a socket of this machine.

    Raises:
        EnvironmentProblem: an item is none of these.
    """
    found: list[Network | str] = []
    for item in names("TIDEMARK_TRUSTED_PROXIES"):
        try:
            found.append(item if item == UNIX_SOCKET else ipaddress.ip_network(item))
        except ValueError as error:
            raise EnvironmentProblem(
                f"TIDEMARK_TRUSTED_PROXIES: {item} is neither an address nor a network such as 10.0.0.0/24, nor unix"
            ) from error
    return found


def redis_url() -> str:
    """Return REDIS_URL, else the URL of the server that `make run` started for this home, else the usual local one.

    Raises:
        EnvironmentProblem: it leads to another machine without a password.
    """
    url = os.environ.get("REDIS_URL") or read_secret(REDIS_URL_FILE) or "redis://127.0.0.1:6379/0"
    parts = urlsplit(url)
    if parts.scheme != "unix" and not parts.password and not is_loopback(parts.hostname or "localhost"):
        raise EnvironmentProblem(
            f"REDIS_URL leads to {parts.hostname} without a password: whoever reaches that server could read what runs "
            "and disturb it. Give it one: redis://:password@host:port/0"
        )
    return url


def redis_prefix() -> str:
    """Return TIDEMARK_REDIS_PREFIX: every key, queue and channel of this cluster in Redis begins with it and a colon.

    Raises:
        EnvironmentProblem: it has characters that mean something in patterns of keys.
    """
    prefix = os.environ.get("TIDEMARK_REDIS_PREFIX") or DEFAULT_REDIS_PREFIX
    if not _REDIS_PREFIX.fullmatch(prefix):
        raise EnvironmentProblem(f"TIDEMARK_REDIS_PREFIX={prefix} must consist of letters, digits and _ . : -")
    return prefix


def read_secret(name: str) -> str | None:
    """Return a secret of this home; None if there is none."""
    try:
        return (home() / name).read_text().strip() or None
    except OSError:
        return None


def write_secret(name: str, value: str) -> None:
    """Write a secret to this home atomically, readable by its owner only."""
    path = home() / name
    temporary = path.with_name(f".{name}-{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(f"{value}\n")
    temporary.replace(path)


def ensure_secret(name: str, given: str | None) -> str:
    """Return the given secret, else the one in this home, else a new random one, which is stored there.

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
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary.touch(0o600)
        temporary.write_text(f"{value}\n")
        try:
            # processes that start together must agree: the first link wins
            os.link(temporary, path)
        except FileExistsError:
            value = path.read_text().strip()
        finally:
            temporary.unlink()
    except OSError as error:
        raise EnvironmentProblem(f"TIDEMARK_HOME {home()} cannot be written to: {error.strerror}") from error
    return value


def secret_key() -> str:
    """Return Django's secret key: TIDEMARK_SECRET_KEY, else the one in this home.

    Raises:
        EnvironmentProblem: it is too short.
    """
    given = os.environ.get("TIDEMARK_SECRET_KEY")
    try:
        return ensure_secret(SECRET_KEY_FILE, given and check_secret("TIDEMARK_SECRET_KEY", given))
    except EnvironmentProblem:
        if given or not os.environ.get("TIDEMARK_CLUSTER_KEY"):
            raise
        # JobManagers and TaskManagers sign no sessions, and their home need not be writable
        return secrets.token_urlsafe(48)


def former_secret_keys() -> list[str]:
    """Return TIDEMARK_FORMER_SECRET_KEYS: secret keys that were replaced, whose signatures are still good.

    Raises:
        EnvironmentProblem: one is too short.
    """
    return _former_keys("TIDEMARK_FORMER_SECRET_KEYS")


def cluster_keys(secret_keys: list[str]) -> list[str]:
    """Return the keys of the cluster's own signatures and seals: TIDEMARK_CLUSTER_KEY, which makes new ones, and
    TIDEMARK_FORMER_CLUSTER_KEYS, which it has replaced.

    Args:
        secret_keys: Django's, current and former: the cluster's, too, unless it has one of its own.

    Raises:
        EnvironmentProblem: one is too short, or there are former ones alone.
    """
    given, former = os.environ.get("TIDEMARK_CLUSTER_KEY"), _former_keys("TIDEMARK_FORMER_CLUSTER_KEYS")
    if given:
        return [check_secret("TIDEMARK_CLUSTER_KEY", given), *former]
    if former:
        raise EnvironmentProblem("TIDEMARK_FORMER_CLUSTER_KEYS is set, and TIDEMARK_CLUSTER_KEY is not")
    return secret_keys


def _former_keys(variable: str) -> list[str]:
    return [check_secret(variable, key) for key in names(variable)]


def job_secrets() -> dict[str, str]:
    """Return TIDEMARK_SECRET_<NAME>_<KEY>: values of the secrets that jobs refer to by name."""
    own = "TIDEMARK_SECRET_KEY"
    return {name: value for name, value in os.environ.items() if name.startswith(ENVIRONMENT_PREFIX) and name != own}


def secret_store() -> SecretStore:
    """Return where a jobmanager looks up the secrets of jobs: variables, then a file of this home; and what references
    may name.

    Raises:
        EnvironmentProblem: see `reference_rules`.
    """
    return SecretStore(job_secrets(), home() / SECRETS_FILE, reference_rules())


def reference_rules() -> ReferenceRules:
    """Return what ${env:NAME} and ${file:/path} may name: TIDEMARK_REFERENCE_VARIABLES, TIDEMARK_REFERENCE_FILES. Of
    this home they name nothing.

    Raises:
        EnvironmentProblem: a file is relative, or the name of a variable has no beginning.
    """
    try:
        return ReferenceRules.of_environment(os.environ, (home(),))
    except ValueError as error:
        raise EnvironmentProblem(f"{VARIABLES_VARIABLE} and {FILES_VARIABLE}: {error}") from error


def database() -> dict[str, Any]:
    """Return Django's database settings for DATABASE_URL: postgres://user:password@host:port/name?option=value or
    sqlite:///path; by default SQLite in this home. Options of libpq in the URL replace those set here.

    Raises:
        EnvironmentProblem: the URL has another scheme.
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
            "OPTIONS": {
                **_POSTGRESQL_CONNECTION,
                "options": " ".join(f"-c {name}={value}" for name, value in _POSTGRESQL_SESSION.items()),
                **dict(parse_qsl(parts.query, keep_blank_values=True)),
            },
        }
    raise EnvironmentProblem(f"DATABASE_URL must begin with postgres:// or sqlite:///, not {parts.scheme or url!r}")


def _sqlite(name: str) -> dict[str, Any]:
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": name,
        "OPTIONS": {
            # WAL: readers must not wait for the writer. IMMEDIATE: SQLite refuses a transaction that turns from reader
            # into writer at once, whatever the timeout
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        },
    }
