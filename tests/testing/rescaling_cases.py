"""For every operator of the engine: a step that runs it, and input to run it through a rescaling 1 → 2 → 1.

Written with the public API, so that a case outlives changes inside. Tests beside an operator go deeper; here is what
none may do without. `CASES` is keyed by the operator's class.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from runtime.common import Configuration, Duration, Row, Time, Types, WatermarkStrategy
from runtime.common.typeinfo import TypeInformation
from runtime.datastream import (
    AsyncDataStream,
    AsyncFunction,
    BroadcastProcessFunction,
    CoProcessFunction,
    DataStream,
    FilterFunction,
    FlatMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    ProcessJoinFunction,
    ProcessWindowFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from runtime.datastream.state import MapStateDescriptor, ValueStateDescriptor
from runtime.datastream.window import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from runtime.operators.async_operator import AsyncWaitOperator
from runtime.operators.broadcast_operators import BroadcastProcessOperator, KeyedBroadcastProcessOperator
from runtime.operators.co_operators import CoProcessOperator, KeyedCoProcessOperator
from runtime.operators.columnar.deduplicate import KeepFirstOperator, KeepLastOperator
from runtime.operators.columnar.early_windows import EarlyProcessingTimeWindowOperator, EarlyWindowOperator
from runtime.operators.columnar.interval_join import ColumnIntervalJoinOperator
from runtime.operators.columnar.local_aggregate import LocalAggregateOperator, LocalAggregateOperatorFactory
from runtime.operators.columnar.local_sessions import LocalSessionOperator, LocalSessionOperatorFactory
from runtime.operators.columnar.map_frames import MapFramesOperator
from runtime.operators.columnar.processing_time_windows import ProcessingTimeWindowOperator
from runtime.operators.columnar.project import ProjectOperator, WhereOperator
from runtime.operators.columnar.regular_join import RegularJoinOperator
from runtime.operators.columnar.running_aggregate import RunningAggregateOperator
from runtime.operators.columnar.session_aggregate import SessionAggregateOperator, SessionAggregateOperatorFactory
from runtime.operators.columnar.top_n import TopNOperator
from runtime.operators.columnar.unnest import UnnestOperator
from runtime.operators.columnar.window_aggregate import WindowAggregateOperator
from runtime.operators.columnar.window_factory import WindowAggregateOperatorFactory
from runtime.operators.columnar.window_join import AlikeOperator
from runtime.operators.interval_join import IntervalJoinOperator
from runtime.operators.map_operators import FilterOperator, FlatMapOperator, MapOperator
from runtime.operators.operator import OperatorFactory, StreamOperator
from runtime.operators.process_operators import KeyedProcessOperator, ProcessOperator
from runtime.operators.reduce import ReduceOperator
from runtime.operators.sink_operator import SinkOperator
from runtime.operators.source_operator import SourceOperator
from runtime.operators.temporal_join import TemporalJoinOperator
from runtime.operators.watermarks import TimestampsAndWatermarksOperator
from runtime.operators.windowing.aligned_windows import AlignedWindowOperator
from runtime.operators.windowing.merging_windows import MergingWindowOperator
from runtime.operators.windowing.session_operator import SessionWindowOperator
from runtime.operators.windowing.window_operator import WindowOperator
from runtime.state.redistribution import redistribute
from runtime.state.snapshot import OperatorSnapshot
from runtime.testing import (
    CollectingSink,
    OneInputHarness,
    ScriptedSource,
    Stage,
    TwoInputStage,
    assert_program_survives_rescaling,
    assert_survives_rescaling,
    assert_two_input_program_survives_rescaling,
    harness_of,
    pause,
    record,
    two_input_harness_of,
    watermark,
)
from runtime.testing.clock import ManualClock
from runtime.testing.collecting_sink import collected_records
from runtime.testing.harness import assert_same_when_rescaled, deal, run_rescaling
from tests.connectors.rigs import SinkRig, SourceRig

Event = tuple[str, int]
Check = Callable[[Path], None]
"""Runs the case in a directory of its own, and makes sure that it is the operator that runs."""

ONE_PHASE = {"table.optimizer.agg-phase-strategy": "ONE_PHASE"}
ROWS = Types.ROW_NAMED(["key", "number", "items"], [Types.STRING(), Types.LONG(), Types.LIST(Types.LONG())])


def user_of(event: Event) -> str:
    return event[0]


def events(start: int, count: int, users: int = 5) -> Stage:
    """Events of several users, out of order by up to 6 ms, with a watermark that makes some of the next ones late."""
    times = [start + (n * 7) % 13 for n in range(count)]
    return Stage([(f"k{n % users}", start + n) for n in range(count)], times, start + 8)


STAGES = [events(start, 14) for start in (0, 14, 28, 42)]


def as_rows(stage: Stage) -> Stage:
    rows = [Row(key=key, number=number, items=[number] * (number % 3)) for key, number in stage.values]
    return Stage(rows, stage.timestamps, stage.watermark)


ROW_STAGES = [as_rows(stage) for stage in STAGES]
#: few users in each stage of the second input: what is known of the others must have been kept
PAIRS = [
    TwoInputStage(stage, Stage([(f"k{n}", -n), (f"k{n + 1}", n)], [14 * n, 14 * n + 3], stage.watermark))
    for n, stage in enumerate(STAGES)
]

ROW_PAIRS = [TwoInputStage(as_rows(pair.first), as_rows(pair.second)) for pair in PAIRS]


# --- user functions ---------------------------------------------------------------------------------------------------

TOTAL = ValueStateDescriptor("total", Types.LONG())
LIMITS = MapStateDescriptor("limits", Types.STRING(), Types.LONG())


class Totals:
    """A total for each user, which a timer tells."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(TOTAL)

    def add(self, value: Event, ctx: Any) -> None:
        self.total.update((self.total.value() or 0) + value[1])
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 9)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield ctx.get_current_key(), self.total.value()


