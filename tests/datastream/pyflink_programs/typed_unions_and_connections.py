"""Union, connect and co-process with types on both sides and on their results."""

from outcomes import show
from pyflink.common import Row, Types
from pyflink.datastream import CoFlatMapFunction, CoMapFunction, CoProcessFunction, StreamExecutionEnvironment


class Both(CoMapFunction):
    def map1(self, value):
        return Row("number", value / 10)

    def map2(self, value):
        return Row(value, 2.5)


class Texts(CoFlatMapFunction):
    def flat_map1(self, value):
        yield value
        yield value + 1

    def flat_map2(self, value):
        for letter in value:
            yield ord(letter)


class Narrow(CoProcessFunction):
    def process_element1(self, value, ctx):
        yield value * 100

    def process_element2(self, value, ctx):
        return []


def show_sorted(label, stream):
    with stream.execute_and_collect() as results:
        print(f"{label}: {sorted(map(repr, results))}")


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    numbers = env.from_collection([1, 2], Types.INT())
    texts = env.from_collection(["ab", "c"], Types.STRING())
    show_sorted("union", numbers.union(numbers.map(lambda number: number * 10, Types.INT())))
    show_sorted("co-map", numbers.connect(texts).map(Both(), Types.ROW([Types.STRING(), Types.FLOAT()])))
    show_sorted("co-flat-map", numbers.connect(texts).flat_map(Texts(), Types.SHORT()))
    show("overflow", numbers.connect(texts).process(Narrow(), Types.BYTE()))


if __name__ == "__main__":
    main()
