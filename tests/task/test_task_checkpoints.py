"""Checkpoints of whole jobs, step by step: barriers, snapshots, acknowledgements, and what a restore goes on from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.checkpoint.handles import CheckpointMetadata
from runtime.common import Types, WatermarkStrategy
from runtime.connectors import NumberSequenceSource
from runtime.core.checkpoint_options import AfterSnapshot, Alignment, SnapshotKind
from runtime.core.ids import CheckpointId
from runtime.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from runtime.datastream.state import ValueStateDescriptor
from runtime.operators.sink import Sink, SinkWriter, WriterContext
from runtime.task.messages import SlotFailed, TaskState, TaskStateChanged, TriggerCheckpoint
from tests.task.checkpoint_rig import CheckpointRig
from tests.task.rigs import environment

KEYS = 17
#: what sinks have been given, by the attempt's own name
OUT: list[Any] = []


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    OUT.clear()
    yield
    OUT.clear()


class Count(KeyedProcessFunction):
    """Emits (key, how many of it so far)."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield value % KEYS, count


class ListSink(Sink):
    """Writes into OUT, in two phases."""

    def create_writer(self, context: WriterContext, restored: Any) -> SinkWriter:
        return _ListWriter()


class _ListWriter(SinkWriter):
    def write(self, batch: Any) -> None:
        OUT.extend(batch.values())


def counting(count: int, parallelism: int = 2, options: dict[str, str] | None = None) -> StreamExecutionEnvironment:
    """Numbers, counted by key."""
    settings = {"execution.checkpointing.interval": "1 h", "execution.buffer-timeout.interval": "0 ms"}
    env = environment(parallelism, {**settings, **(options or {})})
    numbers = env.from_source(NumberSequenceSource(1, count), WatermarkStrategy.no_watermarks(), "numbers")
    counts = numbers.uid("numbers").key_by(lambda value: value % KEYS, Types.LONG()).process(Count()).uid("count")
    counts.sink_to(ListSink()).uid("out")
    return env


def expected_counts(count: int) -> dict[int, int]:
    return dict(Counter(number % KEYS for number in range(1, count + 1)))


def final_counts() -> dict[int, int]:
    """The highest count of each key."""
    highest: dict[int, int] = {}
    for key, count in OUT:
        highest[key] = max(count, highest.get(key, 0))
    return highest


def assert_goes_on(tmp_path: Path, metadata: CheckpointMetadata, count: int, parallelism: int = 2) -> None:
    """A job that is restored counts every number once, up to `count`."""
    OUT.clear()
    again = CheckpointRig(counting(count, parallelism), tmp_path, metadata).start()
    again.step_until(again.all_finished)
    assert final_counts() == expected_counts(count)
    again.release()


def test_every_task_acknowledges_and_a_restored_job_goes_on_exactly_there(tmp_path: Path) -> None:
    rig = CheckpointRig(counting(40_000), tmp_path, window_bytes=4_096).start()
    for _ in range(8):
        rig.step()
    metadata = rig.checkpoint(1)
    rig.step_until(rig.all_finished)
    assert final_counts() == expected_counts(40_000)
    rig.release()

    assert_goes_on(tmp_path, metadata, 40_000)
    assert 0 < len(OUT) < 40_000


@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 2), (1, 4), (4, 1)])
@pytest.mark.parametrize("kind", list(SnapshotKind))
def test_a_job_goes_on_at_another_parallelism(tmp_path: Path, before: int, after: int, kind: SnapshotKind) -> None:
    rig = CheckpointRig(counting(20_000, before), tmp_path, window_bytes=4_096).start()
    for _ in range(8):
        rig.step()
    metadata = rig.checkpoint(1, kind=kind)
    rig.release()
    assert_goes_on(tmp_path, metadata, 20_000, after)


