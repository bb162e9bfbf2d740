"""Reasons for waiting: one line for each state, phase and kind of standstill, and none for a job that makes
progress."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from runtime.checkpoint.settings import CheckpointSettings
from runtime.checkpoint.statistics import CheckpointsSnapshot, CheckpointStats, CheckpointStatus, VertexCheckpoint
from runtime.core.checkpoint_options import CheckpointOptions
from runtime.core.ids import Attempt, CheckpointId, SlotId, TaskId, VertexId
from runtime.jobmaster.job_state import JobState
from runtime.jobmaster.phases import Phase
from runtime.jobmaster.slot_registry import SlotStatus
from runtime.jobmaster.status import SlotSnapshot, Stall, TaskSnapshot
from runtime.jobmaster.waiting import LONG_CHECKPOINT_MS, Standing, waiting_for
from runtime.task.messages import TaskState

SOURCE, MAP = VertexId("source"), VertexId("map")
STILL: dict[str, object] = {"numRecordsInPerSecond": 0.0, "numRecordsOutPerSecond": 0.0}
MOVING: dict[str, object] = {"numRecordsInPerSecond": 0.0, "numRecordsOutPerSecond": 0.1}


def task(vertex: VertexId, index: int, state: TaskState, metrics: dict[str, object]) -> TaskSnapshot:
    return TaskSnapshot(TaskId(vertex, index), f"{vertex} ({index + 1}/2)", SlotId(index), state, metrics)


def standing(
    state: JobState,
    phase: Phase,
    tasks: TaskState = TaskState.RUNNING,
    metrics: dict[str, object] = MOVING,
    slots: SlotStatus = SlotStatus.LIVE,
    **given: Any,
) -> Standing:
    """Two slots, each with a source and a map."""
    return Standing(
        state=state,
        phase=phase,
        tasks=[task(vertex, index, tasks, metrics) for vertex in (SOURCE, MAP) for index in (0, 1)],
        slots=[SlotSnapshot(SlotId(index), slots, None, "") for index in (0, 1)],
        checkpoints=given.pop("checkpoints", CheckpointsSnapshot(CheckpointSettings())),
        sources=frozenset([SOURCE]),
        wall_ms=LONG_CHECKPOINT_MS,
        **given,
    )


def stall(task_name: str) -> Stall:
    """In the second slot."""
    return Stall(SlotId(1), Attempt(0), TaskId(MAP, 1) if task_name else None, task_name, 0.0, "")


def under_way(acknowledged: set[int]) -> CheckpointsSnapshot:
    """A checkpoint that began long ago, acknowledged by these subtasks of the map."""
    options = CheckpointOptions("file:///c/chk-7", "file:///c/shared")
    subtasks: dict[int, Any] = dict.fromkeys(acknowledged)
    vertices = {MAP: VertexCheckpoint(MAP, 2, subtasks)}
    pending = CheckpointStats(CheckpointId(7), CheckpointStatus.IN_PROGRESS, 0, options, vertices)
    return CheckpointsSnapshot(CheckpointSettings(), history=(pending,))


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (standing(JobState.CREATED, Phase.IDLE, recovery="cannot read yet: away"), "cannot read yet: away"),
        (standing(JobState.RESTARTING, Phase.IDLE), "the delay of its restart strategy"),
        (standing(JobState.CREATED, Phase.REQUESTING, slots=SlotStatus.EXPECTED), "2 of 2 slots to start"),
        (
            standing(JobState.CREATED, Phase.REQUESTING, is_undecided=True),
            "the storage to report the latest checkpoint",
        ),
        (
            standing(
                JobState.CREATED, Phase.REQUESTING, is_undecided=True, storage="checkpoint 7 to be recorded: away"
            ),
            "checkpoint 7 to be recorded: away",
        ),
        (
            standing(JobState.CREATED, Phase.DEPLOYING, TaskState.DEPLOYING),
            "source (1/2), source (2/2), map (1/2) and 1 more to be deployed and restored",
        ),
        (
            standing(JobState.RESTARTING, Phase.STARTED, TaskState.INITIALIZING),
            "source (1/2), source (2/2), map (1/2) and 1 more to run",
        ),
        (
            standing(JobState.FAILING, Phase.CANCELLING_TASKS, TaskState.CANCELING),
            "source (1/2), source (2/2), map (1/2) and 1 more to stop",
        ),
        (standing(JobState.CANCELLING, Phase.LEAVING, TaskState.CANCELED), "2 slots to end"),
        (standing(JobState.RUNNING, Phase.COMMITTING, TaskState.FINISHED), "sinks to commit"),
        (standing(JobState.RUNNING, Phase.STARTED), ""),
        (standing(JobState.RUNNING, Phase.STARTED, metrics={}), ""),
        (standing(JobState.RUNNING, Phase.STARTED, metrics=STILL), "data from source"),
        (
            standing(JobState.RUNNING, Phase.STARTED, metrics=STILL | {"backPressuredTimeMsPerSecond": 900}),
            "the consumers of source, map",
        ),
        (
            standing(JobState.RUNNING, Phase.STARTED, stalls=[stall("map (2/2)")]),
            "user code that has not returned, in map (2/2)",
        ),
        (
            # a timer's, or a checkpoint's
            standing(JobState.RUNNING, Phase.STARTED, stalls=[stall("")]),
            "user code that has not returned, in source (2/2), map (2/2)",
        ),
        (
            standing(JobState.RUNNING, Phase.STARTED, storage="checkpoint 7 to be recorded: x"),
            "checkpoint 7 to be recorded: x",
        ),
        (
            standing(JobState.RUNNING, Phase.STARTED, checkpoints=under_way({0})),
            "map (2/2) to acknowledge checkpoint 7",
        ),
        (
            standing(JobState.RUNNING, Phase.STARTED, checkpoints=under_way({0, 1})),
            "the storage to complete checkpoint 7",
        ),
        (standing(JobState.FAILED, Phase.IDLE, recovery="cannot read yet"), ""),
    ],
)
def test_a_job_says_what_it_waits_for(at: Standing, text: str) -> None:
    assert waiting_for(at) == text


def test_a_checkpoint_that_has_just_begun_is_not_waited_for() -> None:
    at = standing(JobState.RUNNING, Phase.STARTED, checkpoints=under_way({0}))
    assert waiting_for(dataclasses.replace(at, wall_ms=LONG_CHECKPOINT_MS - 1)) == ""


@pytest.mark.parametrize("phase", list(Phase))
@pytest.mark.parametrize("state", list(JobState))
def test_every_state_in_every_phase_can_be_told(state: JobState, phase: Phase) -> None:
    assert isinstance(waiting_for(standing(state, phase)), str)
