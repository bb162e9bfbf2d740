"""JobManager: the leading process. One loop observes SQL and the bus, has the machine decide, and acts.

Every poll derives what is to be done: the machine (`leader_machine`) is shown the rows and what runs here, and decides
which jobs to run, which operations to begin or answer, and what to save. Only SQL records what is done: work that fails
half-way, or is done but not recorded, is repeated. `led_jobs`, `led_operations` and `led_taskmanagers` observe and act;
`publisher` sends documents. An error in one job fails that job, never the leader.

Every job's JobMaster has a thread of its own and keeps running whatever this loop waits for: SQL and Redis may be away
for a while. The loop waits for no storage: threads look at it (`location_checks`, `left_savepoints`,
`snapshot_disposal`, `log_retention`), and what needs it is repeated until it answers. A jobmanager that is no longer
the leader ends.
"""

from __future__ import annotations

import enum
import logging
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

from django.conf import settings
from django.db import Error as DatabaseFailure
from django.utils.module_loading import import_string
from kombu.exceptions import OperationalError

from backend.cluster import bus, commands
from backend.cluster.checkpoint_counts import read_statistics
from backend.cluster.checkpoint_home import check_location, cluster_storage, with_cluster_options
from backend.cluster.checkpoint_store import SqlCompletedStore, completed_checkpoints
from backend.cluster.cluster_document import listed_jobs
from backend.cluster.commands import SendCommand
from backend.cluster.containment import Containment
from backend.cluster.environment_files import environment_files
from backend.cluster.events import (
    AutoscalerSwitched,
    Event,
    Heartbeat,
    PeekEnded,
    PeekWanted,
    ReceivedEvent,
    RowsChanged,
    StacksWanted,
    StageEnded,
    TaskManagerGone,
)
from backend.cluster.further_work import FurtherWork
from backend.cluster.job_logs import JobLogs, SlotLogWriter, job_log_directory, log_directory
from backend.cluster.job_runner import JobPast, JobRunner
from backend.cluster.job_store import JobStore
from backend.cluster.leader_bus import BusError, LeaderBus
from backend.cluster.leader_machine import LeaderMachine
from backend.cluster.leadership import Leadership, LeadershipLostError
from backend.cluster.led_autoscaling import LedAutoscaling
from backend.cluster.led_jobs import LedJobs
from backend.cluster.led_operations import LedOperations
from backend.cluster.led_scaling import LedScaling
from backend.cluster.led_taskmanagers import LedTaskManagers
from backend.cluster.left_savepoints import LeftSavepoints
from backend.cluster.location_checks import LocationChecks
from backend.cluster.log_retention import LogRetention, growth_of
from backend.cluster.metric_history import SAMPLE_INTERVAL_MS
from backend.cluster.models import Job
from backend.cluster.open_stops import left_stop
from backend.cluster.placements import placed_stages, placements_of
from backend.cluster.program_files import program_files
from backend.cluster.publisher import Publisher
from backend.cluster.resource_manager import TASKMANAGER_TIMEOUT_MS, ResourceManager
from backend.cluster.row_retention import RowRetention
from backend.cluster.scaling_history import ScalingHistory
from backend.cluster.slot_pool import StageKey
from backend.cluster.snapshot_disposal import SnapshotDisposal
from backend.cluster.withheld import given_of
from runtime.common import options
from runtime.core.clock import SYSTEM_CLOCK, Clock
from runtime.core.ids import Attempt, JobId, OperatorId
from runtime.graph.codec import job_graph_from_json
from runtime.jobmaster.peeks import PeekRequest
from runtime.jobmaster.rescaling import rescaled

logger = logging.getLogger(__name__)

#: the loop's beat: the maximum delay before a change of state is published
BEAT_S = 0.25
#: pause of the loop after the database has failed
DATABASE_RETRY_S = 1.0
#: at shutdown, time for the jobs' slots to leave
STOP_TIMEOUT_MS = 3_000.0


class Duty(enum.Enum):
    """Regular work of the leader; the value is its interval, ms."""

    POLL = 1_000
    """Derive from SQL what is to be done; a submission also wakes the loop."""
    PUBLISH = 500
    """Publish live documents: users cannot read faster, and browsers have to render them."""
    METRICS = 2_000
    """Publish metrics: they are some kilobytes per subtask, and read on demand only."""
    SAMPLE = SAMPLE_INTERVAL_MS
    """Sample the metrics whose history is kept."""


