"""An idle job in micro-batches runs the batches that have something to do, and no others."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from runtime.common import Duration, Types, WatermarkGenerator, WatermarkStrategy
from runtime.connectors import DataGeneratorSource, FileSource, StreamFormat
from runtime.connectors.blackhole import BlackHoleSink
from runtime.datastream import DataStream, KeyedProcessFunction, StreamExecutionEnvironment
from runtime.testing import MICRO_BATCH_ON_SPARK, ScriptedSource, idle, pause, record, run_job
from tests.checkpoint.running_jobs import GatedSource, JobClock, RunningJob
from tests.execution.test_micro_batch import num_batches
from tests.job_runs import record_run

PLAIN = WatermarkStrategy.no_watermarks()
INTERVAL_MS = 2_000
OPTIONS = {"execution.mode": "micro-batch", "execution.checkpointing.interval": f"{INTERVAL_MS} ms"}
LOOK_MS = INTERVAL_MS // 4
TIMER_MS = 60_000


class Alarm(KeyedProcessFunction):
    """Rings some time behind each record."""

    def __init__(self, behind_ms: int = TIMER_MS) -> None:
        self._behind_ms = behind_ms

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        service = ctx.timer_service()
        service.register_processing_time_timer(service.current_processing_time() + self._behind_ms)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        yield f"{ctx.get_current_key()} rings"


def started(source: Any, strategy: WatermarkStrategy = PLAIN, **options: str) -> RunningJob:
    """Start a job that rings a minute behind each record."""

    def build(env: StreamExecutionEnvironment) -> None:
        keyed = env.from_source(source, strategy, "values").key_by(str)
        keyed.process(Alarm(), Types.STRING()).sink_to(BlackHoleSink())

    return RunningJob(build, JobClock(), 1, {**OPTIONS, **options}).start()


def batches_in(job: RunningJob, ms: int) -> list[int]:
    """Let time pass; returns when batches were complete, ms from now on."""
    begin_ms, before, ends = job.clock.now_ms(), num_batches(job), []
    while job.clock.now_ms() < begin_ms + ms:
        job.cluster.step()
        while before < num_batches(job):
            before += 1
            ends.append(job.clock.now_ms() - begin_ms)
    return ends


def test_a_job_with_one_timer_in_a_minute_runs_one_batch_in_a_minute() -> None:
    with started(ScriptedSource(["a", pause()])) as job:
        ends = batches_in(job, 10 * TIMER_MS)
    first, rings = ends
    assert first < INTERVAL_MS and TIMER_MS < rings <= TIMER_MS + first + LOOK_MS


def test_data_wakes_an_idle_job_within_its_interval() -> None:
    source = GatedSource([("a", 1), ("b", 2)])
    with started(source) as job:
        assert len(batches_in(job, 20 * INTERVAL_MS)) == 1
        source.let_through(1)
        [woken] = batches_in(job, TIMER_MS // 2)
        assert woken <= INTERVAL_MS
        source.let_through(2)
        [woken] = batches_in(job, 5_000)
        assert woken <= INTERVAL_MS
        # the timers of both
        assert len(batches_in(job, 10 * TIMER_MS)) == 2


def test_batches_of_data_that_comes_all_the_time_are_an_interval_apart() -> None:
    source = DataGeneratorSource(lambda index: index, rows_per_second=10)
    with started(source) as job:
        ends = batches_in(job, 20 * INTERVAL_MS)
    gaps = [later - earlier for earlier, later in pairwise(ends)]
    assert 18 <= len(gaps) <= 20 and all(gap >= INTERVAL_MS - LOOK_MS for gap in gaps)


def test_a_split_that_becomes_idle_has_one_batch_for_it() -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_idleness(Duration.of_seconds(30))
    source = ScriptedSource([record("a", 1), pause()], splits_at_once=1)

    def build(env: StreamExecutionEnvironment) -> None:
        env.from_source(source, strategy, "values").sink_to(BlackHoleSink())

    with RunningJob(build, JobClock(), 1, OPTIONS).start() as job:
        first, idle_at = batches_in(job, 10 * TIMER_MS)
    assert 30_000 <= idle_at - first <= 30_000 + INTERVAL_MS


def test_a_split_whose_reader_says_that_it_is_idle_has_one_batch_for_it() -> None:
    source = ScriptedSource([record("a", 1), pause(10_000), idle()])

    def build(env: StreamExecutionEnvironment) -> None:
        env.from_source(source, PLAIN, "values").sink_to(BlackHoleSink())

    with RunningJob(build, JobClock(), 1, OPTIONS).start() as job:
        assert len(batches_in(job, 10 * TIMER_MS)) == 2


class Clockwise(WatermarkGenerator):
    """Tells event time by the clock."""

    def on_event(self, event: Any, event_timestamp: int) -> None: ...

    def on_periodic_emit(self) -> None: ...


def test_a_generator_that_may_tell_time_by_the_clock_is_asked_with_every_interval() -> None:
    with started(ScriptedSource(["a", pause()]), WatermarkStrategy.for_generator(Clockwise)) as job:
        ends = batches_in(job, 10 * INTERVAL_MS)
    assert 9 <= len(ends) <= 11


def test_a_watched_directory_has_a_batch_for_a_new_file(tmp_path: Path) -> None:
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path))
    source = builder.monitor_continuously(Duration.of_seconds(1)).build()

    def build(env: StreamExecutionEnvironment) -> None:
        env.from_source(source, PLAIN, "inbox").sink_to(BlackHoleSink())

    with RunningJob(build, JobClock(), 1, OPTIONS).start() as job:
        assert len(batches_in(job, TIMER_MS)) == 1
        (tmp_path / "new").write_text("a\n")
        # files are listed on a thread, in real time
        job.step_until(lambda: num_batches(job) == 2, "a batch")
        assert not batches_in(job, TIMER_MS)


def test_a_savepoint_of_an_idle_job_is_no_batch(tmp_path: Path) -> None:
    with started(ScriptedSource(["a", pause()])) as job:
        assert len(batches_in(job, 10_000)) == 1
        job.answer(job.driver.trigger_savepoint(str(tmp_path)))
        assert len(batches_in(job, 10 * TIMER_MS)) == 1


@pytest.mark.spark
def test_a_query_of_spark_begins_batches_that_are_due(tmp_path: Path) -> None:
    record_run("spark local")

    def build(env: StreamExecutionEnvironment) -> DataStream:
        source = ScriptedSource(["a", pause(15_000)])
        return env.from_source(source, PLAIN, "values").key_by(str).process(Alarm(8_000), Types.STRING())

    options = {"execution.checkpointing.interval": "200 ms", "restart-strategy.type": "none"}
    result = run_job(build, mode=MICRO_BATCH_ON_SPARK, options=options, timeout_s=200.0)
    batches = [batch for trace in result.status.checkpoints.traces for batch in trace.batches if batch.kind == "data"]
    # the record, the timer, the end of the pause
    assert len(batches) == 3 and result.values == ["a rings"]
