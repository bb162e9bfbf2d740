"""A job of one slot that does next to nothing: twenty records a second, or with `--idle` none; see `many_jobs`."""

from __future__ import annotations

import sys

from runtime.common import Types, WatermarkStrategy
from runtime.connectors import BlackHoleSink, DataGeneratorSource
from runtime.datastream import StreamExecutionEnvironment

#: a record a day
IDLE_RATE = 1 / 86_400
rate = IDLE_RATE if "--idle" in sys.argv else 20
env = StreamExecutionEnvironment.get_execution_environment()
numbers = DataGeneratorSource(lambda index: index, rows_per_second=rate, type_info=Types.LONG())
stream = env.from_source(numbers, WatermarkStrategy.no_watermarks(), "numbers")
stream.map(lambda number: number + 1).sink_to(BlackHoleSink())
env.execute("small")
