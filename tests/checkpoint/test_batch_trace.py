"""Traces of batches: what a slot may put into one, and where they are kept."""

from __future__ import annotations

from dataclasses import replace

from runtime.checkpoint.batch_trace import MAX_BATCHES, MAX_CHARS, MAX_POSITIONS, BatchTrace, SplitPosition
from runtime.checkpoint.settings import CheckpointSettings
from runtime.checkpoint.statistics import CheckpointStatistics
from runtime.core.checkpoint_options import CheckpointOptions
from runtime.core.ids import CheckpointId, TaskId, VertexId

SPLIT = SplitPosition(TaskId(VertexId("a" * 32), 0), "one.csv", "12")
BATCH = BatchTrace("a" * 32, 3, "data", 1_000, 5, 4, 1, False, 1.0, 2.0, 3.0, 4.0, {"walCommit": 1.0}, [SPLIT])


def test_what_a_slot_tells_is_bounded_and_text_that_a_database_takes() -> None:
    long = "x" * 10_000
    hostile = replace(
        BATCH,
        region=long,
        kind=long,
        spark_ms={f"{number} {long}": 1.0 for number in range(1_000)},
        positions=[replace(SPLIT, split=f"\0\ud800{number} {long}", position=long) for number in range(1_000)],
    )
    told = hostile.bounded()
    assert len(told.positions) == MAX_POSITIONS and len(told.spark_ms) <= MAX_POSITIONS
    texts = [told.region, told.kind, *told.spark_ms, *(p.split for p in told.positions)]
    assert all(len(text) <= MAX_CHARS for text in texts)
    assert told.positions[0].split.startswith("\ufffd\ufffd0 ")


def test_they_are_kept_with_the_checkpoint_one_of_each_region() -> None:
    statistics = CheckpointStatistics(CheckpointSettings())
    first = CheckpointId(1)
    statistics.batch_completed(first, BATCH)
    assert not statistics.snapshot().traces
    statistics.triggered(first, 1_000, CheckpointOptions("", ""), {VertexId("a" * 32): 1})
    # a batch is through with its checkpoint once that is complete
    statistics.batch_completed(first, BATCH)
    assert not statistics.snapshot().traces[0].batches
    statistics.completed(first, 10, 1_100)
    statistics.batch_completed(first, replace(BATCH, spark_ms={}))
    statistics.batch_completed(first, BATCH)
    assert statistics.snapshot().traces[0].batches == (BATCH,)
    for number in range(2 * MAX_BATCHES):
        statistics.batch_completed(first, replace(BATCH, region=f"{number}"))
    assert len(statistics.snapshot().traces[0].batches) == MAX_BATCHES
