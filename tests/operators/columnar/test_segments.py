"""Checkpoints of columnar state as segments: what they write, what they share, and what is restored from them."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.common import Row, Time, Types, WatermarkStrategy
from runtime.core.batch import Mark
from runtime.core.checkpoint_options import SnapshotKind
from runtime.core.keys import encode_key
from runtime.datastream import DataStream, KeyedStream, StreamExecutionEnvironment
from runtime.datastream.window import TumblingEventTimeWindows
from runtime.operators.columnar import segment_log
from runtime.operators.columnar.interval_join import ColumnIntervalJoinOperatorFactory, ColumnIntervalJoinSpec
from runtime.operators.columnar.join_columns import JoinSides
from runtime.operators.columnar.regular_join import RegularJoinOperatorFactory
from runtime.operators.columnar.top_n import TopNOperatorFactory
from runtime.operators.columnar.top_n_plan import top_n_spec
from runtime.operators.operator import OperatorFactory
from runtime.operators.windowing.assigners import SlidingEventTimeWindows
from runtime.state.handles import DamagedSnapshotError, FileHandle, KeyedStateHandle
from runtime.state.key_groups import KeyGroupRange
from runtime.state.lookup import columnar_entries, find_key
from runtime.state.segments.files import Header, unpack_rows
from runtime.state.segments.snapshot import SEGMENTS_FORMAT, Segment, SegmentList, StateRules, newest_rows
from runtime.state.snapshot import OperatorSnapshot, StateEntry
from runtime.testing import MICRO_BATCH_ON_MINI_CLUSTER, ScriptedSource, crash, run_job
from runtime.testing.clock import ManualClock
from runtime.testing.harness import OneInputHarness
from runtime.testing.jobs import CONTINUOUS_ON_MINI_CLUSTER, BuildJob, JobMode
from runtime.testing.two_input_harness import TwoInputHarness
from tests.job_runs import record_run
from tests.operators.columnar.checkpoints import Checkpoint, CheckpointedJob
from tests.operators.columnar.rescaling import part_of
from tests.operators.columnar.runs import ROWS, Run, batch_of, feed, runs
from tests.operators.columnar.test_window_aggregate import by_column
from tests.state.files import DirectoryFiles

NUMBERS = Types.ROW_NAMED(["id", "key", "at"], [Types.LONG(), Types.LONG(), Types.LONG()])
SIDES = JoinSides((ROWS, ROWS), (("key",), ("key",)))
OPERATIONS = ("run", "run", "run", "take", "full", "savepoint", "write", "complete", "abort", "restore")
Stage = tuple[int, Run]
"""(input, rows with their marks)."""
FACTORIES: dict[str, OperatorFactory] = {
    "top_n": TopNOperatorFactory(top_n_spec(ROWS, ["key"], 2, "number", True, None)),
    "ranked": TopNOperatorFactory(top_n_spec(ROWS, ["key"], 3, ["text", "amount"], [False, True], "rank")),
    "windows": by_column(SlidingEventTimeWindows(20, 5, 0), None, 7),
    "inner": ColumnIntervalJoinOperatorFactory(ColumnIntervalJoinSpec(SIDES, -4, 9)),
    "full": ColumnIntervalJoinOperatorFactory(ColumnIntervalJoinSpec(SIDES, -4, 9, how="full")),
    "regular": RegularJoinOperatorFactory(SIDES),
}


def job_of(factory: OperatorFactory, directory: Path) -> CheckpointedJob:
    if isinstance(factory, ColumnIntervalJoinOperatorFactory | RegularJoinOperatorFactory):

        def create_two(
            parallelism: int, subtask: int, clock: ManualClock, snapshot: OperatorSnapshot | None
        ) -> TwoInputHarness:
            return TwoInputHarness(factory, (None, None), parallelism, subtask, clock=clock, snapshot=snapshot)

        return CheckpointedJob(create_two, feed_two, directory)

    def create(
        parallelism: int, subtask: int, clock: ManualClock, snapshot: OperatorSnapshot | None
    ) -> OneInputHarness:
        return OneInputHarness(factory, None, parallelism, subtask, clock=clock, snapshot=snapshot, input_type=ROWS)

    return CheckpointedJob(create, feed_one, directory)


def feed_one(harnesses: Sequence[OneInputHarness], stage: Stage) -> None:
    for index, harness in enumerate(harnesses):
        feed(harness, part_of(stage[1], index, len(harnesses)), cut=False)


def feed_two(harnesses: Sequence[TwoInputHarness], stage: Stage) -> None:
    side, run = stage
    for index, harness in enumerate(harnesses):
        rows, times, _ = part_of(run, index, len(harnesses))
        harness.operator.inputs[side].process_batch(batch_of(rows, times, (), as_columns=True))
        for mark in run[2][-1:]:
            harness.process_both_watermarks(mark.watermark)


def stages_of(parts: Sequence[Stage]) -> list[Stage]:
    """Stages that go on in event time."""
    return [
        (side, (rows, [t + 8 * n for t in times], [Mark(o, w + 8 * n) for o, w in marks]))
        for n, (side, (rows, times, marks)) in enumerate(parts)
    ]


def check(name: str, parts: Sequence[Stage], operations: Sequence[tuple[str, int]]) -> None:
    """Check that what each stage emits is the same, whatever was checkpointed and restored before it."""
    factory, stages = FACTORIES[name], stages_of(parts)
    with tempfile.TemporaryDirectory() as directory:
        reference = job_of(factory, Path(directory) / "reference")
        expected = [reference.run(stage) for stage in stages]
        reference.close()
        job = job_of(factory, Path(directory) / "job")
        try:
            for operation, number in operations:
                perform(job, operation, number, stages, expected)
            job.restore(1 + len(operations) % 3)
            while job.stage < len(stages):
                perform(job, "run", 0, stages, expected)
        finally:
            job.close()


def perform(
    job: CheckpointedJob, operation: str, number: int, stages: Sequence[Stage], expected: Sequence[Counter[str]]
) -> None:
    written = [checkpoint for checkpoint in job.running if checkpoint.handles is not None]
    if operation == "run" and job.stage < len(stages):
        stage = job.stage
        assert job.run(stages[stage]) == expected[stage]
    elif operation in ("take", "full", "savepoint"):
        kinds = {"take": SnapshotKind.INCREMENTAL, "full": SnapshotKind.FULL, "savepoint": SnapshotKind.CANONICAL}
        job.take(kinds[operation])
    elif operation == "write":
        for checkpoint in job.running:
            if checkpoint.handles is None:
                job.write(checkpoint)
                break
    elif operation == "complete" and written:
        job.complete(written[number % len(written)])
    elif operation == "abort" and job.running:
        job.abort(job.running[number % len(job.running)])
    elif operation == "restore":
        job.restore(1 + number % 3)


CHECKED = {
    "parts": st.lists(st.tuples(st.integers(0, 1), runs(8)), max_size=8),
    "operations": st.lists(st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 5)), max_size=30),
}


@pytest.mark.parametrize("name", FACTORIES)
@settings(max_examples=15, deadline=None)
@given(**CHECKED)
def test_results_are_the_same_whatever_is_restored(
    name: str, parts: list[Stage], operations: list[tuple[str, int]]
) -> None:
    check(name, parts, operations)


# --- what is written and shared ---------------------------------------------------------------------------------------


def rows_of(numbers: Sequence[int], number: int = 0) -> Stage:
    """A row for each key, without marks."""
    rows = [Row(key=f"k{n}", number=number, text="x", amount=None) for n in numbers]
    return 0, (rows, [1_000] * len(rows), [])


def segments_of(checkpoint: Checkpoint) -> list[Segment]:
    assert checkpoint.handles is not None
    assert {handle.format for handle in checkpoint.handles} == {SEGMENTS_FORMAT}
    return [segment for handle in checkpoint.handles for segment in SegmentList.of(handle).segments]


@pytest.fixture(params=FACTORIES)
def job(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[CheckpointedJob]:
    made = job_of(FACTORIES[request.param], tmp_path)
    yield made
    made.close()


def test_an_incremental_checkpoint_writes_what_has_changed_since(job: CheckpointedJob) -> None:
    job.run(rows_of(range(500)))
    first = segments_of(job.checkpoint())
    for number in range(1, 4):
        job.run(rows_of(range(10 * number), number))
        checkpoint = job.checkpoint()
        *kept, added = segments_of(checkpoint)
        assert kept == first
        # a top-N writes all rows of a key
        assert 10 * number <= added.rows <= 10 * number * (number + 1)
        assert checkpoint.written_bytes == added.file.size
        first = [*kept, added]
    assert sum(handle.size for handle in checkpoint.handles or ()) == sum(segment.file.size for segment in first)


def test_a_checkpoint_after_a_restore_shares_the_segments_that_were_restored(job: CheckpointedJob) -> None:
    job.run(rows_of(range(100)))
    (first,) = segments_of(job.checkpoint())
    for number in range(1, 3):
        job.restore(1)
        job.run(rows_of([7], number))
        assert segments_of(job.checkpoint())[0] == first
    assert len(segments_of(job.checkpoint())) == 3


def test_a_restore_at_another_parallelism_writes_everything_anew(job: CheckpointedJob) -> None:
    job.run(rows_of(range(100)))
    (first,) = segments_of(job.checkpoint())
    job.restore(2)
    rewritten = segments_of(job.checkpoint())
    assert first not in rewritten
    assert sum(segment.rows for segment in rewritten) == 100


def test_what_an_aborted_checkpoint_has_written_is_written_again(job: CheckpointedJob) -> None:
    job.run(rows_of(range(100)))
    (first,) = segments_of(job.checkpoint())
    job.run(rows_of([1, 2], 1))
    aborted = job.take()
    job.run(rows_of([3], 1))
    job.write(aborted)
    job.abort(aborted)
    kept, added = segments_of(job.checkpoint())
    assert kept == first
    assert added.rows >= 3


def test_a_full_checkpoint_shares_nothing_with_others(job: CheckpointedJob) -> None:
    job.run(rows_of(range(100)))
    job.checkpoint()
    full = job.checkpoint(SnapshotKind.FULL)
    assert [segment.file.is_shared for segment in segments_of(full)] == [False]
    next_one = segments_of(job.checkpoint())
    assert [(segment.file.is_shared, segment.rows) for segment in next_one] == [(True, 100)]


def test_everything_is_written_anew_when_there_are_many_segments(
    job: CheckpointedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_log, "MAX_SEGMENTS_OF_STATE", 1)
    job.run(rows_of(range(100)))
    job.checkpoint()
    counts = []
    for number in range(1, 8):
        job.run(rows_of([number], number))
        counts.append(len(segments_of(job.checkpoint())))
    assert min(counts[1:]) == 1
    assert max(counts) <= 3


def test_everything_is_written_anew_when_most_has_changed(
    job: CheckpointedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_log, "_SMALL_ROWS", 10)
    job.run(rows_of(range(100)))
    (first,) = segments_of(job.checkpoint())
    for number in range(1, 5):
        job.run(rows_of(range(30 * number), number))
    assert len(segments_of(job.checkpoint())) == 1
    assert not Path(first.file.uri).exists()


def test_segments_whose_rows_are_over_are_no_longer_referred_to(tmp_path: Path) -> None:
    job = job_of(FACTORIES["inner"], tmp_path)
    job.run(rows_of(range(10)))
    (old,) = segments_of(job.checkpoint())
    rows, times, _ = rows_of(range(20))[1]
    job.run((0, (rows, [time + 100 for time in times], [Mark(20, 1_050)])))
    (new,) = segments_of(job.checkpoint())
    assert (new.rows, new == old) == (20, False)
    job.close()


@pytest.mark.parametrize("damage", ["missing", "changed", "short"])
def test_damage_to_a_shared_segment_is_found(job: CheckpointedJob, damage: str) -> None:
    job.run(rows_of(range(50)))
    shared = Path(segments_of(job.checkpoint())[0].file.uri)
    job.run(rows_of(range(5), 1))
    job.checkpoint()
    content = shared.read_bytes()
    if damage == "missing":
        shared.unlink()
    else:
        shared.write_bytes(content[:-1] if damage == "short" else content[:200] + b"\xff" + content[201:])
    with pytest.raises(DamagedSnapshotError, match=shared.name):
        job.restore(1)


class RefusingFiles(DirectoryFiles):
    """Refuses the n-th file from now on, once."""

    refuse_in = 0

    def write(self, name: str, data: bytes | Iterable[bytes], *, shared: bool = False) -> FileHandle:
        self.refuse_in -= 1
        if self.refuse_in == 0:
            raise OSError("the storage refuses")
        return super().write(name, data, shared=shared)


def test_a_checkpoint_that_fails_between_two_files_does_no_harm(tmp_path: Path) -> None:
    job = job_of(FACTORIES["full"], tmp_path)
    job.files = files = RefusingFiles(tmp_path / "files")
    for side in (0, 1):
        job.run((side, rows_of(range(20))[1]))
    before = segments_of(job.checkpoint())
    for side in (0, 1):
        job.run((side, rows_of([1, 2], 1)[1]))
    failed = job.take()
    files.refuse_in = 2
    with pytest.raises(OSError, match="refuses"):
        job.write(failed)
    job.abort(failed)
    segments = segments_of(job.checkpoint())
    assert segments[:2] == before
    assert [(segment.state, segment.rows) for segment in segments[2:]] == [("left-rows", 2), ("right-rows", 2)]
    job.close()


@pytest.mark.parametrize("job", ["top_n", "ranked", "inner"], indirect=True)
def test_rows_of_segments_are_looked_up_by_key_and_listed_as_those_of_savepoints_are(job: CheckpointedJob) -> None:
    job.run(rows_of(range(100)))
    job.checkpoint()
    job.run(rows_of(range(0, 100, 9), 1))
    found = []
    for kind in (SnapshotKind.INCREMENTAL, SnapshotKind.CANONICAL):
        handles = job.checkpoint(kind).handles
        assert handles is not None
        (handle,) = handles
        state = (handle.states or ())[0].name
        key = find_key(handle, state, encode_key("k18"), job.files, job.directory)
        listed = {group: rows_in(entries) for group, entries in columnar_entries(handle, state, job.files)}
        found.append((rows_in(key.entries), listed))
    assert found[0] == found[1]
    assert len(found[0][0]) >= 1


def test_a_look_finds_the_partials_of_a_window_that_were_written_one_by_one(tmp_path: Path) -> None:
    job = job_of(FACTORIES["windows"], tmp_path)
    for number in (1, 2):
        job.run(rows_of([5], number))
        checkpoint = job.checkpoint()
    handles = checkpoint.handles
    assert handles is not None
    found = find_key(handles[0], "window-segments", encode_key("k5"), job.files, job.directory)
    assert len(rows_in(found.entries)) == 2
    job.close()


def rows_in(entries: Sequence[StateEntry]) -> list[str]:
    return sorted(repr(row) for entry in entries for row in unpack_rows(entry.value)[1].to_pylist())


def test_rows_with_time_to_live_are_forgotten_after_a_restore(tmp_path: Path) -> None:
    factory = TopNOperatorFactory(top_n_spec(ROWS, ["key"], 1, "number", True, None), ttl_ms=1_000)
    job = job_of(factory, tmp_path)
    job.run(rows_of([1, 2], 5))
    job.checkpoint()
    job.restore(1)
    assert not job.run(rows_of([1], 3))
    job.harnesses[0].advance_processing_time(1_000)
    assert len(job.run(rows_of([1], 3))) == 1
    job.close()


def test_restored_rows_are_found_by_keys_of_several_parts(tmp_path: Path) -> None:
    row_type = Types.ROW_NAMED(["key", "number"], [Types.TUPLE([Types.STRING(), Types.LONG()]), Types.LONG()])
    factory = TopNOperatorFactory(top_n_spec(row_type, ["key"], 1, "number", True, None))

    def create(
        parallelism: int, subtask: int, clock: ManualClock, snapshot: OperatorSnapshot | None
    ) -> OneInputHarness:
        return OneInputHarness(factory, None, parallelism, subtask, clock=clock, snapshot=snapshot, input_type=row_type)

    def feed_all(harnesses: Sequence[OneInputHarness], number: int) -> None:
        harnesses[0].process([Row(key=("ü", 1), number=number), Row(key=("", 2), number=1)])

    job = CheckpointedJob(create, feed_all, tmp_path)
    job.run(5)
    job.checkpoint()
    job.restore(1)
    assert not job.run(3)
    assert len(job.run(7)) == 2
    job.close()


def test_a_smaller_n_takes_restored_rows_back(tmp_path: Path) -> None:
    job = job_of(TopNOperatorFactory(top_n_spec(ROWS, ["key"], 3, "number", True, None)), tmp_path)
    for number in (1, 2, 3):
        job.run(rows_of([1], number))
    job.checkpoint()
    smaller = job_of(TopNOperatorFactory(top_n_spec(ROWS, ["key"], 1, "number", True, None)), tmp_path / "smaller")
    smaller.files, smaller.retained = job.files, job.retained
    smaller.restore(1)
    assert smaller.take().snapshots[0].pending is None
    assert len(smaller.run(rows_of([2], 0))) == 3
    smaller.close()
    job.close()


@pytest.mark.parametrize("saved", [{"version": 2}, {"segments": [["top-rows", 1]]}])
def test_a_list_of_segments_that_cannot_be_read_is_damage(saved: dict[str, Any]) -> None:
    listed = SegmentList(Header(0, 0), {"top-rows": StateRules(("key",))})
    document = json.loads(listed.to_json()) | saved
    handle = KeyedStateHandle(SEGMENTS_FORMAT, KeyGroupRange(0, 127), 128, {}, json.dumps(document).encode())
    with pytest.raises(DamagedSnapshotError, match="list of segments"):
        SegmentList.of(handle)


def test_the_newest_rows_of_a_key_replace_all_older_ones() -> None:
    older = pl.DataFrame({"key": ["a", "a", None, "b"], "number": [1, 2, 3, 4]})
    newer = pl.DataFrame({"key": [None, "a"], "number": [5, 6]})
    found = newest_rows([older, newer], ["key"])
    assert sorted(found.rows(), key=repr) == [("a", 6), ("b", 4), (None, 5)]


# --- jobs -------------------------------------------------------------------------------------------------------------


def program(script: Sequence[Any]) -> BuildJob:
    """A job of all operators whose checkpoints are segments."""

    def build(env: StreamExecutionEnvironment) -> list[DataStream]:
        def rows(name: str) -> KeyedStream:
            source = env.from_source(ScriptedSource(script, batch_rows=3), WatermarkStrategy.no_watermarks(), name)
            made = source.map(lambda n: Row(id=n, key=n % 5, at=n * 100), NUMBERS)
            strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("at")
            return made.assign_timestamps_and_watermarks(strategy).key_by_columns("key")

        windows = rows("windows").window(TumblingEventTimeWindows.of(Time.seconds(2)))
        pairs = rows("left").interval_join(rows("right")).between(-300, 300)
        return [
            rows("top").top_n(2, "id % 7", True).select("id"),
            windows.aggregate_columns("count(*) AS n", "max(id) AS last"),
            pairs.columns(how="full").select("id", "id_right"),
        ]

    return build


@pytest.mark.parametrize("mode", [CONTINUOUS_ON_MINI_CLUSTER, MICRO_BATCH_ON_MINI_CLUSTER], ids=lambda mode: mode.name)
def test_jobs_with_incremental_checkpoints_give_the_same_after_crashes(mode: JobMode) -> None:
    record_run("mini-cluster")
    numbers = list(range(60))
    expected = run_job(program(numbers))
    script = [*numbers[:40], crash("in the middle"), *numbers[40:]]
    options = {
        "execution.checkpointing.interval": "1 s",
        "execution.checkpointing.incremental": "true",
        "execution.micro-batch.max-rows": "9",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "20",
    }
    found = run_job(program(script), mode=mode, options=options, timeout_s=120)
    assert [sorted(map(repr, output)) for output in found.outputs] == [
        sorted(map(repr, output)) for output in expected.outputs
    ]
    assert found.restarts


# --- what is restored -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", FACTORIES)
@settings(max_examples=400, deadline=None)
@given(**CHECKED)
def test_results_of_many_runs_are_the_same_whatever_is_restored(
    name: str, parts: list[Stage], operations: list[tuple[str, int]]
) -> None:
    check(name, parts, operations)
