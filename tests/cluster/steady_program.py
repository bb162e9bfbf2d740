"""A job that goes on for ever and does next to nothing: for clusters of many slots on few cores."""

from __future__ import annotations

from runtime.common import Types, WatermarkStrategy
from runtime.connectors import BlackHoleSink, DataGeneratorSource
from runtime.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
numbers = DataGeneratorSource(lambda index: index, rows_per_second=1, type_info=Types.LONG())
env.from_source(numbers, WatermarkStrategy.no_watermarks(), "numbers").map(lambda n: n + 1).sink_to(BlackHoleSink())
env.execute("steady")
