"""The job of the simulation: a stream that proves itself, through every kind of state, into a transactional sink.

Every record carries its source, its number, its key and a checksum. Functions verify what they are given and know which
record of a key and a split must come next. Two sources of uneven pace, keyed value, list and map state, timers, a
window, list and union state of a function, and a third source that is broadcast.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from runtime.common import Types, WatermarkStrategy
from runtime.common.configuration import Configuration
from runtime.common.time import Duration, Time
from runtime.common.typeinfo import TypeInformation
from runtime.connectors.files.file_sink import FileSink
from runtime.connectors.files.sink_config import BucketAssigner, RollingPolicy
from runtime.connectors.split_queue import SplitQueue
from runtime.core.batch import RecordBatch
from runtime.core.ids import JobId
from runtime.datastream import (
    AggregateFunction,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
)
from runtime.datastream.window import TumblingEventTimeWindows
from runtime.graph.job_graph import JobGraph
from runtime.operators.checkpointed_function import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)
from runtime.operators.source import ReaderContext, ReadStatus, Source, SourceSplit, SplitEnumerator, SplitReader
from runtime.operators.two_phase_commit import TwoPhaseCommitSink
from runtime.state.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from tests.simulation import active
from tests.simulation.database import DatabaseFunction
from tests.simulation.disk import OUT
from tests.simulation.faults import Point
from tests.simulation.scenario import Scenario

NUM_KEYS = 19
BUCKET_MS = 100
WINDOW_MS = 200
STEP_MS = 10
END_MS = 1 << 50
#: records of each split, by source
SPLITS: Mapping[str, Sequence[int]] = {"a": (34, 18, 30, 9, 26, 14), "b": (24, 20, 7, 16)}
NUM_RULES = 6
#: vertices that have one subtask whatever the parallelism of the job
ALONE = frozenset({"Source: rules -> Map"})
MAX_PARALLELISM = 12
JOB = JobId("5" * 32)

RECORD = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG(), Types.LONG(), Types.LONG()])
"""(split, number, key, event time, checksum)"""
COUNT = ValueStateDescriptor("count", Types.LONG())
JUDGED = ValueStateDescriptor("judged", Types.LONG())
LAST = MapStateDescriptor("last", Types.STRING(), Types.LONG())
BUCKETS = MapStateDescriptor("buckets", Types.LONG(), Types.LONG())
NUMBERS = ListStateDescriptor("numbers", Types.LONG())
RULES = MapStateDescriptor("rules", Types.LONG(), Types.LONG())
PASSED = ListStateDescriptor("passed", Types.LONG())
PASSED_UNION = ListStateDescriptor("passed-union", Types.LONG())
REACHED = ListStateDescriptor("reached", Types.TUPLE([Types.STRING(), Types.LONG()]))
"""(split, number of its last record). After rescaling several entries may be of one split: the highest counts."""

Record = tuple[str, int, int, int, int]


def checksum(*parts: object) -> int:
    """Return the checksum of a record's other fields."""
    return zlib.crc32(repr(parts).encode())


@functools.cache
def record(split: str, number: int) -> Record:
    """A record: a function of its split and number."""
    key = checksum(split, number) % NUM_KEYS
    time_ms = number * STEP_MS + checksum("time", split) % STEP_MS
    return split, number, key, time_ms, checksum(split, number, key, time_ms)


def all_records() -> list[Record]:
    """All records of both sources, split by split, in order."""
    return [
        record(f"{source}{index}", number)
        for source, counts in SPLITS.items()
        for index, count in enumerate(counts)
        for number in range(count)
    ]


@functools.cache
def next_of_key(split: str, number: int, key: int) -> int:
    """The first number of a split, from `number` on, whose record has that key; -1 = there is none."""
    count = SPLITS[split[0]][int(split[1:])]
    return next((n for n in range(number, count) if record(split, n)[2] == key), -1)


def verify(value: Any, where: str) -> None:
    """Tell the world if a record is not what was sent."""
    if tuple(value) != record(value[0], value[1]):
        active.world().violate(f"{where} was given {value!r}, which nobody sent")


class ProofSource(Source):
    """Splits of records that prove themselves, read in small batches with pauses."""

    splits_at_once = 2

    def __init__(self, name: str, counts: Sequence[int], slowness: float) -> None:
        self._name = name
        self._counts = counts
        self._slowness = slowness

    def produced_type(self) -> TypeInformation | None:
        return RECORD

    def create_enumerator(self, parallelism: int, restored: Any | None) -> SplitEnumerator:
        names = [f"{self._name}{index}" for index in range(len(self._counts))] if restored is None else restored
        return SplitQueue([SourceSplit(name) for name in names], self.split_to_json)

    def create_reader(self, split: SourceSplit, position: Any | None, context: ReaderContext) -> SplitReader:
        name = split.split_id
        return _ProofReader(name, position or 0, self._counts[int(name[1:])], self._slowness, context)

    def split_to_json(self, split: SourceSplit) -> Any:
        return split.split_id

    def split_from_json(self, value: Any) -> SourceSplit:
        return SourceSplit(value)


