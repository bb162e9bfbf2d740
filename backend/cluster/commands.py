"""Commands to TaskManagers: Celery messages to the queue of one worker; JSON, with an expiry, idempotent.

The expiry is measured by the broker's clock alone: Celery's own compares the clocks of sender and worker. A command
that cannot be sent raises. A lost one is noticed by its missing effect (no slot registers, a stage is not in the
heartbeat), never by waiting for a reply. Any thread.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Protocol

import redis
from celery.utils.nodenames import worker_direct
from kombu.exceptions import OperationalError

from backend.cluster.seals import command_seal, is_seal
from backend.config.celery import app

DEPLOY_TASK = "tidemark.deploy"
END_TASK = "tidemark.end"
KILL_TASK = "tidemark.kill"
LEAD_TASK = "tidemark.lead"
PING_TASK = "tidemark.ping"
#: later deployments would start slots that nobody waits for any more; below ~5 s a busy worker misses some
DEPLOY_EXPIRY_S = 20.0
END_EXPIRY_S = 300.0
PING_EXPIRY_S = 30.0
#: a JobMaster that ends an attempt sends two commands, and the slots of its other regions wait for its heartbeats
#: meanwhile: with more, their leases expire while the broker is frozen; with less, a loaded one counts as unavailable
SEND_TIMEOUT_S = 2.0
_TIMEOUTS = {"socket_timeout": SEND_TIMEOUT_S, "socket_connect_timeout": SEND_TIMEOUT_S, "max_retries": 0}


#: broker's clock, epoch ms, from which a command is not carried out any more
DEADLINE_HEADER = "tidemark_deadline"
#: proves that a process of the cluster has sent the command to this worker
SEAL_HEADER = "tidemark_seal"


class SendCommand(Protocol):
    """The type of `send` and of its replacements in tests."""

    def __call__(self, worker_name: str, task: str, expires_s: float, **arguments: Any) -> None: ...


def send(worker_name: str, task: str, expires_s: float, **arguments: Any) -> None:
    """Queue a command for one worker.

    Raises:
        kombu.exceptions.OperationalError: the broker cannot be reached, or does not answer.
    """
    try:
        # a connection of its own: the worker's waits for commands without a timeout
        with app.connection_for_write(transport_options=_TIMEOUTS) as connection:
            deadline_ms = _broker_ms(connection) + round(expires_s * 1000)
            sent = {"command_id": os.urandom(8).hex(), **arguments}
            app.send_task(
                task,
                kwargs=sent,
                # celery's stubs allow only names; a Queue includes its exchange, so the message waits for a starting
                # worker
                queue=worker_direct(worker_name),  # type: ignore[arg-type]
                headers={
                    DEADLINE_HEADER: deadline_ms,
                    SEAL_HEADER: command_seal(worker_name, task, deadline_ms, sent),
                },
                ignore_result=True,
                # the caller must not block, and decides itself what an unavailable broker means
                retry=False,
                connection=connection,
            )
    except redis.RedisError as error:
        raise OperationalError(str(error)) from error


def forget(worker_name: str) -> None:
    """Delete the queue of a worker that has ended long ago, with commands that it has not taken: the broker would keep
    both for ever. Should it live after all, the next command to it makes its queue again.

    Raises:
        kombu.exceptions.OperationalError: the broker cannot be reached, or does not answer.
    """
    try:
        with app.connection_for_write(transport_options=_TIMEOUTS) as connection:
            queue: Any = worker_direct(worker_name)
            bound = queue(connection.default_channel)
            # a channel deletes only what it has declared
            bound.declare()
            bound.delete()
    except redis.RedisError as error:
        raise OperationalError(str(error)) from error


def is_expired(headers: Mapping[str, Any], broker_ms: int) -> bool:
    """Return whether a command came too late.

    Args:
        headers: of its message.
        broker_ms: the broker's clock now, epoch ms.
    """
    deadline = headers.get(DEADLINE_HEADER)
    return isinstance(deadline, int) and broker_ms > deadline


def is_sealed(headers: Mapping[str, Any], worker_name: str, task: str, arguments: Mapping[str, Any]) -> bool:
    """Return whether a process of the cluster has sent a command to this worker, with these arguments and deadline.

    Args:
        headers: of its message.
        worker_name: of this worker.
        task: name of the command.
        arguments: of the task.
    """
    if DEADLINE_HEADER not in headers:
        return False
    return is_seal(headers.get(SEAL_HEADER), command_seal(worker_name, task, headers[DEADLINE_HEADER], arguments))


def _broker_ms(connection: Any) -> int:
    seconds, microseconds = connection.default_channel.client.time()
    return int(seconds) * 1000 + int(microseconds) // 1000
