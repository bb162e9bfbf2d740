"""Commands to TaskManagers: Celery messages into the queue of one worker, JSON, expiring, idempotent.

A command that cannot be sent raises; one that is lost is noticed by its effect (no slot registers, a stage is not in
the heartbeat), never by waiting for an answer. May be called by any thread.
"""

from __future__ import annotations

import os
from typing import Any, Protocol

from celery.utils.nodenames import worker_direct

from backend.config.celery import app

DEPLOY_TASK = "tidemark.deploy"
END_TASK = "tidemark.end"
KILL_TASK = "tidemark.kill"
PING_TASK = "tidemark.ping"
#: a deployment that arrives later would start slots that nobody waits for; below ~5 s a busy worker misses some
DEPLOY_EXPIRY_S = 20.0
END_EXPIRY_S = 300.0
PING_EXPIRY_S = 30.0


class SendCommand(Protocol):
    """`send`, or what stands for it in tests."""

    def __call__(self, worker_name: str, task: str, expires_s: float, **arguments: Any) -> None: ...


def send(worker_name: str, task: str, expires_s: float, **arguments: Any) -> None:
    """Queue a command for one worker.

    Raises:
        kombu.exceptions.OperationalError: the broker cannot be reached.
    """
    app.send_task(
        task,
        kwargs={"command_id": os.urandom(8).hex(), **arguments},
        # celery's stubs know names only; a Queue carries its exchange, so the message waits for a worker that starts
        queue=worker_direct(worker_name),  # type: ignore[arg-type]
        expires=expires_s,
        ignore_result=True,
        # the caller decides what a broker that is away means; it must not be held up
        retry=False,
    )
