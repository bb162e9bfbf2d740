"""Application mode: the program's own process is the JobMaster of the job it defines; no web app is needed.

`submit` starts a job and returns a JobHandle; on Spark, and in the background on a MiniCluster, a daemon thread runs
the JobMaster. A MiniCluster job with a waiting caller runs in the caller's thread, so that a debugger sees it.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

from runtime.checkpoint.settings import CheckpointSettings
from runtime.common import options
from runtime.common.configuration import Configuration
from runtime.common.execution_kind import ExecutionKind, runs_in_passes
from runtime.core.checkpoint_options import SnapshotKind
from runtime.core.clock import SYSTEM_CLOCK, Clock
from runtime.core.ids import JobId, VertexId
from runtime.execution.continuous import SparkSlots
from runtime.execution.errors import ApplicationError, JobCanceledError, JobExecutionError, UnknownTargetError
from runtime.execution.mini_cluster import MiniCluster
from runtime.execution.spark_hosted_slots import SparkHostedSlots
from runtime.execution.spark_session import acquire_context, is_local
from runtime.execution.tenure import Application, Tenure, begin
from runtime.graph.job_graph import JobGraph
from runtime.jobmaster.actions import RequestAnswered
from runtime.jobmaster.checkpoint_home import CheckpointHome
from runtime.jobmaster.client_outputs import ClientOutputs, CollectedBatches
from runtime.jobmaster.driver import JobMasterDriver
from runtime.jobmaster.events import AfterSavepoint, JobMasterEvent
from runtime.jobmaster.execution_graph import ExecutionGraph
from runtime.jobmaster.job_state import JobState
from runtime.jobmaster.life_cycle import FIRST_ATTEMPT
from runtime.jobmaster.metric_names import with_names
from runtime.jobmaster.slot_provider import SlotProvider
from runtime.jobmaster.status import JobStatusSnapshot

T = TypeVar("T")


class JobHandle:
    """A started job. All methods may be called by any thread."""

    def __init__(
        self,
        graph: JobGraph,
        driver: JobMasterDriver,
        outputs: ClientOutputs,
        run: Callable[[], None],
        in_caller: bool,
        tenure: Tenure | None = None,
    ) -> None:
        self._graph = graph
        self._driver = driver
        self._outputs = outputs
        self._run = run
        self._tenure = tenure
        self._is_interrupted = False
        #: completed when the job has ended and nothing of it is left
        self.result: Future[JobStatusSnapshot] = Future()
        self.result.set_running_or_notify_cancel()
        self._thread: threading.Thread | None = None
        if not in_caller:
            self._thread = threading.Thread(target=self._run_guarded, name=f"job-{graph.job_id[:8]}", daemon=True)
            self._thread.start()

    @property
    def job_id(self) -> JobId:
        return self._graph.job_id

    def status(self) -> JobStatusSnapshot:
        """Return the job's current status: state, tasks with their metrics, slots, failures."""
        return with_names(self._driver.status(), self._graph)

    def cancel(self) -> None:
        """Ask the job to stop; `wait` tells when it has."""
        self._driver.cancel()

    def interrupt(self) -> None:
        """Ask the job to stop because its program is to end: an application's job then resumes when it is started
        again, any other one is cancelled.
        """
        if self._tenure is None:
            self._driver.cancel()
        else:
            self._is_interrupted = True
            self._driver.abandon()

    def trigger_savepoint(
        self, target_directory: str | None = None, *, kind: SnapshotKind = SnapshotKind.CANONICAL
    ) -> Future[str]:
        """Take a savepoint; the job continues.

        Args:
            target_directory: the savepoint becomes a directory in it; None = execution.checkpointing.savepoint-dir.
            kind: CANONICAL, or FULL for the state backend's own form.

        Returns:
            The savepoint's URI. Fails with JobRequestError, the message says why.
        """
        return _location(self._driver.trigger_savepoint(target_directory, kind=kind))

    def stop_with_savepoint(
        self,
        target_directory: str | None = None,
        *,
        drain: bool = False,
        kind: SnapshotKind = SnapshotKind.CANONICAL,
    ) -> Future[str]:
        """Stop the job with a savepoint; the result comes when it has FINISHED.

        Args:
            target_directory: as in `trigger_savepoint`.
            drain: whether the end of the input goes through first, so that windows fire; such a savepoint is no point
                to resume the same input from.
            kind: as in `trigger_savepoint`.

        Returns:
            As `trigger_savepoint`. If it fails, the job continues, from its latest checkpoint if needed.
        """
        after = AfterSavepoint.DRAIN if drain else AfterSavepoint.SUSPEND
        return _location(self._driver.trigger_savepoint(target_directory, after=after, kind=kind))

    def cancel_with_savepoint(self, target_directory: str | None = None) -> Future[str]:
        """Take a savepoint and cancel the job once it is complete: as `trigger_savepoint`. Sinks do not commit what
        came after their last checkpoint; `stop_with_savepoint` has them do so."""
        return _location(self._driver.trigger_savepoint(target_directory, after=AfterSavepoint.CANCEL))

    def trigger_checkpoint(self, kind: SnapshotKind | None = None) -> Future[int]:
        """Take a checkpoint now: FULL, INCREMENTAL, or as configured. The result is its number, or JobRequestError."""
        return _mapped(self._driver.trigger_checkpoint(kind), lambda answer: answer.checkpoint_id or 0)

    def rescale(self, parallelism: Mapping[VertexId, int]) -> Future[None]:
        """Continue with other parallelisms, from a checkpoint; completes when the job runs with them.

        Args:
            parallelism: of the vertices that are to change.

        Returns:
            Fails with JobRequestError; the job then continues unchanged.
        """
        return _mapped(self._driver.rescale(parallelism), lambda _: None)

    def collected(self, collect_id: str) -> CollectedBatches:
        """Return the output of the collect sink of that id."""
        return self._outputs.collector(collect_id)

    def wait(self, timeout_s: float | None = None) -> JobStatusSnapshot:
        """Wait until the job has ended and everything of it is gone.

        Raises:
            TimeoutError: it has not ended within `timeout_s`.
            JobCanceledError: it was cancelled.
            JobExecutionError: it failed; the message is the first cause.
        """
        if self._thread is None and not self.result.done():
            self._run_guarded()
        return self.result.result(timeout_s)

    def _run_guarded(self) -> None:
        try:
            self._run()
        except KeyboardInterrupt:
            # a MiniCluster in the caller: stop it in good order first
            self.interrupt()
            self._run()
            self._end_tenure()
            self.result.set_exception(JobCanceledError(f"job {self._graph.name!r} was interrupted"))
            raise
        except Exception as error:
            # what steps the JobMaster is broken, which takes the job with it
            self._driver.break_off(error)
        self._end_tenure()
        broken = self._driver.broken
        if isinstance(broken, ApplicationError):
            # it says everything
            self.result.set_exception(broken)
            return
        try:
            self.result.set_result(finished(self.status()))
        except JobExecutionError as error:
            if self._tenure is not None and self._leaves_checkpoints() and not self._is_interrupted:
                error = JobExecutionError(f"{error}\n{self._tenure.advice}", error.details)
            error.__cause__ = broken
            self.result.set_exception(error)

    def _end_tenure(self) -> None:
        if self._tenure is not None:
            self._tenure.end(is_job_over=not (self._is_interrupted or self._leaves_checkpoints()))

    def _leaves_checkpoints(self) -> bool:
        """Return whether the application's job may resume from what it had."""
        had_ended = self._tenure is not None and self._tenure.outcome is not None
        return not had_ended and self._driver.status().leaves_checkpoints


