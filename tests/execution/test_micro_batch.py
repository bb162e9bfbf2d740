"""Micro-batches: the same job, run in passes: same result, through crashes, switches, idle splits and stops."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.checkpoint.savepoint_reader import SavepointReader
from runtime.common import Duration, Encoder, Time, Types, WatermarkStrategy
from runtime.connectors import DataGeneratorSource, FileSource, SocketSource, StreamFormat, sequence
from runtime.connectors.collection import CollectionSource
from runtime.core.checkpoint_options import SnapshotKind
from runtime.datastream import (
    AsyncDataStream,
    AsyncFunction,
    DataStream,
    DataStreamError,
    KeyedProcessFunction,
    MapFunction,
    StreamExecutionEnvironment,
)
from runtime.datastream.async_retry_strategies import FixedDelayRetryStrategy
from runtime.datastream.connectors.file_system import FileSink
from runtime.datastream.micro_batch_programs import check_micro_batch
from runtime.datastream.state import ValueStateDescriptor
from runtime.execution.hosted_slots import HostedSlots
from runtime.execution.passes.job_pass import JobPass
from runtime.execution.passes.levels import Level
from runtime.execution.passes.plan import PassPlan
from runtime.execution.passes.remote_pass import Reports
from runtime.jobmaster.actions import RequestAnswered
from runtime.jobmaster.events import AfterSavepoint
from runtime.jobmaster.job_state import JobState
from runtime.testing import MICRO_BATCH_ON_MINI_CLUSTER, ScriptedSource, crash, pause, record, run_job
from tests.checkpoint.running_jobs import JobClock, RunningJob
from tests.datastream.running import ROW_BY_ROW, environment
from tests.datastream.test_batch import events, program, steps
from tests.job_runs import record_run
from tests.support.shuffled_passes import ShuffledPass, ShuffledPasses

MICRO = {"execution.mode": "micro-batch", "execution.checkpointing.interval": "1 s"}
PLAIN = WatermarkStrategy.no_watermarks()


@pytest.fixture(autouse=True, params=["in one process", "level by level"])
def passes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run tests with passes in the host, and with passes as Spark runs them."""
    if request.param == "level by level":
        slots = partial(HostedSlots, make_passes=ShuffledPasses)
        monkeypatch.setattr("runtime.execution.mini_cluster.HostedSlots", slots)


def in_batches(build: Any, parallelism: int = 1, max_rows: int = 1_000, **options: str) -> Any:
    """Run a job in batches of so many records a subtask."""
    record_run("mini-cluster")
    settings = {"execution.micro-batch.max-rows": str(max_rows), **options}
    return run_job(build, parallelism=parallelism, mode=MICRO_BATCH_ON_MINI_CLUSTER, options=settings)


def num_batches(job: RunningJob) -> int:
    slots = job.cluster._slots
    assert isinstance(slots, HostedSlots)
    return sum(host.num_completed for host in slots.hosts)


# --- the same result --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("chosen", [["tumbling"], ["session", "rebalance", "process"], ["reduce windows", "filter"]])
def test_batches_deliver_what_a_stream_delivers(parallelism: int, chosen: list[str]) -> None:
    values = [("abc"[i % 3], (i * 7) % 60) for i in range(40)]
    build = program(values, chosen)
    record_run("mini-cluster")
    streamed = run_job(build, parallelism=parallelism, options=ROW_BY_ROW).values
    assert sorted(in_batches(build, parallelism, 7, **ROW_BY_ROW).values) == sorted(streamed) and streamed


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(
    values=events,
    chosen=st.lists(steps, min_size=1, max_size=3),
    parallelism=st.integers(1, 3),
    max_rows=st.integers(1, 20),
    interval=st.sampled_from(["0 ms", "200 ms"]),
)
def test_generated_programs_deliver_what_a_stream_delivers(
    values: list[tuple[str, int]], chosen: list[str], parallelism: int, max_rows: int, interval: str
) -> None:
    build = program(values, chosen)
    record_run("mini-cluster")
    streamed = run_job(build, parallelism=parallelism, options=ROW_BY_ROW).values
    options = {"pipeline.auto-watermark-interval": interval}
    assert sorted(in_batches(build, parallelism, max_rows, **options).values) == sorted(streamed)