def test_the_metrics_of_a_checkpoint_are_told(tmp_path: Path) -> None:
    rig = CheckpointRig(counting(200_000), tmp_path, window_bytes=4_096).start()
    for _ in range(10):
        rig.step()
    rig.clock.advance(7)
    rig.trigger(1)
    rig.clock.advance(30)
    rig.step_until(lambda: rig.is_acknowledged(1))
    by_vertex = {message.task.vertex_id: message for message in rig.acknowledged(1)}
    counts = by_vertex[rig.graph.vertices[-1].vertex_id]
    assert counts.metrics.start_delay_ms >= 30
    assert counts.metrics.checkpointed_bytes > 0
    assert counts.metrics.state_bytes >= counts.metrics.checkpointed_bytes
    assert rig.task(1).metrics()["checkpointStartDelayNanos"] >= 30_000_000  # type: ignore[operator]
    rig.release()


def test_finished_tasks_acknowledge_with_their_final_state(tmp_path: Path) -> None:
    rig = CheckpointRig(counting(1_000), tmp_path).start()
    rig.step_until(rig.all_finished)
    metadata = rig.checkpoint(1)
    assert all(message.state.is_finished for message in rig.acknowledged(1))
    rig.complete(1)
    rig.release()
    OUT.clear()
    again = CheckpointRig(counting(1_000), tmp_path, metadata).start()
    again.step_until(again.all_finished)
    assert OUT == []
    again.release()


def test_a_task_that_ends_acknowledges_what_was_triggered_before(tmp_path: Path) -> None:
    rig = CheckpointRig(counting(1_000), tmp_path).start()
    rig.step_until(lambda: rig.task(0).state is TaskState.FINISHED and rig.task(0, 1).state is TaskState.FINISHED)
    rig.trigger(1)
    rig.step_until(lambda: rig.is_acknowledged(1))
    assert all(message.state.is_finished for message in rig.acknowledged(1))
    rig.release()


def test_a_suspended_job_ends_without_finishing_and_goes_on_from_its_savepoint(tmp_path: Path) -> None:
    rig = CheckpointRig(counting(40_000), tmp_path, window_bytes=4_096).start()
    for _ in range(8):
        rig.step()
    metadata = rig.checkpoint(1, is_savepoint=True, kind=SnapshotKind.CANONICAL, after=AfterSnapshot.SUSPEND)
    written = len(OUT)
    rig.run()
    assert len(OUT) == written < 40_000
    assert not rig.all_finished()
    rig.complete(1)
    rig.step_until(rig.all_finished)
    assert len(OUT) == written
    rig.release()

    again = CheckpointRig(counting(40_000), tmp_path, metadata).start()
    again.step_until(again.all_finished)
    assert len(OUT) == 40_000
    assert final_counts() == expected_counts(40_000)
    again.release()


def test_a_suspended_job_goes_on_if_its_savepoint_fails(tmp_path: Path) -> None:
    rig = CheckpointRig(counting(40_000), tmp_path, window_bytes=4_096).start()
    for _ in range(8):
        rig.step()
    rig.checkpoint(1, is_savepoint=True, after=AfterSnapshot.SUSPEND)
    rig.run()
    rig.abort(1)
    rig.step_until(rig.all_finished)
    assert final_counts() == expected_counts(40_000)
    assert len(OUT) == 40_000
    rig.release()


@pytest.mark.parametrize("options", [{}, {"execution.checkpointing.interval": "0 ms"}])
def test_a_drained_job_ends_its_input_first(tmp_path: Path, options: dict[str, str]) -> None:
    rig = CheckpointRig(counting(40_000, options=options), tmp_path, window_bytes=4_096).start()
    for _ in range(8):
        rig.step()
    rig.checkpoint(1, is_savepoint=True, after=AfterSnapshot.DRAIN)
    rig.step_until(rig.all_finished)
    assert 0 < len(OUT) < 40_000
    assert all(message.state.is_finished for message in rig.acknowledged(1))
    rig.complete(1)
    rig.release()


