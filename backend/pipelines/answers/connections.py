"""Connections."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

ConnectionKind = Literal["postgres", "redis", "kafka"]


class ConnectionSecret(TypedDict):
    key: str
    variable: str
    """Of the jobmanager's environment, which may hold the value."""
    is_known: bool
    """Whether this web process knows a value, so that the connection can be tested here."""


class ConnectionTest(TypedDict):
    ok: bool
    message: str


class ConnectionAnswer(TypedDict):
    name: str
    kind: ConnectionKind
    options: dict[str, str]
    secrets: list[ConnectionSecret]
    owner: str | None
    """Who has created it; administrators change it."""
    updated_at: int
    tested_at: int | None
    test: ConnectionTest | None
    """Result of the last test."""


class ConnectionsAnswer(TypedDict):
    connections: list[ConnectionAnswer]


class ConnectionChange(TypedDict):
    kind: ConnectionKind
    options: NotRequired[dict[str, str]]


class DescribeBody(TypedDict, total=False):
    table: str
    """A table; without it, those that there are."""


class Description(TypedDict):
    """Lists the tables, streams or topics behind a connection, or gives the row type of one of them."""

    names: list[str]
    is_all: bool
    """Whether there are no more names; false also if not all could be looked at in time."""
    row: str | None
    columns: list[list[str]]
    """[name, type] of each."""