class Running(KeyedProcessFunction):
    """Counts the records of each key."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        self.count.update((self.count.value() or 0) + 1)
        yield f"{value}:{self.count.value()}"


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_crash_between_batches_repeats_nothing(backend: str) -> None:
    script = ["a", "b", "a", crash("first"), "b", "a", "c", crash("second"), "a"]
    source = ScriptedSource(script, batch_rows=1)

    def build(env: StreamExecutionEnvironment) -> DataStream:
        stream = env.from_source(source, PLAIN, "script")
        return stream.key_by(lambda v: v).process(Running(), Types.STRING())

    options = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": "5"}
    result = in_batches(build, 1, 2, **options, **{"state.backend.type": backend})
    assert sorted(result.values) == ["a:1", "a:2", "a:3", "a:4", "b:1", "b:2", "c:1"]
    assert result.restarts == 2 and all("ScriptedCrash" in failure for failure in result.failures)


def test_slots_keep_no_acknowledgements_of_batches_that_are_over(tmp_path: Path) -> None:
    def build(env: StreamExecutionEnvironment) -> DataStream:
        numbers = env.from_source(CollectionSource(list(range(1_000)), Types.LONG()), PLAIN, "numbers")
        return numbers.key_by(lambda n: n % 7).process(Running(), Types.STRING())

    options = {**MICRO, "execution.micro-batch.max-rows": "10", "execution.checkpointing.dir": tmp_path.as_uri()}
    with RunningJob(build, JobClock(), 2, options, None) as job:
        while num_batches(job) < 8:
            job.cluster.step()
        slots = job.cluster._slots
        assert isinstance(slots, HostedSlots)
        kept = [len(slot.reports.ledger.acknowledgements()) for host in slots.hosts for slot in host._slots.values()]
        # those of the batch that is not complete
        assert max(kept) <= 4, kept


# --- asynchronous functions -------------------------------------------------------------------------------------------


class Stuttering(AsyncFunction[int, int]):
    """Fails at the first call for every third number, never answers for seven."""

    def open(self, runtime_context: Any) -> None:
        self.seen: set[int] = set()

    async def async_invoke(self, value: int) -> list[int]:
        if value == 7:
            await asyncio.Event().wait()
        await asyncio.sleep(0.001 * (value % 4))
        if value % 3 == 0 and value not in self.seen:
            self.seen.add(value)
            raise OSError("busy")
        return [value * 10]

    def timeout(self, value: int) -> list[int]:
        return [-value]


@pytest.mark.parametrize("chained", [True, False])
@pytest.mark.parametrize("ordered", [True, False])
def test_calls_of_a_batch_end_with_it(ordered: bool, chained: bool) -> None:
    wait = AsyncDataStream.ordered_wait_with_retry if ordered else AsyncDataStream.unordered_wait_with_retry
    retries = FixedDelayRetryStrategy[int](2, 10, None, lambda error: isinstance(error, OSError))

    def build(env: StreamExecutionEnvironment) -> DataStream:
        numbers = env.from_source(CollectionSource(list(range(20))), PLAIN, "numbers")
        called = wait(
            numbers if chained else numbers.rebalance(), Stuttering(), Time.milliseconds(200), retries, 5, Types.INT()
        )
        return called.key_by(lambda n: n).process(Running(), Types.STRING())

    got = in_batches(build, 2, 3).values
    assert len(got) == 20 and all(text.endswith(":1") for text in got)
    assert sorted(int(text.partition(":")[0]) for text in got) == sorted([-7, *(10 * n for n in range(20) if n != 7)])


def test_a_batch_prints_more_than_the_program_takes_at_once(capfd: pytest.CaptureFixture[str]) -> None:
    env = environment(options=MICRO)
    env.from_collection(["x" * 100] * 12_000, Types.STRING()).print()
    env.execute()
    record_run("mini-cluster")
    assert capfd.readouterr().out.splitlines() == ["x" * 100] * 12_000


# --- time -------------------------------------------------------------------------------------------------------------


class Alarm(KeyedProcessFunction):
    """Rings 10 s of processing time behind each record."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        now_ms = ctx.timer_service().current_processing_time()
        ctx.timer_service().register_processing_time_timer(now_ms + 10_000)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        yield f"{ctx.get_current_key()} rings"


