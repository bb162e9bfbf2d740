"""JobPass: one batch through a job: every task restored, given its input, and snapshotted behind it.

A pass of the kind DATA has the sources read; SNAPSHOT and DRAIN do not, so that savepoints lie between two batches: a
SNAPSHOT leaves everything as it is, timers that are due included, and a DRAIN ends event time. Tasks run level by
level; what they emit is kept until their consumers are run. One thread.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence

from runtime.checkpoint.handles import TaskRestore
from runtime.core.checkpoint_options import AfterSnapshot, CheckpointOptions
from runtime.core.clock import Clock
from runtime.core.elements import CheckpointBarrier
from runtime.core.ids import OperatorId, SlotId, TaskId, VertexId
from runtime.execution.passes.task_run import Acknowledgement, JobFacts, PassHost, TaskRun
from runtime.graph.partitioning import Partitioning
from runtime.network.channel import ChannelId
from runtime.operators.operator import ClientChannel
from runtime.task.failures import describe_failure, describe_task_failure
from runtime.task.messages import FailureInfo, TaskDeployment, TaskState


class PassKind(enum.Enum):
    """What a pass does with the job's input."""

    DATA = "data"
    IDLE = "idle"
    """Reads nothing and fires no timers, for a checkpoint after the last batch."""
    SNAPSHOT = "snapshot"
    """Reads nothing and fires no timers, for a savepoint."""
    DRAIN = "drain"

    @classmethod
    def of(cls, options: CheckpointOptions) -> PassKind:
        """Return the kind of the pass that ends with such a snapshot."""
        if options.after is AfterSnapshot.DRAIN:
            return cls.DRAIN
        return cls.SNAPSHOT if options.is_savepoint else cls.DATA


class PassFailedError(Exception):
    """A task has failed in a pass.

    Attributes:
        task: which one; None = it was not made.
        info: for the JobMaster.
    """

    def __init__(self, task: TaskId, info: FailureInfo) -> None:
        super().__init__(info.message)
        self.task = task
        self.info = info