class _ProofReader(SplitReader):
    def __init__(self, split: str, position: int, count: int, slowness: float, context: ReaderContext) -> None:
        self._split = split
        self._position = position
        self._count = count
        self._pace_ms = active.world().scenario.pace_ms * slowness
        self._clock = context.clock
        #: monotonic
        self._next_ms = 0.0

    def read(self, max_rows: int) -> RecordBatch | ReadStatus:
        if self._position >= self._count:
            return ReadStatus.END_OF_SPLIT
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._next_ms:
            return ReadStatus.NOTHING_YET
        draw = checksum("pace", self._split, self._position)
        self._next_ms = now_ms + self._pace_ms * (draw % 3)
        # now and then more than a consumer works off at once
        rows = min(max_rows, 1 + draw % 4 if draw % 4 else 24, self._count - self._position)
        values = [record(self._split, self._position + i) for i in range(rows)]
        self._position += rows
        return RecordBatch.of_values(values, [value[3] for value in values], (), RECORD)

    @property
    def position(self) -> Any:
        return self._position

    def next_read_ms(self) -> int | None:
        return self._clock.now_ms() + math.ceil(self._next_ms - self._clock.monotonic_ms())


class Verify(MapFunction, CheckpointedFunction):
    """Passes records on, counts them in list and union state, and notes how far each split was read."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        store = context.get_operator_state_store()
        self._passed_state: Any = store.get_list_state(PASSED)
        self._union_state: Any = store.get_union_list_state(PASSED_UNION)
        self._reached_state: Any = store.get_list_state(REACHED)
        self._passed = sum(self._passed_state.get())
        self._reached: dict[str, int] = {}
        for split, number in self._reached_state.get():
            self._reached[split] = max(number, self._reached.get(split, -1))
        total = sum(self._union_state.get())
        if self._passed > total:
            active.world().violate(f"{self._passed} records passed here, {total} everywhere")

    def open(self, runtime_context: Any) -> None:
        active.world().reach(Point.OPEN)

    def map(self, value: Any) -> Any:
        active.world().work(Point.PROCESS)
        verify(value, "Verify")
        self._passed += 1
        self._reached[value[0]] = max(value[1], self._reached.get(value[0], -1))
        return value

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        active.world().reach(Point.SNAPSHOT)
        self._passed_state.update([self._passed])
        self._union_state.update([self._passed])
        self._reached_state.update(list(self._reached.items()))

    def close(self) -> None:
        active.world().reach(Point.CLOSE)


class Account(KeyedProcessFunction):
    """Keeps the books of each key, and knows which record of it must come next."""

    def open(self, runtime_context: Any) -> None:
        active.world().reach(Point.OPEN)
        self._count = runtime_context.get_state(COUNT)
        self._last = runtime_context.get_map_state(LAST)
        self._buckets = runtime_context.get_map_state(BUCKETS)
        self._numbers = runtime_context.get_list_state(NUMBERS)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        world = active.world()
        world.work(Point.PROCESS)
        verify(value, "Account")
        split, number, key, time_ms, _ = value
        if ctx.get_current_key() != key:
            world.violate(f"{value!r} came under key {ctx.get_current_key()}")
        last = self._last.get(split)
        expected = next_of_key(split, 0 if last is None else last + 1, key)
        if number != expected and (world.scenario.is_exactly_once or number > expected >= 0):
            world.violate(f"{value!r} came, number {expected} was to come")
        if last is None or number > last:
            self._last.put(split, number)
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        if number % 3 == 0:
            self._numbers.add(number)
        bucket = time_ms // BUCKET_MS
        self._buckets.put(bucket, (self._buckets.get(bucket) or 0) + 1)
        ctx.timer_service().register_event_time_timer((bucket + 1) * BUCKET_MS)
        yield ("count", key, split, number, count)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        if active.world().scenario.per_slice:
            # so long that barriers come between slices
            for _ in range(8):
                active.world().work(Point.PROCESS)
        key = ctx.get_current_key()
        bucket = timestamp // BUCKET_MS - 1
        seen = self._buckets.get(bucket)
        if not seen:
            active.world().violate(f"a timer of bucket {bucket} of key {key} fired, and nothing was in it")
            return
        self._buckets.remove(bucket)
        yield ("bucket", key, str(bucket), seen, 0)

    def close(self) -> None:
        active.world().reach(Point.CLOSE)


class Judge(KeyedBroadcastProcessFunction[int, Any, int, Any]):
    """Learns the rules, which are broadcast, one after the other; tells at the end how many it knows."""

    def open(self, runtime_context: Any) -> None:
        active.world().reach(Point.OPEN)
        self._judged = runtime_context.get_state(JUDGED)

    def process_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> Iterable[Any] | None:
        verify(value, "Judge")
        self._judged.update((self._judged.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(END_MS)
        return None

    def process_broadcast_element(self, value: int, ctx: KeyedBroadcastProcessFunction.Context) -> Iterable[Any] | None:
        world = active.world()
        rules = ctx.get_broadcast_state(RULES)
        known = len(list(rules.keys()))
        if value != known and (world.scenario.is_exactly_once or value > known):
            world.violate(f"rule {value} came, {known} were known")
        rules.put(value, value * value)
        return None

    def on_timer(self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext) -> Iterator[Any]:
        num_rules = len(list(ctx.get_broadcast_state(RULES).keys()))
        yield ("end", ctx.get_current_key(), "", num_rules, self._judged.value())


class CountRecords(AggregateFunction):
    """Counts the records."""

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        active.world().work(Point.PROCESS)
        verify(value, "CountRecords")
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, a: int, b: int) -> int:
        return a + b


class NameWindow(ProcessWindowFunction[int, Any, int, Any]):
    """Says which window."""

    def process(self, key: int, context: ProcessWindowFunction.Context[Any], elements: Iterable[int]) -> Iterator[Any]:
        yield ("window", key, str(context.window().start), next(iter(elements)), 0)


def key_of(value: Any) -> int:
    """The key of a record."""
    return int(value[2])


def to_rule(value: Any) -> int:
    """The number of a rule."""
    return int(value[1])


def bucket_of(value: Any) -> str:
    """The directory that a row of the result goes to."""
    return f"{value[0]}/{value[1] % 2}"


def file_sink(rolls_on_checkpoint: bool) -> FileSink:
    """The file sink, rolling often."""
    policy = RollingPolicy.on_checkpoint_rolling_policy()
    if not rolls_on_checkpoint:
        policy = RollingPolicy.default_rolling_policy(600, rollover_interval=60, inactivity_interval=25)
    builder = FileSink.for_ndjson(OUT).with_bucket_assigner(BucketAssigner.by_function(bucket_of))
    return builder.with_rolling_policy(policy).with_bucket_check_interval(10).build()


@functools.cache
def _graph(parallelism: int, is_spread: bool, writes_files: bool, rolls_on_checkpoint: bool) -> JobGraph:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration())
    env.set_parallelism(parallelism)
    env.set_max_parallelism(MAX_PARALLELISM)
    times = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(30))
    streams = []
    for name, slowness in (("a", 1.0), ("b", 2.5)):
        source = env.from_source(ProofSource(name, SPLITS[name], slowness), times, f"source {name}").uid(
            f"source-{name}"
        )
        if is_spread and name == "b":
            # its coordinator is then in another slot
            source = source.slot_sharing_group("apart")
        verified = source.map(Verify(), RECORD).uid(f"verify-{name}")
        streams.append(verified.slot_sharing_group("apart") if is_spread and name == "b" else verified)
    records = streams[0].union(streams[1]).key_by(key_of, Types.LONG())
    rules = env.from_source(ProofSource("c", (NUM_RULES,), 3.0), times, "rules").uid("rules").set_parallelism(1)
    numbers = rules.map(to_rule, Types.LONG()).uid("numbers").set_parallelism(1)
    accounts = records.process(Account()).uid("account")
    judged = records.connect(numbers.broadcast(RULES)).process(Judge()).uid("judge")
    windows = (
        records.window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS)))
        .allowed_lateness(1 << 40)
        .aggregate(CountRecords(), NameWindow(), Types.LONG())
        .uid("window")
    )
    sink = file_sink(rolls_on_checkpoint) if writes_files else TwoPhaseCommitSink(DatabaseFunction())
    accounts.rebalance().union(windows.rebalance(), judged.rebalance()).sink_to(sink).uid("sink")
    return env.create_job_graph("simulation")


def job(scenario: Scenario, directory: str) -> JobGraph:
    """The job as it is submitted.

    Args:
        scenario: what it looks like.
        directory: for working files.
    """
    graph = _graph(scenario.parallelism, scenario.is_spread, scenario.writes_files, scenario.rolls_on_checkpoint)
    edges = tuple(dataclasses.replace(edge, buffer_timeout_ms=scenario.buffer_timeout_ms) for edge in graph.edges)
    configuration = {**graph.configuration, **scenario.options(directory)}
    return dataclasses.replace(graph, job_id=JOB, edges=edges, configuration=configuration)


def resumed(graph: JobGraph, number: int, location: str, scenario: Scenario) -> JobGraph:
    """The job as it is submitted to go on from a savepoint.

    Args:
        graph: as it was before.
        number: how often it has been resumed.
        location: the savepoint.
        scenario: says how.
    """
    mode = graph.configuration["execution.mode"]
    if scenario.changes_mode:
        mode = "continuous" if mode == "micro-batch" else "micro-batch"
    configuration = {
        **graph.configuration,
        "execution.mode": mode,
        "execution.state-recovery.path": location,
        "execution.state-recovery.claim-mode": "claim" if scenario.claims else "no_claim",
        "state.backend.type": scenario.next_backend or scenario.backend,
    }
    return dataclasses.replace(graph, job_id=JobId(f"{5 + number:x}" * 32), configuration=configuration)