def _location(answer: Future[RequestAnswered]) -> Future[str]:
    return _mapped(answer, lambda answered: answered.location or "")


def _mapped(future: Future[RequestAnswered], result: Callable[[RequestAnswered], T]) -> Future[T]:
    mapped: Future[T] = Future()

    def complete(done: Future[RequestAnswered]) -> None:
        error = done.exception()
        if error is None:
            mapped.set_result(result(done.result()))
        else:
            mapped.set_exception(error)

    future.add_done_callback(complete)
    return mapped


def finished(snapshot: JobStatusSnapshot) -> JobStatusSnapshot:
    """Return the job's status if it has finished.

    Raises:
        JobCanceledError: it was cancelled.
        JobExecutionError: it failed; the message is the first cause.
    """
    if snapshot.state is JobState.FINISHED:
        return snapshot
    if snapshot.state is JobState.CANCELED:
        raise JobCanceledError(f"job {snapshot.name!r} was cancelled")
    cause = snapshot.exceptions[-1].cause if snapshot.exceptions else None
    restarts = f" after {snapshot.restarts} restarts" if snapshot.restarts else ""
    message = f"job {snapshot.name!r} failed{restarts}: {cause.message if cause else 'cause unknown'}"
    raise JobExecutionError(message, cause.traceback if cause else "")


