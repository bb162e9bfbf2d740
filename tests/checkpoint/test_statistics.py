from __future__ import annotations

import math

from runtime.checkpoint.handles import CheckpointMetrics
from runtime.checkpoint.settings import CheckpointSettings
from runtime.checkpoint.statistics import CheckpointStatistics, CheckpointStatus, Summary
from runtime.core.checkpoint_options import AfterSnapshot, Alignment, CheckpointOptions
from runtime.core.ids import CheckpointId, TaskId, VertexId

A, B = VertexId("a"), VertexId("b")
OPTIONS = CheckpointOptions("file:///c/chk-1", "file:///c/shared")
SAVEPOINT = CheckpointOptions("file:///s/savepoint-1", "file:///s/savepoint-1", is_savepoint=True)


def statistics(settings: CheckpointSettings | None = None) -> CheckpointStatistics:
    return CheckpointStatistics(settings or CheckpointSettings())


def take(tracked: CheckpointStatistics, number: int, options: CheckpointOptions = OPTIONS, size: int = 10) -> None:
    """Take a checkpoint of a at parallelism 2 and b at parallelism 1, from second 10 on."""
    checkpoint_id = CheckpointId(number)
    tracked.triggered(checkpoint_id, 10_000, options, {A: 2, B: 1})
    for index, task in enumerate((TaskId(A, 0), TaskId(A, 1), TaskId(B, 0))):
        metrics = CheckpointMetrics(sync_ms=1.0, checkpointed_bytes=size, state_bytes=2 * size)
        tracked.acknowledged(checkpoint_id, task, metrics, 10_100 + 50 * index)
    tracked.completed(checkpoint_id, 77, 10_230)


def test_a_checkpoint_is_told_by_vertex_and_subtask() -> None:
    tracked = statistics()
    take(tracked, 1)
    stats = tracked.snapshot().history[0]
    assert (stats.status, stats.num_subtasks, stats.num_acknowledged) == (CheckpointStatus.COMPLETED, 3, 3)
    assert (stats.end_to_end_ms, stats.latest_ack_timestamp_ms, stats.metadata_bytes) == (200, 10_200, 77)
    assert (stats.total("checkpointed_bytes"), stats.total("state_bytes")) == (30, 60)
    vertex = stats.vertices[A]
    assert (vertex.latest_ack_timestamp_ms, vertex.total("state_bytes")) == (10_150, 40)
    assert vertex.subtasks[1].end_to_end_ms == 150


def test_one_under_way_is_told_as_far_as_it_has_come() -> None:
    tracked = statistics()
    tracked.triggered(CheckpointId(1), 10_000, OPTIONS, {A: 2})
    assert tracked.snapshot().history[0].latest_ack_timestamp_ms == -1
    tracked.acknowledged(CheckpointId(1), TaskId(A, 1), CheckpointMetrics(), 10_010)
    before = tracked.snapshot().history[0]
    tracked.acknowledged(CheckpointId(1), TaskId(A, 0), CheckpointMetrics(), 10_020)
    assert before.num_acknowledged == 1, "what was given out does not change"
    assert tracked.snapshot().history[0].num_acknowledged == 2
    assert tracked.snapshot().counts.in_progress == 1


def test_a_job_says_how_many_checkpoints_its_history_has() -> None:
    tracked = statistics(CheckpointSettings(history_size=3))
    for number in range(1, 6):
        take(tracked, number)
    assert [c.checkpoint_id for c in tracked.snapshot().history] == [5, 4, 3]


def test_the_history_is_short_and_the_latest_of_each_kind_are_found_all_the_same() -> None:
    tracked = statistics()
    take(tracked, 1, SAVEPOINT)
    for number in range(2, 20):
        take(tracked, number)
    told = tracked.snapshot()
    assert [c.checkpoint_id for c in told.history] == list(range(19, 9, -1))
    assert told.latest_savepoint is not None
    assert told.find(1) is told.latest_savepoint
    assert told.latest_completed is told.history[0]
    assert told.find(5) is None


def test_what_is_deleted_says_so_wherever_it_is_told() -> None:
    tracked = statistics()
    take(tracked, 1)
    tracked.discarded(CheckpointId(1))
    told = tracked.snapshot()
    assert told.history[0].is_discarded
    assert told.latest_completed is not None
    assert told.latest_completed.is_discarded


def test_a_failure_says_when_and_why() -> None:
    tracked = statistics()
    tracked.triggered(CheckpointId(1), 10_000, OPTIONS, {A: 1})
    tracked.failed(CheckpointId(1), "disk full", 10_500)
    failed = tracked.snapshot().latest_failed
    assert failed is not None
    assert (failed.failure_message, failed.failure_timestamp_ms, failed.end_to_end_ms) == ("disk full", 10_500, 500)


