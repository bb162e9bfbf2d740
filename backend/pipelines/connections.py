"""Connections: systems outside by name. Their secrets are values of the jobmanager's; rows have none.

A test or a description asks the system from this process, with the values that this process knows: those in the
cluster's home; it connects to public addresses and listed ones only (`addresses`). What comes back is redacted.
Blocking; any thread. Once a name is resolved, a test or a description takes `ASK_S` and little more, whatever the
system does.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import psycopg
import redis
from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import QuerySet

from backend.audit.redaction import redacted
from backend.cluster.connections import without_connection
from backend.cluster.services import now_ms
from backend.config import environment
from backend.pipelines.addresses import AddressRefusedError, Outside, connected_postgres, pinned_conninfo, pinned_redis
from backend.pipelines.deadline import Deadline
from backend.pipelines.kafka_brokers import Cluster, ask_cluster
from backend.pipelines.models import Connection
from runtime.common.secrets import SecretMissingError, SecretName
from runtime.connectors.postgres_table import table_shape
from runtime.core.redaction import Redaction

logger = logging.getLogger(__name__)

MAX_NAMES: Final = 500
ASK_S: Final = 5.0
"""More would hold threads of the web server for longer; less refuses systems that are far away or busy."""
SCAN_KEYS: Final = 1000
"""Of a Redis, looked at in a round trip."""
MAX_MESSAGE_CHARS: Final = 1000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_USER_INFO = re.compile(r"://[^/?#\s]*@")
T = TypeVar("T")


class ConnectionProblem(Exception):
    """Base of this module's errors; the message may be shown to the user."""


class ConnectionUnknownError(ConnectionProblem):
    """No connection has this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"There is no connection {name[:100]!r}.")


class ConnectionRefused(ConnectionProblem):
    """A connection cannot be stored like this.

    Attributes:
        field: of the request.
    """

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(reason)
        self.field = field


class OutsideError(ConnectionProblem):
    """The system outside cannot be asked, or refuses; without any secret."""


class OutsideRefusedError(OutsideError):
    """This cluster does not connect to where the connection leads."""


@dataclass(frozen=True, slots=True)
class Found:
    """Tells the tables, streams or topics behind a connection, or the columns of a table."""

    names: list[str]
    """Tables, streams or topics; empty if one of them was asked for."""
    is_all: bool = True
    """Whether there are no more of them; False also if not all could be looked at in time."""
    row: str | None = None
    columns: tuple[tuple[str, str], ...] = ()
    """(name, type) of each column of the one that was asked for."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of systems."""

    secrets: tuple[str, ...]
    options: tuple[str, ...]
    test: Callable[[Mapping[str, str], Deadline], str]
    """Given the secrets by key; returns what the system says of itself."""
    describe: Callable[[Mapping[str, str], str | None, Deadline], Found]
    """Given the secrets by key and a name."""


def list_connections() -> QuerySet[Connection]:
    """Return all connections, by name."""
    return Connection.objects.select_related("created_by").order_by("name")


def get_connection(name: str) -> Connection:
    """Return a connection.

    Raises:
        ConnectionUnknownError: there is none of this name.
    """
    found = Connection.objects.filter(name=name).first() if _NAME.fullmatch(name) else None
    if found is None:
        raise ConnectionUnknownError(name)
    return found


def put_connection(name: str, kind: str, options: Mapping[str, str], user: User) -> Connection:
    """Create a connection or replace it.

    Args:
        name: by which documents refer to it; also of its secrets.
        kind: one of `KINDS`.
        options: what is no secret.
        user: who does it.

    Raises:
        ConnectionRefused: something is wrong, or an option holds a secret.
    """
    if not _NAME.fullmatch(name):
        raise ConnectionRefused("name", "A name has up to 100 letters, digits, and _ . -")
    if kind not in KINDS:
        raise ConnectionRefused("kind", f"Must be one of {', '.join(KINDS)}.")
    unknown = sorted(options.keys() - set(KINDS[kind].options))
    if unknown:
        raise ConnectionRefused(f"options.{unknown[0]}", f"A {kind} connection has no such option.")
    if redacted(options) != dict(options) or any(_USER_INFO.search(value) for value in options.values()):
        raise ConnectionRefused("options", "Must not contain a secret: set its value on the JobManager.")
    values = {"kind": kind, "options": dict(options), "updated_at": now_ms(), "tested_at": None, "test_result": None}
    row, _ = Connection.objects.update_or_create(
        name=name, defaults=values, create_defaults={**values, "created_by": user}
    )
    logger.info("%s wrote connection %s (%s)", user, name, kind)
    return row