def test_a_savepoint_behind_the_end_is_declined_where_no_state_is_kept(tmp_path: Path) -> None:
    option = "execution.checkpointing.checkpoints-after-tasks-finish"
    rig = CheckpointRig(counting(100, options={option: "false"}), tmp_path).start()
    rig.step_until(rig.all_finished)
    rig.trigger(1)
    rig.run()
    assert any(f"{option} is off" in message.cause.message for message in rig.declined(1))
    assert not any(message.counts_as_failure for message in rig.declined(1))
    rig.release()


def test_an_aborted_checkpoint_is_forgotten_and_the_next_one_succeeds(tmp_path: Path) -> None:
    rig = CheckpointRig(counting(40_000), tmp_path, window_bytes=4_096).start()
    for _ in range(8):
        rig.step()
    rig.trigger(1)
    rig.abort(1)
    metadata = rig.checkpoint(2)
    rig.run(100_000)
    assert final_counts() == expected_counts(40_000)
    assert len(OUT) == 40_000
    rig.release()
    assert_goes_on(tmp_path, metadata, 40_000)


@pytest.mark.parametrize("alignment", [Alignment.ALIGNED, Alignment.AT_LEAST_ONCE])
def test_several_checkpoints_may_be_under_way(tmp_path: Path, alignment: Alignment) -> None:
    rig = CheckpointRig(counting(40_000), tmp_path, window_bytes=4_096).start()
    for number in (1, 2, 3):
        for _ in range(2):
            rig.step()
        rig.trigger(number, alignment=alignment)
    rig.step_until(lambda: all(rig.is_acknowledged(number) for number in (1, 2, 3)))
    rig.step_until(rig.all_finished)
    assert len(OUT) == 40_000
    rig.release()


def test_a_damaged_file_is_told_as_such(tmp_path: Path) -> None:
    rig = CheckpointRig(counting(20_000), tmp_path, window_bytes=4_096).start()
    for _ in range(8):
        rig.step()
    metadata = rig.checkpoint(1)
    rig.release()
    for file in (tmp_path / "chk-1").iterdir():
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    again = CheckpointRig(counting(20_000), tmp_path, metadata).deploy()
    failures = [m.failure for m in again.link.sent if isinstance(m, TaskStateChanged | SlotFailed) and m.failure]
    assert failures and all(failure.is_damaged_snapshot for failure in failures)
    again.release()


# --- unaligned --------------------------------------------------------------------------------------------------------


def slow_rig(tmp_path: Path, **arguments: Any) -> CheckpointRig:
    """Counting tasks get to run once for every five steps of the sources."""
    rig = CheckpointRig(counting(60_000, **arguments.pop("program", {})), tmp_path, window_bytes=20_000, **arguments)
    rig.start()
    for _ in range(200):
        for slot in rig.slots.values():
            slot._tasks.all[0].step()
        rig.route()
        for slot in rig.slots.values():
            slot._take_messages()
    return rig


def counted_by(rig: CheckpointRig) -> int:
    return sum(int(str(slot._tasks.all[1].metrics()["numRecordsIn"])) for slot in rig.slots.values())


def test_an_unaligned_barrier_overtakes_what_is_queued(tmp_path: Path) -> None:
    rig = slow_rig(tmp_path)
    assert not rig.task(0).chain.is_available()
    rig.trigger(1, alignment=Alignment.UNALIGNED)
    before = counted_by(rig)
    rig.step()
    rig.step()
    assert rig.is_acknowledged(1)
    metadata = rig.metadata(1)
    assert counted_by(rig) - before < 5_000
    assert metadata.channels
    counting_task = rig.graph.vertices[-1].vertex_id
    metrics = [m.metrics for m in rig.acknowledged(1) if m.task.vertex_id == counting_task]
    assert all(m.is_unaligned for m in metrics)
    assert sum(m.persisted_bytes for m in metrics) == sum(channel.length for channel in metadata.channels)
    rig.step_until(rig.all_finished)
    assert len(OUT) == 60_000
    rig.release()

    assert_goes_on(tmp_path, metadata, 60_000)