def test_failures_without_a_completed_checkpoint_between_them_are_one_row() -> None:
    tracked = statistics()

    def row_after_failure(number: int, options: CheckpointOptions = OPTIONS) -> tuple[int | None, int]:
        tracked.triggered(CheckpointId(number), 10_000, options, {A: 1})
        tracked.failed(CheckpointId(number), "disk full", 10_000 + number)
        snapshot = tracked.snapshot()
        return snapshot.failures_since_ms, snapshot.failures_in_a_row

    assert row_after_failure(1) == (10_001, 1)
    assert row_after_failure(2) == (10_001, 2)
    assert row_after_failure(3, SAVEPOINT) == (10_001, 2)
    take(tracked, 4, SAVEPOINT)
    assert row_after_failure(5) == (10_001, 3)
    take(tracked, 6)
    assert tracked.snapshot().failures_in_a_row == 3
    assert row_after_failure(7) == (10_007, 1)


def test_summaries_are_of_all_completed_ones() -> None:
    tracked = statistics()
    assert tracked.snapshot().summaries == {}
    for number in range(1, 101):
        take(tracked, number, size=number)
    summary = tracked.snapshot().summaries["checkpointed_size"]
    assert (summary.min, summary.max, summary.avg) == (3, 300, 151)
    assert (summary.p50, summary.p99, summary.p999) == (153.0, 300.0, 300.0)


def test_a_summary_of_nothing_has_no_quantiles() -> None:
    empty = Summary.of([])
    assert (empty.min, empty.max, empty.avg) == (0, 0, 0)
    assert math.isnan(empty.p50)
    assert Summary.of([4.0, 2.0]).min == 2


def test_types_are_named_as_flink_names_them() -> None:
    tracked = statistics()
    take(tracked, 1)
    take(tracked, 2, SAVEPOINT)
    take(tracked, 3, CheckpointOptions("d", "d", is_savepoint=True, after=AfterSnapshot.DRAIN))
    take(tracked, 4, CheckpointOptions("d", "d", alignment=Alignment.UNALIGNED))
    types = [c.checkpoint_type for c in reversed(tracked.snapshot().history)]
    assert types == ["CHECKPOINT", "SAVEPOINT", "SYNC_SAVEPOINT", "UNALIGNED_CHECKPOINT"]


def test_a_record_goes_on_with_counts_and_summaries_and_counts_what_is_recorded_with_it() -> None:
    first = statistics()
    for number, size in ((1, 10), (2, 40)):
        take(first, number, size=size)
    first.triggered(CheckpointId(3), 10_000, OPTIONS, {A: 1})
    first.failed(CheckpointId(3), "slow", 11_000)
    first.restored(CheckpointId(1), 12_000, False, "file:///c/chk-1")
    first.triggered(CheckpointId(4), 10_000, OPTIONS, {A: 1})
    for index in range(1):
        metrics = CheckpointMetrics(checkpointed_bytes=7, state_bytes=9)
        first.acknowledged(CheckpointId(4), TaskId(A, index), metrics, 10_050)
    record = first.record([CheckpointId(4)])
    first.completed(CheckpointId(4), 0, 10_300)
    second = statistics()
    second.restore(record)
    before, after = first.snapshot(), second.snapshot()
    assert before.counts == after.counts
    assert (after.counts.completed, after.counts.failed, after.counts.restored) == (3, 1, 1)
    assert dict(before.summaries) == dict(after.summaries)
    second.given_up(is_savepoint=False)
    take(second, 5, size=1)
    counts = second.snapshot().counts
    assert (counts.total, counts.completed, counts.failed) == (6, 4, 2)
    assert second.snapshot().summaries["checkpointed_size"].max == 120


def test_a_record_tells_savepoints_from_what_is_in_the_jobs_directory() -> None:
    tracked = statistics()
    take(tracked, 1, SAVEPOINT)
    tracked.triggered(CheckpointId(2), 10_000, SAVEPOINT, {A: 1})
    tracked.failed(CheckpointId(2), "slow", 11_000)
    tracked.given_up(is_savepoint=True)
    tracked.triggered(CheckpointId(3), 10_000, SAVEPOINT, {A: 1})
    record = tracked.record([CheckpointId(3)])
    assert (record.ended, record.own) == (4, 0)
    later = statistics()
    later.restore(record)
    later.given_up(is_savepoint=False)
    take(later, 4)
    assert (later.record().ended, later.record().own) == (6, 2)


def test_a_record_of_nothing_leaves_summaries_empty() -> None:
    tracked = statistics()
    tracked.restore(statistics().record())
    assert tracked.snapshot().counts.total == 0 and not tracked.snapshot().summaries
