"""A job that fails: it prints and logs a few lines, and its function does not like the number 7."""

import logging

from runtime.common import WatermarkStrategy
from runtime.connectors import DataGeneratorSource
from runtime.datastream import StreamExecutionEnvironment

logger = logging.getLogger("tides")


def check(number: int) -> int:
    print(f"checked {number}")
    logger.warning("looking at %s", number)
    if number == 7:
        raise ValueError(f"no tide has the number {number}")
    return number


env = StreamExecutionEnvironment.get_execution_environment()
source = DataGeneratorSource(lambda index: index, rows_per_second=20.0)
numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
numbers.map(check).name("check tides").uid("check").print().uid("checked")
env.execute("failing numbers")
