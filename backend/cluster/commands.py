"""Commands to TaskManagers: Celery messages to the queue of one worker; JSON, with an expiry, idempotent.

A command that cannot be sent raises. A lost one is noticed by its missing effect (no slot registers, a stage is not in
the heartbeat), never by waiting for a reply. Any thread.
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
#: later deployments would start slots that nobody waits for any more; below ~5 s a busy worker misses some
DEPLOY_EXPIRY_S = 20.0
END_EXPIRY_S = 300.0
PING_EXPIRY_S = 30.0


class SendCommand(Protocol):
    """The type of `send` and of its replacements in tests."""

    def __call__(self, worker_name: str, task: str, expires_s: float, **arguments: Any) -> None: ...


def send(worker_name: str, task: str, expires_s: float, **arguments: Any) -> None:
    """Queue a command for one worker.

    Raises:
        kombu.exceptions.OperationalError: the broker cannot be reached.
    """
    app.send_task(
        task,
        kwargs={"command_id": os.urandom(8).hex(), **arguments},
        # celery's stubs allow only names; a Queue includes its exchange, so the message waits for a starting worker
        queue=worker_direct(worker_name),  # type: ignore[arg-type]
        expires=expires_s,
        ignore_result=True,
        # the caller must not block, and decides itself what an unavailable broker means
        retry=False,
    )
