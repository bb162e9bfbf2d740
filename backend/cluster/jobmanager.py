"""JobManager: the leading process. One loop takes jobs and operations from SQL, listens to TaskManagers and publishes.

Every poll reads from the rows what is to be done: it runs jobs that have not ended and have no runner here, and begins
operations that are not completed. Only SQL records what is done: work that fails half-way, or is done but not recorded,
is repeated at the next poll. An error in one job fails that job, never the leader.

Every job's JobMaster has a thread of its own and keeps running whatever this loop waits for: SQL and Redis may be away
for a while. A jobmanager that is no longer the leader ends.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from django.db import DatabaseError, close_old_connections

from backend.cluster import bus, commands
from backend.cluster.checkpoint_document import DETAILS, CheckpointDetails, all_details
from backend.cluster.checkpoint_home import cluster_storage, with_cluster_directories
from backend.cluster.checkpoint_store import SqlCompletedStore, completed_checkpoints
from backend.cluster.cluster_document import cluster_document, job_entry, listed_jobs, taskmanager_entry
from backend.cluster.commands import SendCommand
from backend.cluster.events import Event, Heartbeat, ReceivedEvent, RowsChanged, StageEnded, TaskManagerGone
from backend.cluster.job_logs import JobLogs, SlotLogWriter, job_log_directory
from backend.cluster.job_runner import JobRunner
from backend.cluster.job_store import JobStore
from backend.cluster.leader_bus import BusError, LeaderBus
from backend.cluster.leadership import Leadership, LeadershipLostError
from backend.cluster.live_document import newest_failure, planned_document, told_document
from backend.cluster.models import Job, Operation, TaskManager
from backend.cluster.resource_manager import TASKMANAGER_TIMEOUT_MS, KnownTaskManager, ResourceManager
from backend.cluster.slot_pool import StageKey
from backend.cluster.snapshot_disposal import SnapshotDisposal
from backend.cluster.snapshot_users import job_that_needs
from backend.cluster.task_metrics import ACCUMULATORS, accumulators_document, metric_fields
from runtime.checkpoint.errors import CheckpointStorageError
from runtime.checkpoint.settings import CheckpointSettings
from runtime.common import options
from runtime.common.config_options import ConfigurationError
from runtime.common.configuration import Configuration
from runtime.core.clock import SYSTEM_CLOCK, Clock
from runtime.core.ids import Attempt, JobId
from runtime.graph.codec import GraphFormatError, job_graph_from_json
from runtime.graph.job_graph import JobGraph
from runtime.jobmaster.rescaling import RescaleError, rescaled
from runtime.jobmaster.restart_strategy import NoRestart, create_restart_strategy

logger = logging.getLogger(__name__)

#: the loop's beat: the maximum delay before a change of state is published
BEAT_S = 0.25
#: interval of polling SQL for new jobs; a submission also wakes the loop
POLL_MS = 1_000
#: live documents at most twice a second: users cannot read faster, and browsers have to render them
PUBLISH_MS = 500
#: metrics less often: they are some kilobytes per subtask, and read on demand only
METRICS_MS = 2_000
#: at shutdown, time for the jobs' slots to leave
STOP_TIMEOUT_S = 3.0

#: maximum wait of an operation for its job to run: after a change of leader, slots and state come first
OPERATION_PATIENCE_MS = 120_000


class JobManager:
    """The leading jobmanager.

    Args:
        leadership: its leadership, just taken.
        leader_bus: its bus, closed by this class.
        home: TIDEMARK_HOME, for the slots' logs.
        host: address of this process that slots can reach; a loopback address if all slots are on this machine.
        clock: for all deadlines.
        send: sends a command to a TaskManager's worker.
    """

    def __init__(
        self,
        leadership: Leadership,
        leader_bus: LeaderBus,
        home: Path,
        host: str,
        clock: Clock = SYSTEM_CLOCK,
        send: SendCommand = commands.send,
    ) -> None:
        self._home = home
        self._host = host
        self._clock = clock
        self._stop = threading.Event()
        self.leadership = leadership
        self._bus = leader_bus
        logger.info("leading with epoch %d", self.leadership.epoch)
        self._store = JobStore(self.leadership)
        self.resources = ResourceManager(self.leadership.epoch, clock, send)
        self._writer = SlotLogWriter()
        self._runners: dict[str, JobRunner] = {}
        #: jobs whose save failed (SQL was away) and must be repeated
        self._unsaved: set[str] = set()
        self._details: dict[str, CheckpointDetails] = {}
        self._leads_since = clock.now_ms()
        self._disposal = SnapshotDisposal(cluster_storage().files())
        self._entries: dict[str, dict[str, Any]] = {}
        self._published: dict[str, int] = {}
        #: final documents of ended jobs that Redis may not have; without them it would show the jobs running for ever
        self._untold_ends: dict[str, dict[str, Any]] = {}
        self._cluster: dict[str, Any] = {}
        self._next_poll_ms = self._next_publish_ms = self._next_metrics_ms = 0.0
        self._bus_away = False
        self._recovered = False

    def stop(self) -> None:
        """End the loop; callable from any thread and from a signal handler."""
        self._stop.set()

    def run(self) -> None:
        """Lead until `stop`, or until another jobmanager leads.

        Raises:
            LeadershipLostError: another jobmanager leads.
        """
        try:
            while not self._stop.is_set():
                try:
                    self.step(BEAT_S)
                except DatabaseError as error:
                    logger.warning("the database cannot be used: %s", error)
                    close_old_connections()
                    self._stop.wait(1.0)
        finally:
            self._shut_down()

    def step(self, wait_s: float) -> None:
        """Run one turn of the loop; wait up to `wait_s` for an event."""
        if not self._recovered:
            self._recover()
        for event, age_ms in self._take_events(wait_s):
            with self._alone(f"an event of kind {type(event).__name__}"):
                self._on_event(event, age_ms)
        self._drop_silent_taskmanagers()
        now = self._clock.monotonic_ms()
        if now >= self._next_poll_ms:
            self._next_poll_ms = now + POLL_MS
            self._run_jobs()
            self._operate()
        self._answer()
        self._observe()
        if now >= self._next_publish_ms:
            self._next_publish_ms = now + PUBLISH_MS
            self._publish()
        if now >= self._next_metrics_ms:
            self._next_metrics_ms = now + METRICS_MS
            for runner in self._runners.values():
                if not runner.job.is_terminal:
                    with self._of_job(runner):
                        self._tell_metrics(runner, bus.METRICS_EXPIRY_S)

    @contextmanager
    def _alone(self, what: str) -> Iterator[None]:
        """Contain failures of the block so that they hold up nothing else; the work is repeated at the next turn."""
        try:
            yield
        except LeadershipLostError:
            raise
        except DatabaseError as error:
            logger.warning("%s waits for the database: %s", what, error)
            close_old_connections()
        except Exception:
            logger.exception("%s failed; it is retried", what)

    @contextmanager
    def _of_job(self, runner: JobRunner) -> Iterator[None]:
        """Contain failures as `_alone` does, but fail the job unless the database is the cause."""
        with self._alone(f"job {runner.job.id}"):
            try:
                yield
            except (DatabaseError, LeadershipLostError):
                raise
            except Exception as error:
                logger.exception("the jobmanager cannot run job %s any longer", runner.job.id)
                runner.fail(error)
                self._unsaved.add(runner.job.id)
                state = runner.job.state if runner.job.is_terminal else "FAILED"
                self._end_without_run(runner.job, state, f"the jobmanager cannot continue it: {error!r}")
                runner.end_is_saved()
                self._unsaved.discard(runner.job.id)

    # --- jobs ---------------------------------------------------------------------------------------------------------

    def _recover(self) -> None:
        """Take over what earlier leaders left behind, except for jobs."""
        self._store.forget_taskmanagers()
        for job in listed_jobs():
            if job.document:
                self._entries[job.id] = job_entry(job.document)
                if job.is_terminal:
                    self._untold_ends[job.id] = told_document(job.document)
        for job_id, locations in self._store.leftover_checkpoints():
            self._disposal.delete(job_id, locations)
        self._recovered = True

    def _run_jobs(self) -> None:
        """Run every job that has not ended and has no runner."""
        for job in self._store.without_runner(self._runners):
            with self._alone(f"job {job.id}"):
                try:
                    if job.leader_epoch == self._store.epoch or self._take(job):
                        self._run(job)
                except (DatabaseError, LeadershipLostError):
                    raise
                except Exception as error:
                    logger.exception("job %s cannot be run", job.id)
                    self._end_without_run(job, "FAILED", f"it cannot be run: {error!r}")

    def _take(self, job: Job) -> bool:
        """Take a new job, or one of an earlier leader, whose slots are gone with that leader's control streams.

        Returns:
            Whether to run the attempt in its row; False: the job has ended, or a later leader has it.
        """
        if job.state == "INITIALIZING":
            job.state, job.state_times = "CREATED", job.state_times | {"CREATED": self._clock.now_ms()}
            return self._store.take(job)
        cancelling = job.operations.filter(kind="cancel").exclude(state=Operation.State.COMPLETED).exists()
        if cancelling or job.state == "CANCELLING":
            self._end_without_run(job, "CANCELED", "")
            return False
        cause = "the jobmanager that ran the job ended, and its slots with it"
        lost: list[dict[str, Any]] = []
        # a job that never ran has lost nothing: it keeps waiting, which is no restart
        if "RUNNING" in job.state_times or job.exceptions.exists():
            if not self._goes_on(job):
                why = f"{options.RESTART_STRATEGY.key} is none and it takes no checkpoints"
                self._end_without_run(job, "FAILED", f"{cause}; {why}, so the job is not restarted")
                return False
            logger.info("job %s is restarted: %s", job.id, cause)
            lost = [self._failure(job, cause)]
            job.restarts += 1
        job.state = "RESTARTING" if "RUNNING" in job.state_times else "CREATED"
        job.attempt += 1
        return self._store.take(job, lost)

    def _goes_on(self, job: Job) -> bool:
        """Return whether a job that ran under an earlier leader is restarted.

        A job with checkpoints always is: the change of leader is no failure of the job. Otherwise the restart strategy
        decides, as after any failure.
        """
        try:
            configuration = Configuration.from_dict(_graph_of(job).configuration)
            if CheckpointSettings.from_configuration(configuration).is_enabled or job.checkpoints.exists():
                return True
            return not isinstance(create_restart_strategy(configuration, lambda: 0.5), NoRestart)
        except (GraphFormatError, ConfigurationError):
            # `_run` reports the error
            return True

    def _run(self, job: Job) -> None:
        """Run the attempt in the row of a job that this leader has taken; nothing of the attempt has begun yet."""
        first_attempt = Attempt(job.attempt)
        try:
            storage = cluster_storage()
            graph = replace(_graph_of(job), job_id=JobId(job.id))
            graph = replace(graph, configuration=with_cluster_directories(graph.configuration, storage))
            graph = rescaled(graph, job.vertex_parallelism)
            checkpoints = SqlCompletedStore(self.leadership, job.id, completed_checkpoints(job.id), self._clock)
            runner = JobRunner(
                job,
                graph,
                self._store,
                checkpoints,
                storage,
                self.resources,
                self._host,
                JobLogs(self._writer, job_log_directory(self._home, job.id)),
                self._clock,
                first_attempt,
                self._store.known_exceptions(job),
                job.exceptions.count(),
            )
        except (GraphFormatError, ConfigurationError, RescaleError, CheckpointStorageError) as error:
            self._end_without_run(job, "FAILED", str(error))
            return
        self._runners[job.id] = runner
        self._details[job.id] = CheckpointDetails()
        self._unsaved.add(job.id)
        with self._of_job(runner):
            runner.start()
        logger.info("job %s (%s) was taken: attempt %d", job.id, job.name, first_attempt)

    def _end_without_run(self, job: Job, state: str, cause: str) -> None:
        now = self._clock.now_ms()
        job.state, job.ended_at, job.waiting_for = state, now, ""
        job.state_times = job.state_times | {state: now}
        failures = []
        if cause:
            failures.append(self._failure(job, cause))
            job.failure = {"message": cause, "stacktrace": cause, "timestamp": now}
        document = dict(job.document or {}) or planned_document(job, _graph_of(job), now)
        known = [*failures, *document.get("exceptions", [])]
        for vertex in document["vertices"]:
            for part in (vertex, *vertex["subtasks"]):
                part["state"] = part["state"] if part["state"] in ("FINISHED", "FAILED") else "CANCELED"
        job.document = document | {
            "state": state,
            "end_time": now,
            "duration": now - job.created_at,
            "waiting_for": "",
            "failure": newest_failure(known),
            "failures": document.get("failures", 0) + len(failures),
            "next_attempt_at": -1,
            "stalls": [],
            "exceptions": known,
            "version": max(now, document.get("version", 0) + 1),
        }
        # after a user's cancellation the retention applies; any other reason must not cost the job its checkpoints
        self._store.save(job, failures, disowns=state == "FAILED")
        self._entries[job.id] = job_entry(job.document)
        self._untold_ends[job.id] = told_document(job.document)
        self._tell_ends()
        logger.info("job %s: %s %s", job.id, state, cause)

    def _failure(self, job: Job, message: str) -> dict[str, Any]:
        return {
            "timestamp": self._clock.now_ms(),
            "name": "JobManagerLost",
            "message": message,
            "stacktrace": message,
            "task_name": "",
            "location": "",
            "taskmanager": "",
            "attempt": job.attempt,
            "suppressed": [],
        }

    def _operate(self) -> None:
        for operation in self._store.due_operations():
            with self._alone(f"operation {operation.trigger_id}"):
                self._see_to(operation)

    def _see_to(self, operation: Operation) -> None:
        """Begin an operation whose result is not recorded, unless it is already in progress here."""
        if operation.kind == Operation.Kind.DISPOSE:
            self._dispose(operation)
            return
        runner = self._runners.get(str(operation.job_id))
        if runner is None:
            if operation.job is not None and operation.job.is_terminal:
                self._refuse(operation, f"the job is {operation.job.state}", {"state": operation.job.state})
            # else the job is not taken yet: the next turn handles the operation
        elif operation.kind == Operation.Kind.CANCEL:
            self._begin(operation)
            runner.cancel()
        elif operation.trigger_id not in runner.requests:
            self._carry_out(operation, runner)

    def _begin(self, operation: Operation) -> None:
        if operation.state == Operation.State.PENDING:
            self._store.begin(operation)

    def _carry_out(self, operation: Operation, runner: JobRunner) -> None:
        """Begin an operation once the job runs, also if an earlier leader had begun it."""
        job = runner.job
        if job.is_terminal:
            return
        if job.state != "RUNNING":
            waited = self._clock.now_ms() - max(operation.created_at, self._leads_since)
            if waited > OPERATION_PATIENCE_MS:
                why = f": {job.waiting_for}" if job.waiting_for else ""
                self._refuse(operation, f"the job does not run, it is {job.state}{why}")
            return
        self._begin(operation)
        logger.info("job %s: %s %s", job.id, operation.kind, operation.parameters)
        runner.carry_out(operation)

    def _refuse(self, operation: Operation, error: str, ended: dict[str, Any] | None = None) -> None:
        result = ended if ended is not None and operation.kind == Operation.Kind.CANCEL else {"error": error}
        self._store.complete(operation, result, self._clock.now_ms())

    def _dispose(self, operation: Operation) -> None:
        """Begin to delete a savepoint, or save the result of the deletion."""
        path = str(operation.parameters["path"])
        answer: dict[str, Any] | None = None
        if operation.trigger_id in self._disposal:
            answer = self._disposal.answer(operation.trigger_id)
        else:
            try:
                directory = cluster_storage().files().directory_of(path)
            except CheckpointStorageError as error:
                answer = {"error": str(error)}
            else:
                user = job_that_needs(directory)
                if user is None:
                    self._begin(operation)
                    self._disposal.dispose(operation.trigger_id, directory)
                else:
                    answer = {"error": f"job {user} may have to restore from it"}
        if answer is not None:
            logger.info("disposal of savepoint %s: %s", path, answer)
            self._store.complete(operation, answer, self._clock.now_ms())
            self._disposal.forget(operation.trigger_id)

    def _answer(self) -> None:
        """Save results of operations; those that end with their job are saved with it."""
        for runner in self._runners.values():
            with self._of_job(runner):
                answers = runner.requests.answers(has_ended=False)
                if answers and not runner.job.is_terminal:
                    # a client that sees the result must also find its effect in the document
                    self._publish_job(runner)
                for trigger_id, result in answers.items():
                    logger.info("job %s: operation %s: %s", runner.job.id, trigger_id, result)
                    self._store.complete(Operation(trigger_id=trigger_id), result, self._clock.now_ms())
                runner.requests.forget(answers)

    def _observe(self) -> None:
        """Save every job that has changed; drop ended ones."""
        for job_id, runner in list(self._runners.items()):
            with self._of_job(runner):
                if runner.observe() or job_id in self._unsaved:
                    self._save(runner)
            if runner.is_over and runner.job.is_terminal and job_id not in self._unsaved:
                del self._runners[job_id]
                self._published.pop(job_id, None)
                self._details.pop(job_id, None)

    def _save(self, runner: JobRunner) -> None:
        job = runner.job
        self._unsaved.add(job.id)
        document = runner.document()
        job.document = document | {
            ACCUMULATORS: accumulators_document(runner.tasks()),
            DETAILS: all_details(runner.checkpoints()),
        }
        answers = runner.requests.answers(has_ended=True) if job.is_terminal else {}
        if not self._store.save(job, runner.exceptions(), answers, disowns=runner.disowns_checkpoints):
            logger.warning("job %s belongs to a later leader", job.id)
        runner.requests.forget(answers)
        if job.is_terminal:
            runner.end_is_saved()
        self._unsaved.discard(job.id)
        self._entries[job.id] = job_entry(document)
        if not job.is_terminal:
            self._tell(document)
        else:
            self._untold_ends[job.id] = document
            self._tell_ends()
            self._tell_metrics(runner, bus.EXPIRY_S)
            self._tell_checkpoints(runner, bus.EXPIRY_S)
        logger.info("job %s: %s %s", job.id, job.state, job.waiting_for)

    # --- TaskManagers -------------------------------------------------------------------------------------------------

    def _take_events(self, wait_s: float) -> list[ReceivedEvent]:
        try:
            events = self._bus.take_events(wait_s)
        except BusError as error:
            if not self._bus_away:
                logger.warning("Redis cannot be used: %s", error)
            self._bus_away = True
            self._stop.wait(wait_s)
            return []
        if self._bus_away:
            logger.info("Redis is back")
            self._bus_away = False
            self._forget_published()
            self.resources.renew_all()
        return events

    def _on_event(self, event: Event, age_ms: float) -> None:
        match event:
            case Heartbeat(report, stages):
                self._on_heartbeat(report, stages, age_ms)
            case StageEnded(job, attempt, stage, error):
                self.resources.stage_ended(StageKey(job, Attempt(attempt), stage), error)
            case TaskManagerGone(name, cause):
                if self.resources.remove(name, f"TaskManager {name} is gone: {cause}"):
                    logger.info("TaskManager %s is gone: %s", name, cause)
                    self._store.taskmanager_gone(name, TaskManager.State.GONE, self._clock.now_ms())
            case RowsChanged():
                self._next_poll_ms = 0.0

    def _on_heartbeat(self, report: Mapping[str, Any], stages: Sequence[tuple[str, int, int]], age_ms: float) -> None:
        # what waited for long (no leader read) says nothing about now
        if age_ms >= TASKMANAGER_TIMEOUT_MS:
            return
        now = self._clock.now_ms()
        if self.resources.heartbeat(report, stages, now, age_ms):
            logger.info("TaskManager %s registered with %d slots", report["id"], report["slots"])
            self._store.save_taskmanager(_row(report, now))

    def _drop_silent_taskmanagers(self) -> None:
        if self._bus_away:
            return
        for name in self.resources.silent():
            logger.warning("heartbeat of TaskManager %s timed out", name)
            self.resources.remove(name, f"TaskManager {name} was lost")
            self._store.taskmanager_gone(name, TaskManager.State.LOST, self._clock.now_ms())

    # --- news ---------------------------------------------------------------------------------------------------------

    def _publish(self) -> None:
        for runner in self._runners.values():
            if not runner.job.is_terminal:
                with self._of_job(runner):
                    self._publish_job(runner)
        self._tell_ends()
        taskmanagers = [_entry(known, free) for known, free in self.resources.taskmanagers()]
        jobs = sorted(self._entries.values(), key=lambda entry: -entry["start_time"])
        now = self._clock.now_ms()
        self._cluster = cluster_document(taskmanagers, jobs, now, max(now, self._cluster.get("version", 0) + 1))
        self._send("cluster", self._cluster, bus.EXPIRY_S)
        self._vouch()

    def _vouch(self) -> None:
        """Tell readers that the live documents are up to date; publish them again if Redis has lost them."""
        if self._bus_away:
            return
        try:
            if not self._bus.beat():
                self._forget_published()
        except BusError as error:
            logger.warning("live documents could not be vouched for: %s", error)

    def _forget_published(self) -> None:
        """Publish everything again at the next turn."""
        self._published.clear()
        for details in self._details.values():
            details.forget()

    def _publish_job(self, runner: JobRunner) -> None:
        document = runner.document()
        self._entries[runner.job.id] = job_entry(document)
        if document["version"] != self._published.get(runner.job.id):
            self._tell_checkpoints(runner, None)
            self._tell(document)

    def _tell(self, document: dict[str, Any], expiry_s: int | None = None) -> bool:
        is_told = self._send(f"job:{document['id']}", document, expiry_s)
        if is_told and expiry_s is None:
            self._published[document["id"]] = document["version"]
        return is_told

    def _tell_ends(self) -> None:
        """Publish final documents, until one cannot be: the rest waits with it."""
        for job_id, document in list(self._untold_ends.items()):
            if not self._tell(document, bus.EXPIRY_S):
                return
            del self._untold_ends[job_id]

    def _send(self, topic: str, document: dict[str, Any], expiry_s: int | None) -> bool:
        if self._bus_away:
            return False
        try:
            self._bus.publish(topic, document, expiry_s)
        except BusError as error:
            logger.warning("live document %s could not be published: %s", topic, error)
            return False
        return True

    def _tell_metrics(self, runner: JobRunner, expiry_s: int) -> None:
        if self._bus_away:
            return
        try:
            self._bus.put_fields(bus.METRICS_KEY.format(runner.job.id), metric_fields(runner.tasks()), expiry_s, ())
        except BusError as error:
            logger.warning("metrics of job %s could not be published: %s", runner.job.id, error)

    def _tell_checkpoints(self, runner: JobRunner, expiry_s: int | None) -> None:
        changed, gone = self._details[runner.job.id].changed(runner.checkpoints())
        if self._bus_away or not (changed or gone or expiry_s):
            return
        try:
            self._bus.put_fields(bus.CHECKPOINTS_KEY.format(runner.job.id), changed, expiry_s, gone)
        except BusError as error:
            self._details[runner.job.id].forget()
            logger.warning("checkpoints of job %s could not be published: %s", runner.job.id, error)

    # --- the end ------------------------------------------------------------------------------------------------------

    def _shut_down(self) -> None:
        """Abandon all jobs: they stay in SQL for the next leader to restart; slots end with this process's streams."""
        deadline = time.monotonic() + STOP_TIMEOUT_S
        for runner in self._runners.values():
            runner.abandon()
        for runner in self._runners.values():
            runner.wait_abandoned(max(0.0, deadline - time.monotonic()))
        self._disposal.close()
        self._writer.close()
        self._bus.close()


def _graph_of(job: Job) -> JobGraph:
    return job_graph_from_json(job.graph)


def _row(report: Mapping[str, Any], now: int) -> TaskManager:
    names = ("id", "worker_name", "host", "pid", "slots", "spark_master", "registered_at", "hardware")
    return TaskManager(**{name: report[name] for name in names}, last_heartbeat=now)


def _entry(known: KnownTaskManager, free: int) -> dict[str, Any]:
    return taskmanager_entry(_row(known.report, known.heard_at), free)
