"""Jobs that are stopped, cancelled or forked with savepoints: together they deliver what one job would have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from runtime.checkpoint.savepoint_reader import SavepointReader
from runtime.common import Time, Types, WatermarkStrategy
from runtime.datastream import StreamExecutionEnvironment
from runtime.datastream.window import TumblingEventTimeWindows
from runtime.jobmaster.driver import JobRequestError
from runtime.jobmaster.events import AfterSavepoint
from runtime.jobmaster.job_state import JobState
from runtime.testing import CollectingSink, ScriptedSource
from runtime.testing.collecting_sink import collected_records
from tests.checkpoint.counting_program import (
    ALL_COUNTS,
    KEYS,
    PAIR,
    Numbers,
    counting,
    finish,
    first,
    refusal,
    resumed,
    stopped,
)
from tests.checkpoint.rescale_program import RULE_VALUES, Conduct, Everything, behave, run_to_the_end
from tests.checkpoint.running_jobs import GatedSource, JobClock, RunningJob, options_of


@pytest.fixture(autouse=True)
def good_conduct() -> Iterator[None]:
    yield
    behave()


def begun(numbers: Numbers, clock: JobClock, parallelism: int = 2, options: dict[str, str] | None = None) -> RunningJob:
    """The counting job, with half of its input done."""
    settings = {**options_of(numbers.directory), **(options or {})}
    job = RunningJob(lambda env: counting(env, numbers), clock, parallelism, settings).start()
    numbers.source.let_through(numbers.half)
    job.settle()
    return job


@pytest.mark.parametrize("after", [AfterSavepoint.SUSPEND, AfterSavepoint.CANCEL])
def test_a_job_that_is_stopped_in_full_flow_goes_on_where_it_was(after: AfterSavepoint, tmp_path: Path) -> None:
    program, clock = Everything(tmp_path, events_per_split=40, batch_rows=4), JobClock()
    options = {**options_of(tmp_path), "taskmanager.network.memory.channel-window": "200 b"}
    location: str | None = None
    for turns in (3, 7, 12):
        with RunningJob(program.build, clock, 2, options, location).start() as job:
            program.rules.let_through(len(RULE_VALUES))
            job.settle()
            Conduct.record_ms, Conduct.clock = 25.0, clock
            program.events.let_through(10 + turns)
            job.step(turns)
            location = job.answer(job.driver.trigger_savepoint(after=after))
            behave()
            job.run(JobState.FINISHED if after is AfterSavepoint.SUSPEND else JobState.CANCELED)
    with RunningJob(program.build, clock, 2, options, location).start() as job:
        run_to_the_end(job, program)


def windowed(env: StreamExecutionEnvironment, numbers: Numbers) -> None:
    """Numbers of each key in windows of fifteen rounds."""
    keyed = numbers.stream(env).key_by(first, Types.STRING())
    windows = keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(150)))
    numbers.deliver(windows.reduce(lambda a, b: (a[0], a[1] + b[1])).uid("windows"))


def window_sums(limit: int) -> Counter[Any]:
    """Return for each key the sums of its first `limit` numbers in windows of fifteen."""
    numbers = range(limit)
    sums = [sum(n for n in numbers if n // 15 == window) for window in range((limit + 14) // 15)]
    return Counter((key, total) for key in KEYS for total in sums)


def test_suspending_fires_no_window_and_draining_all(tmp_path: Path) -> None:
    for after, delivered in ((AfterSavepoint.SUSPEND, Counter()), (AfterSavepoint.DRAIN, window_sums(10))):
        numbers, clock = Numbers(tmp_path / after.value), JobClock()
        settings = options_of(numbers.directory)
        with RunningJob(partial(windowed, numbers=numbers), clock, 2, settings).start() as job:
            numbers.source.let_through(numbers.half)
            job.settle()
            location = job.answer(job.driver.trigger_savepoint(after=after))
            # the answer comes when the job has finished, and its output is there
            assert job.state is JobState.FINISHED
        assert numbers.delivered() == delivered
        if after is AfterSavepoint.SUSPEND:
            finish(numbers, resumed(numbers, windowed, location, clock), window_sums(20))
        else:
            # all of it has ended: there is nothing to go on with
            finish(numbers, resumed(numbers, windowed, location, clock), delivered)


@pytest.mark.parametrize("parallelism", [1, 3])
def test_what_was_late_before_a_savepoint_is_late_behind_it(parallelism: int, tmp_path: Path) -> None:
    numbers, clock = Numbers(tmp_path), JobClock()
    on_time = [((key, 1), 10 * n) for n in range(20) for key in KEYS]
    late = [((key, 1_000), 5) for key in KEYS]
    numbers.source = GatedSource(on_time + late, type_info=PAIR)
    numbers.half = len(on_time)
    location, clock = stopped(numbers, windowed)
    # the first window is over, and the second one is open
    assert numbers.delivered() == Counter((key, 15) for key in KEYS)
    expected = Counter((key, total) for key in KEYS for total in (15, 5))
    finish(numbers, resumed(numbers, windowed, location, clock, parallelism), expected)


@pytest.mark.parametrize("turns", range(0, 33, 4))
def test_splits_are_read_once_whenever_the_savepoint_is_taken(turns: int, tmp_path: Path) -> None:
    # many short splits: some are on their way from the coordinator to a reader all the time
    source = ScriptedSource(*[[10 * split + n for n in range(3)] for split in range(30)], batch_rows=1)

    def build(env: StreamExecutionEnvironment) -> None:
        numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "script").uid("script")
        numbers.rebalance().map(lambda n: n).uid("map").sink_to(CollectingSink(tmp_path / "out")).uid("sink")

    clock = JobClock()
    location: str | None = None
    for parallelism in (2, 3):
        with RunningJob(build, clock, parallelism, options_of(tmp_path), location).start() as job:
            job.step(turns)
            location = job.answer(job.driver.trigger_savepoint(after=AfterSavepoint.SUSPEND))
    with RunningJob(build, clock, 1, options_of(tmp_path), location) as job:
        job.run()
    assert sorted(collected_records(tmp_path / "out")) == [10 * split + n for split in range(30) for n in range(3)]


def test_a_savepoint_is_where_another_job_can_fork_off(tmp_path: Path) -> None:
    numbers, clock = Numbers(tmp_path), JobClock()
    with begun(numbers, clock) as job:
        location = job.answer(job.driver.trigger_savepoint())
        assert job.state is JobState.RUNNING
        job.settle()
        # a savepoint on the way commits nothing: the job will not go back to it
        assert not numbers.delivered()
        numbers.source.end()
        job.run()
    assert numbers.delivered() == ALL_COUNTS
    counts = SavepointReader.read(location).keyed_state("counter", "count")
    assert dict(counts.select("key", "value").rows()) == dict.fromkeys(KEYS, 10)
    # the savepoint names what is to be committed up to it; the first job has done so
    with resumed(numbers, counting, location, clock, 3) as fork:
        fork.run()
    again = Counter((key, count) for key in KEYS for count in range(11, 21))
    assert numbers.delivered() == ALL_COUNTS + again


@pytest.mark.parametrize("after", [AfterSavepoint.SUSPEND, AfterSavepoint.CANCEL, AfterSavepoint.DRAIN])
def test_a_stop_without_a_savepoint_is_no_stop(after: AfterSavepoint, tmp_path: Path) -> None:
    numbers, clock = Numbers(tmp_path), JobClock()
    with begun(numbers, clock) as job:
        job.answer(job.driver.trigger_checkpoint())
        (tmp_path / "savepoints").touch()
        with pytest.raises(JobRequestError):
            job.result(job.driver.trigger_savepoint(after=after))
        job.step_until(lambda: job.state is JobState.RUNNING, "going on")
        finish(numbers, job)


def test_a_savepoint_needs_a_place(tmp_path: Path) -> None:
    numbers, clock = Numbers(tmp_path), JobClock()
    with begun(numbers, clock, options={"execution.checkpointing.savepoint-dir": ""}) as job:
        with pytest.raises(JobRequestError, match="savepoint-dir"):
            job.result(job.driver.trigger_savepoint())
        location = job.answer(job.driver.trigger_savepoint((tmp_path / "there").as_uri()))
        assert location.startswith((tmp_path / "there").as_uri())
        finish(numbers, job)


def test_a_job_without_checkpoints_can_be_stopped_with_a_savepoint(tmp_path: Path) -> None:
    numbers, clock = Numbers(tmp_path), JobClock()
    with begun(numbers, clock, 1, {"execution.checkpointing.interval": "0 ms"}) as job:
        location = job.answer(job.driver.trigger_savepoint(after=AfterSavepoint.SUSPEND))
        job.run()
    finish(numbers, resumed(numbers, counting, location, clock))


def test_the_state_of_tasks_that_have_finished_is_not_kept_where_nobody_wants_it(tmp_path: Path) -> None:
    numbers, clock = Numbers(tmp_path), JobClock()
    options = {
        "execution.checkpointing.interval": "0 ms",
        "execution.checkpointing.checkpoints-after-tasks-finish": "false",
    }
    # there is one split: the second subtask of the source has nothing to read
    with begun(numbers, clock, 2, options) as job:
        with pytest.raises(JobRequestError, match="had finished, and its state was not kept"):
            job.result(job.driver.trigger_savepoint(after=AfterSavepoint.SUSPEND))
        finish(numbers, job)


def test_a_damaged_savepoint_is_refused_before_a_record_is_processed(tmp_path: Path) -> None:
    numbers, clock = Numbers(tmp_path), JobClock()
    with begun(numbers, clock) as job:
        location = job.answer(job.driver.trigger_savepoint(after=AfterSavepoint.SUSPEND))
    before = numbers.delivered()
    [savepoint] = (tmp_path / "savepoints").iterdir()
    file = max((path for path in savepoint.iterdir() if path.name != "_metadata"), key=lambda p: p.stat().st_size)
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    numbers.source.end()
    why = refusal(resumed(numbers, counting, location, clock))
    assert file.name in why
    assert "no older checkpoint to restore" in why
    assert numbers.delivered() == before
    file.write_bytes(whole)
    finish(numbers, resumed(numbers, counting, location, clock))