def test_timers_of_processing_time_fire_in_batches_without_records() -> None:
    source = ScriptedSource(["a", pause(30_000), "b", pause(30_000)])

    def build(env: StreamExecutionEnvironment) -> DataStream:
        return env.from_source(source, PLAIN, "script").key_by(lambda v: v).process(Alarm(), Types.STRING())

    assert in_batches(build).values == ["a rings", "b rings"]


def test_an_idle_split_does_not_hold_up_event_time() -> None:
    busy = [step for n in range(10) for step in (record("x", 1_000 * n + 5), pause(1_000))]
    source = ScriptedSource(busy, [record("x", 1), pause(60_000)])
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_idleness(Duration.of_seconds(3))

    class WhenItRings(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
            ctx.timer_service().register_event_time_timer(1_000)

        def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
            yield ctx.timer_service().current_watermark()

    def build(env: StreamExecutionEnvironment) -> DataStream:
        keyed = env.from_source(source, strategy, "script").key_by(lambda v: v)
        return keyed.process(WhenItRings(), Types.LONG()).set_parallelism(1)

    # long before the quiet split ends, and not before it is idle
    first = min(in_batches(build, 2).values)
    assert 2_000 < first < 9_005


# --- savepoints and switches ------------------------------------------------------------------------------------------


def counting(values: list[str], out: Path) -> Any:
    """A program that writes each value with the number of its occurrence, in lines."""

    def build(env: StreamExecutionEnvironment) -> None:
        source = CollectionSource(values, Types.STRING())
        keyed = env.from_source(source, PLAIN, "values").uid("values").set_parallelism(1).key_by(lambda v: v)
        counted = keyed.process(Running(), Types.STRING()).uid("running")
        counted.sink_to(files(out)).uid("files")

    return build


def files(out: Path) -> FileSink:
    return FileSink.for_row_format(str(out), Encoder.simple_string_encoder()).build()


def lines(out: Path) -> list[str]:
    return sorted(
        line for path in out.rglob("part-*") if not path.name.startswith(".") for line in path.read_text().splitlines()
    )


def stopped(job: RunningJob, directory: Path) -> str:
    """Stop a job with a savepoint; returns where that is."""
    answer: Future[RequestAnswered] = job.driver.trigger_savepoint(
        str(directory), after=AfterSavepoint.SUSPEND, kind=SnapshotKind.CANONICAL
    )
    location = job.answer(answer)
    job.run()
    return location


def check_state(savepoint: str, written: list[str]) -> None:
    """A savepoint has of each value how often it was written."""
    frame = SavepointReader.read(savepoint).keyed_state("running", "count")
    counts = dict(zip(frame["key"].to_list(), frame["value"].to_list(), strict=True))
    assert counts == Counter(line.partition(":")[0] for line in written)


class NotingPass(ShuffledPass):
    """Notes whether tasks that run, and those that commit, restore state by key."""

    restored: ClassVar[dict[str, set[bool]]] = {}

    def run_levels(self, levels: Sequence[Level]) -> Future[Reports]:
        for level in levels:
            self._note("levels", level.plan)
        return super().run_levels(levels)

    def run_commits(self, plan: PassPlan, is_over: bool) -> Future[Reports]:
        self._note("the end" if is_over else "commits", plan)
        return super().run_commits(plan, is_over)

    def _note(self, what: str, plan: PassPlan) -> None:
        operators = [operator for restore in plan.restores.values() for operator in restore.operators.values()]
        self.restored.setdefault(what, set()).update(len(operator.keyed) > 0 for operator in operators)


class NotingPasses(ShuffledPasses):
    def make(self, plan: PassPlan) -> JobPass:
        return NotingPass(plan, self._print)


def test_commits_read_no_state_by_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slots = partial(HostedSlots, make_passes=NotingPasses)
    monkeypatch.setattr("runtime.execution.mini_cluster.HostedSlots", slots)
    monkeypatch.setattr(NotingPass, "restored", {})
    script = ["a", "b", "a", crash("once"), "b", "a", "c"]
    source = ScriptedSource(script, batch_rows=1, directory=tmp_path)

    def build(env: StreamExecutionEnvironment) -> None:
        keyed = env.from_source(source, PLAIN, "script").key_by(lambda v: v)
        keyed.process(Running(), Types.STRING()).sink_to(files(tmp_path / "out"))

    in_batches(build, 1, 2, **{"restart-strategy.type": "fixed-delay"})
    assert lines(tmp_path / "out") == ["a:1", "a:2", "a:3", "b:1", "b:2", "c:1"]
    # behind a failure the job's end sweeps as well
    assert NotingPass.restored == {"levels": {True, False}, "commits": {False}, "the end": {False}}


@pytest.mark.parametrize("backends", list(product(["hashmap", "rocksdb"], repeat=3)), ids=" to ".join)
@pytest.mark.parametrize("parallelisms", [pytest.param((2, 2, 2), marks=pytest.mark.slow), (2, 3, 1)], ids=str)
def test_a_job_moves_to_batches_and_back_by_savepoint(
    tmp_path: Path, backends: tuple[str, str, str], parallelisms: tuple[int, int, int]
) -> None:
    out = tmp_path / "out"
    values = ["abc"[(i * i) % 3] for i in range(60)]
    # slices of three records: the continuous job does not read all of them at once
    options = {"python.fn-execution.bundle.size": "3", "execution.checkpointing.interval": "1 s"}
    micro = {**options, **MICRO, "execution.micro-batch.max-rows": "4"}

    settings = {**options, "state.backend.type": backends[0]}
    job = RunningJob(counting(values, out), JobClock(), parallelisms[0], settings)
    job.start().step(2)
    restore = stopped(job, tmp_path)
    check_state(restore, lines(out))
    written = [len(lines(out))]

    settings = {**micro, "state.backend.type": backends[1]}
    job = RunningJob(counting(values, out), JobClock(), parallelisms[1], settings, restore).start()
    job.step_until(lambda: num_batches(job) >= 2, "two batches")
    restore = stopped(job, tmp_path)
    check_state(restore, lines(out))
    written.append(len(lines(out)))

    settings = {**options, "state.backend.type": backends[2]}
    RunningJob(counting(values, out), JobClock(), parallelisms[2], settings, restore).run()
    written.append(len(lines(out)))

    expected = [f"{value}:{n}" for value in "abc" for n in range(1, values.count(value) + 1)]
    assert lines(out) == sorted(expected)
    assert written[0] < written[1] < written[2]


def test_a_drained_job_fires_its_windows(tmp_path: Path) -> None:
    source = ScriptedSource([record("a", 5), pause(3_600_000)])

    def build(env: StreamExecutionEnvironment) -> None:
        class AtTheEnd(KeyedProcessFunction):
            def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
                ctx.timer_service().register_event_time_timer(2**62)

            def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[str]:
                yield "drained"

        keyed = env.from_source(source, PLAIN, "script").key_by(lambda v: v)
        keyed.process(AtTheEnd(), Types.STRING()).sink_to(files(tmp_path / "out"))

    job = RunningJob(build, JobClock(), 2, MICRO).start()
    job.step_until(lambda: num_batches(job) >= 1, "a batch")
    drained = job.driver.trigger_savepoint(str(tmp_path / "saved"), after=AfterSavepoint.DRAIN)
    job.answer(drained)
    job.run()
    assert lines(tmp_path / "out") == ["drained"]


def test_a_savepoint_lies_between_batches_and_changes_nothing(tmp_path: Path) -> None:
    values = ["ab"[i % 2] for i in range(40)]
    options = {**MICRO, "execution.micro-batch.max-rows": "4"}
    job = RunningJob(counting(values, tmp_path / "one"), JobClock(), 1, options).start()
    job.step_until(lambda: num_batches(job) >= 2, "two batches")
    location = job.answer(job.driver.trigger_savepoint(str(tmp_path / "saved")))
    job.run()
    expected = sorted(f"{value}:{n}" for value in "ab" for n in range(1, 21))
    assert lines(tmp_path / "one") == expected
    RunningJob(counting(values, tmp_path / "two"), JobClock(), 1, options, location).run()
    rest = lines(tmp_path / "two")
    assert rest and set(rest) < set(expected)


def test_a_batch_says_what_it_has_done(tmp_path: Path) -> None:
    options = {**MICRO, "execution.micro-batch.max-rows": "4"}
    job = RunningJob(counting(["a"] * 10, tmp_path / "out"), JobClock(), 1, options).start()
    job.step_until(lambda: num_batches(job) >= 1, "a batch")
    job.answer(job.driver.trigger_savepoint(str(tmp_path / "saved")))
    traces = job.run().checkpoints.traces
    batches = [batch for trace in reversed(traces) for batch in trace.batches]
    data = [batch for batch in batches if batch.kind == "data"]
    assert [batch.num_read for batch in data if batch.num_read] == [4, 4, 2]
    assert [batch.num_written for batch in data if batch.num_written] == [4, 4, 2]
    assert data[-1].has_caught_up and not data[0].has_caught_up
    assert sum(batch.num_splits for batch in data) == 1
    first = data[0]
    assert [(p.task.subtask_index, p.position) for p in first.positions] == [(0, "4")]
    assert all(ms >= 0 for ms in (first.plan_ms, first.run_ms, first.store_ms, first.commit_ms))
    assert not any(batch.num_read for batch in batches if batch.kind != "data")


def test_a_job_in_batches_is_rescaled(tmp_path: Path) -> None:
    values = ["abcdef"[i % 6] for i in range(300)]
    options = {**MICRO, "execution.micro-batch.max-rows": "10"}
    job = RunningJob(counting(values, tmp_path / "out"), JobClock(), 1, options).start()
    job.step_until(lambda: num_batches(job) >= 2, "two batches")
    [running] = [vertex for vertex in job.graph.vertices if job.graph.in_edges(vertex.vertex_id)]
    job.result(job.driver.rescale({running.vertex_id: 3}, at_once=True))
    job.run()
    assert lines(tmp_path / "out") == sorted(f"{v}:{n}" for v in "abcdef" for n in range(1, 51))
    assert job.driver.status().restarts == 0


@pytest.mark.parametrize("is_chained", [True, False])
@pytest.mark.parametrize(("trigger", "first"), [("once", 3), ("available-now", 10)])
def test_a_job_that_takes_what_is_there_stops_and_goes_on_later(
    tmp_path: Path, trigger: str, first: int, is_chained: bool
) -> None:
    inbox = tmp_path / "inbox"
    inbox.mkdir()

    def build(env: StreamExecutionEnvironment) -> None:
        builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(inbox))
        source = builder.monitor_continuously(Duration.of_seconds(1)).build()
        texts = env.from_source(source, PLAIN, "inbox").uid("inbox")
        texts = texts if is_chained else texts.rebalance()
        texts.sink_to(files(tmp_path / "out")).uid("files")

    restore = None
    for run in range(2):
        numbers = range(10 * run, 10 * run + 10)
        (inbox / f"{run}.txt").write_text("".join(f"{n}\n" for n in numbers))
        saved = tmp_path / f"saved-{run}"
        options = {
            **MICRO,
            "execution.micro-batch.trigger": trigger,
            "execution.micro-batch.max-rows": "3",
            "execution.checkpointing.savepoint-dir": str(saved),
        }
        RunningJob(build, JobClock(), 1, options, restore).run()
        [restore] = map(str, saved.iterdir())
        assert sorted(map(int, lines(tmp_path / "out"))) == list(range(first * (run + 1)))


