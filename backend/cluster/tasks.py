"""The Celery tasks of a TaskManager: each hands its command to the process's receiver and returns at once.

They run in the worker's thread pool; the receiver is the TaskManager that this process has set with `serve`.
"""

from __future__ import annotations

import logging
from typing import Any, Protocol

import redis
from celery import Task

from backend.cluster import bus
from backend.cluster.commands import DEADLINE_HEADER, DEPLOY_TASK, END_TASK, KILL_TASK, PING_TASK, is_expired
from backend.config.celery import app

logger = logging.getLogger(__name__)


class CommandReceiver(Protocol):
    """Commands that a TaskManager executes; called by any thread, return at once."""

    def deploy(self, command_id: str, epoch: int, deployment: dict[str, object]) -> None: ...

    def end(self, epoch: int, job_id: str, attempt: int, stages: list[int] | None = None) -> None:
        """End an attempt's stages here; None = all."""

    def kill(self, epoch: int, processes: list[tuple[str, int]]) -> None: ...

    def answered(self) -> None:
        """Note that a ping came back through the queue."""


class _Process:
    #: set once, before the worker starts
    receiver: CommandReceiver | None = None


def serve(receiver: CommandReceiver) -> None:
    """Make `receiver` the receiver of this process's commands."""
    _Process.receiver = receiver


def _receiver() -> CommandReceiver:
    if _Process.receiver is None:
        raise RuntimeError("this process is no TaskManager")
    return _Process.receiver


def _is_expired(task: Task[Any, Any]) -> bool:
    """Return whether a command came too late. One that was called without a message did not, nor did one about which
    the broker cannot be asked: commands are idempotent and fenced by their epoch.
    """
    headers = task.request.headers or {}
    if DEADLINE_HEADER not in headers:
        return False
    try:
        expired = is_expired(headers, bus.time_ms())
    except redis.RedisError as error:
        logger.warning("the age of a command is unknown: %s", error)
        return False
    if expired:
        logger.warning("a command came too late: %s", task.name)
    return expired


@app.task(name=DEPLOY_TASK, bind=True)
def deploy(self: Task[Any, Any], /, command_id: str, epoch: int, **deployment: object) -> None:
    if not _is_expired(self):
        _receiver().deploy(command_id, epoch, deployment)


@app.task(name=END_TASK, bind=True)
def end(
    self: Task[Any, Any], command_id: str, epoch: int, job_id: str, attempt: int, stages: list[int] | None = None
) -> None:
    if not _is_expired(self):
        _receiver().end(epoch, job_id, attempt, stages)


@app.task(name=KILL_TASK, bind=True)
def kill(self: Task[Any, Any], /, command_id: str, epoch: int, processes: list[list[object]]) -> None:
    if not _is_expired(self):
        _receiver().kill(epoch, [(str(host), int(str(pid))) for host, pid in processes])


@app.task(name=PING_TASK, bind=True)
def ping(self: Task[Any, Any], /, command_id: str) -> None:
    if not _is_expired(self):
        _receiver().answered()
