"""Two subtasks: what they know of themselves, how records are dealt out to them; results sorted."""

from pyflink.common import Types, WatermarkStrategy
from pyflink.datastream import FlatMapFunction, MapFunction, Partitioner, StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource


class Where(MapFunction):
    def open(self, runtime_context):
        self.here = f"{runtime_context.get_index_of_this_subtask()}/{runtime_context.get_number_of_parallel_subtasks()}"
        self.limit = runtime_context.get_max_number_of_parallel_subtasks()

    def map(self, value):
        return f"{value} in {self.here} of {self.limit}"


class Subtask(FlatMapFunction):
    def open(self, runtime_context):
        self.index = runtime_context.get_index_of_this_subtask()

    def flat_map(self, value):
        yield self.index, value


class ByHalf(Partitioner):
    def partition(self, key, num_partitions):
        return 0 if key <= 3 else num_partitions - 1


def collected(stream):
    with stream.execute_and_collect() as values:
        return sorted(values)


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    env.set_max_parallelism(64)
    pair = Types.TUPLE([Types.INT(), Types.INT()])
    numbers = env.from_collection([1, 2, 3, 4, 5, 6], Types.INT())
    numbers.partition_custom(ByHalf(), lambda n: n).map(Where(), Types.STRING()).print().set_parallelism(1)
    numbers.partition_custom(lambda key, n: key % n, lambda n: n).flat_map(Subtask(), pair).print().set_parallelism(1)
    env.execute()
    print(collected(numbers.broadcast().flat_map(Subtask(), pair)))
    print(collected(numbers.rebalance().map(lambda n: n * 10, Types.INT())))
    print(collected(numbers.shuffle().map(lambda n: n * 10, Types.INT())))
    sequence = env.from_source(NumberSequenceSource(1, 6), WatermarkStrategy.no_watermarks(), "s", Types.LONG())
    print(collected(sequence.map(lambda n: n, Types.LONG()).set_parallelism(1)))
    print(collected(sequence.force_non_parallel().map(lambda n: -n, Types.LONG())))
    sums = (
        numbers.map(lambda n: (n % 3, n), pair).set_parallelism(1).key_by(lambda p: p[0], key_type=Types.INT()).sum(1)
    )
    print(collected(sums))


if __name__ == "__main__":
    main()
