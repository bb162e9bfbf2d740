"""Types of the inbox's answers. Times are epoch ms."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from backend.contract.schema import Named

HappeningKind = Annotated[
    Literal["failed", "failure", "restart", "checkpoint", "savepoint", "deployment", "switch", "leader", "taskmanager"],
    Named(
        "HappeningKind",
        "failed: a job has ended so. failure: of an attempt, after which the job is not running again. checkpoint: one "
        "that has failed, the latest of its job. savepoint: done or failed, also of a stop. deployment: rolled back "
        "or failed. switch: of a job's execution, likewise. leader: another JobManager leads. taskmanager: one was "
        "lost.",
    ),
]


class Happening(TypedDict):
    """Something that has happened on the cluster."""

    kind: HappeningKind
    at: int
    subject: str
    """Id of the job or pipeline, or of the JobManager."""
    name: str
    """Of the job or pipeline; of a JobManager, its id."""
    text: str
    is_bad: bool


class Inbox(TypedDict):
    happenings: list[Happening]
    """Newest first, of the last seven days, at most 100: failures of attempts at most three of a job."""
    is_cut: bool
    """Whether more than these have happened; jobs that have failed are left out last."""
    read_at: int
    """What is later has not been read."""
    unread: int
    """Number of these that have not been read."""


class ReadUpTo(TypedDict):
    read_at: int
    """Of the newest thing that was shown. What was read stays read: an earlier time changes nothing."""
