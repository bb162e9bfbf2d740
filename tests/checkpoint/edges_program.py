"""A program whose tasks are joined by edges of every kind, and what it delivers: for records that are in flight.

Each branch begins with a function that may be slow (`Conduct.record_ms`), so that records wait before all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from runtime.common import Types, WatermarkStrategy
from runtime.datastream import (
    DataStream,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    ProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from runtime.datastream.state import ValueStateDescriptor
from runtime.testing import CollectingSink
from runtime.testing.collecting_sink import collected_records
from tests.checkpoint.rescale_program import EVENT, Conduct, Event
from tests.checkpoint.running_jobs import GatedSource

ODD = OutputTag("odd", EVENT)


def take_time() -> None:
    if Conduct.clock is not None and Conduct.record_ms:
        Conduct.clock.spend(Conduct.record_ms)
    if Conduct.crashes:
        Conduct.crashes = False
        raise RuntimeError("power cut")


def key_of(event: Event) -> int:
    return event[0]


class Numbered(KeyedProcessFunction):
    """(name, key, how many events of the key there were)."""

    def __init__(self, name: str) -> None:
        self.name = name

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Event, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        take_time()
        self.count.update((self.count.value() or 0) + 1)
        yield self.name, value[0], self.count.value()


class Sides(KeyedCoProcessFunction):
    """The same for each of two inputs."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.counts = [runtime_context.get_state(ValueStateDescriptor(f"count {n}", Types.LONG())) for n in (1, 2)]

    def process_element1(self, value: Event, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        return self.add(value, 1)

    def process_element2(self, value: Event, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        return self.add(value, 2)

    def add(self, value: Event, side: int) -> Iterator[Any]:
        take_time()
        count = self.counts[side - 1]
        count.update((count.value() or 0) + 1)
        yield "side", side, value[0], count.value()


class Split(ProcessFunction):
    """Odd numbers to the side."""

    def process_element(self, value: Event, ctx: ProcessFunction.Context) -> Iterator[Any]:
        take_time()
        if value[1] % 2:
            yield ODD, value
        else:
            yield value


class Named(MapFunction):
    def __init__(self, name: str) -> None:
        self.name = name

    def map(self, value: Event) -> Any:
        take_time()
        return (self.name, *value)


class Edges:
    """The program, its sources, and what it delivers.

    Args:
        directory: for that.
        events_per_split: how many.
    """

    def __init__(self, directory: Path, events_per_split: int = 40) -> None:
        self.out = directory / "out"
        self.left, self.right = (
            GatedSource(
                *[
                    [((100 * source + 3 * split + n % 3, n), n) for n in range(events_per_split)]
                    for split in range(splits)
                ],
                type_info=EVENT,
                batch_rows=3,
            )
            for source, splits in ((0, 4), (1, 2))
        )

    def let_through(self, limit: int) -> None:
        self.left.let_through(limit)
        self.right.let_through(limit)

    def end(self) -> None:
        self.left.end()
        self.right.end()

    def build(self, env: StreamExecutionEnvironment) -> None:
        """Write the program."""
        strategy = WatermarkStrategy.no_watermarks()
        left = env.from_source(self.left, strategy, "left").uid("left")
        right = env.from_source(self.right, strategy, "right").uid("right")
        outputs: list[DataStream] = [
            left.union(right).key_by(key_of).process(Numbered("united")).uid("united"),
            left.key_by(key_of).connect(right.key_by(key_of)).process(Sides()).uid("sides"),
            left.partition_custom(lambda key, parallelism: key % parallelism, key_of)
            .map(Named("custom"))
            .uid("custom"),
            right.shuffle().map(Named("shuffled")).uid("shuffled"),
            left.rebalance().union(left.rebalance()).map(Named("twice")).uid("twice"),
        ]
        split = right.rebalance().process(Split()).uid("split")
        outputs.append(split.key_by(key_of).process(Numbered("even")).uid("even"))
        outputs.append(split.get_side_output(ODD).key_by(key_of).process(Numbered("odd")).uid("odd"))
        outputs[0].union(*outputs[1:]).rebalance().sink_to(CollectingSink(self.out)).uid("sink")

    def expected(self) -> Counter[Any]:
        """Everything that is delivered in all."""
        left, right = self.left.emitted(), self.right.emitted()
        found: Counter[Any] = Counter()
        found.update(_numbered("united", left + right))
        found.update(("side", 1, *rest) for _, *rest in _numbered("", left))
        found.update(("side", 2, *rest) for _, *rest in _numbered("", right))
        found.update(("custom", *event) for event in left)
        found.update(("shuffled", *event) for event in right)
        found.update(("twice", *event) for event in left + left)
        found.update(_numbered("even", [event for event in right if not event[1] % 2]))
        found.update(_numbered("odd", [event for event in right if event[1] % 2]))
        return found

    def delivered(self) -> Counter[Any]:
        """Everything that was."""
        return Counter(collected_records(self.out))


def _numbered(name: str, events: list[Event]) -> list[tuple[Any, ...]]:
    counts: Counter[int] = Counter()
    numbered: list[tuple[Any, ...]] = []
    for key, _ in events:
        counts[key] += 1
        numbered.append((name, key, counts[key]))
    return numbered
