"""A program with every kind of state, and the plain model of what it delivers.

Events are (key, number); a key's events come in order from one split, so what is kept of a key does not depend on how
the job is cut up. Times are such that no event is late.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from runtime.common import Row, Time, Types, WatermarkStrategy
from runtime.datastream import (
    AggregateFunction,
    AsyncDataStream,
    AsyncFunction,
    CheckpointedFunction,
    DataStream,
    FlatMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from runtime.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from runtime.datastream.window import TumblingEventTimeWindows
from runtime.testing import CollectingSink
from runtime.testing.collecting_sink import collected_records
from tests.checkpoint.running_jobs import START_MS, GatedSource, JobClock, RunningJob

Event = tuple[int, int]
EVENT = Types.TUPLE([Types.LONG(), Types.LONG()])
ROW = Types.ROW_NAMED(["key", "number"], [Types.LONG(), Types.LONG()])
RULES = MapStateDescriptor("rules", Types.LONG(), Types.STRING())
#: (rule's number, text), told before the first event
RULE_VALUES = [(remainder, f"rule {remainder}") for remainder in range(3)]
WINDOW_MS = 20
EVENT_TIMER_MS = 7
PROCESSING_TIMER_AT_MS = START_MS + 24 * 3_600_000
"""Processing timers are due then and in the hours after, long after all else."""
NO_STRATEGY = WatermarkStrategy.no_watermarks()


class Largest(AggregateFunction):
    def create_accumulator(self) -> int:
        return -1

    def add(self, value: int, accumulator: int) -> int:
        return max(value, accumulator)

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, a: int, b: int) -> int:
        return max(a, b)


class Conduct:
    """Switches for the functions' behaviour; slots are in this process."""

    #: what each record takes, ms of `clock`; more than a slice of 20 ms, and the rest of the batch waits
    record_ms = 0.0
    clock: JobClock | None = None
    #: the next record raises
    crashes = False
    #: asynchronous calls do not end
    holds_answers = False


class AllStates(KeyedProcessFunction):
    """Keeps each event in every kind of keyed state, sets a timer of each kind, and tells what it keeps."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.numbers = runtime_context.get_list_state(ListStateDescriptor("numbers", Types.LONG()))
        self.by_rule = runtime_context.get_map_state(MapStateDescriptor("by_rule", Types.LONG(), Types.LONG()))
        add = ReducingStateDescriptor("sum", lambda a, b: a + b, Types.LONG())
        self.sum = runtime_context.get_reducing_state(add)
        largest = AggregatingStateDescriptor("largest", Largest(), Types.LONG())
        self.largest = runtime_context.get_aggregating_state(largest)

    def process_element(self, value: Event, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        if Conduct.clock is not None and Conduct.record_ms:
            Conduct.clock.spend(Conduct.record_ms)
        if Conduct.crashes:
            Conduct.crashes = False
            raise RuntimeError("power cut")
        key, number = value
        self.count.update((self.count.value() or 0) + 1)
        self.numbers.add(number)
        self.by_rule.put(number % 3, number)
        self.sum.add(number)
        self.largest.add(number)
        timers = ctx.timer_service()
        timestamp = ctx.timestamp()
        assert timestamp is not None
        timers.register_event_time_timer(timestamp + EVENT_TIMER_MS)
        timers.register_processing_time_timer(PROCESSING_TIMER_AT_MS + 3_600_000 * number + key)
        yield "state", key, self.count.value(), sum(self.numbers.get()), self.sum.get(), self.largest.get()

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        yield "timer", ctx.time_domain().name, ctx.get_current_key(), timestamp


class Ruled(KeyedBroadcastProcessFunction):
    """Says which rule goes for an event, and how many events of its key there were."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Event, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> Iterator[Any]:
        self.count.update((self.count.value() or 0) + 1)
        yield "ruled", value[0], self.count.value(), ctx.get_broadcast_state(RULES).get(value[1] % 3)

    def process_broadcast_element(self, value: tuple[int, str], ctx: KeyedBroadcastProcessFunction.Context) -> None:
        ctx.get_broadcast_state(RULES).put(*value)


class Buffer(FlatMapFunction, CheckpointedFunction):
    """Keeps the events of its subtask in a list state, and how many it has counted in a union list state."""

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.items_state = store.get_list_state(ListStateDescriptor("items", EVENT))
        self.counts_state = store.get_union_list_state(ListStateDescriptor("counts", Types.LONG()))
        self.items: list[Event] = list(self.items_state.get())
        self.count = sum(self.counts_state.get())

    def open(self, runtime_context: RuntimeContext) -> None:
        if runtime_context.get_index_of_this_subtask():
            # each was given all counts; the first subtask goes on with their sum
            self.count = 0

    def snapshot_state(self, context: Any) -> None:
        self.items_state.update(self.items)
        self.counts_state.update([self.count])

    def flat_map(self, value: Event) -> Iterable[Any]:
        self.items.append(value)
        self.count += 1
        return ()


class Asked(AsyncFunction):
    async def async_invoke(self, value: Event) -> list[Any]:
        while Conduct.holds_answers:
            await asyncio.sleep(0.001)
        return [("asked", *value)]


