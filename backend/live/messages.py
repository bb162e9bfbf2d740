"""Types of the WebSocket's messages, for the contract with clients. Times are epoch ms."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypedDict

from backend.cluster.document_types import Freshness
from backend.contract.schema import Named
from backend.live.answers import JobLog, JobLogQuery

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


class Follow(TypedDict):
    """Asks for what a job's log gets after a cursor, part by part: `LogPart`."""

    type: Literal["follow"]
    id: str
    """Any name, of this connection."""
    job: str
    query: JobLogQuery
    """With the cursor of an answer, oldest first. `order` and `limit` do not count."""


class TookLog(TypedDict):
    """The page has shown the last part; only now comes another one."""

    type: Literal["took"]
    id: str


class Unfollow(TypedDict):
    type: Literal["unfollow"]
    id: str


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


class LogPart(TypedDict):
    """New lines of a log that is followed, oldest first."""

    type: Literal["log"]
    id: str
    part: JobLog


class LogEnded(TypedDict):
    """A log is not followed any more."""

    type: Literal["log-ended"]
    id: str
    message: str


ClientMessage = Annotated[Subscribe | Unsubscribe | Follow | TookLog | Unfollow | Ping, Named("ClientMessage")]
ServerMessage = Annotated[Snapshot | Change | Gone | Refusal | LogPart | LogEnded | Tick | Pong, Named("ServerMessage")]
