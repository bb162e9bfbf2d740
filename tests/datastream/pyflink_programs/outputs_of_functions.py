"""How many results flat_map and process give, and what of them has to fit the type."""

from outcomes import show
from pyflink.common import Row, Types
from pyflink.datastream import FlatMapFunction, ProcessFunction, StreamExecutionEnvironment


class Repeat(FlatMapFunction):
    def flat_map(self, value):
        for _ in range(value):
            yield value / 2


class Every(ProcessFunction):
    def process_element(self, value, ctx):
        if value == 1:
            return [Row(value, [value])]
        if value == 2:
            return None
        return (Row(number, None) for number in range(value))


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    numbers = env.from_collection([0, 1, 3], Types.INT())
    show("flat_map", numbers.flat_map(Repeat(), Types.DOUBLE()))
    show("flat_map of a tuple", numbers.flat_map(lambda value: (value, -value), Types.LONG()))
    show("flat_map of halves", env.from_collection([2, 4], Types.INT()).flat_map(Repeat(), Types.INT()))
    show("process", numbers.process(Every(), Types.ROW([Types.LONG(), Types.LIST(Types.INT())])))
    show("overflow", numbers.flat_map(lambda value: [value, 2**40], Types.INT()))
    show("filter", numbers.filter(lambda value: value))
    show("filter of texts", numbers.filter(lambda value: "yes" if value else ""))


if __name__ == "__main__":
    main()
