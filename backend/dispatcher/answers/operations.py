"""Types of asynchronous operations: what they are asked with, what is answered, and their status."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, TypedDict

from backend.contract.schema import Named

Triggered = TypedDict("Triggered", {"request-id": str})
SnapshotFormat = Literal["CANONICAL", "NATIVE"]


class Progress(TypedDict):
    id: Literal["IN_PROGRESS", "COMPLETED"]


Throwable = TypedDict("Throwable", {"class": str, "message": str, "stack-trace": str, "serialized-throwable": str})
SavepointInfo = TypedDict(
    "SavepointInfo", {"location": NotRequired[str | None], "failure-cause": NotRequired[Throwable]}
)
DisposalInfo = TypedDict("DisposalInfo", {"failure-cause": NotRequired[Throwable]})


class CheckpointInfo(TypedDict):
    checkpointId: NotRequired[int | None]
    failureCause: NotRequired[Throwable]


class SavepointStatus(TypedDict):
    status: Progress
    operation: SavepointInfo | None
    """null while it is in progress."""


class CheckpointStatus(TypedDict):
    status: Progress
    operation: CheckpointInfo | None
    """null while it is in progress."""


class DisposalStatus(TypedDict):
    status: Progress
    operation: DisposalInfo | None
    """null while it is in progress."""


class CheckpointRequest(TypedDict):
    checkpointType: NotRequired[str | None]
    """CONFIGURED, FULL or INCREMENTAL; CONFIGURED if it is missing."""
    triggerId: NotRequired[str | None]
    """32 hex digits chosen by the client: requests that repeat it count as one."""


SavepointRequest = TypedDict(
    "SavepointRequest",
    {
        "target-directory": NotRequired[str | None],
        "targetDirectory": NotRequired[str | None],
        "cancel-job": NotRequired[bool | None],
        "formatType": NotRequired[str | None],
        "triggerId": NotRequired[str | None],
    },
)
StopRequest = TypedDict(
    "StopRequest",
    {
        "targetDirectory": NotRequired[str | None],
        "target-directory": NotRequired[str | None],
        "drain": NotRequired[bool | None],
        "formatType": NotRequired[str | None],
        "triggerId": NotRequired[str | None],
    },
)
DisposalRequest = TypedDict("DisposalRequest", {"savepoint-path": str, "triggerId": NotRequired[str | None]})


class Bounds(TypedDict):
    lowerBound: NotRequired[int | str | None]
    """null and -1: it stays."""
    upperBound: int | str


class VertexBounds(TypedDict):
    parallelism: Bounds


RequirementsRequest = Annotated[
    dict[str, VertexBounds | str], Named("RequirementsRequest", "By vertex id; beside the vertices, `triggerId`.")
]


class BoundsAnswer(TypedDict):
    lowerBound: int
    upperBound: int


class VertexBoundsAnswer(TypedDict):
    parallelism: BoundsAnswer


Requirements = Annotated[dict[str, VertexBoundsAnswer], Named("Requirements", "By vertex id.")]