def test_a_job_that_takes_what_is_there_takes_all_files_however_many(tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    for n in range(100):
        (inbox / f"{n}.txt").write_text(f"{n}\n")

    def build(env: StreamExecutionEnvironment) -> None:
        builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(inbox))
        source = builder.monitor_continuously(Duration.of_seconds(1)).build()
        env.from_source(source, PLAIN, "inbox").uid("inbox").sink_to(files(tmp_path / "out")).uid("files")

    options = {
        **MICRO,
        "execution.micro-batch.trigger": "available-now",
        "execution.checkpointing.savepoint-dir": str(tmp_path / "saved"),
    }
    job = RunningJob(build, JobClock(), 2, options).start()
    looked: list[int] = []
    while not job.state.is_terminal:
        looked.append(num_batches(job))
        job.cluster.step()
    assert sorted(map(int, lines(tmp_path / "out"))) == list(range(100))
    # twice as many of them in each
    assert max(looked) <= 5


class Slow(MapFunction):
    """Takes longer for a record than lies between two checkpoints."""

    clock: JobClock

    def map(self, value: str) -> str:
        self.clock.spend(5_000)
        return value


def test_once_takes_one_batch_that_is_longer_than_the_interval_of_checkpoints(tmp_path: Path) -> None:
    clock = Slow.clock = JobClock()

    def build(env: StreamExecutionEnvironment) -> None:
        letters = env.from_source(CollectionSource(list("abcdefghij"), Types.STRING()), PLAIN, "letters").uid("letters")
        letters.map(Slow(), Types.STRING()).sink_to(files(tmp_path / "out")).uid("files")

    once = {**MICRO, "execution.micro-batch.trigger": "once", "execution.micro-batch.max-rows": "3"}
    RunningJob(build, clock, 1, {**once, "execution.checkpointing.savepoint-dir": str(tmp_path / "saved")}).run()
    assert lines(tmp_path / "out") == ["a", "b", "c"]


