"""A source that makes fifty thousand records a second, and a sink that takes five hundred; with metrics of its own."""

import threading
from collections.abc import Sequence
from typing import Any

from runtime.common import WatermarkStrategy
from runtime.connectors import DataGeneratorSource
from runtime.core.batch import RecordBatch
from runtime.datastream import MapFunction, RuntimeContext, StreamExecutionEnvironment
from runtime.operators.sink import Sink, SinkWriter, WriterContext

SECONDS_PER_RECORD = 1 / 250


class SlowSink(Sink):
    """Each of its writers takes 250 records a second."""

    def create_writer(self, context: WriterContext, restored: Sequence[Any]) -> SinkWriter:
        return SlowWriter()


class SlowWriter(SinkWriter):
    def write(self, batch: RecordBatch) -> None:
        threading.Event().wait(batch.num_rows * SECONDS_PER_RECORD)


class Watched(MapFunction):
    """Passes records on and counts them."""

    def open(self, runtime_context: RuntimeContext) -> None:
        group = runtime_context.get_metrics_group().add_group("tide gauge")
        self.seen = group.counter("seen")
        self.rate = group.meter("rate", 10)
        group.gauge("state", lambda: "flood")
        self.total = runtime_context.get_int_counter("records")

    def map(self, value: Any) -> Any:
        self.seen.inc()
        self.rate.mark_event()
        self.total.add(1)
        return value


env = StreamExecutionEnvironment.get_execution_environment()
source = DataGeneratorSource(lambda index: (index, bytes(200)), rows_per_second=50_000)
records = env.from_source(source, WatermarkStrategy.no_watermarks(), "fast").uid("fast")
watched = records.rebalance().map(Watched()).name("watched").uid("watched")
watched.key_by(lambda record: record[0] % 64).sink_to(SlowSink()).name("slow").uid("slow")
env.execute("slow sink")
