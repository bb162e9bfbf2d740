"""Types of the routes of sessions, and of errors, for the contract with clients."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, TypedDict

from backend.contract.schema import Named

RoleName = Annotated[Literal["viewer", "operator", "developer", "admin"], Named("Role")]


class ProductError(TypedDict):
    code: str
    field: str
    """The field of the request that it is about; empty: all of it."""
    message: str


class ProductErrors(TypedDict):
    """Every error of a route under /api/v1."""

    errors: list[ProductError]


class FlinkErrors(TypedDict):
    """Every error of a route of Flink's."""

    errors: list[str]


class SessionUser(TypedDict):
    name: str
    role: RoleName


class Session(TypedDict):
    user: SessionUser


class Credentials(TypedDict):
    """Either name and password, or a token."""

    username: NotRequired[str]
    password: NotRequired[str]
    token: NotRequired[str]


class Nothing(TypedDict):
    """{}."""
