"""Task: slices of about 20 ms, back-pressure, timers between slices, time accounting, failures, the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest

from runtime.common import Types, WatermarkStrategy
from runtime.connectors import BlackHoleSink, CollectionSource, NumberSequenceSource
from runtime.core.batch import RecordBatch
from runtime.core.elements import MAX_WATERMARK
from runtime.datastream import KeyedProcessFunction, MapFunction, RuntimeContext
from runtime.operators.sink import Sink, SinkWriter, WriterContext
from runtime.operators.source import ReaderContext, SourceSplit, SplitReader
from runtime.task.messages import CancelTasks, Start, TaskState
from runtime.task.slicing import MAX_SLICE_ROWS, SLICE_MS
from tests.task.rigs import SlotRig, environment

#: what functions and sinks of a test do when they are called; set by the test
HOOKS: dict[str, Callable[[Any], Any]] = {}
SEEN: list[Any] = []


@pytest.fixture(autouse=True)
def fresh_hooks() -> Iterator[None]:
    HOOKS.clear()
    SEEN.clear()
    yield
    HOOKS.clear()


class Hooked(MapFunction):
    """Calls the test's hooks."""

    def open(self, runtime_context: RuntimeContext) -> None:
        call_hook("open", runtime_context)

    def map(self, value: Any) -> Any:
        return call_hook("map", value)

    def close(self) -> None:
        SEEN.append("closed")
        call_hook("close", None)


class BatchSink(Sink):
    """Notes the length of each batch."""

    def create_writer(self, context: WriterContext, restored: Any) -> SinkWriter:
        return _BatchWriter()


class _BatchWriter(SinkWriter):
    def write(self, batch: RecordBatch) -> None:
        SEEN.append(batch.num_rows)


def call_hook(name: str, value: Any) -> Any:
    return HOOKS[name](value) if name in HOOKS else value


