"""LedJobs: the jobs that the leader runs. Observes rows and runners, and does what the machine decides about them.

Used by the jobmanager's loop. An error in one job fails that job, never the leader; so does what a database raises that
is not away, see `containment`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from django.db import Error as DatabaseFailure

from backend.cluster.checkpoint_document import DETAILS, TRACES, all_details, all_traces
from backend.cluster.containment import DATABASE_AWAY, Containment
from backend.cluster.job_runner import JobRunner
from backend.cluster.job_store import JobStore
from backend.cluster.leader_machine import (
    SUSPENDED,
    AdoptJob,
    Answer,
    DropJob,
    EndJob,
    JobAction,
    JobOnDraining,
    JobRow,
    LeaderMachine,
    RunJob,
    RunnerAction,
    RunnerSeen,
    SaveJob,
    TakeJob,
)
from backend.cluster.leadership import LeadershipLostError
from backend.cluster.live_document import ended_document, planned_document
from backend.cluster.location_checks import StorageSilentError
from backend.cluster.models import Job, Operation
from backend.cluster.pinned_metrics import pins_of
from backend.cluster.publisher import Publisher
from backend.cluster.state_history import STATES
from backend.cluster.task_metrics import ACCUMULATORS, accumulators_document
from backend.cluster.vertex_runs import RUNS
from backend.cluster.withheld import UnsealedError
from runtime.checkpoint.errors import CheckpointStorageError
from runtime.checkpoint.settings import CheckpointSettings
from runtime.common.config_options import ConfigurationError
from runtime.common.configuration import Configuration
from runtime.core.clock import Clock
from runtime.graph.codec import GraphFormatError, job_graph_from_json
from runtime.jobmaster.peeks import PeekRequest
from runtime.jobmaster.rescaling import RescaleError
from runtime.jobmaster.restart_strategy import NoRestart, create_restart_strategy

logger = logging.getLogger(__name__)

Document = dict[str, Any]

#: how a job refuses to be run at all, in words for its user
REFUSALS = (GraphFormatError, ConfigurationError, RescaleError, CheckpointStorageError, UnsealedError)

#: so many documents a second are published of jobs whose state has not changed, whatever the number of jobs: one takes
#: some milliseconds. Fewer: pages of few jobs stand still; more: many jobs keep this loop from all else
DOCUMENTS_PER_S = 20
#: but each document after so long at the latest
STALE_MS = 5_000.0


class LedJobs:
    """The jobs of one leader.

    Args:
        machine: decides.
        store: reads and writes rows.
        create_runner: makes the runner of a job from its row; may raise one of `REFUSALS`, or StorageSilentError: the
            job waits.
        disown: ends what earlier leaders have left of a job.
        publisher: publishes documents.
        clock: for the times in rows.
        containment: contains failures.
        attempts: job → the newest attempt that the storage knows of, at the take-over.
        stepped: called between jobs: however many there are, the loop stands still for none but a single one.
    """

    def __init__(
        self,
        machine: LeaderMachine,
        store: JobStore,
        create_runner: Callable[[Job], JobRunner],
        disown: Callable[[str], None],
        publisher: Publisher,
        clock: Clock,
        containment: Containment,
        attempts: Mapping[str, int],
        stepped: Callable[[], None],
    ) -> None:
        self._machine = machine
        self._store = store
        self._create_runner = create_runner
        self._disown = disown
        self._publisher = publisher
        self._clock = clock
        self._containment = containment
        self._attempts = attempts
        self._stepped = stepped
        #: by job
        self.runners: dict[str, JobRunner] = {}
        #: ended jobs whose JobMaster here has removed the directory of their checkpoints, until that is recorded
        self.cleared: set[str] = set()
        #: jobs whose state is not recorded: it has changed, or could not be saved
        self.unsaved: set[str] = set()
        #: job that this leader has taken and cannot run yet → which storage does not answer
        self.held_up: dict[str, str] = {}
        #: job → when its document was published, monotonic ms; none: its state has changed since
        self._published_ms: dict[str, float] = {}

    # --- jobs without a runner ----------------------------------------------------------------------------------------

    def poll(self) -> None:
        """Run every job that has not ended and has no runner, or end it."""
        jobs = self._store.without_runner(self.runners)
        self.held_up = {job.id: self.held_up[job.id] for job in jobs if job.id in self.held_up}
        for job in jobs:
            self._stepped()
            with self._containment.of(f"job {job.id}"):
                try:
                    seen = _observe(job, self._attempts.get(job.id, -1), is_held_up=job.id in self.held_up)
                    self._act_on_row(self._machine.job(seen), job)
                except (*DATABASE_AWAY, LeadershipLostError):
                    raise
                except StorageSilentError as silent:
                    self._hold_up(job, str(silent))
                except Exception as error:
                    logger.exception("job %s cannot be run", job.id)
                    self._end(self._store.row(job.id), "FAILED", f"it cannot be run: {error!r}")
                    self._disown(job.id)
        with self._containment.of("publishing jobs that have ended"):
            # the end of a job may be committed though its answer was lost
            for job in self._store.ended(self._publisher.shown_as_running() - self.runners.keys()):
                self._disown(job.id)
                if job.document:
                    self._publisher.job_ended(job.document)

    def _act_on_row(self, action: JobAction, job: Job) -> None:
        match action:
            case RunJob():
                self._run(job)
            case TakeJob(_, state, attempt, lost):
                if self._take(job, state, attempt, lost):
                    self._disown(job.id)
                    self._run(job)
            case AdoptJob():
                job.state = "RECONCILING"
                if self._store.take(job, adopts=True):
                    self._run(job)
            case EndJob(_, state, cause):
                self._end(job, state, cause)
                self._disown(job.id)

    def _take(self, job: Job, state: str, attempt: int, lost: str) -> bool:
        """Record that an attempt begins here; return False if a later leader has the job."""
        failures = []
        if lost:
            logger.info("job %s is restarted: %s", job.id, lost)
            if not job.exceptions.filter(attempt=job.attempt).exists():
                # else that attempt has failed before, and users want to know of what
                failures.append(self._failure(job, lost))
            job.restarts += 1
        if attempt > job.attempt + 1:
            logger.warning("the database is older than the storage: job %s goes on with attempt %d", job.id, attempt)
        if state != job.state and state == "CREATED":
            job.state_times = job.state_times | {state: self._clock.now_ms()}
        job.state, job.attempt = state, attempt
        return self._store.take(job, failures)

    def _run(self, job: Job) -> None:
        """Run the attempt in the row of a job that this leader has taken: begin it, or go on where it is placed."""
        try:
            runner = self._create_runner(job)
        except REFUSALS as error:
            self._end(job, "FAILED", str(error))
            self._disown(job.id)
            return
        self.runners[job.id] = runner
        self.held_up.pop(job.id, None)
        self.unsaved.add(job.id)
        with self.contained(runner):
            runner.start()
        logger.info("job %s (%s) was taken: attempt %d", job.id, job.name, job.attempt)

    def _hold_up(self, job: Job, why: str) -> None:
        """Have a job that this leader has taken wait until a storage answers, and say so."""
        if self.held_up.get(job.id) != why:
            logger.warning("job %s waits: %s", job.id, why)
        self.held_up[job.id] = why
        if job.waiting_for != why:
            job.waiting_for = why
            version = max(self._clock.now_ms(), (job.document or {}).get("version", 0) + 1)
            told = {"state": job.state, "waiting_for": why, "restarts": job.restarts, "version": version}
            job.document = (job.document or {}) | told
            if not self._store.save(job, []):
                return
        if job.document:
            self._publisher.job_waits(job.document)

    def _end(self, job: Job, state: str, cause: str) -> None:
        """Record the end of a job that does not run, and publish it."""
        now = self._clock.now_ms()
        job.state, job.ended_at, job.waiting_for = state, now, ""
        job.state_times = job.state_times | {state: now}
        failures = []
        if cause:
            failures.append(self._failure(job, cause))
            job.failure = {"message": cause, "stacktrace": cause, "timestamp": now}
        job.document = _final_document(job, failures, now)
        # after a user's cancellation the retention applies; any other reason must not cost the job its checkpoints
        if not self._store.save(job, failures, disowns=state == "FAILED"):
            logger.warning("job %s has ended otherwise, or belongs to a later leader: not %s %s", job.id, state, cause)
            return
        self._publisher.job_ended(job.document)
        logger.info("job %s: %s %s", job.id, state, cause)

    def _failure(self, job: Job, message: str) -> Document:
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

    # --- jobs that run ------------------------------------------------------------------------------------------------

    def observe(self) -> None:
        """Save every job that has changed, record the results of its operations, and drop it once it is over."""
        for job_id, runner in list(self.runners.items()):
            self._stepped()
            with self.contained(runner):
                # before the state: an answer must not be recorded ahead of what the operation has done to the job
                answers = runner.requests.answers(is_ending=_is_ending(runner.job))
                if runner.observe():
                    self.unsaved.add(job_id)
                    self._published_ms.pop(job_id, None)
                for action in self._machine.runner(self.seen(runner, answers)):
                    self._act_on_runner(action, runner)
                if not runner.job.is_terminal:
                    runner.record_placements()
                    runner.request_stop()
                self._record_statistics(runner)

    def seen(self, runner: JobRunner, answers: Mapping[str, Document] | None = None) -> RunnerSeen:
        """Return the observation of a running job, as of its last `observe`.

        Args:
            runner: its runner.
            answers: results of its operations that may be recorded, by trigger id.
        """
        job = runner.job
        return RunnerSeen(
            job.id,
            job.state,
            job.waiting_for,
            runner.requests.trigger_ids,
            answers or {},
            runner.requests.premature,
            is_saved=job.id not in self.unsaved,
            is_over=runner.is_over,
            waits_for_slots=runner.waits_for_slots,
            stops_with=runner.stops_with,
        )

    def seen_runners(self) -> dict[str, RunnerSeen]:
        """Return what is seen of the jobs that run here, by id; one that cannot be observed fails, and is missing."""
        found: dict[str, RunnerSeen] = {}
        for job_id, runner in list(self.runners.items()):
            with self.contained(runner):
                found[job_id] = self.seen(runner)
        return found

    def suspend(self) -> None:
        """Record that the jobs go on under the next leader, as far as the database answers; to be called last."""
        for runner in self._not_ended():
            if not self._machine.suspended(self.seen(runner)):
                continue
            with self._containment.of(f"job {runner.job.id}"):
                job = runner.job
                job.state, job.waiting_for = SUSPENDED, "no JobManager leads"
                job.state_times = job.state_times | {SUSPENDED: self._clock.now_ms()}
                job.document = (job.document or {}) | {"state": SUSPENDED, "waiting_for": job.waiting_for}
                self._store.save(job, runner.exceptions())

    def leave(self, jobs: Sequence[JobOnDraining]) -> None:
        """Move jobs away from TaskManagers that are draining."""
        running = {name for name, runner in self.runners.items() if runner.job.state == "RUNNING"}
        moving = {name for name, runner in self.runners.items() if runner.scaling.is_changing}
        for action in self._machine.moves(jobs, running, moving):
            runner = self.runners[action.job_id]
            with self.contained(runner):
                logger.info("job %s leaves TaskManagers that are draining", runner.job.id)
                runner.scaling.move()

    def sample_stacks(self, job_id: str, vertex_id: str, duration_ms: int) -> None:
        """Have the slots of a vertex say what they do, if the job runs here; `publish` tells what they answer."""
        runner = self.runners.get(job_id)
        if runner is not None:
            with self.contained(runner):
                runner.sample_stacks(vertex_id, duration_ms)

    def peek(self, job_id: str, request: PeekRequest) -> None:
        """Have rows of an edge sampled, if the job runs here; `publish` tells what is seen."""
        runner = self.runners.get(job_id)
        if runner is not None:
            with self.contained(runner):
                runner.peek(request)

    def end_peek(self, job_id: str, peek_id: str) -> None:
        """End a peek, if the job runs here."""
        runner = self.runners.get(job_id)
        if runner is not None:
            with self.contained(runner):
                runner.end_peek(peek_id)

    def publish(self) -> None:
        """Publish the documents of running jobs that have changed; of many jobs by turns."""
        now_ms, runners = self._clock.monotonic_ms(), self._not_ended()
        interval_ms = min(len(runners) * 1_000.0 / DOCUMENTS_PER_S, STALE_MS)
        for runner in runners:
            with self.contained(runner):
                since_ms = now_ms - self._published_ms.get(runner.job.id, -STALE_MS)
                if since_ms >= interval_ms or not self._publisher.has_told(runner.job.id):
                    self._published_ms[runner.job.id] = now_ms
                    self._publisher.job(runner)
                self._publisher.stacks(runner)
                self._publisher.peeks(runner)

    def publish_metrics(self) -> None:
        """Publish the metrics of running jobs."""
        for runner in self._not_ended():
            with self.contained(runner):
                self._publisher.metrics(runner)

    def sample(self) -> None:
        """Add a sample to the history of each running job."""
        self._read_pins()
        for runner in self._not_ended():
            with self.contained(runner):
                self._publisher.sample(runner)

    def _read_pins(self) -> None:
        """Note the metrics that users have pinned; as long as the database is away, those that are known stay."""
        runners = {runner.job.id: runner for runner in self._not_ended()}
        if not runners:
            return
        try:
            pins = pins_of(runners)
        except DATABASE_AWAY as error:
            logger.debug("pinned metrics cannot be read: %s", error)
            return
        for job_id, runner in runners.items():
            runner.pins = pins.get(job_id, ())

    def memory_of_slots(self) -> list[dict[tuple[str, int], float]]:
        """Return the memory of the slots of each running job, by TaskManager and slot; bytes."""
        return [runner.memory_of_slots() for runner in self._not_ended()]

    @contextmanager
    def contained(self, runner: JobRunner) -> Iterator[None]:
        """Contain failures of the block; fail the job unless the database is away."""
        with self._containment.of(f"job {runner.job.id}"):
            try:
                yield
            except (*DATABASE_AWAY, LeadershipLostError):
                raise
            except Exception as error:
                logger.exception("the JobManager cannot run job %s any longer", runner.job.id)
                self._give_up(runner, error)

    def _give_up(self, runner: JobRunner, error: Exception) -> None:
        """Fail a job that cannot be continued, or record its end if it has one.

        Of what is new in memory, no text and no document comes into the row: if that is what could not be recorded, it
        could not be recorded now either. The last document that was, with this failure, is the job's final one.
        """
        job, is_refused = runner.job, isinstance(error, DatabaseFailure)
        self.unsaved.add(job.id)
        if not is_refused:
            runner.fail(error)
        row = self._store.row(job.id)
        row.attempt, row.restarts = max(row.attempt, job.attempt), job.restarts
        row.state_times = row.state_times | job.state_times
        state = job.state if job.is_terminal else "FAILED"
        self._end(row, state, f"the JobManager cannot continue it: {error!r}")
        if is_refused:
            # not before its end is recorded: a database that refuses everything must not cost a job its slots
            runner.fail(error)
        self._take_over_end(runner, row)
        self.unsaved.discard(job.id)

    def _end_as_recorded(self, runner: JobRunner) -> None:
        """End a job here whose row has ended otherwise: that was recorded, and nobody heard so."""
        job, row = runner.job, self._store.row(runner.job.id)
        logger.warning("job %s has ended otherwise, or belongs to a later leader: it is %s", job.id, row.state)
        if row.is_terminal:
            if not job.is_terminal:
                # else its slots would run on, and nobody would ever end them
                runner.fail(RuntimeError(f"the job's row says that it has ended, as {row.state}"))
            self._take_over_end(runner, row)
            if row.document:
                self._publisher.job_ended(row.document)
        self.unsaved.discard(job.id)

    def _take_over_end(self, runner: JobRunner, row: Job) -> None:
        """Note the recorded end of a job that runs here."""
        for name in ("state", "state_times", "ended_at", "attempt", "waiting_for", "failure", "document"):
            setattr(runner.job, name, getattr(row, name))
        runner.end_is_saved()

    def _not_ended(self) -> list[JobRunner]:
        return [runner for runner in self.runners.values() if not runner.job.is_terminal]

    def _act_on_runner(self, action: RunnerAction, runner: JobRunner) -> None:
        match action:
            case SaveJob():
                self._save(runner)
            case Answer(trigger_id, result):
                # a client that sees the result must also find its effect in the document
                self._publisher.job(runner)
                logger.info("job %s: operation %s: %s", runner.job.id, trigger_id, result)
                self._store.complete(trigger_id, result, self._clock.now_ms())
                runner.requests.forget([trigger_id])
            case DropJob(job_id):
                del self.runners[job_id]
                if runner.has_removed_checkpoints:
                    self.cleared.add(job_id)
                self._publisher.forget(job_id)
                self._published_ms.pop(job_id, None)

    def _record_statistics(self, runner: JobRunner) -> None:
        record = None if runner.job.is_terminal else runner.unrecorded_statistics()
        if record is not None:
            self._store.record_statistics(runner.job.id, record)
            runner.statistics_are_recorded(record)

    def _save(self, runner: JobRunner) -> None:
        job = runner.job
        document = runner.document()
        job.document = document | {
            ACCUMULATORS: accumulators_document(runner.tasks()),
            DETAILS: all_details(runner.checkpoints()),
            TRACES: all_traces(runner.checkpoints()),
            STATES: runner.states.document(),
            RUNS: runner.runs.document(),
        }
        answers = runner.requests.answers(is_ending=True) if _is_ending(job) else {}
        if not self._store.save(job, runner.exceptions(), answers, disowns=runner.disowns_checkpoints):
            self._end_as_recorded(runner)
            return
        runner.requests.forget(answers)
        if job.is_terminal:
            runner.end_is_saved()
        self.unsaved.discard(job.id)
        self._publisher.job_saved(runner, document)
        logger.info("job %s: %s %s", job.id, job.state, job.waiting_for)


def _is_ending(job: Job) -> bool:
    """Return whether any leader that comes after the recording of the job's state ends the job."""
    return job.is_terminal or job.state == "CANCELLING"


