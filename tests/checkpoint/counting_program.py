"""A small program that counts, on input of which half comes before a snapshot and half behind it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from runtime.common import Time, Types, WatermarkStrategy
from runtime.common.typeinfo import TypeInformation
from runtime.datastream import DataStream, KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from runtime.datastream.state import StateTtlConfig, ValueStateDescriptor
from runtime.jobmaster.events import AfterSavepoint
from runtime.jobmaster.job_state import JobState
from runtime.testing import CollectingSink
from runtime.testing.collecting_sink import collected_records
from tests.checkpoint.running_jobs import GatedSource, JobClock, RunningJob, options_of

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
KEYS = "abcdefghij"


class Numbers:
    """Twenty rounds of (key, number) for ten keys; half of them come before the savepoint."""

    HALF = 10

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        rows = [((key, number), 10 * number + n) for number in range(20) for n, key in enumerate(KEYS)]
        self.source = GatedSource(rows, type_info=PAIR)
        self.half = self.HALF * len(KEYS)

    def stream(self, env: StreamExecutionEnvironment) -> DataStream:
        return env.from_source(self.source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")

    def deliver(self, stream: DataStream) -> None:
        stream.sink_to(CollectingSink(self.directory / "out")).uid("sink").name("sink")

    def delivered(self) -> Counter[Any]:
        return Counter(collected_records(self.directory / "out"))


Build = Callable[[StreamExecutionEnvironment, Numbers], None]


_CRASHES: list[str] = []


def crash_once() -> None:
    """Have the next record raise; slots are of this process."""
    _CRASHES.append("power cut")


class Count(KeyedProcessFunction):
    """Counts the records of each key.

    Args:
        type_info: of the state.
        ttl_ms: how long a count is kept; None = for ever.
    """

    def __init__(self, type_info: TypeInformation | None = None, ttl_ms: int | None = None) -> None:
        self.type_info = type_info or Types.LONG()
        self.ttl_ms = ttl_ms

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = ValueStateDescriptor("count", self.type_info)
        if self.ttl_ms is not None:
            descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(self.ttl_ms)).build())
        self.count = runtime_context.get_state(descriptor)

    def process_element(self, value: tuple[str, int], ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        if _CRASHES:
            raise RuntimeError(_CRASHES.pop())
        count = int(self.count.value() or 0) + 1
        self.count.update(str(count) if self.type_info == Types.STRING() else count)
        yield value[0], count


def first(pair: tuple[str, int]) -> str:
    return pair[0]


def same(pair: tuple[str, int]) -> tuple[str, int]:
    return pair


def counting(env: StreamExecutionEnvironment, numbers: Numbers) -> None:
    """The program as it was when the savepoint was taken."""
    counted = numbers.stream(env).key_by(first, Types.STRING()).process(Count()).uid("counter").name("counter")
    numbers.deliver(counted.map(same).uid("same"))


ALL_COUNTS = Counter((key, count) for key in KEYS for count in range(1, 21))
COUNTS_ANEW = Counter((key, count) for key in KEYS for count in (*range(1, 11), *range(1, 11)))


def stopped(
    numbers: Numbers, build: Build = counting, parallelism: int = 2, options: dict[str, str] | None = None
) -> tuple[str, JobClock]:
    """Run the first half, stop with a savepoint; where it is."""
    clock = JobClock()
    settings = {**options_of(numbers.directory), **(options or {})}
    with RunningJob(lambda env: build(env, numbers), clock, parallelism, settings).start() as job:
        numbers.source.let_through(numbers.half)
        job.settle()
        location = job.answer(job.driver.trigger_savepoint(after=AfterSavepoint.SUSPEND))
        job.run()
    return location, clock


def resumed(
    numbers: Numbers,
    build: Build,
    location: str,
    clock: JobClock,
    parallelism: int = 2,
    options: Mapping[str, str] | None = None,
    claims: bool = False,
) -> RunningJob:
    """A job from a savepoint, not begun yet."""
    settings = {**options_of(numbers.directory), **(options or {})}
    return RunningJob(lambda env: build(env, numbers), clock, parallelism, settings, location, claims)


def finish(numbers: Numbers, job: RunningJob, expected: Counter[Any] = ALL_COUNTS) -> None:
    """Run a job to its end, with what it and the one before it have delivered."""
    with job:
        numbers.source.end()
        job.run()
    assert numbers.delivered() == expected


def refusal(job: RunningJob) -> str:
    """Run a job that cannot start; why."""
    with job:
        job.run(JobState.FAILED)
        return job.failure()