class JobManager:
    """The leading jobmanager.

    Args:
        leadership: its leadership, just taken.
        leader_bus: its bus, closed by this class.
        host: address of this process that slots can reach; a loopback address if all slots are on this machine.
        stop: ends the loop once it is set.
        clock: for all deadlines.
        send: sends a command to a TaskManager's worker.
        attempts: job → the newest attempt that the storage knows of, at the take-over.
    """

    def __init__(
        self,
        leadership: Leadership,
        leader_bus: LeaderBus,
        host: str,
        stop: threading.Event,
        clock: Clock = SYSTEM_CLOCK,
        send: SendCommand = commands.send,
        attempts: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self._host = host
        self._clock = clock
        self._stop = stop
        self.leadership = leadership
        self._bus = leader_bus
        epoch = leadership.epoch
        logger.info("leading with epoch %d", epoch)
        self._containment = Containment()
        self._store = JobStore(self.leadership)
        self._writer = SlotLogWriter(epoch)
        self._disposal = SnapshotDisposal(cluster_storage().files(), leadership.may_act, clock)
        self._locations = LocationChecks(check_location, clock)
        self._left = LeftSavepoints(cluster_storage().files(), leadership.may_act, clock)
        self._logs = LogRetention(
            log_directory(),
            settings.TIDEMARK_KEPT_LOGS,
            self._store,
            leadership.may_act,
            clock,
            settings.TIDEMARK_JOB_LOGS_MIB << 20,
            self._note_in_log,
        )
        self.publisher = Publisher(leader_bus, clock, leadership.may_act)
        self.resources = ResourceManager(epoch, clock, partial(self._command, send), self._may_grant)
        machine = LeaderMachine(epoch)
        self.jobs = LedJobs(
            machine,
            self._store,
            self._create_runner,
            self.resources.disown,
            self.publisher,
            clock,
            self._containment,
            attempts,
            leadership.stepped,
        )
        self._operations = LedOperations(
            machine,
            self._store,
            self.jobs,
            self._disposal,
            self._left,
            self._locations.check,
            clock,
            self._containment,
        )
        self._taskmanagers = LedTaskManagers(machine, self._store, self.resources, clock, self._containment)
        self._autoscaling = LedAutoscaling(self.jobs, ScalingHistory(leadership), clock, self._containment)
        self._scaling = LedScaling(self.jobs, self.resources, clock)
        #: jobs that have a runner, or had one when they ended and are to be swept
        self._led: set[str] = set()
        self._further: Sequence[FurtherWork] = [
            import_string(name)(leadership, clock, self._containment, self._locations.check)
            for name in settings.TIDEMARK_LEADER_WORK
        ]
        self._rows = RowRetention(leadership, settings.TIDEMARK_KEPT_JOBS, self._needed_jobs, clock)
        self._is_acting = True
        #: all that was reported up to this monotonic time is handled
        self._read_until_ms = 0.0
        #: duty → when it is due next, monotonic ms
        self._due_ms = dict.fromkeys(Duty, 0.0)
        self._recovered = False
        #: monotonic; what was reported until then is of every TaskManager, unless that is gone
        self._heard_ms = 0.0

    def run(self) -> None:
        """Lead until told to stop, or until another jobmanager leads.

        Raises:
            LeadershipLostError: another jobmanager leads.
        """
        try:
            while not self._stop.is_set():
                self.step(BEAT_S)
                if self._containment.database_failed:
                    self._stop.wait(DATABASE_RETRY_S)
        finally:
            self.close()

    def hasten(self, *duties: Duty) -> None:
        """Make duties, or all of them, due at the next step."""
        self._due_ms |= dict.fromkeys(duties or Duty, 0.0)

    def step(self, wait_s: float) -> None:
        """Run one turn of the loop; wait up to `wait_s` for an event. Failures are contained, and repeated work.

        Without a valid lease nothing is done; what TaskManagers report waits in the stream.

        Raises:
            LeadershipLostError: another jobmanager leads.
        """
        self._containment.database_failed = False
        self.leadership.stepped()
        if not self._may_act():
            self._stop.wait(wait_s)
            return
        if not self._recovered:
            with self._containment.of("the take-over"):
                self._recover()
            if not self._recovered:
                self._stop.wait(wait_s)
                return
        for event, age_ms in self._take_events(wait_s):
            with self._containment.of(f"an event of kind {type(event).__name__}"):
                self._on_event(event, age_ms)
        # without the bus nobody can be heard
        if not self.publisher.is_away and self._taskmanagers.drop_silent(self._read_until_ms):
            self.hasten(Duty.POLL)
        if self._is_due(Duty.POLL):
            self._poll()
        self.jobs.observe()
        if self._is_due(Duty.PUBLISH):
            self.jobs.publish()
            with self._containment.of("the cluster's document"):
                self.publisher.cluster(self._taskmanagers.entries())
        if self._is_due(Duty.METRICS):
            self.jobs.publish_metrics()
        if self._is_due(Duty.SAMPLE):
            self.jobs.sample()
            with self._containment.of("the history of TaskManagers"):
                self.publisher.sample_taskmanagers(self._taskmanagers.entries(), self.jobs.memory_of_slots())

    # --- work ---------------------------------------------------------------------------------------------------------

    def _may_act(self) -> bool:
        may_act = self.leadership.may_act()
        if may_act is not self._is_acting:
            logger.warning(
                "the lease is valid again"
                if may_act
                else "the lease has lapsed: this JobManager does nothing until it is renewed"
            )
            self._is_acting = may_act
        return may_act

    def _command(self, send: SendCommand, worker_name: str, task: str, expires_s: float, **arguments: Any) -> None:
        """Send a command unless the lease has lapsed; any thread."""
        try:
            may_act = self.leadership.may_act()
        except LeadershipLostError as error:
            raise OperationalError(str(error)) from error
        if not may_act:
            raise OperationalError("the leader's lease could not be renewed")
        send(worker_name, task, expires_s, **arguments)

    def _may_grant(self) -> bool:
        """Return whether slots may be granted: commands go out, and this leader does not end; any thread."""
        try:
            return not (self._stop.is_set() or self.publisher.is_away) and self.leadership.may_act()
        except LeadershipLostError:
            return False

    def _is_due(self, duty: Duty) -> bool:
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._due_ms[duty]:
            return False
        self._due_ms[duty] = now_ms + duty.value
        return True

    def _note_in_log(self, job_id: str, attempt: int, text: str) -> None:
        """Write a line to the log of a job; any thread."""
        JobLogs(self._writer, job_log_directory(job_id)).note(attempt, text, self._clock.now_ms())

    def _poll(self) -> None:
        """Derive from SQL what is to be done, and do it: jobs first, because operations need their runners."""
        with self._containment.of("the search for jobs"):
            self.jobs.poll()
        with self._containment.of("the search for operations"):
            self._operations.poll()
        with self._containment.of("the search for checkpoints that are left of ended jobs"):
            self._sweep()
        with self._containment.of("logs that are not kept"):
            running = {job_id: runner.job.attempt for job_id, runner in self.jobs.runners.items()}
            self._logs.poll(running, self._writer.grown(growth_of(settings.TIDEMARK_JOB_LOGS_MIB << 20)))
        with self._containment.of("rows that are not kept"):
            self._rows.poll(self.jobs.runners.keys())
        with self._containment.of("the rows of TaskManagers"):
            self._taskmanagers.poll()
        with self._containment.of("TaskManagers that are draining"):
            self.jobs.leave(self.resources.on_draining())
        with self._containment.of("autoscalers"):
            self._autoscaling.poll()
        with self._containment.of("elastic jobs"):
            self._scaling.poll()
        for work in self._further:
            with self._containment.of(f"the search of {type(work).__name__}"):
                work.poll()

    def _sweep(self) -> None:
        """Delete checkpoints that are left of ended jobs, and record that they are deleted."""
        for job_id in self._disposal.swept():
            self._store.leftovers_are_deleted(job_id)
            self._disposal.sweep_is_recorded(job_id)
            self.jobs.cleared.discard(job_id)
        known = {*self.jobs.runners, *self._disposal.sweeping}
        left = self._store.leftovers(known, self._locations.check)
        for job_id, root in left:
            # slots that nobody has ended yet may write further checkpoints; without those reports they are not known
            if self.resources.runs(job_id) or (job_id not in self._led and self._read_until_ms < self._heard_ms):
                continue
            # else what cannot be found may be on a storage that is not mounted
            took_any = job_id not in self.jobs.cleared and self._store.took_checkpoints(job_id)
            self._disposal.sweep(job_id, root, took_any=took_any)
        self._led = (self._led | self.jobs.runners.keys()) & {*known, *(job_id for job_id, _ in left)}

    def _needed_jobs(self) -> set[str]:
        """Return the jobs that apps above this one refer to."""
        return {job_id for work in self._further for job_id in work.needed_jobs()}

    def _recover(self) -> None:
        """Take over what earlier leaders left behind, apart from what every poll derives."""
        # before the first TaskManager is heard: stages that no job has are ended
        self.resources.adopt(placed_stages())
        self.publisher.recover(listed_jobs())
        self._expect_reports()
        self._recovered = True

    def _expect_reports(self) -> None:
        """Note that from now on, every TaskManager can report to this leader."""
        self._heard_ms = self._clock.monotonic_ms() + TASKMANAGER_TIMEOUT_MS

    def _create_runner(self, job: Job) -> JobRunner:
        """Return the runner of a job that this leader has taken; see `LedJobs` for errors."""
        storage = cluster_storage()
        graph = replace(job_graph_from_json(given_of(job).graph), job_id=JobId(job.id))
        checked = with_cluster_options(graph.configuration, storage, self._locations.check)
        graph = replace(graph, configuration=checked)
        python_files = graph.configuration.get(options.PYTHON_FILES.key)
        if python_files:
            located = program_files().located(python_files)
            graph = replace(graph, configuration={**graph.configuration, options.PYTHON_FILES.key: located})
        environment = graph.configuration.get(options.PYTHON_ENVIRONMENT.key)
        if environment:
            located = environment_files().location(environment)
            graph = replace(graph, configuration={**graph.configuration, options.PYTHON_ENVIRONMENT.key: located})
        graph = rescaled(graph, job.vertex_parallelism)
        return JobRunner(
            job,
            graph,
            self._store,
            SqlCompletedStore(self.leadership, job.id, completed_checkpoints(job.id), self._clock),
            storage,
            self.resources,
            self._host,
            JobLogs(self._writer, job_log_directory(job.id)),
            self._clock,
            JobPast(
                Attempt(job.attempt),
                self._store.known_exceptions(job),
                self._store.num_failures(job.id),
                placements_of(job.id),
                read_statistics(job.id),
                left_stop(job.id),
            ),
        )

    # --- events -------------------------------------------------------------------------------------------------------

    def _take_events(self, wait_s: float) -> list[ReceivedEvent]:
        begun_ms = self._clock.monotonic_ms()
        try:
            events = self._bus.take_events(wait_s)
        except BusError as error:
            if not self.publisher.is_away:
                logger.warning("Redis cannot be used: %s", error)
            self.publisher.is_away = True
            self._stop.wait(wait_s)
            return []
        if self.publisher.is_away and self.publisher.takes_writes():
            logger.info("Redis is back")
            self.publisher.bus_is_back()
            self.resources.renew_all()
            self._expect_reports()
        if not (self._bus.is_behind or self.publisher.is_away):
            # a bus that takes no writes has no reports; a process that is frozen in the call gets an answer that is as
            # old as the call
            self._read_until_ms = begun_ms
        return events

    def _on_event(self, event: Event, age_ms: float) -> None:
        match event:
            case Heartbeat(report, stages):
                if self._taskmanagers.heartbeat(report, stages, age_ms):
                    self.hasten(Duty.POLL)
            case StageEnded(job, attempt, stage, error):
                self.resources.stage_ended(StageKey(job, Attempt(attempt), stage), error)
            case TaskManagerGone(name, cause):
                if self._taskmanagers.gone(name, cause):
                    self.hasten(Duty.POLL)
            case RowsChanged():
                self.hasten(Duty.POLL)
            case AutoscalerSwitched():
                self._autoscaling.look()
                self.hasten(Duty.POLL)
            case StacksWanted(job, vertex, duration_ms):
                self.jobs.sample_stacks(job, vertex, duration_ms)
            case PeekWanted(job, peek, edge, subtasks, rows, of_late):
                # what has waited in the bus is so much older than the look
                lease_ms = int(bus.PEEK_LEASE_S * 1_000 - age_ms)
                if lease_ms > 0:
                    known = edge if isinstance(edge, int) else OperatorId(edge)
                    self.jobs.peek(job, PeekRequest(peek, known, subtasks, rows, lease_ms, of_late))
            case PeekEnded(job, peek):
                self.jobs.end_peek(job, peek)

    # --- the end ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Abandon all jobs: they stay in SQL for the next leader; slots end with this process's streams.

        If this leader ends as planned, the jobs are suspended: their next attempts are not restarts.
        """
        if self._stop.is_set():
            with suppress(LeadershipLostError):
                self.jobs.suspend()
        deadline_ms = self._clock.monotonic_ms() + STOP_TIMEOUT_MS
        runners = self.jobs.runners.values()
        for runner in runners:
            runner.abandon()
        try:
            self.leadership.release()
        except DatabaseFailure as error:
            logger.warning("the lease could not be released: %s", error)
        for runner in runners:
            runner.wait_abandoned(max(0.0, deadline_ms - self._clock.monotonic_ms()) / 1000.0)
        self._disposal.close()
        self._left.close()
        self._logs.close()
        self._locations.close()
        self._writer.close()
        self._bus.close()