class Everything:
    """The program, its sources, and its model.

    Args:
        directory: for what it delivers.
        num_splits: of events.
        keys_per_split: their keys.
        events_per_split: how many.
    """

    def __init__(
        self,
        directory: Path,
        num_splits: int = 4,
        keys_per_split: int = 3,
        events_per_split: int = 60,
        batch_rows: int = 8,
    ) -> None:
        self.out = directory / "out"
        self.events = GatedSource(
            *[
                [((split * keys_per_split + n % keys_per_split, n), 5 * n + split) for n in range(events_per_split)]
                for split in range(num_splits)
            ],
            type_info=EVENT,
            batch_rows=batch_rows,
        )
        self.rules = GatedSource(
            [((number, text), n) for n, (number, text) in enumerate(RULE_VALUES)],
            type_info=Types.TUPLE([Types.LONG(), Types.STRING()]),
            last_watermark=10**12,
        )

    def build(self, env: StreamExecutionEnvironment) -> None:
        """Write the program."""
        events = env.from_source(self.events, NO_STRATEGY, "events").uid("events")
        rules = env.from_source(self.rules, NO_STRATEGY, "rules").uid("rules").set_parallelism(1)
        keyed = events.key_by(lambda event: event[0], Types.LONG())
        outputs: list[DataStream] = [keyed.process(AllStates()).uid("states").name("states")]
        outputs.append(keyed.connect(rules.broadcast(RULES)).process(Ruled()).uid("ruled").name("ruled"))
        windows = keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS)))
        sums = windows.reduce(lambda a, b: (a[0], a[1] + b[1])).uid("windows")
        outputs.append(sums.map(lambda pair: ("window", *pair)).uid("window output"))
        rows = events.map(lambda event: Row(key=event[0], number=event[1]), ROW).uid("rows")
        by_column = rows.key_by_columns("key").window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS)))
        totals = by_column.aggregate_columns(total="SUM(number)").uid("columns")
        outputs.append(totals.map(lambda row: ("columns", row.key, row.total)).uid("columns output"))
        outputs.append(events.rebalance().flat_map(Buffer()).uid("buffer").name("buffer"))
        asked = AsyncDataStream.unordered_wait(events.rebalance(), Asked(), Time.hours(1000), 1000)
        outputs.append(asked.uid("asked"))
        outputs[0].union(*outputs[1:]).sink_to(CollectingSink(self.out)).uid("sink").name("sink")

    # --- the model ----------------------------------------------------------------------------------------------------

    def by_key(self, limit: int | None = None) -> dict[int, list[int]]:
        """Numbers of each key, in order, of the first `limit` events of each split."""
        numbers: dict[int, list[int]] = {}
        for key, number in self.events.emitted(limit):
            numbers.setdefault(key, []).append(number)
        return numbers

    def expected(self) -> Counter[Any]:
        """Everything that is delivered in all."""
        found: Counter[Any] = Counter()
        windows: Counter[tuple[int, int]] = Counter()
        for split in self.events.splits:
            for (key, number), timestamp in split:
                windows[key, timestamp // WINDOW_MS] += number
                found["asked", key, number] += 1
                found["timer", "EVENT_TIME", key, timestamp + EVENT_TIMER_MS] += 1
                found["timer", "PROCESSING_TIME", key, PROCESSING_TIMER_AT_MS + 3_600_000 * number + key] += 1
        for key, numbers in self.by_key().items():
            for n, number in enumerate(numbers):
                total = sum(numbers[: n + 1])
                found["state", key, n + 1, total, total, number] += 1
                found["ruled", key, n + 1, f"rule {number % 3}"] += 1
        for (key, _), total in windows.items():
            found["window", key, total] += 1
            found["columns", key, total] += 1
        return found

    def delivered(self) -> Counter[Any]:
        """Everything that was."""
        return Counter(collected_records(self.out))


def behave() -> None:
    """Back to what is usual; after each test."""
    Conduct.record_ms, Conduct.clock = 0.0, None
    Conduct.crashes = Conduct.holds_answers = False


def run_to_the_end(job: RunningJob, program: Everything) -> None:
    """All that is left: the last events, the timers of processing time, the end of the input.

    Raises:
        AssertionError: what was delivered is not what the model delivers.
    """
    behave()
    program.rules.let_through(len(RULE_VALUES))
    program.events.let_through(10**6)
    job.settle()
    job.clock.advance(PROCESSING_TIMER_AT_MS + 10**9 - job.clock.now_ms())
    job.settle()
    program.events.end()
    program.rules.end()
    job.run()
    wrong = difference(program.delivered(), program.expected())
    assert not wrong, wrong


def difference(found: Counter[Any], expected: Counter[Any]) -> str:
    """Describe missing and extra items, shortened; "" if they are equal."""
    missing, extra = expected - found, found - expected
    if not missing and not extra:
        return ""
    return f"missing {missing.total()}: {_some(missing)}; extra {extra.total()}: {_some(extra)}"


def _some(counted: Counter[Any]) -> Sequence[Any]:
    return sorted(counted.elements(), key=str)[:8]
