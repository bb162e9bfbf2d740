"""AttemptPasses: makes the passes of one attempt for its host, and says when batches begin. The host's thread."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import cached_property
from pathlib import Path
from typing import Protocol

from runtime.checkpoint.settings import CheckpointSettings
from runtime.core.clock import Clock
from runtime.core.ids import TaskId
from runtime.execution.passes.job_pass import JobPass, LocalPass
from runtime.execution.passes.plan import JobFacts, PassKind, PassPlan
from runtime.operators.operator import ClientChannel
from runtime.task.messages import TriggerCheckpoint

ASK_AGAIN_MS = 200.0
"""Time after which a checkpoint for a batch is asked for again: while regions restart the JobMaster takes none."""


class AttemptPasses(ABC):
    """Makes the passes of one attempt."""

    keeps_frames = False
    """Whether what tasks emit is in memory until their consumers run."""

    @abstractmethod
    def begin(self, plan: PassPlan) -> JobPass:
        """Return a pass; nothing of it has been done yet."""

    def kind_of(self, trigger: TriggerCheckpoint) -> PassKind:
        """Return the kind of the pass that ends with a snapshot of the JobMaster."""
        return PassKind.of(trigger.options)

    def running(self) -> None:
        """Note that all tasks run: batches may begin."""

    def batch_due(self) -> None:
        """Note that the next batch has something to do; said once for each batch."""

    def completed(self, run: JobPass) -> None:
        """Note that a pass is over: what it has prepared is committed."""

    def tick(self) -> None:
        """Act on the time that has passed."""

    def wait_ms(self) -> float:
        """Return how long `tick` has nothing to do."""
        return math.inf

    def close(self) -> None:
        """Release everything; idempotent."""


class LocalHost(Protocol):
    """The part of a host that passes in its thread need."""

    clock: Clock

    @property
    def facts(self) -> JobFacts: ...

    def client_of(self, task: TaskId) -> ClientChannel: ...

    def local_directory(self) -> Path: ...

    def ask_for_checkpoint(self) -> None: ...


class LocalPasses(AttemptPasses):
    """Runs the tasks of a host in its thread. Batches begin when they are due, and the interval is over."""

    keeps_frames = True

    def __init__(self, host: LocalHost) -> None:
        self._host = host
        self._not_before_ms = 0.0
        #: when the JobMaster is asked for the checkpoint that begins a batch; None: none is due
        self._ask_at_ms: float | None = None
        self._has_asked = False

    def kind_of(self, trigger: TriggerCheckpoint) -> PassKind:
        kind = PassKind.of(trigger.options)
        return PassKind.IDLE if kind is PassKind.DATA and not self._has_asked else kind

    def begin(self, plan: PassPlan) -> JobPass:
        if plan.kind is PassKind.DATA:
            self._not_before_ms = self._host.clock.monotonic_ms() + (self._settings.interval_ms or 0)
            self._ask_at_ms, self._has_asked = None, False
        return self.make(plan)

    def make(self, plan: PassPlan) -> JobPass:
        """Return the pass for a plan."""
        host = self._host
        return LocalPass(plan, host.clock, host.client_of, host.local_directory())

    def batch_due(self) -> None:
        self._ask_at_ms = max(self._not_before_ms, self._host.clock.monotonic_ms())

    def completed(self, run: JobPass) -> None:
        end_ms = self._host.clock.monotonic_ms()
        self._not_before_ms = max(self._not_before_ms, end_ms + self._settings.min_pause_ms)

    def tick(self) -> None:
        if self._ask_at_ms is not None and (now_ms := self._host.clock.monotonic_ms()) >= self._ask_at_ms:
            self._has_asked, self._ask_at_ms = True, now_ms + ASK_AGAIN_MS
            self._host.ask_for_checkpoint()

    def wait_ms(self) -> float:
        return math.inf if self._ask_at_ms is None else max(0.0, self._ask_at_ms - self._host.clock.monotonic_ms())

    @cached_property
    def _settings(self) -> CheckpointSettings:
        return CheckpointSettings.from_configuration(self._host.facts.configuration)
