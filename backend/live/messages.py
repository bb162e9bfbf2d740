"""Types of the WebSocket's messages, for the contract with clients. Times are epoch ms."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypedDict

from backend.cluster.document_types import Freshness
from backend.contract.schema import Named

Topic = Annotated[
    str,
    Named(
        "Topic",
        "Its document: `ClusterDocument`, `LiveJob`, `LiveVertex` for job:<id>/vertex:<id>, `LiveOperators` for "
        "job:<id>/operators, or that of a preview.",
        pattern=r"^(cluster|(job|preview):[0-9a-f]{32}|job:[0-9a-f]{32}/(vertex:[0-9a-f]{32}|operators))$",
        typescript="'cluster' | `job:${string}` | `preview:${string}`",
    ),
]


class Subscribe(TypedDict):
    """Asks for a snapshot, and for changes from then on; also of a client that has missed a change."""

    type: Literal["subscribe"]
    topic: Topic


class Unsubscribe(TypedDict):
    type: Literal["unsubscribe"]
    topic: Topic


class Ping(TypedDict):
    type: Literal["ping"]


class Snapshot(TypedDict):
    type: Literal["snapshot"]
    topic: Topic
    version: int
    freshness: Freshness
    data: Any


# "from" is not a name in Python
ChangeFrom = TypedDict("ChangeFrom", {"from": int})


class Change(ChangeFrom):
    """A merge patch (RFC 7386) from one version of the document to another."""

    type: Literal["change"]
    topic: Topic
    version: int
    freshness: Freshness
    patch: Any


class Gone(TypedDict):
    """The topic's document does not exist any more."""

    type: Literal["gone"]
    topic: Topic


class Refusal(TypedDict):
    type: Literal["error"]
    topic: str
    """Empty: it is about no topic."""
    message: str


class Tick(TypedDict):
    """Once a second: the connection lives."""

    type: Literal["tick"]
    now: int
    freshness: dict[Topic, Freshness]
    """By topic."""


class Pong(TypedDict):
    type: Literal["pong"]
    now: int


ClientMessage = Annotated[Subscribe | Unsubscribe | Ping, Named("ClientMessage")]
ServerMessage = Annotated[Snapshot | Change | Gone | Refusal | Tick | Pong, Named("ServerMessage")]
