"""StackReports: asks the slots of a vertex for samples of their stacks, and puts together what they answer. Any thread.

Nothing of it decides anything: slots that do not answer are missing from the report. Source: Flink,
VertexThreadInfoTracker.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from runtime.core.clock import Clock
from runtime.core.ids import Attempt, SlotId, VertexId
from runtime.jobmaster.status import TaskSnapshot
from runtime.task.messages import JobMasterMessage, SampledStacks, SampleStacks, StacksSampled, TaskState

INTERVAL_MS = 10
ANSWER_TIMEOUT_MS = 5_000.0
"""Time that slots have to answer beyond that of the samples."""
MAX_REPORTS = 50
"""Vertices of which the last report is kept."""
_SAMPLED = (TaskState.RUNNING, TaskState.INITIALIZING)


@dataclass(frozen=True, slots=True)
class StackReport:
    """Holds what the subtasks of a vertex did."""

    vertex_id: VertexId
    number: int
    """Grows from report to report."""
    duration_ms: int
    slots: Mapping[SlotId, SampledStacks]
    """Those that have answered, with everything that their process did."""
    subtasks: Mapping[int, SlotId]
    """By subtask, the slot that runs it."""


@dataclass(slots=True)
class _Running:
    vertex_id: VertexId
    duration_ms: int
    until_ms: float
    missing: set[tuple[SlotId, Attempt]]
    subtasks: Mapping[int, SlotId]
    slots: dict[SlotId, SampledStacks] = field(default_factory=dict)


class StackReports:
    """The reports of one job.

    Args:
        send: queues a message for a slot.
        clock: for deadlines.
    """

    def __init__(self, send: Callable[[SlotId, Attempt, JobMasterMessage], None], clock: Clock) -> None:
        self._send = send
        self._clock = clock
        self._lock = threading.Lock()
        self._number = 0
        #: by request id
        self._running: dict[int, _Running] = {}
        #: the newest last
        self._reports: dict[VertexId, StackReport] = {}

    def request(self, vertex_id: VertexId, tasks: Iterable[TaskSnapshot], duration_ms: int) -> bool:
        """Ask the slots that run a vertex for samples.

        Args:
            vertex_id: the vertex.
            tasks: of the job.
            duration_ms: how long to sample; 0: only the stacks of all threads are wanted.

        Returns:
            False if it is sampled already, or does not run.
        """
        running = [task for task in tasks if task.task.vertex_id == vertex_id and task.state in _SAMPLED]
        asked = {(task.slot, task.attempt) for task in running}
        with self._lock:
            self._end_overdue()
            if not asked or any(each.vertex_id == vertex_id for each in self._running.values()):
                return False
            self._number += 1
            request_id = self._number
            until_ms = self._clock.monotonic_ms() + duration_ms + ANSWER_TIMEOUT_MS
            subtasks = {task.task.subtask_index: task.slot for task in running}
            self._running[request_id] = _Running(vertex_id, duration_ms, until_ms, set(asked), subtasks)
        for slot, attempt in sorted(asked):
            self._send(slot, attempt, SampleStacks(request_id, duration_ms, INTERVAL_MS))
        return True

    def take(self, message: StacksSampled) -> None:
        """Take a slot's answer."""
        with self._lock:
            running = self._running.get(message.sampled.request_id)
            slot = message.slot, message.attempt
            if running is None or slot not in running.missing:
                return
            running.missing.discard(slot)
            running.slots[message.slot] = message.sampled
            if not running.missing:
                self._end(message.sampled.request_id)

    def reports(self) -> Sequence[StackReport]:
        """Return the newest report of each vertex, the newest last."""
        with self._lock:
            self._end_overdue()
            return list(self._reports.values())

    def _end_overdue(self) -> None:
        now_ms = self._clock.monotonic_ms()
        for request_id in [number for number, running in self._running.items() if now_ms >= running.until_ms]:
            self._end(request_id)

    def _end(self, request_id: int) -> None:
        running = self._running.pop(request_id)
        self._reports.pop(running.vertex_id, None)
        self._reports[running.vertex_id] = StackReport(
            running.vertex_id, request_id, running.duration_ms, running.slots, running.subtasks
        )
        for vertex_id in list(self._reports)[:-MAX_REPORTS]:
            del self._reports[vertex_id]
