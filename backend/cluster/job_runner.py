"""JobRunner: one job in the leading jobmanager: its JobMaster on a thread of its own, and the state to be saved.

The jobmanager's loop calls `start`, `cancel` and `observe`. Everything published is read from the state machine's
status. A slow database therefore delays only publishing, and the three steps that must be durable first: completing a
checkpoint, going on without one (the job's storage thread) and beginning a further attempt (the driver's thread).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from django.db import Error as DatabaseFailure

from backend.cluster.checkpoint_home import ClusterStorage
from backend.cluster.checkpoint_store import SqlCompletedStore
from backend.cluster.connections import brief_connection
from backend.cluster.elasticity import ElasticJob, Patience, Standing, Verdict
from backend.cluster.job_autoscaling import JobAutoscaling
from backend.cluster.job_logs import JobLogs
from backend.cluster.job_requests import JobRequests
from backend.cluster.job_scaling import JobScaling
from backend.cluster.job_store import JobStore
from backend.cluster.leader_machine import SUSPENDED
from backend.cluster.leadership import LeadershipLostError
from backend.cluster.live_document import LiveDocument, Placement, exception_document
from backend.cluster.metric_samples import Row, sample_row
from backend.cluster.models import TERMINAL_STATES, Job, Operation
from backend.cluster.pinned_metrics import Pin, pinned_row
from backend.cluster.placement_records import PlacementRecords
from backend.cluster.placements import ClusterPlacement
from backend.cluster.resource_manager import ResourceManager
from backend.cluster.slot_provider import ClusterSlotProvider
from backend.cluster.state_history import StateRecord
from backend.cluster.taskmanager_samples import memory_of_slots
from backend.cluster.vertex_runs import VertexRuns
from backend.cluster.wall_dates import WallDates
from backend.cluster.withheld import JobSecrets, given_of
from backend.config import environment
from runtime.checkpoint.statistics import CheckpointsSnapshot, StatisticsRecord
from runtime.common.configuration import Configuration
from runtime.core.clock import Clock
from runtime.core.ids import Attempt, SlotId, VertexId
from runtime.graph.job_graph import JobGraph
from runtime.graph.plan import job_plan
from runtime.jobmaster.actions import RequestAnswered
from runtime.jobmaster.checkpoint_home import CheckpointHome
from runtime.jobmaster.driver import JobMasterDriver
from runtime.jobmaster.events import JobMasterEvent
from runtime.jobmaster.execution_graph import ExecutionGraph, Region, num_slots
from runtime.jobmaster.job_state import JobState
from runtime.jobmaster.peeks import PeekRequest, PeekView
from runtime.jobmaster.rescaling import rescaled
from runtime.jobmaster.stack_reports import StackReport
from runtime.jobmaster.status import JobStatusSnapshot, TaskSnapshot

logger = logging.getLogger(__name__)

ANSWERS_TIMEOUT_MS = 5_000
"""Time that the end of a job waits for the results of its operations, so that a stop is saved with its savepoint. The
state machine answers when it ends; this limit is for a JobMaster that takes long to end."""
SQL_RETRY_S = 1.0

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class JobPast:
    """Holds what earlier leaders have left of a job."""

    first_attempt: Attempt
    """Number of the first attempt here, already in SQL; earlier leaders used lower ones."""
    exceptions: list[Document]
    """Known failures of earlier attempts, newest first."""
    failures: int
    """Total number of earlier failures; `exceptions` may hold only the newest."""
    placement: Sequence[ClusterPlacement] = ()
    """Where the attempt runs, and is to go on; empty: nowhere."""
    statistics: StatisticsRecord | None = None
    """Of its checkpoints; None: there are none."""
    left_stop: str | None = None
    """URI of the savepoint with which it was to stop; None: it was not."""


STOP_RETRY_MS = 10_000.0
"""Time between two requests for the stop of a job that has no more batches."""


class JobRunner:
    """Runs one job.

    Args:
        job: its row, owned by this leader; changed here, saved by the jobmanager.
        graph: its graph, with the parallelisms and directories that it runs with.
        store: records attempts after the first one.
        checkpoints: store of completed checkpoints.
        storage: storage of the checkpoints.
        resources: grants slots.
        host: address of this process that slots can reach.
        logs: receives the slots' output.
        clock: for all deadlines.
        past: what earlier leaders have left.

    Raises:
        ConfigurationError: an option of the job is malformed.
    """

    def __init__(
        self,
        job: Job,
        graph: JobGraph,
        store: JobStore,
        checkpoints: SqlCompletedStore,
        storage: ClusterStorage,
        resources: ResourceManager,
        host: str,
        logs: JobLogs,
        clock: Clock,
        past: JobPast,
    ) -> None:
        self.job = job
        self._graph = graph
        self._store = store
        self._logs = logs
        self._checkpoints = checkpoints
        self._resources = resources
        self._clock = clock
        self._first_attempt = past.first_attempt
        self._attempt_given_up = threading.Event()
        self._ended_ms: float | None = None
        self._restarts_before = job.restarts
        #: with the parallelisms that the row has
        self._noted = graph
        self._live = LiveDocument(job, graph, past.exceptions, past.failures)
        self._dates = WallDates(clock.now_ms(), clock.monotonic_ms())
        self.states = StateRecord(job.document, self._dates)
        self.runs = VertexRuns(job.document)
        #: metrics whose history somebody has asked for; written by the leader
        self.pins: Sequence[Pin] = ()
        #: operations on the job that are not completed, for its document; written by the leader
        self.open_operations: Sequence[Document] = ()
        #: whether the job ran before this leader took it
        self._has_run = "RUNNING" in job.state_times
        self._places: dict[Attempt, dict[SlotId, Placement]] = {}
        self._placements_left = PlacementRecords(job.id, store)
        #: failures under this leader, as last observed
        self._failures = 0
        #: whether the number of slots that it begins with is still undecided
        self._is_open = False
        self._begun = False
        self._abandoned = False
        self._is_cancelled = False
        #: set by the driver's thread while the job has no more batches, and nobody has requested its stop
        self._wants_to_stop = threading.Event()
        self._stop_requested_ms = float("-inf")
        #: location of the savepoint that it stops with, as last observed; None: it does not stop
        self.stops_with: str | None = None
        #: since when it has been RUNNING, monotonic; None: it was not when it was observed last
        self._running_ms: float | None = None
        #: why an attempt cannot begin yet; written by the driver's thread
        self._database_trouble = ""
        self._lock = threading.Lock()
        self._is_placed = bool(past.placement)
        running = rescaled(graph, past.placement[0].region.parallelism) if past.placement else graph
        configuration = Configuration.from_dict(dict(graph.configuration))
        patience = Patience.of(configuration)
        home = self._home(storage, configuration, past.left_stop)
        self._provider: ClusterSlotProvider
        with ExitStack() as undo:

            def create_provider(post: Callable[[JobMasterEvent], None]) -> ClusterSlotProvider:
                self._provider = provider = self._create_provider(host, configuration, past.placement, post)
                # its control server listens already, and nobody would ever stop it
                undo.callback(provider.discard)
                return provider

            self._driver = self._create_driver(running, create_provider, home, past)
            self.scaling = JobScaling(job, graph, patience, self._driver, self._reserve_instead, clock)
            self.autoscaling = JobAutoscaling(running, clock, job.autoscaler_enabled)
            self.scaling.room, self.scaling.target = self.autoscaling.room, self.autoscaling.target
            undo.pop_all()
        self.requests = JobRequests(self._driver, self._rescale)
        self._thread = threading.Thread(target=self._driver.run, name=f"job-{job.id[:8]}", daemon=True)

    def _home(self, storage: ClusterStorage, configuration: Configuration, left_stop: str | None) -> CheckpointHome:
        checkpoints = self._checkpoints
        return CheckpointHome(
            storage.checkpoints_of(configuration),
            storage.signed_files(),
            lambda: checkpoints,
            self._store.epoch,
            is_asked_always=True,
            allowed=storage.allowed,
            left_stop=left_stop,
            give_up_stop=self._give_up_stop,
            may_write=checkpoints.may_write,
        )

    def _give_up_stop(self) -> None:
        with brief_connection():
            self._store.give_up_stop(self.job.id)

    def _create_provider(
        self,
        host: str,
        configuration: Configuration,
        placement: Sequence[ClusterPlacement],
        post: Callable[[JobMasterEvent], None],
    ) -> ClusterSlotProvider:
        return ClusterSlotProvider(
            self._resources,
            host,
            self.job.id,
            self.job.created_at,
            self._has_run,
            configuration,
            self._begin,
            self._record_attempt,
            self._record_placements,
            post,
            self._store.epoch,
            placement,
            self._store.may_act,
        )

    def _create_driver(
        self,
        graph: JobGraph,
        create_provider: Callable[[Callable[[JobMasterEvent], None]], ClusterSlotProvider],
        home: CheckpointHome,
        past: JobPast,
    ) -> JobMasterDriver:
        state_times = self.job.state_times
        newest_state = max(state_times, key=lambda state: state_times[state], default="")
        return JobMasterDriver(
            graph,
            create_provider,
            self._logs,
            self._clock,
            # an attempt that goes on has begun already
            Attempt(past.first_attempt + 1) if past.placement else past.first_attempt,
            home,
            placement=[of.region for of in past.placement],
            was_suspended=newest_state == SUSPENDED,
            has_run=self._has_run,
            statistics=past.statistics,
            secrets=JobSecrets(environment.secret_store(), given_of(self.job)),
            stop=self._wants_to_stop.set,
        )

    # --- called by the jobmanager's loop ------------------------------------------------------------------------------

    def start(self) -> None:
        """Request the slots of the first attempt; the job runs once they are granted. Or adopt those that it has."""
        if self._is_placed:
            self._begin()
            return
        self._is_open = self.scaling.is_elastic
        self._provider.reserve(self._first_attempt, self._regions_of(self._graph), is_open=self._is_open)

    def cancel(self) -> None:
        """Cancel the job; further calls do nothing."""
        if self._is_cancelled:
            return
        self._is_cancelled = True
        logger.info("job %s is cancelled", self.job.id)
        self._driver.cancel()
        self._begin_without_slots()

    def fail(self, error: Exception) -> None:
        """Fail the job because something around its JobMaster is broken."""
        self._driver.fail(error)
        self._begin_without_slots()

    def progress_of(self, operation: Operation, target: str | None) -> Document | None:
        """Return what is to be recorded before an operation begins: where its savepoint goes; None: nothing.

        Args:
            operation: the operation.
            target: URI of the directory that its user names, which is allowed; None: none is named.
        """
        if operation.kind not in (Operation.Kind.SAVEPOINT, Operation.Kind.STOP):
            return None
        directory = self._driver.new_savepoint_directory(target)
        return None if directory is None else {"directory": directory, "attempt": self.job.attempt}

    def carry_out(self, operation: Operation) -> None:
        """Begin an operation; `requests` has its result later."""
        self.requests.begin(operation)

    @property
    def waits_for_slots(self) -> bool:
        """Return whether it has requested slots that are not granted yet."""
        return self._resources.is_waiting(self.job.id)

    def elastic(self, held: tuple[int, int]) -> ElasticJob | None:
        """Return the observation of the job for the scheduler of elastic jobs; None: it is not one, or ends.

        Args:
            held: numbers of its slots on TaskManagers that stay, and on those that are draining.
        """
        if self._is_cancelled or self.job.is_terminal or not (self.scaling.is_elastic or self._is_open):
            self.scaling.why = ""
            return None
        return self.scaling.seen(self.waits_for_slots, self._running_ms, held, has_begun=self._begun)

    def scale(self, verdict: Verdict, standing: Standing) -> None:
        """Do what the scheduler of elastic jobs has decided; see `JobScaling.follow`."""
        self.scaling.follow(verdict, standing, has_begun=self._begun)

    def end_is_saved(self) -> None:
        """Note that the job's row records its end."""
        self._checkpoints.end_is_saved()

    @property
    def outlives_leader(self) -> bool:
        """True if the job runs on when this process ends, for the next leader to adopt its slots."""
        return self._begun and self._provider.is_adoptable

    def abandon(self) -> None:
        """Leave the job to the next leader and release its slots, because this process ends."""
        self._abandoned = True
        self._attempt_given_up.set()
        self._resources.withdraw(self.job.id)
        # from here on, none of its checkpoints is removed or deleted
        if self.outlives_leader:
            self._driver.leave()
        elif self._begun:
            self._driver.abandon()
        self._checkpoints.give_up()

    def wait_abandoned(self, timeout_s: float) -> None:
        """Wait for the slots to be released."""
        if not self._begun:
            self._provider.close()
        elif self._thread.ident is not None:
            self._thread.join(timeout_s)

    @property
    def is_over(self) -> bool:
        """True if the job has ended and its thread is gone."""
        return self._begun and not self._thread.is_alive()

    def observe(self) -> bool:
        """Update the row from the state machine; return whether anything but metrics has changed."""
        job = self.job
        if job.is_terminal:
            return False
        before = self._told()
        snapshot = self._driver.status()
        if snapshot.state.is_terminal and not self._may_end():
            return False
        now = self._clock.now_ms()
        is_new = snapshot.state is not JobState.CREATED or not self._has_run
        job.state = snapshot.state.value if is_new else JobState.RESTARTING.value
        dates = self._dates_now()
        job.state_times = job.state_times | {
            state.value: dates.at(since) for state, since in snapshot.state_since_ms.items()
        }
        self.states.note(snapshot.state_changes)
        job.attempt = max(snapshot.attempt, self._first_attempt)
        self.stops_with = snapshot.stops_with
        self._note_running(snapshot)
        if self._begun:
            self.scaling.observed(snapshot.parallelism)
        self._note_parallelism()
        job.restarts = self._restarts_before + snapshot.restarts
        job.waiting_for = "" if job.is_terminal else self._waiting_for(snapshot)
        if job.state in TERMINAL_STATES:
            job.ended_at = now
            # no slots are kept for it any more, whatever ends after this
            self._resources.withdraw(job.id)
        if job.state == "FAILED" and job.failure is None and (entries := self.exceptions()):
            job.failure = {name: entries[0][name] for name in ("message", "stacktrace", "timestamp")}
        self._failures = snapshot.failures
        self._logs.note_failures(snapshot.exceptions, dates.offset_ms)
        return before != self._told()

    @property
    def disowns_checkpoints(self) -> bool:
        """True if the job ended in a way that keeps its checkpoints."""
        return self.job.is_terminal and self._driver.status().leaves_checkpoints

    @property
    def has_removed_checkpoints(self) -> bool:
        """True if the directory of the job's checkpoints was there when the job had ended, and is removed."""
        return self._driver.has_removed_directory

    def document(self) -> Document:
        """Return the current live document."""
        snapshot = self._driver.status()
        document = self._live.build(
            snapshot,
            self._placements(snapshot),
            self._clock.now_ms(),
            self._exceptions(snapshot),
            self._dates_now(),
            "" if self.job.is_terminal else self.scaling.why,
            {} if self.job.is_terminal else self.autoscaling.document(),
            None if self.job.is_terminal else self.scaling.room,
            () if self.job.is_terminal else self.open_operations,
        )
        self.runs.note(document)
        return document

    @property
    def live_vertices(self) -> Collection[VertexId]:
        """Return the vertices of whose watermarks the last document says that a distance to the clock is a lag."""
        return {VertexId(vertex) for vertex in self._live.last.get("event_time", {}).get("live", {})}

    def metric_row(self) -> Row:
        """Return the numbers whose history is kept, as of the last document; {} before the first one."""
        last = self._live.last
        if not last:
            return {}
        row = sample_row(last, self._live.figures, self.checkpoints())
        return row | pinned_row(self.pins, last["vertices"], self.tasks()) if self.pins else row

    def memory_of_slots(self) -> dict[tuple[str, int], float]:
        """Return the memory of its slots, by TaskManager and slot, as of the last document; bytes."""
        return memory_of_slots(self._live.last, self.tasks()) if self._live.last else {}

    def sample_stacks(self, vertex_id: str, duration_ms: int) -> None:
        """Ask the slots of a vertex what they do; `stack_reports` has it later."""
        self._driver.sample_stacks(VertexId(vertex_id), duration_ms)

    def peek(self, request: PeekRequest) -> None:
        """Have rows of an edge sampled; `peeks` has them later."""
        self._driver.peek(request)

    def end_peek(self, peek_id: str) -> None:
        """End a peek."""
        self._driver.peeks.stop(peek_id)

    def peeks(self) -> Sequence[PeekView]:
        """Return what the peeks at the job have seen."""
        return self._driver.peeks.views()

    def stack_reports(self) -> Sequence[StackReport]:
        """Return the newest report of each vertex, the newest last."""
        return self._driver.stacks.reports()

    def status(self) -> JobStatusSnapshot:
        """Return the JobMaster's view of the job."""
        return self._driver.status()

    def tasks(self) -> Sequence[TaskSnapshot]:
        """Return the tasks of the current attempt with everything that they have reported."""
        return self._driver.status().tasks

    def unrecorded_statistics(self) -> StatisticsRecord | None:
        """Return the counts of checkpoints if SQL lacks some: failures, and savepoints, are in no checkpoint's row."""
        record, recorded = self._driver.statistics_record(), self._checkpoints.statistics
        if record.ended + record.restored == 0:
            return None
        is_newer = recorded is None or (record.ended, record.restored) > (recorded.ended, recorded.restored)
        return record if is_newer else None

    def statistics_are_recorded(self, record: StatisticsRecord) -> None:
        """Note that SQL has these counts."""
        self._checkpoints.statistics = record

    def request_stop(self) -> None:
        """Request the stop of a job that has no more batches; at most every few seconds, should stops fail."""
        now_ms = self._clock.monotonic_ms()
        if self._wants_to_stop.is_set() and now_ms - self._stop_requested_ms >= STOP_RETRY_MS:
            self._wants_to_stop.clear()
            self._stop_requested_ms = now_ms
            self._store.request_stop(self.job.id, self._clock.now_ms())

    def record_placements(self) -> None:
        """Record where the job runs, as far as that could not be recorded when it was placed.

        Raises:
            DatabaseError: it cannot be recorded now either.
            LeadershipLostError: another jobmanager leads.
        """
        self._placements_left.write()

    def checkpoints(self) -> CheckpointsSnapshot:
        """Return the statistics of the job's checkpoints, also of those under earlier leaders."""
        return self._driver.status().checkpoints

    def exceptions(self) -> list[Document]:
        """Return the failures since this leader took the job, newest first."""
        return self._exceptions(self._driver.status())

    # --- threads of the job -------------------------------------------------------------------------------------------

    def _begin_without_slots(self) -> None:
        """Begin a job that still waits for slots, so that it can end at once."""
        self._resources.withdraw(self.job.id)
        self._begin()

    def _begin(self) -> None:
        with self._lock:
            if self._begun or self._abandoned:
                return
            self._begun = True
        try:
            self._thread.start()
        except RuntimeError as error:
            # the process cannot have another thread: nobody else would ever end the job
            self._driver.break_off(error)

    def _record_attempt(self, attempt: Attempt, regions: Collection[int]) -> bool:
        """Record an attempt; called by the driver while none of its slots runs, so it may wait for SQL."""
        if attempt <= self._first_attempt:
            return True
        self._placements_left.drop(regions)
        try:
            while not self._attempt_given_up.is_set():
                try:
                    with brief_connection():
                        return self._store.record_attempt(self.job.id, attempt, regions)
                except LeadershipLostError:
                    return False
                except DatabaseFailure as error:
                    logger.warning("attempt %d of job %s waits for the database: %s", attempt, self.job.id, error)
                    self._database_trouble = f"the database, to record attempt {attempt}: {error}".strip()
                self._attempt_given_up.wait(SQL_RETRY_S)
        finally:
            self._database_trouble = ""
        return False

    def _record_placements(self, placements: Sequence[ClusterPlacement]) -> None:
        """Record where regions run; called by the driver, once. Where that fails, the leader's next polls do it."""
        self._placements_left.add(placements)
        try:
            with brief_connection():
                self._placements_left.write()
        except (DatabaseFailure, LeadershipLostError) as error:
            logger.warning("where job %s runs could not be recorded yet: %s", self.job.id, error)

    # --- small things -------------------------------------------------------------------------------------------------

    def _exceptions(self, snapshot: JobStatusSnapshot) -> list[Document]:
        self._note_places(snapshot)
        dates = self._dates_now()
        return [
            exception_document(e, dates.at(e.timestamp_ms), self._places.get(e.attempt, {}))
            for e in reversed(snapshot.exceptions)
        ]

    def _dates_now(self) -> WallDates:
        self._dates.look(self._clock.now_ms(), self._clock.monotonic_ms())
        return self._dates

    def _may_end(self) -> bool:
        """Return whether all requests to the job are answered and its output is written, or they have had enough time.

        No leader goes on with a job whose end is recorded: what its slots printed last would be lost with this one.
        """
        now_ms = self._clock.monotonic_ms()
        if self._ended_ms is None:
            self._ended_ms = now_ms
        is_settled = not self.requests.is_open and self._logs.are_written
        return is_settled or now_ms - self._ended_ms > ANSWERS_TIMEOUT_MS

    def _told(self) -> tuple[object, ...]:
        """Return the state that is saved when it changes; `waiting_for` of a running job changes often and is not."""
        job = self.job
        waiting_for = "" if job.state == JobState.RUNNING.value else job.waiting_for
        return job.state, job.attempt, job.restarts, waiting_for, self._failures, job.requirements

    def _waiting_for(self, snapshot: JobStatusSnapshot) -> str:
        shortage = self._resources.shortage(self.job.id, self.scaling.least_slots)
        return shortage or self._database_trouble or snapshot.waiting_for

    def _note_running(self, snapshot: JobStatusSnapshot) -> None:
        if snapshot.state is not JobState.RUNNING:
            self._running_ms = None
            return
        # an adopted job has been running since before this leader knows
        before = self._clock.monotonic_ms() if self._running_ms is None else self._running_ms
        self._running_ms = snapshot.state_since_ms.get(JobState.RUNNING, before)

    def _note_parallelism(self) -> None:
        """Note parallelisms changed by rescaling, with which the next leader will start the job."""
        graph, job = self.scaling.graph, self.job
        if graph is self._noted:
            return
        before = {v.vertex_id: v.parallelism for v in self._noted.vertices}
        changed = {v.vertex_id: v.parallelism for v in graph.vertices if v.parallelism != before[v.vertex_id]}
        self._noted = graph
        job.vertex_parallelism = {**job.vertex_parallelism, **changed}
        job.parallelism = max(v.parallelism for v in graph.vertices)
        job.slots_required = num_slots(graph)
        job.plan = job_plan(graph)

    def _regions_of(self, graph: JobGraph) -> Sequence[Region]:
        return ExecutionGraph(graph, self._first_attempt).regions

    def _reserve_instead(self, graph: JobGraph) -> None:
        self._is_open = False
        self._provider.reserve_instead(self._first_attempt, self._regions_of(graph))

    def _rescale(self, given: Mapping[str, Any]) -> Future[RequestAnswered]:
        """Carry out a RESCALE operation."""
        counts = self._resources.slots()
        available = counts.held.get(self.job.id, (0, 0))[0] + counts.free
        return self.scaling.ask(given, available, is_waiting=self.waits_for_slots)

    def _placements(self, snapshot: JobStatusSnapshot) -> Mapping[SlotId, Placement]:
        where = self._provider.placements()
        return {s.slot: Placement(where.get(s.slot, ""), s.host, s.pid) for s in snapshot.slots}

    def _note_places(self, snapshot: JobStatusSnapshot) -> None:
        """Remember where the slots of each attempt ran, as failures are shown long after the slots are gone."""
        attempts = {task.slot: task.attempt for task in snapshot.tasks}
        places = self._placements(snapshot)
        for slot in snapshot.slots:
            if slot.pid is not None:
                known = self._places.setdefault(attempts.get(slot.slot, snapshot.attempt), {})
                # a released slot no longer has a TaskManager
                if slot.slot not in known or places[slot.slot].taskmanager:
                    known[slot.slot] = places[slot.slot]
        for attempt in sorted(self._places)[:-20]:
            del self._places[attempt]
