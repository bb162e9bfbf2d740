"""250 numbers a second, of which one subtask does fewer than 150."""

import time

from runtime.common import Types, WatermarkStrategy
from runtime.connectors import DataGeneratorSource
from runtime.datastream import StreamExecutionEnvironment


def slow(number: int) -> int:
    time.sleep(0.007)
    return number


env = StreamExecutionEnvironment.get_execution_environment()
source = DataGeneratorSource(lambda index: index, rows_per_second=250)
numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
numbers.rebalance().map(slow, Types.LONG()).name("slow").uid("slow").print().uid("shown")
env.execute("busy")