def delete_connection(name: str) -> None:
    """Delete a connection if it is there; its secrets are not the cluster's to delete."""
    Connection.objects.filter(name=name).delete()


def secrets_of(connection: Connection) -> list[SecretName]:
    """Return the names of the secrets that it needs."""
    return [(connection.name, key) for key in KINDS[connection.kind].secrets]


def values_of(names: Collection[str]) -> dict[SecretName, str]:
    """Return the values of the secrets of connections, for a preview.

    Raises:
        SecretMissingError: this process does not know one.
    """
    known = {row.name: secrets_of(row) for row in Connection.objects.filter(name__in=names)}
    # a deployment asks for the URL, too, whether somebody has written down of what kind the system is or not
    wanted = [secret for name in sorted(names) for secret in known.get(name, [(name, "url")])]
    return environment.secret_store().resolve(wanted)


def is_known(secret: SecretName) -> bool:
    """Return whether this process knows a secret's value."""
    with suppress(SecretMissingError):
        return bool(environment.secret_store().resolve([secret]))
    return False


def test_connection(connection: Connection) -> OutsideError | None:
    """Ask the system for a sign of life, and record {"ok", "message"}; return why there was none."""
    failure: OutsideError | None = None
    try:
        result = {"ok": True, "message": _asked(connection, KINDS[connection.kind].test)[:MAX_MESSAGE_CHARS]}
    except OutsideError as error:
        failure, result = error, {"ok": False, "message": str(error)}
    now = now_ms()
    # unless it was replaced meanwhile
    Connection.objects.filter(name=connection.name, updated_at=connection.updated_at).update(
        tested_at=now, test_result=result
    )
    connection.tested_at, connection.test_result = now, result
    return failure


def describe_connection(connection: Connection, name: str | None = None) -> Found:
    """Return what is behind a connection.

    Args:
        connection: the connection.
        name: a table; None: the names that there are, at most 500, or those that were found in time.

    Raises:
        OutsideError: the system cannot be asked, or has no such table.
    """
    return _asked(connection, lambda values, deadline: KINDS[connection.kind].describe(values, name, deadline))


def _asked(connection: Connection, ask: Callable[[Mapping[str, str], Deadline], T]) -> T:
    values: dict[SecretName, str] = {}
    deadline = Deadline(ASK_S)
    try:
        values = environment.secret_store().resolve(secrets_of(connection))
        with without_connection(), deadline:
            return ask({key: value for (_, key), value in values.items()}, deadline)
    except SecretMissingError as error:
        raise OutsideError(str(error)) from None
    except (psycopg.Error, redis.RedisError, OSError, ValueError) as error:
        if deadline.is_over and not isinstance(error, ValueError):
            raise OutsideError(f"it has not answered within {deadline.seconds:g} seconds") from None
        kind = OutsideRefusedError if isinstance(error, AddressRefusedError) else OutsideError
        # without its cause, which may quote a secret
        raise kind(Redaction(values)(str(error)).strip()[:MAX_MESSAGE_CHARS] or type(error).__name__) from None


def _outside() -> Outside:
    """Return what may be connected to.

    Raises:
        ValueError: the setting cannot be read.
    """
    return Outside(settings.TIDEMARK_OUTSIDE_ADDRESSES)


