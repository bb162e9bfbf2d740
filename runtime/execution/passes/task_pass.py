"""TaskPass: one task's part of a pass, wherever it runs: restored, given its input, and snapshotted behind it.

One thread.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import pyarrow as pa

from runtime.checkpoint.batch_trace import MAX_POSITIONS, SplitPosition
from runtime.checkpoint.handles import CheckpointMetrics, TaskStateHandle
from runtime.core.clock import Clock
from runtime.core.ids import TaskId, VertexId
from runtime.execution.passes.channels import TakeFrame
from runtime.execution.passes.plan import PassFailedError, PassKind, PassPlan, TaskOutcome
from runtime.execution.passes.task_run import PassHost, TaskRun, Turn
from runtime.graph.job_graph import JobEdge
from runtime.graph.partitioning import Partitioning
from runtime.network.channel import ChannelId
from runtime.operators.operator import ClientChannel
from runtime.operators.source_operator import SourceOperator
from runtime.task.failures import describe_failure, describe_task_failure
from runtime.task.messages import FailureInfo, TaskDeployment, TaskState


class TaskPass:
    """One task of a pass.

    Args:
        plan: of the pass.
        deployment: of the task.
        clock: measures durations.
        client: takes what the task prints.
        take: is given the frames that it emits, in order.
        directory: local.

    Raises:
        PassFailedError: an operator could not be made, restored or opened.
    """

    def __init__(
        self,
        plan: PassPlan,
        deployment: TaskDeployment,
        clock: Clock,
        client: ClientChannel,
        take: TakeFrame,
        directory: Path,
    ) -> None:
        self._plan = plan
        self._deployment = deployment
        self._prepared: TaskStateHandle | None = None
        task, head = deployment.task, deployment.vertex.head.operator_id
        host = PassHost(plan, clock, client, take, plan.shares.get((head, task.subtask_index), ()), directory)
        try:
            self.run = TaskRun(deployment, plan.restores.get(task), host, plan.facts.secrets)
        except Exception as error:
            vertex = deployment.vertex
            name = f"{vertex.name} ({task.subtask_index + 1}/{vertex.parallelism})"
            raise PassFailedError(task, describe_failure(error, task, name, plan.slots.get(task))) from error

    @property
    def task_id(self) -> TaskId:
        return self._deployment.task

    @property
    def has_sinks(self) -> bool:
        """Return whether the task commits when the snapshot is complete."""
        return any(operator.commits_at_the_end for operator in self.run.task.chain.operators)

    @property
    def outcome(self) -> TaskOutcome:
        """Return what the task has to say when `process` has ended."""
        run = self.run
        if self._plan.kind is PassKind.BOUNDED:
            assert self._prepared is not None
            state, metrics = self._prepared, CheckpointMetrics()
        else:
            acknowledged = run.host.acknowledged
            assert acknowledged is not None
            state, metrics = acknowledged.state, acknowledged.metrics
        return TaskOutcome(
            self.task_id,
            state,
            metrics,
            run.task.metrics(),
            run.is_finished,
            run.has_caught_up,
            tuple(run.host.given),
            self._positions(),
            self._next_due_ms(),
        )

    def _next_due_ms(self) -> int | None:
        if self.run.is_finished:
            return None
        known = [operator.next_due_ms() for operator in self.run.task.chain.operators]
        return min((due_ms for due_ms in known if due_ms is not None), default=None)

    def _positions(self) -> Sequence[SplitPosition]:
        source = self.run.task.chain.operators[0]
        if not isinstance(source, SourceOperator):
            return ()
        known = islice(source.positions(), MAX_POSITIONS)
        return [SplitPosition(self.task_id, split, json.dumps(position)) for split, position in known]

    def process(self, frames: Iterable[tuple[ChannelId, bytes | pa.Buffer]]) -> Iterator[Turn]:
        """Run the task: a source reads its share, another task takes the frames; both then take the snapshot, or end.

        Args:
            frames: for the task, in the order in which it is to read them; none for a source.

        Raises:
            PassFailedError: the task failed; it is closed.
        """
        try:
            yield from self._process(frames)
        except Exception as error:
            raise self.failed(error) from error

    def _process(self, frames: Iterable[tuple[ChannelId, bytes | pa.Buffer]]) -> Iterator[Turn]:
        run, plan = self.run, self._plan
        if plan.kind is PassKind.BOUNDED:
            yield from run.take(frames) if self._deployment.in_edges else run.read_all()
            yield from run.end()
            self._prepared = run.prepared()
            return
        if self._deployment.in_edges:
            run.has_caught_up = True
            run.announce(plan.barrier)
            yield from run.take(frames)
        elif plan.kind is PassKind.DATA:
            yield from run.read(plan.max_rows)
        else:
            run.has_caught_up = True
        yield from run.snapshot(plan.barrier)

    def guarded(self, step: Callable[[], None]) -> None:
        """Call one step of the task.

        Raises:
            PassFailedError: it failed; the task is closed.
        """
        try:
            step()
        except Exception as error:
            raise self.failed(error) from error

    def failed(self, error: Exception) -> PassFailedError:
        """Close the task, and return what became of it."""
        info = self.describe(error)
        self.run.task.state = TaskState.FAILED
        self.run.close(after_failure=True)
        return PassFailedError(self.task_id, info)

    def describe(self, error: Exception) -> FailureInfo:
        """Describe an error of the task's operators for the JobMaster."""
        return describe_task_failure(error, self.run.task, self._plan.slots[self.task_id])


class FrameOrder:
    """Says for which task a frame is, and in which order tasks read theirs.

    Args:
        edges: those on which frames are.
    """

    def __init__(self, edges: Iterable[JobEdge]) -> None:
        self._targets = {
            edge.edge_id: (VertexId(edge.target), edge.partitioning is not Partitioning.BROADCAST) for edge in edges
        }
        self._sequences: dict[ChannelId, int] = {}

    def of(self, channel_id: ChannelId) -> tuple[TaskId, tuple[bool, int, int, int]]:
        """Return whose the next frame of a channel is, and what it is sorted by: what is broadcast comes first; else
        channels in turn, as they would be read.
        """
        target, is_late = self._targets[channel_id.edge_id]
        sequence = self._sequences[channel_id] = self._sequences.get(channel_id, 0) + 1
        order = (is_late, sequence, channel_id.edge_id, channel_id.producer)
        return TaskId(target, channel_id.consumer), order
