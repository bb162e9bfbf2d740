"""The two jobs that `make bench` measures, in the DataStream API.

Both parse NDJSON lines with `json.loads`, record by record, as the plain Python loop beside them does. What they find
is written to files, so that it can be compared with the reference's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.reference import AUCTION_MODULUS
from runtime.common import Configuration, Types, WatermarkStrategy
from runtime.connectors.blackhole import BlackHoleSink
from runtime.datastream import DataStream, OutputTag, StreamExecutionEnvironment
from runtime.datastream.connectors.file_system import FileSink, FileSource, StreamFormat
from runtime.datastream.functions import KeyedProcessFunction, RuntimeContext
from runtime.datastream.state import ValueState, ValueStateDescriptor

#: An event-time timer that is due at the end of the input and not before.
END_OF_INPUT = 2**63 - 2
AUCTION_AND_PRICE = Types.ROW_NAMED(["auction", "price"], [Types.LONG(), Types.LONG()])
AUCTION_AND_COUNT = Types.ROW_NAMED(["auction", "count"], [Types.LONG(), Types.LONG()])
#: Name of the sink that takes a job's result; its metric says how many records that were.
RESULT = "result"
TOTALS = OutputTag("totals", AUCTION_AND_COUNT)


class CountPerAuction(KeyedProcessFunction):
    """Emits for each bid how many its auction has had, and each auction's total once, as a side output, at the end."""

    count: ValueState[int]

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: dict[str, Any], ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        before = self.count.value()
        if before is None:
            before = 0
            ctx.timer_service().register_event_time_timer(END_OF_INPUT)
        self.count.update(before + 1)
        yield value["auction"], before + 1

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        yield TOTALS, (ctx.get_current_key(), self.count.value())


def environment(slots: int, execution: str) -> StreamExecutionEnvironment:
    """An environment with that many slots on "spark" or "mini-cluster"."""
    config = Configuration()
    config.set_integer("parallelism.default", slots)
    config.set_string("execution.target", execution)
    return StreamExecutionEnvironment.get_execution_environment(config)


def define_filter(env: StreamExecutionEnvironment, bids: Path, output: Path) -> None:
    """Filter and projection: the result goes to `output`."""
    (
        _parsed(env, bids)
        .filter(lambda bid: bid["auction"] % AUCTION_MODULUS == 0)
        .map(lambda bid: (bid["auction"], bid["price"]), output_type=AUCTION_AND_PRICE)
        .sink_to(FileSink.for_ndjson(str(output)).build())
        .name(RESULT)
    )


def define_count(env: StreamExecutionEnvironment, bids: Path, output: Path) -> None:
    """Keyed Python state: the running counts go nowhere, the totals to `output`."""
    counts = _parsed(env, bids).key_by(lambda bid: bid["auction"], key_type=Types.LONG()).process(CountPerAuction())
    counts.sink_to(BlackHoleSink()).name(RESULT)
    counts.get_side_output(TOTALS).sink_to(FileSink.for_ndjson(str(output)).build())


def _parsed(env: StreamExecutionEnvironment, bids: Path) -> DataStream:
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(bids)).build()
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "bids").map(json.loads).name("parse")