@contextmanager
def _postgres(values: Mapping[str, str], deadline: Deadline) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """Connect, and begin a transaction that ends with the block."""
    connection = connected_postgres(pinned_conninfo(values["url"], _outside()), deadline)
    try:
        # the server ends a statement for which nobody waits any more; local: a pooler gives its session to others
        connection.execute(f"SET LOCAL statement_timeout = {math.ceil(ASK_S * 1000)}")
        yield connection
        connection.rollback()
    finally:
        connection.close()


def _test_postgres(values: Mapping[str, str], deadline: Deadline) -> str:
    with _postgres(values, deadline) as connection:
        row = connection.execute("SELECT version()").fetchone()
    return str(row[0]) if row else ""


def _describe_postgres(values: Mapping[str, str], name: str | None, deadline: Deadline) -> Found:
    with _postgres(values, deadline) as connection:
        if name is not None:
            shape = table_shape(connection, name, None, None)
            columns = tuple((column.name, column.type_info.type_string()) for column in shape.columns)
            return Found([], row=shape.row_type.type_string(), columns=columns)
        rows = connection.execute(
            "SELECT CASE WHEN table_schema = current_schema() THEN '' ELSE table_schema || '.' END || table_name "
            "FROM information_schema.tables WHERE table_schema NOT IN ('pg_catalog', 'information_schema') "
            "ORDER BY 1 LIMIT %s",
            [MAX_NAMES + 1],
        ).fetchall()
    return Found([str(name) for (name,) in rows[:MAX_NAMES]], is_all=len(rows) <= MAX_NAMES)


def _redis(values: Mapping[str, str], deadline: Deadline) -> redis.Redis:
    return pinned_redis(
        values["url"], _outside(), deadline, socket_timeout=ASK_S, socket_connect_timeout=ASK_S, retry=None
    )


def _test_redis(values: Mapping[str, str], deadline: Deadline) -> str:
    with _redis(values, deadline) as client:
        info: Any = client.info("server")
    return f"Redis {info.get('redis_version', '')}".strip()


def _describe_redis(values: Mapping[str, str], name: str | None, deadline: Deadline) -> Found:
    if name is not None:
        raise ValueError("a Redis stream has no columns: the node's format defines them")
    names: set[str] = set()
    cursor, is_begun = 0, False
    with _redis(values, deadline) as client:
        while cursor or not is_begun:
            if is_begun and (deadline.is_over or len(names) > MAX_NAMES):
                break
            try:
                answer: Any = client.scan(cursor, count=SCAN_KEYS, _type="stream")
            except (redis.RedisError, OSError):
                if is_begun and deadline.is_over:
                    break
                raise
            (cursor, keys), is_begun = answer, True
            # a server that is no Redis may send anything
            names.update(key.decode(errors="replace") for key in keys if isinstance(key, bytes))
    return Found(sorted(names)[:MAX_NAMES], is_all=cursor == 0 and len(names) <= MAX_NAMES)


def _kafka(values: Mapping[str, str], deadline: Deadline) -> Cluster:
    return ask_cluster(values["url"], _outside(), deadline)


def _test_kafka(values: Mapping[str, str], deadline: Deadline) -> str:
    cluster = _kafka(values, deadline)
    brokers = "1 broker answers" if len(cluster.brokers) == 1 else f"all {len(cluster.brokers)} brokers answer"
    topics = "1 topic is" if len(cluster.topics) == 1 else f"{len(cluster.topics)} topics are"
    return f"Kafka cluster {cluster.cluster_id}: {brokers}, {topics} visible"


def _describe_kafka(values: Mapping[str, str], name: str | None, deadline: Deadline) -> Found:
    if name is not None:
        raise ValueError("a topic has no columns: the node's format defines them")
    topics = _kafka(values, deadline).topics
    return Found(list(topics[:MAX_NAMES]), is_all=len(topics) <= MAX_NAMES)


KINDS: Final[Mapping[str, Kind]] = {
    "postgres": Kind(("url",), (), _test_postgres, _describe_postgres),
    "redis": Kind(("url",), (), _test_redis, _describe_redis),
    "kafka": Kind(("url",), (), _test_kafka, _describe_kafka),
}
