"""JobRunner: one job in the leading jobmanager: its JobMaster on a thread of its own, and what is to be written of it.

`start`, `cancel` and `observe` are called by the jobmanager's loop. The driver's thread never touches SQL or Redis:
what the world is told is read off the machine's status, so a slow database holds up nothing but the news.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from backend.cluster.job_logs import JobLogs
from backend.cluster.live_document import LiveDocument, Placement, exception_document
from backend.cluster.models import TERMINAL_STATES, Job
from backend.cluster.resource_manager import ResourceManager
from backend.cluster.slot_provider import ClusterSlotProvider
from runtime.common.configuration import Configuration
from runtime.core.clock import Clock
from runtime.core.ids import Attempt, SlotId
from runtime.graph.job_graph import JobGraph
from runtime.jobmaster.driver import JobMasterDriver
from runtime.jobmaster.events import JobMasterEvent
from runtime.jobmaster.execution_graph import ExecutionGraph
from runtime.jobmaster.status import JobStatusSnapshot, TaskSnapshot

logger = logging.getLogger(__name__)

Document = dict[str, Any]


class JobRunner:
    """Runs one job.

    Args:
        job: its row, claimed; changed here, saved by the jobmanager.
        graph: its graph.
        resources: gives slots.
        host: address of this process that slots can reach.
        logs: takes what slots print.
        clock: for all deadlines.
        first_attempt: number of the first attempt here; earlier leaders had lower ones.
        exceptions: what is known of earlier attempts, newest first.

    Raises:
        ConfigurationError: an option of the job cannot be read.
    """

    def __init__(
        self,
        job: Job,
        graph: JobGraph,
        resources: ResourceManager,
        host: str,
        logs: JobLogs,
        clock: Clock,
        first_attempt: Attempt,
        exceptions: list[Document],
    ) -> None:
        self.job = job
        self._graph = graph
        self._resources = resources
        self._clock = clock
        self._first_attempt = first_attempt
        self._restarts_before = job.restarts
        self._live = LiveDocument(job, graph, exceptions)
        self._locations: dict[Attempt, dict[SlotId, str]] = {}
        self._broken: BaseException | None = None
        self._begun = False
        self._abandoned = False
        self._lock = threading.Lock()
        configuration = Configuration.from_dict(dict(graph.configuration))
        providers: list[ClusterSlotProvider] = []

        def create_provider(post: Callable[[JobMasterEvent], None]) -> ClusterSlotProvider:
            providers.append(
                ClusterSlotProvider(resources, host, job.id, job.created_at, configuration, self._begin, post)
            )
            return providers[0]

        self._driver = JobMasterDriver(graph, create_provider, logs, clock, first_attempt)
        self._provider = providers[0]
        self._thread = threading.Thread(target=self._run, name=f"job-{job.id[:8]}", daemon=True)

    # --- called by the jobmanager's loop ------------------------------------------------------------------------------

    def start(self) -> None:
        """Wait for the slots of the first attempt, then run."""
        self._provider.reserve(self._first_attempt, ExecutionGraph(self._graph, self._first_attempt).regions)

    def cancel(self) -> None:
        """Stop the job; again does no harm."""
        self._driver.cancel()
        # one that waits for slots begins only to be cancelled at once
        self._resources.withdraw(self.job.id)
        self._begin()

    def abandon(self) -> None:
        """This process ends: the job is left to the next leader, its slots are sent home."""
        self._abandoned = True
        self._resources.withdraw(self.job.id)
        if self._begun:
            self._driver.cancel()

    def wait_abandoned(self, timeout_s: float) -> None:
        """Wait for the slots to leave."""
        if self._begun:
            self._thread.join(timeout_s)
        else:
            self._provider.close()

    @property
    def is_over(self) -> bool:
        """Whether the job has ended and nothing of it is left."""
        return self._begun and not self._thread.is_alive()

    def observe(self) -> bool:
        """Bring the row up to date with the machine; returns whether anything but numbers has changed."""
        job = self.job
        before = (job.state, job.attempt, job.restarts, job.waiting_for, len(self.exceptions()))
        if job.is_terminal:
            return False
        snapshot = self._driver.status()
        now = self._clock.now_ms()
        if self._broken is not None:
            job.state = "FAILED"
            job.failure = {"message": f"the JobMaster broke: {self._broken!r}", "stacktrace": "", "timestamp": now}
            job.state_times = job.state_times | {"FAILED": now}
        else:
            job.state = snapshot.state.value
            offset = now - self._clock.monotonic_ms()
            entered = {state.value: int(since + offset) for state, since in snapshot.state_since_ms.items()}
            job.state_times = job.state_times | _settled(job.state_times, entered)
        job.attempt = max(snapshot.attempt, self._first_attempt)
        job.restarts = self._restarts_before + snapshot.restarts
        job.waiting_for = "" if job.is_terminal else self._resources.shortage(job.id)
        if job.state in TERMINAL_STATES:
            job.ended_at = now
        entries = self.exceptions()
        if job.state == "FAILED" and job.failure is None and entries:
            job.failure = {name: entries[0][name] for name in ("message", "stacktrace", "timestamp")}
        return before != (job.state, job.attempt, job.restarts, job.waiting_for, len(entries))

    def document(self) -> Document:
        """The live document as of now."""
        snapshot = self._driver.status()
        return self._live.build(snapshot, self._placements(snapshot), self._clock.now_ms(), self.exceptions())

    def tasks(self) -> Sequence[TaskSnapshot]:
        """The tasks of the current attempt, with all that they have reported."""
        return self._driver.status().tasks

    def exceptions(self) -> list[Document]:
        """Failures since this leader took the job, newest first."""
        snapshot = self._driver.status()
        offset = self._clock.now_ms() - self._clock.monotonic_ms()
        self._note_locations(snapshot)
        return [
            exception_document(e, int(e.timestamp_ms + offset), self._locations.get(e.attempt, {}))
            for e in reversed(snapshot.exceptions)
        ]

    # --- threads of the job -------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        with self._lock:
            if self._begun or self._abandoned:
                return
            self._begun = True
        self._thread.start()

    def _run(self) -> None:
        try:
            self._driver.run()
        except Exception as error:
            logger.exception("the JobMaster of job %s broke", self.job.id)
            self._broken = error
            self._provider.release_attempt(self._driver.status().attempt)
            self._provider.close()

    # --- small things -------------------------------------------------------------------------------------------------

    def _placements(self, snapshot: JobStatusSnapshot) -> Mapping[SlotId, Placement]:
        where = self._provider.placements()
        return {s.slot: Placement(where.get(s.slot, ""), s.host, s.pid) for s in snapshot.slots}

    def _note_locations(self, snapshot: JobStatusSnapshot) -> None:
        """Remember where the slots of each attempt ran: a failure is shown long after they are gone."""
        known = self._locations.setdefault(snapshot.attempt, {})
        for slot in snapshot.slots:
            if slot.pid is not None:
                known[slot.slot] = f"{slot.host}:{slot.pid}"
        for attempt in sorted(self._locations)[:-20]:
            del self._locations[attempt]


def _settled(before: Mapping[str, int], entered: Mapping[str, int]) -> dict[str, int]:
    """State times without the jitter of two clocks read one after the other."""
    return {state: before[state] if abs(before.get(state, 0) - at) < 50 else at for state, at in entered.items()}
