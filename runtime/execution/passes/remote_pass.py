"""RemotePass: a pass whose tasks run elsewhere, level by level, and report what came of it. The host's thread.

No task outlives its level, so sinks commit in another run, from the snapshot that is complete then. Whoever runs the
levels implements two methods; see `levels` for what they run.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future

from runtime.checkpoint.handles import TaskRestore
from runtime.core.ids import Attempt, CheckpointId, TaskId
from runtime.execution.passes.job_pass import JobPass
from runtime.execution.passes.levels import REPORTS, Level, Report, levels_of
from runtime.execution.passes.plan import PassFailedError, PassKind, PassPlan, TaskFailed, TaskOutcome, TaskPrinted
from runtime.execution.passes.task_run import Turn
from runtime.operators.sink_operator import COMMITTABLES_STATE
from runtime.task.messages import FailureInfo

Reports = Sequence[bytes]
"""Encoded; those of one task in order."""


class RemotePass(JobPass):
    """One pass elsewhere.

    Args:
        plan: what its tasks are told.
        take_print: is given what tasks print.
        wake: has the host look again; any thread.
    """

    def __init__(self, plan: PassPlan, take_print: Callable[[TaskPrinted], None], wake: Callable[[], None]) -> None:
        super().__init__(plan)
        self._take_print = take_print
        self._wake = wake
        self._restores: Mapping[TaskId, TaskRestore] = plan.restores
        self._has_committed = False
        #: whether some tasks may have been run more than once
        self.was_repeated = False

    @abstractmethod
    def run_levels(self, levels: Sequence[Level]) -> Future[Reports]:
        """Run all levels, and return the reports of their tasks."""

    @abstractmethod
    def run_commits(self, plan: PassPlan, is_over: bool) -> Future[Reports]:
        """Have each task of a plan commit what it restores, see `levels.commit`, and return their reports."""

    @property
    @abstractmethod
    def place(self) -> str:
        """Return where the pass runs; for messages."""

    def run(self) -> Iterator[Turn]:
        yield from self._taken(self.run_levels(levels_of(self.plan)))
        silent = [d.task for d in self.plan.deployments if d.task not in self.outcomes]
        if silent:
            raise self._failed(
                TaskFailed(None, FailureInfo(f"task {silent[0]} has run on {self.place}, and not reported"))
            )

    def commit(self, checkpoint_id: CheckpointId, restores: Mapping[TaskId, TaskRestore]) -> Iterator[Turn]:
        self._restores = restores
        yield from self._commit()

    def commit_restored(self) -> Iterator[Turn]:
        yield from self._commit()

    def commit_finished(self, tasks: Collection[TaskId], restores: Mapping[TaskId, TaskRestore]) -> Iterator[Turn]:
        # no task is open; without a last snapshot, with which all was committed, the first call commits all there is
        if self.plan.kind is PassKind.BOUNDED and not self._has_committed:
            self._restores = restores
            yield from self._commit()
            self._has_committed = True

    def job_finished(self) -> None:
        plan = self._committing(is_over=True)
        # only older attempts, and older runs of a task, may have left something
        if self.was_repeated:
            facts = dataclasses.replace(plan.facts, attempt=Attempt(plan.facts.attempt + 1))
            plan = dataclasses.replace(plan, facts=facts)
        if plan.facts.attempt > 0 and plan.deployments:
            self._take_all(self.run_commits(plan, is_over=True))

    def close(self) -> None:
        """Do nothing: no task is open."""

    def _commit(self) -> Iterator[Turn]:
        plan = self._committing(is_over=False)
        if plan.deployments:
            yield from self._taken(self.run_commits(plan, is_over=False))

    def _committing(self, is_over: bool) -> PassPlan:
        """Return a plan with the tasks that have something to commit, or at a job's end with all.

        What is committed is in states of operators. State by key stays where it is: its files may be large, and when a
        job is over they are deleted, perhaps before this plan is carried out.
        """
        restores = {
            task: _without_keyed_state(restore)
            for task, restore in self._restores.items()
            if is_over or _has_committables(task, restore)
        }
        deployments = [deployment for deployment in self.plan.deployments if deployment.task in restores]
        return dataclasses.replace(self.plan, deployments=deployments, restores=restores, shares={})

    def _taken(self, future: Future[Reports]) -> Iterator[Turn]:
        """Wait for reports, and take them."""
        future.add_done_callback(lambda _: self._wake())
        while not future.done():
            yield Turn.WAITS
        self._take_all(future)

    def _take_all(self, future: Future[Reports]) -> None:
        try:
            encoded = future.result()
        except Exception as error:
            message = f"the batch could not be run on {self.place}: {first_line(error)}"
            raise self._failed(TaskFailed(None, FailureInfo(message, str(error)))) from error
        failed: list[TaskFailed] = []
        for report in (report for reports in encoded for report in REPORTS.decode(reports)):
            self._take(report, failed)
        if failed:
            raise self._failed(failed[0])

    def _take(self, report: Report, failed: list[TaskFailed]) -> None:
        match report:
            case TaskOutcome():
                self.outcomes[report.task] = report
            case TaskFailed():
                failed.append(report)
            case TaskPrinted():
                self._take_print(report)

    def _failed(self, failed: TaskFailed) -> PassFailedError:
        self.abandon()
        return PassFailedError(failed.task, failed.info)


def _has_committables(task: TaskId, restore: TaskRestore) -> bool:
    """Return whether the task commits something when it is restored; it is given what all have, and takes its share."""
    return any(
        len(state.items) > task.subtask_index
        for operator in restore.operators.values()
        for name, state in operator.operator_states.items()
        if name == COMMITTABLES_STATE
    )


def _without_keyed_state(restore: TaskRestore) -> TaskRestore:
    operators = {known: dataclasses.replace(operator, keyed=()) for known, operator in restore.operators.items()}
    return dataclasses.replace(restore, operators=operators)


def first_line(error: Exception) -> str:
    """Return the line of an error of Spark's that says what has happened: before it there may be one with the call
    into the JVM, behind it are stack traces.
    """
    lines = [line.removeprefix(": ") for line in str(error).splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith("An error occurred while calling ")]
    return lines[0] if lines else type(error).__name__
