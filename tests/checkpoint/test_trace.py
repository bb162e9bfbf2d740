from __future__ import annotations

from runtime.checkpoint.handles import CheckpointMetrics
from runtime.checkpoint.settings import CheckpointSettings
from runtime.checkpoint.statistics import CheckpointStatistics
from runtime.checkpoint.trace import MAX_STRAGGLERS, TRACES, CheckpointTrace, Phase
from runtime.core.checkpoint_options import CheckpointOptions
from runtime.core.ids import CheckpointId, TaskId, VertexId

A, B = VertexId("a"), VertexId("b")
OPTIONS = CheckpointOptions("file:///c/chk-1", "file:///c/shared")
SLOW = CheckpointMetrics(start_delay_ms=20.0, alignment_ms=700.0, sync_ms=5.0, async_ms=60.0)


def begun(parallelism: dict[VertexId, int], number: int = 1) -> CheckpointStatistics:
    tracked = CheckpointStatistics(CheckpointSettings())
    tracked.triggered(CheckpointId(number), 10_000, OPTIONS, parallelism)
    return tracked


def acknowledged(tracked: CheckpointStatistics, task: TaskId, after_ms: int, metrics: CheckpointMetrics = SLOW) -> None:
    tracked.acknowledged(CheckpointId(1), task, metrics, 10_000 + after_ms)


def trace(tracked: CheckpointStatistics) -> CheckpointTrace:
    return tracked.snapshot().traces[0]


def test_the_phases_of_a_subtask_add_up_to_its_time() -> None:
    tracked = begun({A: 1})
    acknowledged(tracked, TaskId(A, 0), 800)
    [subtask] = trace(tracked).stragglers
    assert list(subtask.phases_ms) == list(Phase)[:-1]
    assert sum(subtask.phases_ms.values()) == 800
    assert subtask.phases_ms[Phase.REST] == 15.0


def test_a_start_delay_by_a_clock_that_goes_ahead_leaves_no_negative_rest() -> None:
    tracked = begun({A: 1})
    acknowledged(tracked, TaskId(A, 0), 500)
    assert trace(tracked).stragglers[0].phases_ms[Phase.REST] == 0.0


def test_time_is_lost_in_the_longest_phase_of_whoever_was_last() -> None:
    tracked = begun({A: 1, B: 1})
    acknowledged(tracked, TaskId(A, 0), 40, CheckpointMetrics(async_ms=30.0))
    acknowledged(tracked, TaskId(B, 0), 800)
    tracked.completed(CheckpointId(1), 0, 10_830)
    told = trace(tracked)
    assert [s.task for s in told.stragglers] == [TaskId(B, 0), TaskId(A, 0)]
    assert (told.duration_ms, told.commit_ms, told.lost_in) == (830, 30, (Phase.ALIGNMENT, 700.0))


def test_time_is_lost_in_the_commit_if_that_takes_longest() -> None:
    tracked = begun({A: 1})
    acknowledged(tracked, TaskId(A, 0), 800)
    tracked.completed(CheckpointId(1), 0, 15_000)
    assert trace(tracked).lost_in == (Phase.COMMIT, 4_200.0)


def test_acknowledgements_of_one_ms_are_told_apart_by_what_was_measured() -> None:
    tracked = begun({A: 2})
    acknowledged(tracked, TaskId(A, 0), 800, CheckpointMetrics(sync_ms=1.0))
    acknowledged(tracked, TaskId(A, 1), 800)
    assert trace(tracked).stragglers[0].task == TaskId(A, 1)


def test_whoever_has_not_acknowledged_is_slowest_and_nothing_is_said_of_its_phases() -> None:
    tracked = begun({A: 2})
    acknowledged(tracked, TaskId(A, 0), 800)
    running = trace(tracked)
    assert (running.stragglers[0].task, running.stragglers[0].phases_ms) == (TaskId(A, 1), {})
    assert (running.duration_ms, running.commit_ms, running.lost_in) == (None, None, None)
    tracked.failed(CheckpointId(1), "it expired " * 100, 20_000)
    failed = trace(tracked)
    assert (failed.duration_ms, failed.lost_in, len(failed.cause)) == (10_000, None, 300)
    assert failed.stragglers == running.stragglers


def test_a_trace_has_the_slowest_of_many_subtasks_only() -> None:
    tracked = begun({A: 400})
    for index in range(390):
        acknowledged(tracked, TaskId(A, index), index)
    told = trace(tracked)
    assert (told.num_subtasks, told.num_acknowledged, len(told.stragglers)) == (400, 390, MAX_STRAGGLERS)
    expected = [*range(390, 400), *range(389, 383, -1)]
    assert [s.task.subtask_index for s in told.stragglers] == expected


def test_traces_are_kept_for_longer_than_checkpoints_but_not_for_ever() -> None:
    tracked = CheckpointStatistics(CheckpointSettings())
    for number in range(1, 101):
        tracked.triggered(CheckpointId(number), 10_000, OPTIONS, {A: 1})
        tracked.acknowledged(CheckpointId(number), TaskId(A, 0), SLOW, 10_800)
        if number != 50:
            tracked.completed(CheckpointId(number), 0, 10_900)
    traces = tracked.snapshot().traces
    assert [t.checkpoint_id for t in traces] == list(range(100, 100 - TRACES, -1))
    assert [t.checkpoint_id for t in traces if t.duration_ms is None] == [50]
    assert len({type(t) for t in traces}) == 1


def test_one_that_ends_after_its_trace_was_dropped_does_not_come_back() -> None:
    tracked = CheckpointStatistics(CheckpointSettings())
    for number in range(1, TRACES + 2):
        tracked.triggered(CheckpointId(number), 10_000, OPTIONS, {A: 1})
    tracked.failed(CheckpointId(1), "it expired", 20_000)
    assert min(t.checkpoint_id for t in tracked.snapshot().traces) == 2
