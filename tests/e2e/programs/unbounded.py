"""A job without end: a hundred numbers a second, printed."""

from runtime.common import Types, WatermarkStrategy
from runtime.connectors import DataGeneratorSource
from runtime.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
source = DataGeneratorSource(lambda index: index, rows_per_second=100.0)
numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
numbers.map(lambda n: f"number {n}", Types.STRING()).name("label").uid("label").print().uid("labels")
env.execute("endless numbers")
