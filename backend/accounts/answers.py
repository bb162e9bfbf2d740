"""Types of the routes of sessions, and of errors, for the contract with clients."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypedDict

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
    submission: str
    """Why this cluster takes no programs from anybody; empty: it does."""


class Credentials(TypedDict):
    """Either name and password, or a token."""

    username: NotRequired[str]
    password: NotRequired[str]
    token: NotRequired[str]


class UserEntry(TypedDict):
    name: str
    role: RoleName
    is_active: bool
    has_password: bool
    last_login: int | None
    """Epoch ms."""
    tokens: int
    """Number of tokens that are valid."""


class Users(TypedDict):
    users: list[UserEntry]


class NewUser(TypedDict):
    name: str
    role: RoleName
    password: NotRequired[str]
    """Without one, the user logs in with tokens that an administrator makes."""


class UserChange(TypedDict):
    role: NotRequired[RoleName]
    is_active: NotRequired[bool]
    password: NotRequired[str]


class TokenEntry(TypedDict):
    id: int
    name: str
    user: str
    scope: RoleName | None
    """Highest role that it gives; null: the user's own."""
    created_at: int
    """Epoch ms."""
    expires_at: int | None
    """Epoch ms; null: never."""
    last_used: int | None
    """Epoch ms, accurate to the minute."""


class Tokens(TypedDict):
    tokens: list[TokenEntry]


class TokensQuery(TypedDict):
    all: NotRequired[Literal["1"]]
    """Of all users; administrators only."""


class NewToken(TypedDict):
    name: str
    scope: NotRequired[RoleName]
    days: NotRequired[int | None]
    """Until it expires; 90 by default, null: never. One that is made with a token ends no later than that."""
    user: NotRequired[str]
    """The owner; only administrators may name another user."""


class MadeToken(TypedDict):
    token: str
    """Shown this once."""
    entry: TokenEntry


class AuditEntry(TypedDict):
    id: int
    at: int
    """Epoch ms."""
    user: str
    """Empty: nobody who is known, or the cluster itself."""
    token: str
    """Name of the token that was used; empty: none."""
    address: str
    action: str
    object: str
    result: Literal["done", "denied", "failed"]
    status: int | None
    """HTTP status."""
    detail: dict[str, Any]


class AuditPage(TypedDict):
    events: list[AuditEntry]
    """Newest first."""
    next: int | None
    """`before` of the next page; null: this is the last."""


class AuditQuery(TypedDict):
    before: NotRequired[int]
    """Events before this id only."""
    limit: NotRequired[int]
    """At most 500; 100 by default."""
    user: NotRequired[str]
    result: NotRequired[Literal["done", "denied", "failed"]]
    action: NotRequired[str]
    """Text that the action contains."""


class Nothing(TypedDict):
    """{}."""
