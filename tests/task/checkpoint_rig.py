"""Slots of a job with a scripted JobMaster that takes checkpoints and restores them, all in one loop."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from runtime.checkpoint.assignment import assign_state
from runtime.checkpoint.handles import CheckpointMetadata, EdgeIdentity, OperatorState, OperatorSubtaskState
from runtime.core.checkpoint_options import CheckpointOptions, SnapshotKind
from runtime.core.ids import CheckpointId, OperatorId, SlotId, TaskId
from runtime.datastream import StreamExecutionEnvironment
from runtime.jobmaster.execution_graph import ExecutionGraph
from runtime.network.channel import NetworkEnvironment
from runtime.state.snapshot import OperatorStateSnapshot
from runtime.task.messages import (
    AcknowledgeCheckpoint,
    CoordinatorsSnapshotted,
    DeclineCheckpoint,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    SnapshotCoordinators,
    TaskState,
    TaskStateChanged,
    TriggerCheckpoint,
)
from tests.support.waiting import wait_until
from tests.task.rigs import SlotRig


class CheckpointRig(SlotRig):
    """A job whose checkpoints the test takes.

    Args:
        env: has the program.
        directory: checkpoints go below it.
        restore: what the job goes on from.
        window_bytes, network: as for SlotRig.
    """

    def __init__(
        self,
        env: StreamExecutionEnvironment,
        directory: Path,
        restore: CheckpointMetadata | None = None,
        window_bytes: int = 1 << 20,
        network: Callable[[SlotId], NetworkEnvironment] | None = None,
    ) -> None:
        super().__init__(env, window_bytes, network)
        self.directory = directory
        self.options: dict[CheckpointId, CheckpointOptions] = {}
        self.is_remote = network is not None
        #: how far the JobMaster's wall clock is ahead of the slots'
        self.ahead_ms = 0
        if restore is not None:
            self.assignment = assign_state(restore, self.graph)
            self.graph = self.assignment.graph
            self.execution = ExecutionGraph(self.graph, self.execution.attempt)

    def options_of(self, checkpoint_id: int, **changes: object) -> CheckpointOptions:
        directory = f"file://{self.directory}/chk-{checkpoint_id}"
        shared = f"file://{self.directory}/shared"
        return CheckpointOptions(directory, shared, **{"kind": SnapshotKind.FULL, **changes})  # type: ignore[arg-type]

    def trigger(self, number: int, **changes: object) -> CheckpointId:
        """Begin a checkpoint: coordinators first, then all slots."""
        checkpoint_id = CheckpointId(number)
        options = self.options[checkpoint_id] = self.options_of(number, **changes)
        for slot in sorted(set(self.execution.coordinator_slots.values())):
            self.links[slot].inbox.append(SnapshotCoordinators(checkpoint_id))
            self.slots[slot]._take_messages()
        self.tell(TriggerCheckpoint(checkpoint_id, self.clock.now_ms() + self.ahead_ms, options))
        return checkpoint_id

    def complete(self, number: int) -> None:
        self.tell(NotifyCheckpointComplete(CheckpointId(number)))

    def abort(self, number: int) -> None:
        self.tell(NotifyCheckpointAborted(CheckpointId(number)))

    def acknowledged(self, number: int) -> list[AcknowledgeCheckpoint]:
        found = [m for link in self.links.values() for m in link.all(AcknowledgeCheckpoint)]
        return [message for message in found if message.checkpoint_id == number]

    def declined(self, number: int) -> list[DeclineCheckpoint]:
        found = [m for link in self.links.values() for m in link.all(DeclineCheckpoint)]
        return [message for message in found if message.checkpoint_id == number]

    def is_acknowledged(self, number: int) -> bool:
        return len(self.acknowledged(number)) == len(self.execution.tasks)

    def step_until(self, condition: Callable[[], bool], limit: int = 5_000) -> None:
        """Step until it holds; nothing may fail meanwhile."""
        if self.is_remote:
            wait_until(lambda: self._stepped() and condition(), 60, "the condition")
            self.check()
            return
        for _ in range(limit):
            if condition():
                self.check()
                return
            self.step()
        self.check()
        raise AssertionError("it did not come to that")

    def step_until_only(self, condition: Callable[[], bool]) -> None:
        """Until it holds, with no other step than what the condition itself does."""
        wait_until(condition, 60, "the condition")

    def _stepped(self) -> bool:
        # other threads carry frames: an idle turn means nothing
        for _ in range(3):
            self.step()
        return True

    def check(self) -> None:
        """No task has failed, and none has answered a checkpoint twice."""
        for link in self.links.values():
            for message in link.all(TaskStateChanged):
                assert message.failure is None, message.failure.message + message.failure.traceback
        sent = [message for link in self.links.values() for message in link.sent]
        answers = [(m.checkpoint_id, m.task) for m in sent if isinstance(m, AcknowledgeCheckpoint | DeclineCheckpoint)]
        assert len(answers) == len(set(answers)), answers

    def checkpoint(self, number: int, **changes: object) -> CheckpointMetadata:
        """Take a whole checkpoint, and give what its metadata would be."""
        self.trigger(number, **changes)
        self.step_until(lambda: self.is_acknowledged(number))
        return self.metadata(number)

    def all_finished(self) -> bool:
        done = [m for link in self.links.values() for m in link.all(TaskStateChanged) if m.state is TaskState.FINISHED]
        return len(done) == len(self.execution.tasks)

    def metadata(self, number: int) -> CheckpointMetadata:
        """Return the metadata that the JobMaster would write for an acknowledged checkpoint."""
        states = {message.task: message.state for message in self.acknowledged(number)}
        assert len(states) == len(self.execution.tasks)
        coordinators: dict[OperatorId, OperatorStateSnapshot] = {}
        for link in self.links.values():
            for message in link.all(CoordinatorsSnapshotted):
                if message.checkpoint_id == number:
                    coordinators.update(message.states)
        operators = []
        for vertex in self.graph.vertices:
            tasks = [states[TaskId(vertex.vertex_id, index)] for index in range(vertex.parallelism)]
            for operator in vertex.operators:
                operators.append(
                    OperatorState(
                        operator.operator_id,
                        operator.uid,
                        operator.name,
                        vertex.parallelism,
                        vertex.max_parallelism,
                        [task.operators.get(operator.operator_id, OperatorSubtaskState()) for task in tasks],
                        coordinators.get(operator.operator_id),
                        frozenset(index for index, task in enumerate(tasks) if task.is_finished),
                    )
                )
        by_id = {vertex.vertex_id: vertex for vertex in self.graph.vertices}
        edges = {
            edge.edge_id: EdgeIdentity(
                by_id[edge.source].operators[edge.source_operator].operator_id,
                by_id[edge.target].head.operator_id,
                edge.input_index,
                edge.side_output_tag,
            )
            for edge in self.graph.edges
        }
        return CheckpointMetadata(
            self.graph.job_id,
            CheckpointId(number),
            self.clock.now_ms(),
            self.options[CheckpointId(number)],
            operators,
            [channel for state in states.values() for channel in state.channels],
            edges,
        )