def submit(
    graph: JobGraph, *, collect_ids: tuple[str, ...] = (), wait_in_caller: bool = False, clock: Clock = SYSTEM_CLOCK
) -> JobHandle:
    """Start a job where its configuration says; an application's job may resume, or have ended already.

    Args:
        graph: the job; an application's has the id of that application's job, whatever the graph says.
        collect_ids: ids of the collect sinks whose output the caller will take.
        wait_in_caller: the caller will call `wait` at once: a MiniCluster then runs in that call.
        clock: for a MiniCluster; Spark's slots always use the machine's.

    Raises:
        ExecutionError: the job cannot be started; the message says what is missing.
    """
    configuration = Configuration.from_dict(dict(graph.configuration))
    outputs = ClientOutputs()
    for collect_id in collect_ids:
        outputs.collector(collect_id)
    target = configuration.get(options.EXECUTION_TARGET)
    if target not in ("mini-cluster", "spark"):
        raise UnknownTargetError(f"unknown execution.target {target!r}: use 'spark' or 'mini-cluster'")
    application = Application.of(configuration)
    if application is None:
        return _start(graph, configuration, outputs, wait_in_caller, clock, None)
    tenure = begin(application)
    try:
        graph = dataclasses.replace(graph, job_id=tenure.job_id)
        if not tenure.has_begun_from(application):
            graph = dataclasses.replace(graph, configuration={**graph.configuration, options.RECOVERY_PATH.key: ""})
        return _start(graph, configuration, outputs, wait_in_caller, clock, tenure)
    except BaseException:
        tenure.end(is_job_over=False)
        raise


def _start(
    graph: JobGraph,
    configuration: Configuration,
    outputs: ClientOutputs,
    wait_in_caller: bool,
    clock: Clock,
    tenure: Tenure | None,
) -> JobHandle:
    settings = CheckpointSettings.from_configuration(configuration)
    first_attempt = FIRST_ATTEMPT if tenure is None else tenure.first_attempt
    record_attempt = None if tenure is None else tenure.record_attempt
    is_over = tenure is not None and tenure.outcome is not None
    run: Callable[[], None]
    # what is over needs no slots, and so no Spark
    if configuration.get(options.EXECUTION_TARGET) == "mini-cluster" or is_over:
        home = _home(settings, graph.job_id, True, tenure)
        cluster = MiniCluster(graph, outputs, clock, home, first_attempt, record_attempt)
        driver, run = cluster.driver, cluster.run
    else:
        slots = ExecutionGraph(graph, first_attempt).slot_count
        in_passes = runs_in_passes(configuration, blocks_by_default=True)
        # queries are planned in the JVM, again for each batch; else it moves bytes
        plans_queries = ExecutionKind.of(configuration) is ExecutionKind.MICRO_BATCH
        acquire = partial(acquire_context, configuration, slots, plans_queries=plans_queries, at_once=not in_passes)
        context = acquire()

        def create_provider(post: Callable[[JobMasterEvent], None]) -> SlotProvider:
            if in_passes:
                return SparkHostedSlots(acquire, graph.job_id, post)
            return SparkSlots(acquire, graph.job_id, configuration, post)

        driver = JobMasterDriver(
            graph,
            create_provider,
            outputs,
            SYSTEM_CLOCK,
            first_attempt,
            home=_home(settings, graph.job_id, is_local(context.master), tenure),
            max_slots=context.defaultParallelism,
            record_attempt=record_attempt,
        )
        run, wait_in_caller = driver.run, False
    if tenure is not None and not is_over:
        # not before: a process forks to start its JVM, and should have one thread then
        tenure.start_beating(driver.fail)
    return JobHandle(graph, driver, outputs, run, wait_in_caller, tenure)


def _home(settings: CheckpointSettings, job_id: JobId, slots_are_local: bool, tenure: Tenure | None) -> CheckpointHome:
    if tenure is None:
        return CheckpointHome.of(settings, job_id, slots_are_local=slots_are_local)
    home = CheckpointHome.of(settings, job_id, slots_are_local=slots_are_local, leader_epoch=tenure.epoch)
    return dataclasses.replace(home, is_asked_always=True, waits_for_storage=False)
