"""Function classes with open(), unions, partitioning and names; results sorted, since a union has no order."""

from pyflink.common import Configuration, Types
from pyflink.common.watermark_strategy import WatermarkStrategy
from pyflink.datastream import (
    FilterFunction,
    FlatMapFunction,
    KeySelector,
    MapFunction,
    ReduceFunction,
    StreamExecutionEnvironment,
)
from pyflink.datastream.connectors.number_seq import NumberSequenceSource


class AddOffset(MapFunction):
    def open(self, runtime_context):
        self.offset = runtime_context.get_number_of_parallel_subtasks() * 100

    def map(self, value):
        return value + self.offset


class Repeat(FlatMapFunction):
    def flat_map(self, value):
        for _ in range(value % 3):
            yield value


class IsSmall(FilterFunction):
    def filter(self, value):
        return value < 110


class LastDigit(KeySelector):
    def get_key(self, value):
        return value % 10


class Longest(ReduceFunction):
    def reduce(self, value1, value2):
        return max(value1, value2)


def main() -> None:
    config = Configuration()
    config.set_string("parallelism.default", "1")
    env = StreamExecutionEnvironment.get_execution_environment(config)
    numbers = env.from_source(NumberSequenceSource(1, 12), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
    shifted = numbers.rebalance().map(AddOffset(), Types.LONG()).name("shift").uid("shift")
    repeated = numbers.rescale().flat_map(Repeat(), Types.LONG()).disable_chaining()
    both = shifted.union(repeated).filter(IsSmall())
    longest = both.map(lambda value: value, Types.LONG()).key_by(LastDigit(), Types.LONG()).reduce(Longest())
    print(shifted.get_name(), env.get_parallelism())
    with longest.execute_and_collect("union") as values:
        print(sorted(values)[-3:])
    print(numbers.broadcast().map(lambda value: value * 2, Types.LONG()).execute_and_collect(limit=3))


if __name__ == "__main__":
    main()