def _final_document(job: Job, failures: Sequence[Document], now: int) -> Document:
    """Return the document of a job that ends without a JobMaster, as its row says."""
    if job.document:
        try:
            return ended_document(job.document, job.state, failures, job.created_at, now)
        except (AttributeError, KeyError, TypeError) as error:
            logger.warning("the document of job %s cannot be read: %r", job.id, error)
    planned = planned_document(job, job_graph_from_json(job.graph), now)
    return ended_document(planned, job.state, failures, job.created_at, now)


def _observe(job: Job, stored_attempt: int, *, is_held_up: bool) -> JobRow:
    """Return the observation of a job without a runner."""
    open_cancellations = job.operations.filter(kind=Operation.Kind.CANCEL).exclude(state=Operation.State.COMPLETED)
    return JobRow(
        job.id,
        job.state,
        job.leader_epoch,
        job.attempt,
        has_run="RUNNING" in job.state_times,
        has_failed=job.exceptions.exists(),
        attempt_has_failed=job.exceptions.filter(attempt=job.attempt).exists(),
        is_placed=job.placements.exists(),
        is_cancelled=open_cancellations.exists(),
        is_held_up=is_held_up,
        restarts=_restarts(job),
        stored_attempt=stored_attempt,
    )


def _restarts(job: Job) -> bool:
    """Return whether a job goes on after it has lost its slots to a change of leader.

    A job with checkpoints does: the change of leader is not a failure of the job. Otherwise the restart strategy
    decides, as after any failure.
    """
    try:
        configuration = Configuration.from_dict(job_graph_from_json(job.graph).configuration)
        if CheckpointSettings.from_configuration(configuration).is_enabled or job.checkpoints.exists():
            return True
        return not isinstance(create_restart_strategy(configuration, lambda: 0.5), NoRestart)
    except (GraphFormatError, ConfigurationError):
        # whoever runs it reports the error
        return True
