"""JobPeeks: has slots sample the rows that pass an edge while somebody looks, and keeps the newest of them. Any thread.

Nothing of it decides anything for the job. A peek lives by its lease: whoever looks renews it, and each renewal asks
the slots that run the tasks at that moment, so that a peek goes on behind a restart or a change of the leader.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from runtime.common import options
from runtime.common.configuration import Configuration
from runtime.common.execution_kind import ExecutionKind, runs_in_passes
from runtime.common.types import RowKind
from runtime.core.clock import Clock
from runtime.core.ids import Attempt, OperatorId, SlotId, VertexId
from runtime.graph.job_graph import JobGraph
from runtime.jobmaster.status import TaskSnapshot
from runtime.task.messages import EdgePeeked, JobMasterMessage, PeekedElement, StartPeek, StopPeek, TaskState
from runtime.task.peek_values import MAX_ROW_CHARS
from runtime.task.peeks import MAX_PEEKS

MAX_ROWS_PER_SECOND = 20
MAX_LEASE_MS = 30_000
MAX_BYTES = 512 << 10
"""That a slot may send in one lease."""
MAX_ELEMENTS = 300
"""The newest ones, which are kept for those who look; they look about once a second."""
MAX_CHARS = 256 << 10
"""Of their texts."""
MAX_KNOWN = 50
"""Peeks that are known at a time, with those that wait for others to end."""
KINDS = frozenset({"row", "watermark", "status", "barrier", "end", "late"})
ROW_KINDS = frozenset({"", *(kind.short_string for kind in RowKind)})
_PEEKED = (TaskState.RUNNING, TaskState.INITIALIZING)


@dataclass(frozen=True, slots=True)
class PeekRequest:
    """Begins a peek, or renews it."""

    peek_id: str
    edge: int | OperatorId
    """As in StartPeek."""
    subtasks: Sequence[int]
    """Of the vertex whose output it is; empty: all."""
    rows_per_second: int
    """Of all subtasks together, 1 to MAX_ROWS_PER_SECOND."""
    lease_ms: int
    of_late: bool = False
    """As in StartPeek."""


class NumberedElement(NamedTuple):
    number: int
    """Grows by one with each element of the peek. The first one is the time at which the leader began with it, epoch
    ms, so that those of a later leader are higher.
    """
    element: PeekedElement


@dataclass(frozen=True, slots=True)
class PeekView:
    """The rows that a peek has seen, and its state."""

    peek_id: str
    version: int
    """Grows with every change."""
    elements: Sequence[NumberedElement]
    """The newest, in order of their arrival."""
    num_rows: int
    """Rows that have passed the subtasks, sampled or not."""
    num_dropped: int
    """Rows and marks that were too much."""
    subtasks: Sequence[int]
    """Those that are looked at."""
    problem: str
    """Why there is nothing to be seen; empty: there may be."""
    lease_ms: float
    """What is left of its lease."""


@dataclass(slots=True)
class _Open:
    until_ms: float
    number: int
    version: int = 0
    asked: set[tuple[SlotId, Attempt]] = field(default_factory=set)
    subtasks: Sequence[int] = ()
    elements: deque[NumberedElement] = field(default_factory=deque)
    chars: int = 0
    num_rows: int = 0
    num_dropped: int = 0
    problem: str = ""

    def add(self, element: PeekedElement) -> None:
        self.elements.append(NumberedElement(self.number, element))
        self.number += 1
        self.chars += len(element.text)
        while len(self.elements) > MAX_ELEMENTS or self.chars > MAX_CHARS:
            self.chars -= len(self.elements.popleft().element.text)


class JobPeeks:
    """The peeks at one job.

    Args:
        graph: the job.
        send: queues a message for a slot.
        clock: for leases and numbers.
    """

    def __init__(
        self, graph: JobGraph, send: Callable[[SlotId, Attempt, JobMasterMessage], None], clock: Clock
    ) -> None:
        configuration = Configuration.from_dict(dict(graph.configuration))
        self._refusal = ""
        if not configuration.get(options.PEEK_ENABLED):
            self._refusal = f"the job does not let its rows be seen: {options.PEEK_ENABLED.key} is false"
        elif runs_in_passes(configuration, blocks_by_default=False):
            kind = ExecutionKind.of(configuration).value
            self._refusal = f"the tasks of a job in {kind} execution run in passes, which cannot be looked into"
        self._writers: dict[int | OperatorId, VertexId] = {edge.edge_id: edge.source for edge in graph.edges}
        for vertex in graph.vertices:
            for inner in vertex.chain_edges:
                self._writers[vertex.operators[inner.target].operator_id] = vertex.vertex_id
        self._holders = {o.operator_id: vertex.vertex_id for vertex in graph.vertices for o in vertex.operators}
        self._send = send
        self._clock = clock
        self._lock = threading.Lock()
        self._open: dict[str, _Open] = {}

    def renew(self, request: PeekRequest, tasks: Iterable[TaskSnapshot]) -> None:
        """Begin a peek, or go on with it.

        Args:
            request: what is to be seen.
            tasks: of the job, as they are now.
        """
        now_ms = self._clock.monotonic_ms()
        vertex_id = self._vertex_of(request)
        wanted = [
            task
            for task in tasks
            if task.task.vertex_id == vertex_id
            and task.state in _PEEKED
            and (not request.subtasks or task.task.subtask_index in request.subtasks)
        ]
        asked = {(task.slot, task.attempt) for task in wanted}
        with self._lock:
            self._end_overdue(now_ms)
            peek = self._open.get(request.peek_id)
            if peek is None:
                if len(self._open) >= MAX_KNOWN:
                    return
                peek = self._open[request.peek_id] = _Open(0.0, self._clock.now_ms())
            peek.until_ms = now_ms + min(request.lease_ms, MAX_LEASE_MS)
            peek.problem = self._refusal
            if list(self._open).index(request.peek_id) >= MAX_PEEKS:
                peek.problem = f"{MAX_PEEKS} peeks at this job are open; one of them has to end before this one begins"
            elif not peek.problem and vertex_id is None:
                peek.problem = f"the job has no such {'operator' if request.of_late else 'edge'}"
            elif not peek.problem and not asked:
                peek.problem = "none of the subtasks runs"
            peek.subtasks = sorted({task.task.subtask_index for task in wanted})
            peek.asked = set() if peek.problem else asked
            peek.version += 1
            to_ask = sorted(peek.asked)
        if vertex_id is None:
            return
        subtasks = tuple(peek.subtasks)
        rows_per_second = min(max(1, request.rows_per_second), MAX_ROWS_PER_SECOND)
        interval_ms = 1_000.0 * len(subtasks) / rows_per_second
        lease_ms = min(request.lease_ms, MAX_LEASE_MS)
        for slot, attempt in to_ask:
            message = StartPeek(
                request.peek_id,
                vertex_id,
                request.edge,
                request.of_late,
                subtasks,
                interval_ms,
                MAX_BYTES,
                lease_ms,
            )
            self._send(slot, attempt, message)

    def stop(self, peek_id: str) -> None:
        """End a peek; nothing happens if it has ended."""
        with self._lock:
            peek = self._open.pop(peek_id, None)
        for slot, attempt in sorted(peek.asked) if peek is not None else ():
            self._send(slot, attempt, StopPeek(peek_id))

    def take(self, message: EdgePeeked) -> None:
        """Take what a slot has seen. Code of users runs there: nothing but the types of it is checked yet."""
        with self._lock:
            peek = self._open.get(message.peek_id)
            if peek is None or (message.slot, message.attempt) not in peek.asked:
                return
            peek.num_rows += max(0, message.num_rows)
            peek.num_dropped += max(0, message.num_dropped)
            for element in message.elements[-MAX_ELEMENTS:]:
                if _is_sound(element, peek.subtasks):
                    peek.add(element)
                else:
                    peek.num_dropped += 1
            peek.version += 1

    def views(self) -> Sequence[PeekView]:
        """Return what there is to be seen of the peeks that are open."""
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            self._end_overdue(now_ms)
            return [
                PeekView(
                    peek_id,
                    peek.version,
                    list(peek.elements),
                    peek.num_rows,
                    peek.num_dropped,
                    peek.subtasks,
                    peek.problem,
                    peek.until_ms - now_ms,
                )
                for peek_id, peek in self._open.items()
            ]

    def _vertex_of(self, request: PeekRequest) -> VertexId | None:
        if not request.of_late:
            return self._writers.get(request.edge)
        return None if isinstance(request.edge, int) else self._holders.get(request.edge)

    def _end_overdue(self, now_ms: float) -> None:
        # the slots have leases of their own
        for peek_id in [peek_id for peek_id, peek in self._open.items() if now_ms >= peek.until_ms]:
            del self._open[peek_id]


def _is_sound(element: PeekedElement, subtasks: Sequence[int]) -> bool:
    return (
        element.kind in KINDS
        and element.row_kind in ROW_KINDS
        and element.subtask in subtasks
        and len(element.text) <= MAX_ROW_CHARS
    )