class MapTotals(Totals, MapFunction):
    def map(self, value: Event) -> Any:
        self.total.update((self.total.value() or 0) + value[1])
        return value[0], self.total.value()


class FlatMapTotals(Totals, FlatMapFunction):
    def flat_map(self, value: Event) -> Any:
        self.total.update((self.total.value() or 0) + value[1])
        return [(value[0], self.total.value())] * (value[1] % 3)


class EverySecond(Totals, FilterFunction):
    def filter(self, value: Event) -> bool:
        count = (self.total.value() or 0) + 1
        self.total.update(count)
        return bool(count % 2)


class Timed(ProcessFunction):
    def process_element(self, value: Event, ctx: ProcessFunction.Context) -> Iterator[Any]:
        yield value, ctx.timestamp(), ctx.timer_service().current_watermark()


class KeyedTotals(Totals, KeyedProcessFunction):
    def process_element(self, value: Event, ctx: KeyedProcessFunction.Context) -> None:
        self.add(value, ctx)


class CoTimed(CoProcessFunction):
    def process_element1(self, value: Event, ctx: CoProcessFunction.Context) -> Iterator[Any]:
        yield 1, value, ctx.timestamp(), ctx.timer_service().current_watermark()

    def process_element2(self, value: Event, ctx: CoProcessFunction.Context) -> Iterator[Any]:
        yield 2, value, ctx.timestamp(), ctx.timer_service().current_watermark()


class CoTotals(Totals, KeyedCoProcessFunction):
    def process_element1(self, value: Event, ctx: KeyedCoProcessFunction.Context) -> None:
        self.add(value, ctx)

    def process_element2(self, value: Event, ctx: KeyedCoProcessFunction.Context) -> None:
        self.add((value[0], -value[1]), ctx)