@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 2), (1, 4), (4, 1)])
def test_what_was_in_flight_is_dealt_out_by_key_at_another_parallelism(tmp_path: Path, before: int, after: int) -> None:
    rig = slow_rig(tmp_path, program={"parallelism": before})
    metadata = rig.checkpoint(1, alignment=Alignment.UNALIGNED)
    assert metadata.channels
    rig.release()
    OUT.clear()
    again = CheckpointRig(counting(60_000, after), tmp_path, metadata).start()
    # what was restored is in flight again when the next one is taken
    second = again.checkpoint(2, alignment=Alignment.UNALIGNED)
    again.release()
    assert_goes_on(tmp_path, second, 60_000, before)


def test_the_rest_of_a_batch_is_part_of_the_channel_state(tmp_path: Path) -> None:
    rig = slow_rig(tmp_path)
    task = rig.task(1)
    while task._input.unread() is None:
        # the first batches are short
        task.slice_size.rows = 10
        assert task.step()
    metadata = rig.checkpoint(1, alignment=Alignment.UNALIGNED)
    rig.release()
    assert_goes_on(tmp_path, metadata, 60_000)


@pytest.mark.parametrize("ahead_ms", [0, 3_600_000, -3_600_000])
def test_an_aligned_checkpoint_goes_on_unaligned_when_its_time_is_up(tmp_path: Path, ahead_ms: int) -> None:
    rig = slow_rig(tmp_path)
    rig.ahead_ms = ahead_ms
    # its own tasks stand still: only barriers and time pass
    for slot in rig.slots.values():
        slot._tasks.all[1].slice_size.rows = 1
    rig.trigger(1, aligned_timeout_ms=1_000)
    rig.step()
    rig.clock.advance(999)
    rig.step()
    assert not rig.is_acknowledged(1)
    rig.clock.advance(1)
    rig.step()
    rig.step()
    assert rig.is_acknowledged(1)
    metadata = rig.metadata(1)
    assert metadata.channels
    rig.release()
    assert_goes_on(tmp_path, metadata, 60_000)


def test_an_aligned_checkpoint_that_is_in_time_has_no_channel_state(tmp_path: Path) -> None:
    rig = slow_rig(tmp_path)
    metadata = rig.checkpoint(1, aligned_timeout_ms=1_000)
    assert not metadata.channels
    rig.clock.advance(2_000)
    rig.step_until(rig.all_finished)
    assert len(OUT) == 60_000
    rig.release()


def test_an_aborted_unaligned_checkpoint_leaves_nothing_behind(tmp_path: Path) -> None:
    rig = slow_rig(tmp_path)
    # the other slot does not hear of it: its barriers never come
    options = rig.options_of(1, alignment=Alignment.UNALIGNED)
    rig.link.inbox.append(TriggerCheckpoint(CheckpointId(1), rig.clock.now_ms(), options))
    rig.step()
    rig.abort(1)
    metadata = rig.checkpoint(2, alignment=Alignment.UNALIGNED)
    rig.step_until(rig.all_finished)
    assert len(OUT) == 60_000
    rig.release()
    assert_goes_on(tmp_path, metadata, 60_000)


def test_a_slot_that_restores_tells_how_much_it_has_read_before_it_answers_anything_else(tmp_path: Path) -> None:
    rig = CheckpointRig(counting(100_000, 1), tmp_path).start()
    rig.step_until(lambda: len(OUT) > 0)
    metadata = rig.checkpoint(1)
    rig.release()
    restored = CheckpointRig(counting(100_000, 1), tmp_path, metadata)
    restored.deploy()
    heartbeat = restored.link.heartbeat
    assert heartbeat is not None
    written = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    assert 0 < heartbeat.restored_bytes <= written
    restored.release()
