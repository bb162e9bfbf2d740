"""The Celery tasks of a TaskManager: each hands its command to the process's receiver and returns at once.

A command without the cluster's seal is refused: whoever can write to Redis must not be able to have code run here.

They run in the worker's thread pool; the receiver is the TaskManager that this process has set with `serve`.
"""

from __future__ import annotations

import logging
from typing import Any, Protocol

import redis
from celery import Task

from backend.cluster import bus
from backend.cluster.commands import DEPLOY_TASK, END_TASK, KILL_TASK, LEAD_TASK, PING_TASK, is_expired, is_sealed
from backend.config.celery import app
from runtime.network.refusals import REFUSALS

logger = logging.getLogger(__name__)


class CommandReceiver(Protocol):
    """Commands that a TaskManager executes; called by any thread, return at once."""

    def deploy(self, command_id: str, epoch: int, deployment: dict[str, object]) -> None: ...

    def end(self, epoch: int, job_id: str, attempt: int, stages: list[int] | None = None) -> None:
        """End an attempt's stages here; None = all."""

    def kill(self, epoch: int, processes: list[tuple[str, int]]) -> None: ...

    def lead(self, epoch: int) -> None:
        """Carry out no commands of earlier leaders any more."""

    def answered(self) -> None:
        """Note that a ping came back through the queue."""


class _Process:
    #: set once, before the worker starts
    receiver: CommandReceiver | None = None
    #: whose queue the commands come from; a request's own host name may be the machine's
    worker_name = ""


def serve(receiver: CommandReceiver, worker_name: str = "") -> None:
    """Make `receiver` the receiver of this process's commands, which are sealed for the worker of that name."""
    _Process.receiver = receiver
    _Process.worker_name = worker_name


def _receiver() -> CommandReceiver:
    if _Process.receiver is None:
        raise RuntimeError("this process is not a TaskManager")
    return _Process.receiver


def _is_refused(task: Task[Any, Any]) -> bool:
    """Return whether a command came too late, or from somebody else. False for direct calls."""
    request = task.request
    if request.called_directly:
        return False
    headers = request.headers or {}
    if not is_sealed(headers, _Process.worker_name, task.name, request.kwargs or {}):
        REFUSALS.count("commands")
        logger.warning("a command without the seal of this cluster was refused: %s", task.name)
        return True
    try:
        expired = is_expired(headers, bus.time_ms())
    except redis.RedisError as error:
        # it is idempotent, and fenced by its epoch
        logger.warning("the age of a command is unknown: %s", error)
        return False
    if expired:
        logger.warning("a command came too late: %s", task.name)
    return expired


@app.task(name=DEPLOY_TASK, bind=True)
def deploy(self: Task[Any, Any], /, command_id: str, epoch: int, **deployment: object) -> None:
    if not _is_refused(self):
        _receiver().deploy(command_id, epoch, deployment)


@app.task(name=END_TASK, bind=True)
def end(
    self: Task[Any, Any], command_id: str, epoch: int, job_id: str, attempt: int, stages: list[int] | None = None
) -> None:
    if not _is_refused(self):
        _receiver().end(epoch, job_id, attempt, stages)


@app.task(name=KILL_TASK, bind=True)
def kill(self: Task[Any, Any], /, command_id: str, epoch: int, processes: list[list[object]]) -> None:
    if not _is_refused(self):
        _receiver().kill(epoch, [(str(host), int(str(pid))) for host, pid in processes])


@app.task(name=LEAD_TASK, bind=True)
def lead(self: Task[Any, Any], /, command_id: str, epoch: int) -> None:
    if not _is_refused(self):
        _receiver().lead(epoch)


@app.task(name=PING_TASK, bind=True)
def ping(self: Task[Any, Any], /, command_id: str) -> None:
    if not _is_refused(self):
        _receiver().answered()
