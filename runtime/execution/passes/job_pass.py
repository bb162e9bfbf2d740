"""JobPass: one batch through a job: every task restored, given its input, and snapshotted behind it.

A pass of the kind DATA has the sources read; SNAPSHOT and DRAIN do not, so that savepoints lie between two batches: a
SNAPSHOT leaves everything as it is, timers that are due included, and a DRAIN ends event time. BOUNDED is a whole job
that takes no snapshots: everything is read, and the tasks end. `LocalPass` runs the
tasks in this process, level by level; what they emit is kept until their consumers are run. One thread.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from pathlib import Path

from runtime.checkpoint.handles import TaskRestore
from runtime.core.clock import Clock
from runtime.core.ids import CheckpointId, TaskId
from runtime.execution.passes.plan import PassFailedError, PassPlan, TaskOutcome
from runtime.execution.passes.task_pass import FrameOrder, TaskPass
from runtime.execution.passes.task_run import Turn
from runtime.network.channel import ChannelId
from runtime.operators.operator import ClientChannel
from runtime.task.operator_chain import OperatorChain


class JobPass(ABC):
    """One batch through a job.

    Args:
        plan: what its tasks are told.
    """

    def __init__(self, plan: PassPlan) -> None:
        self.plan = plan
        #: of the batch of a query that it is; None: it is none
        self.number: int | None = None
        #: of every task, when `run` has ended
        self.outcomes: dict[TaskId, TaskOutcome] = {}

    @property
    def has_caught_up(self) -> bool:
        """Return whether no source had more to give."""
        return all(outcome.has_caught_up for outcome in self.outcomes.values())

    @property
    def awaits_mail(self) -> bool:
        """Return whether another thread is at work for an operator."""
        return False

    @abstractmethod
    def run(self) -> Iterator[Turn]:
        """Run every task once; `outcomes` then has what they have to say.

        Raises:
            PassFailedError: a task failed; everything is released.
        """

    @abstractmethod
    def commit(self, checkpoint_id: CheckpointId, restores: Mapping[TaskId, TaskRestore]) -> Iterator[Turn]:
        """Have sinks commit what they have prepared: the snapshot behind the pass is complete.

        Args:
            checkpoint_id: of the snapshot.
            restores: what tasks would restore from it.

        Raises:
            PassFailedError: a sink cannot; everything is released.
        """

    @abstractmethod
    def commit_restored(self) -> Iterator[Turn]:
        """Instead of `run`: have sinks commit what is restored; nothing is read or emitted.

        Raises:
            PassFailedError: a task failed; everything is released.
        """

    @abstractmethod
    def commit_finished(self, tasks: Collection[TaskId], restores: Mapping[TaskId, TaskRestore]) -> Iterator[Turn]:
        """Close tasks of a job that has finished, and make visible what is held back until then.

        Args:
            tasks: which ones.
            restores: what all tasks would restore from what they ended with.

        Raises:
            PassFailedError: a task failed.
        """

    @abstractmethod
    def job_finished(self) -> None:
        """Release what is kept in case the job goes back to an older checkpoint.

        Raises:
            PassFailedError: a task failed.
        """

    @abstractmethod
    def close(self) -> None:
        """Close what is still open.

        Raises:
            PassFailedError: an operator failed to close.
        """

    @abstractmethod
    def abandon(self) -> None:
        """Release everything, without finishing; idempotent."""


class LocalPass(JobPass):
    """Runs a pass in the calling thread; tasks with sinks stay open until `close`.

    Args:
        plan: what its tasks are told.
        clock: measures durations.
        client_of: the way of a task's prints to the client.
        directory: for local files.
    """

    def __init__(
        self, plan: PassPlan, clock: Clock, client_of: Callable[[TaskId], ClientChannel], directory: Path
    ) -> None:
        super().__init__(plan)
        self._clock = clock
        self._client_of = client_of
        self._directory = directory
        self._order = FrameOrder([edge for deployment in plan.deployments for edge in deployment.in_edges])
        #: by task: frames for it, with what they are sorted by
        self._frames: dict[TaskId, list[tuple[tuple[bool, int, int, int], ChannelId, bytes]]] = {}
        self._current: TaskPass | None = None
        #: tasks that are kept open until it is known what becomes of the snapshot
        self._kept: list[TaskPass] = []

    @property
    def awaits_mail(self) -> bool:
        return self._current is not None and self._current.run.task.awaits_mail()

    def run(self) -> Iterator[Turn]:
        with _Abandoning(self):
            for task in self._made():
                self._current = task
                frames = sorted(self._frames.pop(task.task_id, []), key=lambda frame: frame[0])
                yield from task.process((channel_id, frame) for _, channel_id, frame in frames)
                self.outcomes[task.task_id] = task.outcome
                self._keep_or_close(task)
                self._current = None

    def commit(self, checkpoint_id: CheckpointId, restores: Mapping[TaskId, TaskRestore]) -> Iterator[Turn]:
        with _Abandoning(self):
            for task in self._kept:
                task.guarded(partial(task.run.task.checkpoint_complete, checkpoint_id))
                yield Turn.WORKED

    def commit_restored(self) -> Iterator[Turn]:
        with _Abandoning(self):
            for task in self._made():
                self._current = task
                if task.has_sinks:
                    task.guarded(task.run.commit_restored)
                self._keep_or_close(task)
                self._current = None
                yield Turn.WORKED

    def commit_finished(self, tasks: Collection[TaskId], restores: Mapping[TaskId, TaskRestore]) -> Iterator[Turn]:
        for step in (OperatorChain.close_finished, OperatorChain.commit_finished):
            self._tell(step, tasks)
            yield Turn.WORKED

    def job_finished(self) -> None:
        self._tell(OperatorChain.job_finished, [task.task_id for task in self._kept])

    def close(self) -> None:
        for task in self._kept:
            task.guarded(partial(task.run.close, after_failure=False))

    def abandon(self) -> None:
        for task in (*self._kept, *(() if self._current is None else (self._current,))):
            task.run.close(after_failure=True)

    def _made(self) -> Iterator[TaskPass]:
        for deployment in self.plan.deployments:
            client = self._client_of(deployment.task)
            yield TaskPass(self.plan, deployment, self._clock, client, self._take_frame, self._directory)

    def _keep_or_close(self, task: TaskPass) -> None:
        if task.has_sinks:
            self._kept.append(task)
        else:
            task.guarded(partial(task.run.close, after_failure=False))

    def _tell(self, step: Callable[[OperatorChain], None], tasks: Collection[TaskId]) -> None:
        for task in self._kept:
            if task.task_id in tasks:
                task.guarded(partial(step, task.run.task.chain))

    def _take_frame(self, channel_id: ChannelId, frame: bytes) -> None:
        target, order = self._order.of(channel_id)
        self._frames.setdefault(target, []).append((order, channel_id, frame))


class _Abandoning:
    """Releases a pass if what is done with it fails."""

    def __init__(self, run: JobPass) -> None:
        self._run = run

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if isinstance(error, PassFailedError):
            self._run.abandon()
