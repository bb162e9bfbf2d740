"""AttemptPasses: makes the passes of one attempt for its host, and says when batches begin. The host's thread."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Protocol

from runtime.core.clock import Clock
from runtime.core.ids import TaskId
from runtime.execution.passes.job_pass import JobPass, LocalPass
from runtime.execution.passes.plan import PassKind, PassPlan
from runtime.operators.operator import ClientChannel
from runtime.task.messages import TriggerCheckpoint


class AttemptPasses(ABC):
    """Makes the passes of one attempt."""

    @abstractmethod
    def begin(self, plan: PassPlan) -> JobPass:
        """Return a pass; nothing of it has been done yet."""

    def kind_of(self, trigger: TriggerCheckpoint) -> PassKind:
        """Return the kind of the pass that ends with a snapshot of the JobMaster."""
        return PassKind.of(trigger.options)

    def running(self) -> None:
        """Note that all tasks run: batches may begin."""

    def completed(self, run: JobPass) -> None:
        """Note that a pass is over: what it has prepared is committed."""

    def tick(self) -> None:
        """Act on the time that has passed."""

    def close(self) -> None:
        """Release everything; idempotent."""


class LocalHost(Protocol):
    """The part of a host that passes in its thread need."""

    clock: Clock

    def client_of(self, task: TaskId) -> ClientChannel: ...

    def local_directory(self) -> Path: ...


class LocalPasses(AttemptPasses):
    """Runs the tasks of a host in its thread."""

    def __init__(self, host: LocalHost) -> None:
        self._host = host

    def begin(self, plan: PassPlan) -> JobPass:
        host = self._host
        return LocalPass(plan, host.clock, host.client_of, host.local_directory())