def test_a_first_listing_that_fails_fails_the_job_and_says_why(tmp_path: Path) -> None:
    def build(env: StreamExecutionEnvironment) -> None:
        source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path / "gone")).build()
        env.from_source(source, PLAIN, "inbox").uid("inbox").sink_to(files(tmp_path / "out")).uid("files")

    job = RunningJob(build, JobClock(), 1, {**MICRO, "restart-strategy.type": "none"})
    job.run(JobState.FAILED)
    assert str(tmp_path / "gone") in job.failure()


# --- which programs ---------------------------------------------------------------------------------------------------


def test_what_works_in_a_continuous_job_only_is_refused() -> None:
    def refused(build: Any, match: str, **options: str) -> None:
        env = environment(options={"execution.mode": "micro-batch", **options})
        build(env).print()
        with pytest.raises(DataStreamError, match=match):
            env.execute()

    source = ScriptedSource([1])
    rising = WatermarkStrategy.for_monotonous_timestamps()
    aligned = rising.with_watermark_alignment("g", Duration.of_seconds(1))
    idling = rising.with_idleness(Duration.of_seconds(1))
    refused(lambda env: env.from_source(source, aligned, "s"), "Source: s cannot be executed in .* alignment")
    refused(lambda env: env.from_source(SocketSource("localhost", 1), PLAIN, "s"), "cannot be closed and opened")
    refused(lambda env: env.from_collection([1]).assign_timestamps_and_watermarks(idling), "works at a source only")
    endless = DataGeneratorSource.of_fields({"n": sequence()})
    refused(
        lambda env: env.from_source(endless, PLAIN, "s"),
        "set its directory with execution.checkpointing.savepoint-dir",
        **{"execution.micro-batch.trigger": "once"},
    )
    env = environment(options={"execution.mode": "micro-batch", "execution.micro-batch.trigger": "once"})
    env.from_source(endless, PLAIN, "s").print()
    check_micro_batch(env.create_stream_graph("submitted"), is_submitted=True)
