"""Measures the latency of records from their due time to the sink, and the time of a job to its first record.

source → key_by → process → sink with a buffer timeout of 5 ms; every record carries its own time, so that there is no
sampling and nothing is left out when the job is late (no coordinated omission).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from typing import Any

from benchmarks.engine import environment, results_directory, run_job
from benchmarks.measure import TIDEMARK, Options, Outcome, Target, Work
from benchmarks.reference.memory import Pool
from benchmarks.sinks import FirstRecordSink, LatencySink, percentiles_ms, read_results
from benchmarks.sources import PAIRS, MemorySource, ScheduledSource
from benchmarks.works.state import whole_batches
from runtime.common import Types, WatermarkStrategy
from runtime.datastream import DataStream, StreamExecutionEnvironment
from runtime.datastream.functions import KeyedProcessFunction, RuntimeContext
from runtime.datastream.state import ValueState, ValueStateDescriptor

KEYS = 10_000
STEADY_RATE = 10_000.0
SHARE_OF_MAXIMUM = 0.7
SECONDS = 10.0
WARM_UP_SECONDS = 2.0
QUICK_SECONDS = 0.5
MAXIMUM_ROWS = 4_000_000
BUFFER_TIMEOUT_MS = 5


class CountAndPass(KeyedProcessFunction):
    """Counts the records of each key, and hands each on as it is."""

    count: ValueState[int]

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        self.count.update((self.count.value() or 0) + 1)
        yield value


def latency_works(options: Options) -> list[Work]:
    """Latency at 10,000 records a second and at 70 % of what the job can do; time to the first record."""
    return [
        Work(
            "latency 10,000/s",
            "source → key_by → process → sink at 10,000 records a second, buffer timeout 5 ms",
            {TIDEMARK: partial(_run_at, options, STEADY_RATE)},
            (Target(TIDEMARK, "", at_most=15.0, figure="p99_ms"),),
            compared=False,
        ),
        Work(
            "latency 70 %",
            "the same at 70 % of the records a second that the job can do",
            {TIDEMARK: lambda: _run_at(options, SHARE_OF_MAXIMUM * _maximum(options))},
            (Target(TIDEMARK, "", at_most=100.0, figure="p99_ms"),),
            compared=False,
        ),
        Work(
            "start",
            "from execute() on a warm TaskManager to the first record in the sink",
            {TIDEMARK: partial(_run_start, options)},
            (Target(TIDEMARK, "", at_most=3000.0, figure="first_record_ms"),),
            compared=False,
        ),
    ]


def _job(env: StreamExecutionEnvironment, stream: DataStream) -> DataStream:
    env.set_buffer_timeout(BUFFER_TIMEOUT_MS)
    return stream.key_by(lambda pair: pair[0], key_type=Types.LONG()).process(CountAndPass(), output_type=PAIRS)


def _run_at(options: Options, rate: float) -> Outcome:
    seconds = QUICK_SECONDS if options.quick else SECONDS
    warm_up = 0.0 if options.quick else WARM_UP_SECONDS
    env = environment(options.slots, options.execution)
    source = ScheduledSource(rate, seconds, KEYS)
    records = env.from_source(source, WatermarkStrategy.no_watermarks(), "schedule")
    with results_directory() as directory:
        _job(env, records).sink_to(LatencySink(directory, warm_up))
        run = run_job(env, "latency")
        results = read_results(directory)
        p50, p99, highest = percentiles_ms(results, (50, 99, 100))
        details = {"p50_ms": p50, "p99_ms": p99, "max_ms": highest, "rate": rate}
        return Outcome(run.seconds, sum(found["rows"] for found in results), None, run.beside_seconds, details)


@cache
def _maximum(options: Options) -> float:
    """Records a second of the same job with a source that holds nothing back."""
    rows = whole_batches(options.rows(MAXIMUM_ROWS, 30_000))
    env = environment(options.slots, options.execution)
    records = env.from_source(MemorySource(Pool(KEYS), rows), WatermarkStrategy.no_watermarks(), "memory")
    with results_directory() as directory:
        _job(env, records).sink_to(LatencySink(directory, 0.0))
        return rows / run_job(env, "latency maximum").seconds


def _run_start(options: Options) -> Outcome:
    env = environment(options.slots, options.execution)
    records = env.from_source(MemorySource(Pool(KEYS), whole_batches(1)), WatermarkStrategy.no_watermarks(), "memory")
    with results_directory() as directory:
        _job(env, records).sink_to(FirstRecordSink(directory))
        run = run_job(env, "start")
        first = min(found for found in read_results(directory) if found is not None)
        details = {"first_record_ms": (first - run.submitted) * 1000}
        return Outcome(run.seconds + run.beside_seconds, 1, None, details=details)
