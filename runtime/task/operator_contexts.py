"""OperatorContexts: what the operators of a task know of their job and of the slot that they run in."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from runtime.common.configuration import Configuration
from runtime.core.clock import Clock
from runtime.core.ids import Attempt, OperatorId
from runtime.metrics import MetricGroup
from runtime.operators.operator import ClientChannel, OperatorContext
from runtime.state.backend import KeyedStateBackend
from runtime.state.backends import create_keyed_backend
from runtime.state.key_groups import key_group_range
from runtime.state.timer_slice import ENDLESS, TimerSlice
from runtime.task.late_samples import LateSamples
from runtime.task.messages import TaskDeployment
from runtime.task.peek_values import PeekedValues
from runtime.task.processing_time import TaskTimers


class OperatorServices(Protocol):
    """Services of the slot that operators need."""

    attempt: Attempt
    clock: Clock
    configuration: Configuration
    job_parameters: dict[str, str]
    job_id: str
    pass_number: int
    """Number of the batch that the tasks are run for, unique within the attempt; 0 = they run as long as that."""

    def working_directory(self) -> Path:
        """Return the local directory, which exists for as long as the slot lives."""

    @property
    def client(self) -> ClientChannel: ...

    def row_values(self) -> PeekedValues | None:
        """Return what makes rows of the job JSON for those who look; None: nobody may see any."""

    def send_to_coordinator(self, operator_id: OperatorId, subtask_index: int, payload: bytes) -> None: ...


class _CoordinatorGateway:
    """Connects an operator to its coordinator."""

    def __init__(self, services: OperatorServices, operator_id: OperatorId, subtask_index: int) -> None:
        self._services = services
        self._operator_id = operator_id
        self._subtask_index = subtask_index

    def send_to_coordinator(self, event: object) -> None:
        self._services.send_to_coordinator(self._operator_id, self._subtask_index, pickle.dumps(event))


class OperatorContexts:
    """The contexts of one task's operators.

    Args:
        deployment: of the task.
        services: its slot.
        timers: of the task.
        timer_slice: bounds how many timers the head fires at once.
        metrics: the task's group.
        post: has the loop run an action; any thread.
    """

    def __init__(
        self,
        deployment: TaskDeployment,
        services: OperatorServices,
        timers: TaskTimers,
        timer_slice: TimerSlice,
        metrics: MetricGroup,
        post: Callable[[Callable[[], None]], None],
    ) -> None:
        #: of all operators; told what becomes of checkpoints, so that later ones build on those that are complete
        self.backends: list[KeyedStateBackend] = []
        #: of the operators that may see them
        self.late_samples: dict[OperatorId, LateSamples] = {}
        self._vertex = deployment.vertex
        self._subtask = deployment.task.subtask_index
        self._services = services
        self._timers = timers
        self._timer_slice = timer_slice
        self._metrics = metrics
        self._post = post

    def context_of(self, index: int) -> OperatorContext:
        """Return the context of an operator; 0 is the head."""
        services, vertex = self._services, self._vertex
        chained = vertex.operators[index]
        values = services.row_values()
        if values is not None:
            self.late_samples[chained.operator_id] = LateSamples(services.clock, values)
        return OperatorContext(
            operator_id=chained.operator_id,
            operator_name=chained.name,
            task_name=vertex.name,
            subtask_index=self._subtask,
            parallelism=vertex.parallelism,
            max_parallelism=vertex.max_parallelism,
            attempt=services.attempt,
            configuration=services.configuration,
            clock=services.clock,
            processing_time=self._timers,
            # its id: operators of one name have metrics of their own
            metrics=self._metrics.add_group(chained.operator_id),
            client=services.client,
            events=_CoordinatorGateway(services, chained.operator_id, self._subtask),
            create_keyed_backend=lambda: self._create_backend(chained.operator_id, chained.name),
            job_parameters=services.job_parameters,
            # only a head is interrupted: what is given to an operator behind it is nowhere else
            timer_slice=ENDLESS if index else self._timer_slice,
            mailbox=self._post,
            job_id=services.job_id,
            pass_number=services.pass_number,
            late_sampler=self.late_samples.get(chained.operator_id),
        )

    def working_directory(self, operator_id: str) -> Path:
        """Return an operator's place below the slot's directory."""
        return self._services.working_directory() / f"{operator_id}-{self._subtask}"

    def _create_backend(self, operator_id: OperatorId, name: str) -> KeyedStateBackend:
        vertex = self._vertex
        backend = create_keyed_backend(
            self._services.configuration,
            key_group_range(vertex.max_parallelism, vertex.parallelism, self._subtask),
            vertex.max_parallelism,
            self._services.clock,
            self.working_directory(operator_id),
            name,
        )
        self.backends.append(backend)
        return backend
