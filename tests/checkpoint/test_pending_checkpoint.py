"""PendingCheckpoint: what a checkpoint in progress says of itself, and the metadata that it becomes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runtime.checkpoint.handles import OperatorSubtaskState, TaskStateHandle
from runtime.checkpoint.messages import TriggerRequested
from runtime.checkpoint.pending_checkpoint import PendingCheckpoint, Stage
from runtime.core.checkpoint_options import AfterSnapshot, CheckpointOptions
from runtime.core.ids import Attempt, CheckpointId
from tests.checkpoint.coordinator_rig import GRAPH, TASKS

OPTIONS = CheckpointOptions("file:///chk-7", "file:///shared")


def pending(options: CheckpointOptions = OPTIONS, request: TriggerRequested | None = None) -> PendingCheckpoint:
    return PendingCheckpoint(
        checkpoint_id=CheckpointId(7),
        attempt=Attempt(0),
        attempts=frozenset(),
        graph=GRAPH,
        options=options,
        timestamp_ms=1_000,
        deadline_ms=0.0,
        request=request,
        stage=Stage.SOURCES,
        waiting_slots=set(),
        waiting_tasks=set(TASKS),
    )


@pytest.mark.parametrize(
    ("is_savepoint", "after", "is_recorded"),
    [
        (False, AfterSnapshot.GO_ON, True),
        (True, AfterSnapshot.GO_ON, False),
        (True, AfterSnapshot.SUSPEND, True),
        (True, AfterSnapshot.DRAIN, True),
    ],
)
def test_recovery_may_start_from_checkpoints_and_from_savepoints_that_end_the_job(
    is_savepoint: bool, after: AfterSnapshot, is_recorded: bool
) -> None:
    assert pending(replace(OPTIONS, is_savepoint=is_savepoint, after=after)).is_recorded is is_recorded


def test_sources_may_have_ended_their_input_once_tasks_have_heard_of_a_drain() -> None:
    drain = pending(replace(OPTIONS, is_savepoint=True, after=AfterSnapshot.DRAIN))
    assert not drain.has_drained
    drain.stage = Stage.TASKS
    assert drain.has_drained
    suspend = pending(replace(OPTIONS, is_savepoint=True, after=AfterSnapshot.SUSPEND))
    suspend.stage = Stage.TASKS
    assert not suspend.has_drained


def test_only_a_request_makes_a_checkpoint_the_last() -> None:
    assert not pending().is_last
    assert not pending(request=TriggerRequested("r")).is_last
    assert pending(request=TriggerRequested("r", is_last=True)).is_last


def test_its_metadata_have_the_parts_of_each_subtask_by_operator() -> None:
    done = pending()
    for index, task in enumerate(TASKS):
        operators = {
            o.operator_id: OperatorSubtaskState(watermark=index) for o in GRAPH.vertex(task.vertex_id).operators
        }
        done.states[task] = TaskStateHandle(operators, is_finished=index == 0)
    metadata = done.metadata_of(GRAPH.job_id)
    assert (metadata.checkpoint_id, metadata.timestamp_ms, metadata.options) == (7, 1_000, OPTIONS)
    by_task = {task: index for index, task in enumerate(TASKS)}
    for vertex in GRAPH.vertices:
        for operator in vertex.operators:
            [found] = [o for o in metadata.operators if o.operator_id == operator.operator_id]
            subtasks = [by_task[task] for task in TASKS if task.vertex_id == vertex.vertex_id]
            assert [subtask.watermark for subtask in found.subtasks] == subtasks
            assert found.finished == (frozenset({0}) if 0 in subtasks else frozenset())
    assert metadata.edges.keys() == {edge.edge_id for edge in GRAPH.edges}
