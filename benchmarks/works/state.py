"""Python functions: keyed state record by record, and chained maps, beside plain loops that do the same."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from benchmarks.bids import ndjson_bids
from benchmarks.digest import Digest
from benchmarks.engine import environment, results_directory, run_job
from benchmarks.measure import CPU, TIDEMARK, Options, Outcome, Target, Work, looped
from benchmarks.reference.json_loops import count_auctions
from benchmarks.reference.memory import BATCH_ROWS, FIVE, Pool, chain_by_hand, count_by_hand
from benchmarks.reference.processes import timed_alone
from benchmarks.sinks import NumbersSink, read_cpu_seconds, read_digest
from benchmarks.sources import MemorySource
from runtime.common import Types, WatermarkStrategy
from runtime.connectors.formats.json.ndjson import NdjsonFormat
from runtime.datastream import DataStream, StreamExecutionEnvironment
from runtime.datastream.connectors.file_system import FileSource
from runtime.datastream.functions import KeyedProcessFunction, RuntimeContext
from runtime.datastream.state import ValueState, ValueStateDescriptor

KEYS = 10_000
NDJSON_ROWS = 2_000_000
MEMORY_ROWS = 400 * BATCH_ROWS
QUICK_ROWS = 30_000
PLAIN = "plain loop"
LOOP_SHARE = 0.4
CHAIN_SHARE = 0.6
PER_CORE = 1_000_000


class CountPerKey(KeyedProcessFunction):
    """Emits for each record how many its key has had."""

    count: ValueState[int]

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[int]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield count


def state_works(options: Options) -> list[Work]:
    """Keyed state from a file and from memory, and chains of maps."""
    rows = options.rows(NDJSON_ROWS, QUICK_ROWS)
    pool, numbers = Pool(KEYS), Pool(KEYS, is_pairs=False)
    memory_rows = whole_batches(options.rows(MEMORY_ROWS, QUICK_ROWS))
    works = [
        Work(
            "state ndjson",
            "running count per auction (10,000 of them), ValueState in a Python function, from NDJSON",
            {
                PLAIN: lambda: looped(count_auctions(ndjson_bids(options.directory, rows), options.slots), rows),
                TIDEMARK: partial(run_count_auctions, options, rows, options.slots),
            },
            (Target(TIDEMARK, PLAIN, at_least=LOOP_SHARE),),
        ),
        Work(
            "state memory",
            "the same with records in memory, one slot",
            {
                PLAIN: lambda: looped(timed_alone(count_by_hand, pool, memory_rows, threads=1), memory_rows),
                TIDEMARK: partial(run_count, pool, memory_rows, 1, options.execution),
            },
            (Target(TIDEMARK, "", at_least=PER_CORE, figure="rows_per_second"),),
        ),
    ]
    for reuse in (True, False):
        works.append(
            Work(
                f"chain reuse {'on' if reuse else 'off'}",
                f"five chained Python maps over numbers in memory, object reuse {'on' if reuse else 'off'}, one slot",
                {
                    PLAIN: lambda: looped(
                        timed_alone(chain_by_hand, FIVE, numbers, memory_rows, threads=1), memory_rows
                    ),
                    TIDEMARK: partial(_run_chain, numbers, memory_rows, reuse, options.execution),
                },
                (Target(TIDEMARK, PLAIN, at_least=CHAIN_SHARE),),
            )
        )
    return works


def whole_batches(rows: int) -> int:
    """Rounded up to batches of a source in memory."""
    return -(-rows // BATCH_ROWS) * BATCH_ROWS


def run_numbers(env: StreamExecutionEnvironment, name: str, stream: DataStream, rows: int) -> Outcome:
    """Run a job whose results are numbers, and digest them."""
    with results_directory() as directory:
        stream.sink_to(NumbersSink(directory))
        run = run_job(env, name)
        digest: Digest = read_digest(directory)
        return Outcome(run.seconds, rows, digest, run.beside_seconds, {CPU: read_cpu_seconds(directory)})


def counts_of(env: StreamExecutionEnvironment, pool: Pool, rows: int) -> DataStream:
    """Running counts of records in memory."""
    pairs = env.from_source(MemorySource(pool, rows), WatermarkStrategy.no_watermarks(), "memory").uid("memory")
    return pairs.key_by(lambda pair: pair[0], key_type=Types.LONG()).process(CountPerKey()).uid("count")


def run_count(pool: Pool, rows: int, slots: int, execution: str) -> Outcome:
    """The job of state memory."""
    env = environment(slots, execution)
    return run_numbers(env, "state memory", counts_of(env, pool, rows), rows)


def run_count_auctions(options: Options, rows: int, slots: int) -> Outcome:
    """Running counts of bids in a file."""
    env = environment(slots, options.execution)
    path = ndjson_bids(options.directory, rows)
    source = FileSource.for_record_stream_format(NdjsonFormat(), str(path)).build()
    bids = env.from_source(source, WatermarkStrategy.no_watermarks(), "bids")
    counts = bids.key_by(lambda bid: bid["auction"], key_type=Types.LONG()).process(CountPerKey())
    return run_numbers(env, "state ndjson", counts, rows)


def _run_chain(pool: Pool, rows: int, reuse: bool, execution: str) -> Outcome:
    env = environment(1, execution, {"pipeline.object-reuse": str(reuse).lower()})
    stream = env.from_source(MemorySource(pool, rows), WatermarkStrategy.no_watermarks(), "memory")
    for function in FIVE:
        stream = stream.map(function)
    return run_numbers(env, "chain", stream, rows)
