"""The Celery tasks of a TaskManager: each hands its command to the process's receiver and returns at once.

They run in the worker's thread pool; the receiver is the TaskManager that this process has set with `serve`.
"""

from __future__ import annotations

from typing import Protocol

from backend.cluster.commands import DEPLOY_TASK, END_TASK, KILL_TASK, PING_TASK
from backend.config.celery import app


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


@app.task(name=DEPLOY_TASK)
def deploy(command_id: str, epoch: int, **deployment: object) -> None:
    _receiver().deploy(command_id, epoch, deployment)


@app.task(name=END_TASK)
def end(command_id: str, epoch: int, job_id: str, attempt: int, stages: list[int] | None = None) -> None:
    _receiver().end(epoch, job_id, attempt, stages)


@app.task(name=KILL_TASK)
def kill(command_id: str, epoch: int, processes: list[list[object]]) -> None:
    _receiver().kill(epoch, [(str(host), int(str(pid))) for host, pid in processes])


@app.task(name=PING_TASK)
def ping(command_id: str) -> None:
    _receiver().answered()