def numbers_rig(count: int, window_bytes: int = 1 << 20, options: dict[str, str] | None = None) -> SlotRig:
    """Two tasks in one slot: a source of numbers, and a hooked map with a sink behind it."""
    env = environment(1, options)
    numbers = env.from_source(NumberSequenceSource(1, count), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.rebalance().map(Hooked(), Types.LONG()).name("work").sink_to(BatchSink()).name("batches")
    return SlotRig(env, window_bytes)


def step_until(rig: SlotRig, condition: Callable[[], bool]) -> None:
    for _ in range(1000):
        if condition():
            return
        rig.step()
    raise AssertionError("it did not come to that")


# --- slices -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("record_ms", [0.1, 1.0, 7.0, 50.0])
def test_slices_of_slow_code_take_about_20_ms(record_ms: float) -> None:
    rig = numbers_rig(5_000, options={"execution.buffer-timeout.interval": "0 ms"}).start()
    HOOKS["map"] = lambda value: rig.clock.advance(record_ms)
    rig.run()
    expected = max(1, int(SLICE_MS / record_ms))
    slices = [count for count in SEEN if count != "closed"]
    typical = sorted(slices[1:-1])[len(slices) // 2]
    assert 0.5 * expected <= typical <= 1.5 * expected
    assert sum(slices) == 5_000
    rig.release()


def test_slices_of_fast_code_grow() -> None:
    rig = numbers_rig(300_000).start()
    rig.run()
    slices = [count for count in SEEN if count != "closed"]
    assert slices[0] <= 32
    assert max(slices) <= MAX_SLICE_ROWS
    assert max(slices) >= 4096
    rig.release()


@pytest.mark.parametrize(("record_ms", "held_ms"), [(10, 20), (1000, 1000)])
def test_slow_code_holds_up_its_own_results_alone_from_the_first_record_on(record_ms: float, held_ms: float) -> None:
    rig = numbers_rig(200, options={"execution.buffer-timeout.interval": "0 ms"}).start()
    begun = rig.clock.monotonic_ms()
    HOOKS["map"] = lambda value: rig.clock.advance(record_ms)
    left: list[float] = []
    while len(left) < 10:
        before = len(SEEN)
        rig.step()
        left += [rig.clock.monotonic_ms() - begun] * (len(SEEN) - before)
    assert left[0] == record_ms
    assert max(after - before for before, after in pairwise(left)) <= held_ms
    rig.release()


def test_a_function_behind_one_by_frame_is_not_called_with_one_record_at_a_time() -> None:
    """As from a restored checkpoint: what a slice costs whatever its size is high from the first one on."""
    env = environment(1)
    numbers = env.from_source(NumberSequenceSource(1, 2_000), WatermarkStrategy.no_watermarks(), "numbers")
    frames = numbers.rebalance().map_frames(lambda frame: call_hook("frame", frame))
    frames.map(Hooked(), Types.LONG()).sink_to(BatchSink())
    rig = SlotRig(env).start()

    def by_frame(frame: Any) -> Any:
        rig.clock.advance(40)
        SEEN.append(frame.height)
        return frame

    HOOKS["frame"] = by_frame
    rig.run()
    assert SEEN[0] == 1
    assert len(SEEN) < 200
    rig.release()


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [("python.fn-execution.bundle.size", "3", 3), ("python.fn-execution.bundle.time", "5", 5)],
)
def test_slices_stay_within_a_bundle(option: str, value: str, expected: int) -> None:
    rig = numbers_rig(1_000, options={option: value, "execution.buffer-timeout.interval": "0 ms"}).start()
    HOOKS["map"] = lambda value: rig.clock.advance(1)
    rig.run()
    assert max(count for count in SEEN if count != "closed") == expected
    rig.release()


class Late(KeyedProcessFunction):
    """Sets a processing-time timer at the first record; the records after it take a millisecond each."""

    def __init__(self) -> None:
        self.records = 0

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> None:
        self.records += 1
        if self.records == 1:
            ctx.timer_service().register_processing_time_timer(ctx.timer_service().current_processing_time() + 100)
        HOOKS["record"](value)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> None:
        SEEN.append(("timer", self.records))


def test_timers_run_between_the_slices_of_one_batch() -> None:
    env = environment(1, {"execution.buffer-timeout.interval": "-1 ms"})
    numbers = env.from_source(NumberSequenceSource(1, 2_000), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.key_by(lambda value: 0).process(Late()).sink_to(BlackHoleSink())
    rig = SlotRig(env).start()
    HOOKS["record"] = lambda value: rig.clock.advance(1)
    rig.run()
    # one batch of 2,000 rows: the timer came between two slices of ~20 rows
    [(_, records)] = SEEN
    assert records <= 100 + 2 * SLICE_MS
    rig.release()


def test_a_message_is_taken_between_the_slices_of_one_batch() -> None:
    rig = numbers_rig(5_000).start()
    HOOKS["map"] = lambda value: rig.clock.advance(1)
    step_until(rig, lambda: bool(SEEN))
    rig.tell(CancelTasks())
    assert rig.states()[-1] is TaskState.CANCELED
    rig.run()
    assert sum(count for count in SEEN if count != "closed") < 5_000
    assert SEEN[-1] == "closed"
    rig.release()


# --- back-pressure ----------------------------------------------------------------------------------------------------


def test_a_full_channel_stops_the_source_until_the_consumer_has_taken_something() -> None:
    rig = numbers_rig(1_000_000, window_bytes=4_096, options={"execution.buffer-timeout.interval": "0 ms"}).start()
    source, work = rig.task(0), rig.task(1)
    work_step = work.step
    work.step = lambda: False  # type: ignore[method-assign]  # the consumer does not get to run
    rig.run()
    emitted = source.metrics()["numRecordsOut"]
    assert isinstance(emitted, int) and 0 < emitted < 20_000
    assert source.metrics()["isBackPressured"] is True
    assert not source.has_work()
    rig.step()
    assert source.metrics()["numRecordsOut"] == emitted

    work.step = work_step  # type: ignore[method-assign]
    step_until(rig, lambda: source.metrics()["numRecordsOut"] != emitted)
    rig.run(100_000)
    assert rig.states()[-2:] == [TaskState.FINISHED, TaskState.FINISHED]
    assert work.metrics()["numRecordsIn"] == 1_000_000
    rig.release()


def test_time_is_accounted_as_busy_idle_and_back_pressured() -> None:
    rig = numbers_rig(1_000_000, window_bytes=4_096, options={"execution.buffer-timeout.interval": "0 ms"}).start()
    source, work = rig.task(0), rig.task(1)
    HOOKS["map"] = lambda value: rig.clock.advance(1)
    step_until(rig, lambda: rig.clock.monotonic_ms() > 3_000)
    for task in (source, work):
        metrics = task.metrics()
        rates = [metrics[f"{name}TimeMsPerSecond"] for name in ("busy", "idle", "backPressured")]
        assert sum(rates) == pytest.approx(1000)  # type: ignore[arg-type]
        totals = [metrics[f"accumulate{name}TimeMs"] for name in ("Busy", "Idle", "BackPressured")]
        assert sum(totals) == pytest.approx(rig.clock.monotonic_ms())  # type: ignore[arg-type]
    assert work.metrics()["busyTimeMsPerSecond"] > 900  # type: ignore[operator]
    assert source.metrics()["backPressuredTimeMsPerSecond"] > 900  # type: ignore[operator]
    rig.release()


def test_a_source_with_nothing_to_give_is_idle() -> None:
    rig = numbers_rig(10).deploy()
    rig.tell(_start(rig))
    rig.slot.step()  # the source asks for a split; nobody answers
    assert not rig.slot.step()
    rig.clock.advance(5_000)
    rig.slot.step()
    metrics = rig.task(0).metrics()
    assert metrics["idleTimeMsPerSecond"] == pytest.approx(1000)
    assert rig.slot.idle_ms() > 0
    rig.release()


def _start(rig: SlotRig) -> Start:
    return Start(dict.fromkeys(rig.slots, ""))


# --- the end ----------------------------------------------------------------------------------------------------------


def test_the_end_of_the_input_runs_through_all_tasks() -> None:
    rig = numbers_rig(1_000).start()
    assert rig.states() == [TaskState.INITIALIZING] * 2 + [TaskState.RUNNING] * 2
    rig.run()
    assert rig.states()[4:] == [TaskState.FINISHED] * 2
    assert "closed" not in SEEN  # a snapshot may still need what the function holds
    work = rig.task(1).metrics()
    assert work["numRecordsIn"] == work["numRecordsOut"] == 1_000
    assert work["currentInputWatermark"] == MAX_WATERMARK
    rig.release()
    assert SEEN.count("closed") == 1


def test_what_waits_for_more_is_sent_when_the_buffer_timeout_has_passed() -> None:
    rig = numbers_rig(100, options={"execution.buffer-timeout.interval": "100 ms"}).start()
    step_until(rig, lambda: rig.task(0).metrics()["numRecordsOut"] == 100)
    source = rig.task(0)
    assert source.state is TaskState.RUNNING
    assert source.next_flush_ms() == pytest.approx(rig.clock.monotonic_ms() + 100)
    rig.run()
    assert sum(count for count in SEEN if count != "closed") == 100
    rig.release()


# --- failures ---------------------------------------------------------------------------------------------------------


def test_a_failing_function_fails_its_task_and_names_operator_record_and_line() -> None:
    rig = numbers_rig(10).start()
    HOOKS["map"] = lambda value: 1 // (value - 7)
    rig.run()
    assert rig.states()[-1] is TaskState.FAILED
    assert "'work'" in rig.failure()
    assert "on record 7: ZeroDivisionError" in rig.failure()
    assert "test_task.py" in rig.failure()
    assert "1 // (value - 7)" in rig.failure()
    assert "\n" not in rig.failure()
    # what came before it has left
    assert 0 < sum(SEEN[:-1]) < 7
    assert SEEN.count("closed") == 1
    assert SEEN[-1] == "closed"
    rig.release()
    assert SEEN.count("closed") == 1


def test_a_function_that_cannot_be_opened_fails_the_deployment_and_is_closed() -> None:
    HOOKS["open"] = lambda context: {}["table"]  # type: ignore[index]
    rig = numbers_rig(10).deploy()
    assert rig.states() == [TaskState.INITIALIZING, TaskState.FAILED]
    assert "failed in open(): KeyError: 'table'" in rig.failure()
    assert SEEN == ["closed"]
    rig.tell(_start(rig))
    assert rig.states() == [TaskState.INITIALIZING, TaskState.FAILED, TaskState.RUNNING]
    rig.release()


class FailingTimer(KeyedProcessFunction):
    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> None:
        ctx.timer_service().register_processing_time_timer(0)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> None:
        raise RuntimeError("tick failed")


def test_a_failing_timer_fails_its_task() -> None:
    env = environment()
    numbers = env.from_source(NumberSequenceSource(1, 100_000), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.key_by(lambda value: 0).process(FailingTimer()).sink_to(BlackHoleSink())
    rig = SlotRig(env).start()
    rig.run(100_000)
    assert "RuntimeError: tick failed" in rig.failure()
    rig.release()


class BrokenSource(CollectionSource):
    """Its reader gives one batch and then fails."""

    def create_reader(self, split: SourceSplit, position: Any, context: ReaderContext) -> SplitReader:
        return _BrokenReader()


class _BrokenReader(SplitReader):
    position = 0
    batches = 0

    def read(self, max_rows: int) -> RecordBatch:
        self.batches += 1
        if self.batches == 2:
            raise OSError("disk is gone")
        return RecordBatch.of_values([1])


def test_a_source_that_cannot_be_read_names_itself_and_its_split() -> None:
    env = environment()
    env.from_source(BrokenSource([1]), WatermarkStrategy.no_watermarks(), "disk").sink_to(BatchSink())
    rig = SlotRig(env).start()
    rig.run()
    assert rig.failure().startswith("source disk, split collection: OSError: disk is gone (operator 'Source: disk' is ")
    assert SEEN == [1]
    rig.release()