class JobPass:
    """One batch through a job.

    Args:
        facts: of the job.
        number: of the pass, unique within the attempt: the id of the snapshot behind it.
        now_ms: wall-clock time of the whole batch.
        clock: measures durations.
        deployments: all tasks, in topological order.
        restores: state before the batch.
        client_of: the way of a task's prints to the client.
        send_to_coordinator: takes the requests of sources.
        slot_of: where the JobMaster has put a task.
    """

    def __init__(
        self,
        facts: JobFacts,
        number: int,
        now_ms: int,
        clock: Clock,
        deployments: Sequence[TaskDeployment],
        restores: Mapping[TaskId, TaskRestore],
        client_of: Callable[[TaskId], ClientChannel],
        send_to_coordinator: Callable[[OperatorId, int, bytes], None],
        slot_of: Callable[[TaskId], SlotId],
    ) -> None:
        self._facts = facts
        self.number = number
        self._now_ms = now_ms
        self._clock = clock
        self._deployments = deployments
        self._restores = restores
        self._client_of = client_of
        self._send_to_coordinator = send_to_coordinator
        self._slot_of = slot_of
        #: by task: frames for it, with what they are sorted by
        self._frames: dict[TaskId, list[tuple[tuple[bool, int, int, int], ChannelId, bytes]]] = {}
        self._targets = {
            edge.edge_id: (edge.target, edge.partitioning is not Partitioning.BROADCAST)
            for deployment in deployments
            for edge in deployment.in_edges
        }
        self._sequences: dict[ChannelId, int] = {}
        self._current: TaskRun | None = None
        #: whether no source had more to give
        self.has_caught_up = True
        #: tasks that are kept open until it is known what becomes of the snapshot
        self.kept: list[TaskRun] = []
        self.acknowledged: dict[TaskId, Acknowledgement] = {}
        self.finished: set[TaskId] = set()
        self.metrics: dict[TaskId, dict[str, object]] = {}

    def run(self, barrier: CheckpointBarrier, kind: PassKind, max_rows: int) -> Iterator[None]:
        """Run every task once, in the order of the graph; `acknowledged` then has the snapshots of all.

        Args:
            barrier: of the snapshot behind the batch.
            kind: says what the batch is.
            max_rows: number of records that each subtask of a source reads at most.

        Raises:
            PassFailedError: a task failed.
        """
        for deployment in self._deployments:
            run = self._make(deployment, kind)
            self._current = run
            if deployment.in_edges:
                yield from self._guarded(run, self._process(run, barrier))
            else:
                yield from self._guarded(run, self._read(run, barrier, max_rows if kind is PassKind.DATA else 0))
            self._current = None

    def opening_sinks(self) -> None:
        """Restore the tasks that have sinks, which commits what the snapshot holds; nothing is read or emitted.

        Raises:
            PassFailedError: a task failed.
        """
        for deployment in self._deployments:
            run = self._make(deployment, PassKind.SNAPSHOT)
            if any(operator.commits_at_the_end for operator in run.task.chain.operators):
                self.kept.append(run)
                for _ in self._guarded(run, run.commit_restored()):
                    pass
            else:
                run.close(after_failure=False)

    def close(self) -> None:
        """Close what is still open.

        Raises:
            PassFailedError: an operator failed to close.
        """
        for run in self.kept:
            try:
                run.close(after_failure=False)
            except Exception as error:
                raise PassFailedError(run.task.task_id, self.describe(error, run)) from error

    def describe(self, error: Exception, run: TaskRun) -> FailureInfo:
        """Describe an error of a task's operators for the JobMaster."""
        return describe_task_failure(error, run.task, self._slot_of(run.task.task_id))

    def abandon(self) -> None:
        """Release everything, without finishing."""
        for run in (*self.kept, *(() if self._current is None else (self._current,))):
            run.close(after_failure=True)

    def answer(self, event: object) -> None:
        """Give a coordinator's event to the source that is being run."""
        run = self._current
        assert run is not None, "no source is being run"
        run.host.post(lambda: run.task.handle_event(run.task.deployment.vertex.head.operator_id, event))

    def _make(self, deployment: TaskDeployment, kind: PassKind) -> TaskRun:
        task = deployment.task
        host = PassHost(
            self._facts,
            self.number,
            self._now_ms,
            self._clock,
            self._client_of(task),
            self._take_frame,
            self._send_to_coordinator,
            fires_timers=kind not in (PassKind.SNAPSHOT, PassKind.IDLE),
        )
        try:
            return TaskRun(deployment, self._restores.get(task), host, self._facts.secrets)
        except Exception as error:
            vertex = deployment.vertex
            name = f"{vertex.name} ({task.subtask_index + 1}/{vertex.parallelism})"
            self.abandon()
            raise PassFailedError(task, describe_failure(error, task, name, self._slot_of(task))) from error

    def _read(self, run: TaskRun, barrier: CheckpointBarrier, max_rows: int) -> Iterator[None]:
        if max_rows:
            yield from run.read(max_rows)
            self.has_caught_up = self.has_caught_up and run.has_caught_up
        yield from self._snapshot(run, barrier)

    def _process(self, run: TaskRun, barrier: CheckpointBarrier) -> Iterator[None]:
        run.announce(barrier)
        frames = sorted(self._frames.pop(run.task.task_id, []), key=lambda frame: frame[0])
        yield from run.take((channel_id, frame) for _, channel_id, frame in frames)
        yield from self._snapshot(run, barrier)

    def _snapshot(self, run: TaskRun, barrier: CheckpointBarrier) -> Iterator[None]:
        task = run.task.task_id
        for acknowledged in run.snapshot(barrier):
            if acknowledged is not None:
                self.acknowledged[task] = acknowledged
            yield
        self.metrics[task] = run.task.metrics()
        if run.is_finished:
            self.finished.add(task)
        if any(operator.commits_at_the_end for operator in run.task.chain.operators):
            self.kept.append(run)
        else:
            run.close(after_failure=False)

    def _guarded(self, run: TaskRun, work: Iterator[None]) -> Iterator[None]:
        try:
            yield from work
        except Exception as error:
            info = self.describe(error, run)
            run.task.state = TaskState.FAILED
            self.abandon()
            run.close(after_failure=True)
            raise PassFailedError(run.task.task_id, info) from error

    def _take_frame(self, channel_id: ChannelId, frame: bytes) -> None:
        target, is_late = self._targets[channel_id.edge_id]
        sequence = self._sequences[channel_id] = self._sequences.get(channel_id, 0) + 1
        # what is broadcast comes first; else channels in turn, as they would be read
        order = (is_late, sequence, channel_id.edge_id, channel_id.producer)
        frames = self._frames.setdefault(TaskId(VertexId(target), channel_id.consumer), [])
        frames.append((order, channel_id, frame))