class Limited(BroadcastProcessFunction):
    def process_element(self, value: Event, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterator[Any]:
        yield value, ctx.get_broadcast_state(LIMITS).get(value[0])

    def process_broadcast_element(self, value: Event, ctx: BroadcastProcessFunction.Context) -> None:
        ctx.get_broadcast_state(LIMITS).put(*value)


class LimitedTotals(Totals, KeyedBroadcastProcessFunction):
    def process_element(self, value: Event, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> Iterator[Any]:
        self.add(value, ctx)
        yield value, ctx.get_broadcast_state(LIMITS).get(value[0])

    def process_broadcast_element(self, value: Event, ctx: KeyedBroadcastProcessFunction.Context) -> None:
        ctx.get_broadcast_state(LIMITS).put(*value)


class Pairing(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterator[Any]:
        yield left, right


class Contents(ProcessWindowFunction):
    def process(self, key: Any, context: ProcessWindowFunction.Context, elements: Any) -> Iterator[Any]:
        yield key, context.window().start, context.window().end, sorted(elements)


#: calls of `Gated` do not end before it is set; they run in a thread of this process
GATE = threading.Event()


class Gated(AsyncFunction):
    async def async_invoke(self, value: Event) -> list[Any]:
        while not GATE.is_set():
            await asyncio.sleep(0.001)
        return [value]


# --- checks -----------------------------------------------------------------------------------------------------------


def one_input(
    operator: type[StreamOperator],
    build: Callable[[DataStream], Any],
    stages: Sequence[Stage] = STAGES,
    input_type: TypeInformation | None = None,
    configuration: Mapping[str, str] | None = None,
) -> tuple[type[StreamOperator], Check]:
    def check(directory: Path) -> None:
        with harness_of(build, input_type=input_type, configuration=configuration) as harness:
            assert type(harness.operator) is operator
        assert_program_survives_rescaling(build, stages, input_type=input_type, configuration=configuration)

    return operator, check


def columns(operator: type[StreamOperator], build: Callable[[DataStream], Any]) -> tuple[type[StreamOperator], Check]:
    return one_input(operator, build, ROW_STAGES, ROWS, ONE_PHASE)


def two_inputs(
    operator: type[StreamOperator],
    build: Callable[[DataStream, DataStream], Any],
    stages: Sequence[TwoInputStage] = PAIRS,
    input_type: TypeInformation | None = None,
) -> tuple[type[StreamOperator], Check]:
    def check(directory: Path) -> None:
        types = (input_type, input_type)
        with two_input_harness_of(build, input_types=types) as harness:
            assert type(harness.operator) is operator
        assert_two_input_program_survives_rescaling(build, stages, input_types=types)

    return operator, check


# --- those that need more than records and watermarks -----------------------------------------------------------------


def check_async(directory: Path) -> None:
    """Every call is in flight from the first stage on, and is made again after each restore."""

    def build(stream: DataStream) -> DataStream:
        return AsyncDataStream.unordered_wait(stream, Gated(), Time.hours(1), capacity=50)

    def create(
        parallelism: int, subtask: int, clock: ManualClock, snapshot: OperatorSnapshot | None
    ) -> OneInputHarness:
        harness = harness_of(build, parallelism=parallelism, subtask=subtask, clock=clock, snapshot=snapshot)
        assert type(harness.operator) is AsyncWaitOperator
        return harness

    def feed(harnesses: Sequence[OneInputHarness], stage: Stage) -> None:
        if stage is STAGES[-1]:
            GATE.set()
        else:
            GATE.clear()
        for harness, part in zip(harnesses, deal(stage, len(harnesses), None, 128), strict=True):
            harness.process(part.values, part.timestamps)

    assert_same_when_rescaled(len(STAGES), lambda parallelisms: run_rescaling(STAGES, parallelisms, 128, create, feed))


def check_clock(directory: Path, operator: type[StreamOperator], early_ms: int | None) -> None:
    """The clock goes on by 6 ms with each stage, and past the end of all windows with the last one."""

    def build(rows: DataStream) -> DataStream:
        windows = rows.key_by_columns("key").window(TumblingProcessingTimeWindows.of(Time.milliseconds(10)))
        if early_ms is not None:
            windows = windows.trigger(ContinuousProcessingTimeTrigger.of(Time.milliseconds(early_ms)))
        return windows.aggregate_columns("sum(number) AS total", "window_end")

    def create(
        parallelism: int, subtask: int, clock: ManualClock, snapshot: OperatorSnapshot | None
    ) -> OneInputHarness:
        harness = harness_of(
            build, parallelism=parallelism, subtask=subtask, clock=clock, snapshot=snapshot, input_type=ROWS
        )
        assert type(harness.operator) is operator
        return harness

    def feed(harnesses: Sequence[OneInputHarness], stage: Stage) -> None:
        for harness, part in zip(harnesses, deal(stage, len(harnesses), lambda row: row["key"], 128), strict=True):
            harness.process(part.values, part.timestamps)
        harnesses[0].clock.advance(100 if stage is ROW_STAGES[-1] else 6)
        for harness in harnesses:
            harness.advance_processing_time(0)

    assert_same_when_rescaled(
        len(ROW_STAGES), lambda parallelisms: run_rescaling(ROW_STAGES, parallelisms, 128, create, feed)
    )


def factories_of(build: Callable[..., Any], num_inputs: int = 1) -> list[Any]:
    """The operators that a program on typed rows is made of."""
    env = StreamExecutionEnvironment.get_execution_environment(Configuration())
    build(*[env.from_collection([], ROWS) for _ in range(num_inputs)])
    return [node.factory for node in env.program.nodes.values()]


def first_phase(
    operator: type[StreamOperator], local_type: type[OperatorFactory], final_type: type[OperatorFactory], windows: Any
) -> tuple[type[StreamOperator], Check]:
    """Return the check of a first phase: its partials depend on the parallelism, the merged results do not."""

    def build(rows: DataStream) -> Any:
        return rows.key_by_columns("key").window(windows).aggregate_columns("sum(number) AS total", "window_end")

    def run(parallelisms: Sequence[int]) -> list[str]:
        factories = factories_of(build)
        [local] = [factory for factory in factories if isinstance(factory, local_type)]
        [final] = [factory for factory in factories if isinstance(factory, final_type)]
        made: list[OneInputHarness] = []

        def create(
            parallelism: int, subtask: int, clock: ManualClock, snapshot: OperatorSnapshot | None
        ) -> OneInputHarness:
            harness = OneInputHarness(local, None, parallelism, subtask, snapshot=snapshot, input_type=ROWS)
            assert type(harness.operator) is operator
            made.append(harness)
            return harness

        def feed(harnesses: Sequence[OneInputHarness], stage: Stage) -> None:
            for harness, part in zip(harnesses, deal(stage, len(harnesses), None, 128), strict=True):
                # no watermark: nothing leaves before it has been through the snapshots
                harness.process(part.values, part.timestamps)

        run_rescaling(ROW_STAGES, parallelisms, 128, create, feed)
        with OneInputHarness(final) as merging:
            for harness in made:
                for batch, _ in harness.batches:
                    merging.process_batch(batch.with_marks(()))
            merging.end_input()
            return sorted(map(repr, merging.records))

    def check(directory: Path) -> None:
        assert run([1, 2, 1, 0]) == run([1, 0, 0, 0]) != []

    return operator, check


def check_alike(directory: Path) -> None:
    """The columns of a window join's sides."""
    factories = factories_of(
        lambda a, b: a.key_by_columns("key").window_join(b.key_by_columns("key"), TEN), num_inputs=2
    )
    alike = [factory for factory in factories if type(factory.create()) is AlikeOperator]
    assert len(alike) == 2
    for factory in alike:
        assert_survives_rescaling(factory, ROW_STAGES, input_type=ROWS)


def check_timestamps(directory: Path) -> None:
    """Restored subtasks say no watermark that was said before; the least of theirs counts for all."""
    snapshots: list[OperatorSnapshot] = []
    seen: list[list[int]] = []
    for parallelism, timestamp in ((1, 20), (2, 10), (1, 30)):
        restored: Sequence[OperatorSnapshot | None] = [None] * parallelism
        if snapshots:
            restored = redistribute(snapshots, parallelism, 128)
        snapshots = []
        for subtask in range(parallelism):
            with harness_of(
                lambda s: s.assign_timestamps_and_watermarks(STRATEGY),
                parallelism=parallelism,
                subtask=subtask,
                configuration={"pipeline.auto-watermark-interval": "0 ms"},
                snapshot=restored[subtask],
            ) as harness:
                assert type(harness.operator) is TimestampsAndWatermarksOperator
                harness.process(["x", "y"], [timestamp, timestamp + 15 * subtask])
                assert [r.timestamp for r in harness.records] == [timestamp + 1, timestamp + 15 * subtask + 1]
                seen.append(harness.watermarks)
                snapshots.append(harness.snapshot())
    assert seen == [[17], [], [22], [27]]


def check_source(directory: Path) -> None:
    """Four splits, two of them open at a time, are read to the end in three stretches."""
    scripts = [[record((split, 1), 1), watermark(1), pause(5), (split, 2), (split, 3), (split, 4)] for split in "abcd"]
    source = ScriptedSource(*scripts, splits_at_once=2, batch_rows=1)
    records: list[Any] = []
    snapshots: list[OperatorSnapshot] = []
    for parallelism, until in ((1, 3), (2, 8)):
        rig = SourceRig(source, parallelism, snapshots=snapshots)
        assert {type(operator) for operator in rig.operators} == {SourceOperator}
        while len(records) + len(rig.values) < until:
            rig.step(1)
            rig.clock.advance(1)
        snapshots = rig.snapshot()
        rig.close()
        records += rig.values
    assert len(records) < 16
    records += SourceRig(source, 1, snapshots=snapshots).run().values
    assert sorted(records) == [(split, n) for split in "abcd" for n in (1, 2, 3, 4)]


def check_sink(directory: Path) -> None:
    """Check that subtasks commit what their predecessors have prepared."""
    sink = CollectingSink(directory)
    snapshots: list[OperatorSnapshot] = []
    for attempt, (parallelism, stage) in enumerate(zip((1, 2, 1, 1), STAGES, strict=True)):
        restored: Sequence[OperatorSnapshot | None] = [None] * parallelism
        if snapshots:
            restored = redistribute(snapshots, parallelism, 128)
        rigs = [SinkRig(sink, None, subtask, parallelism, restored[subtask], attempt) for subtask in range(parallelism)]
        assert {type(rig.operator) for rig in rigs} == {SinkOperator}
        for rig, part in zip(rigs, deal(stage, parallelism, None, 128), strict=True):
            rig.write(*part.values)
        snapshots = [rig.operator.snapshot_state() for rig in rigs]
        for rig in rigs:
            # lost with everything behind the snapshot, but for the last, which ends in good order
            rig.write("never seen" if attempt < 3 else "last")
            if attempt == 3:
                rig.finish()
            else:
                rig.operator.close()
    expected = [value for stage in STAGES for value in stage.values]
    assert Counter(collected_records(directory)) == Counter([*expected, "last"])


TEN = TumblingEventTimeWindows.of(Time.milliseconds(10))
SESSIONS = EventTimeSessionWindows.with_gap(Time.milliseconds(3))
STRATEGY = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(3)).with_timestamp_assigner(
    lambda event, timestamp: timestamp + 1
)

CASES: dict[type[StreamOperator], Check] = dict(
    [
        one_input(MapOperator, lambda s: s.key_by(user_of).map(MapTotals())),
        one_input(FlatMapOperator, lambda s: s.key_by(user_of).flat_map(FlatMapTotals())),
        one_input(FilterOperator, lambda s: s.key_by(user_of).filter(EverySecond())),
        one_input(ProcessOperator, lambda s: s.process(Timed())),
        one_input(KeyedProcessOperator, lambda s: s.key_by(user_of).process(KeyedTotals())),
        one_input(ReduceOperator, lambda s: s.key_by(user_of).reduce(lambda a, b: (a[0], a[1] + b[1]))),
        one_input(AlignedWindowOperator, lambda s: s.key_by(user_of).window(TEN).process(Contents())),
        one_input(
            WindowOperator,
            lambda s: (
                s.key_by(user_of)
                .window(SlidingEventTimeWindows.of(Time.milliseconds(12), Time.milliseconds(5)))
                .trigger(EventTimeTrigger.create())
                .process(Contents())
            ),
        ),
        one_input(SessionWindowOperator, lambda s: s.key_by(user_of).window(SESSIONS).process(Contents())),
        one_input(
            MergingWindowOperator,
            lambda s: (
                s.key_by(user_of)
                .window(SESSIONS)
                .trigger(ContinuousEventTimeTrigger.of(Time.milliseconds(4)))
                .process(Contents())
            ),
        ),
        columns(ProjectOperator, lambda s: s.select("key", "number * 2 AS double")),
        columns(WhereOperator, lambda s: s.where("number > 20")),
        columns(UnnestOperator, lambda s: s.unnest("items", "item")),
        columns(MapFramesOperator, lambda s: s.map_frames(lambda frame: frame.with_columns(number=-pl.col("number")))),
        columns(KeepFirstOperator, lambda s: s.key_by_columns("key").deduplicate("first")),
        columns(KeepLastOperator, lambda s: s.key_by_columns("key").deduplicate("last")),
        columns(TopNOperator, lambda s: s.key_by_columns("key").top_n(2, "number % 7", rank="place")),
        columns(RunningAggregateOperator, lambda s: s.key_by_columns("key").aggregate_columns("sum(number) AS total")),
        columns(
            WindowAggregateOperator,
            lambda s: s.key_by_columns("key").window(TEN).aggregate_columns("sum(number) AS total", "window_end"),
        ),
        columns(
            EarlyWindowOperator,
            lambda s: (
                s.key_by_columns("key")
                .window(TEN)
                .trigger(ContinuousEventTimeTrigger.of(Time.milliseconds(5)))
                .aggregate_columns("sum(number) AS total", "window_end")
            ),
        ),
        columns(
            SessionAggregateOperator,
            lambda s: s.key_by_columns("key").window(SESSIONS).aggregate_columns("sum(number) AS total", "window_end"),
        ),
        two_inputs(CoProcessOperator, lambda a, b: a.connect(b).process(CoTimed())),
        two_inputs(
            KeyedCoProcessOperator, lambda a, b: a.key_by(user_of).connect(b.key_by(user_of)).process(CoTotals())
        ),
        two_inputs(BroadcastProcessOperator, lambda a, b: a.connect(b.broadcast(LIMITS)).process(Limited())),
        two_inputs(
            KeyedBroadcastProcessOperator,
            lambda a, b: a.key_by(user_of).connect(b.broadcast(LIMITS)).process(LimitedTotals()),
        ),
        two_inputs(
            IntervalJoinOperator,
            lambda a, b: (
                a.key_by(user_of)
                .interval_join(b.key_by(user_of))
                .between(Time.milliseconds(-4), Time.milliseconds(6))
                .process(Pairing())
            ),
        ),
        two_inputs(
            ColumnIntervalJoinOperator,
            lambda a, b: (
                a.key_by_columns("key")
                .interval_join(b.key_by_columns("key"))
                .between(Time.milliseconds(-4), Time.milliseconds(20))
                .columns()
            ),
            ROW_PAIRS,
            ROWS,
        ),
        two_inputs(
            RegularJoinOperator,
            lambda a, b: a.key_by_columns("key").regular_join(b.key_by_columns("key")),
            ROW_PAIRS,
            ROWS,
        ),
        two_inputs(
            TemporalJoinOperator,
            lambda a, b: a.key_by(user_of).temporal_join(b.key_by(user_of)).left_outer().process(Pairing()),
        ),
        (AsyncWaitOperator, check_async),
        first_phase(LocalAggregateOperator, LocalAggregateOperatorFactory, WindowAggregateOperatorFactory, TEN),
        first_phase(LocalSessionOperator, LocalSessionOperatorFactory, SessionAggregateOperatorFactory, SESSIONS),
        (AlikeOperator, check_alike),
        (
            ProcessingTimeWindowOperator,
            partial(check_clock, operator=ProcessingTimeWindowOperator, early_ms=None),
        ),
        (
            EarlyProcessingTimeWindowOperator,
            partial(check_clock, operator=EarlyProcessingTimeWindowOperator, early_ms=5),
        ),
        (TimestampsAndWatermarksOperator, check_timestamps),
        (SourceOperator, check_source),
        (SinkOperator, check_sink),
    ]
)

STATELESS = {ProjectOperator, WhereOperator, UnnestOperator, MapFramesOperator, AlikeOperator}
"""They remember nothing: a case cannot tell whether their snapshots are lost."""
