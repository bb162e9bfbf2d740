"""Map, flat-map and filter functions on a keyed stream, each with keyed state of its own."""

from pyflink.common import Types
from pyflink.datastream import FilterFunction, FlatMapFunction, MapFunction, StreamExecutionEnvironment
from pyflink.datastream.state import ListStateDescriptor, ValueStateDescriptor

SALES = [("apple", 3), ("pear", 5), ("apple", 4), ("apple", 3), ("pear", 5), ("fig", 1), ("apple", 0)]
SALE = Types.TUPLE([Types.STRING(), Types.INT()])


class RunningTotal(MapFunction):
    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def map(self, value):
        self.total.update((self.total.value() or 0) + value[1])
        return value[0], self.total.value()


class Pairs(FlatMapFunction):
    """Emits each sale together with the one before it."""

    def open(self, runtime_context):
        self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting", Types.INT()))

    def flat_map(self, value):
        self.waiting.add(value[1])
        amounts = list(self.waiting.get())
        if len(amounts) == 2:
            self.waiting.clear()
            yield f"{value[0]} {amounts}"


class FirstOfItsKind(FilterFunction):
    def open(self, runtime_context):
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.INT()))

    def filter(self, value):
        if value[1] in list(self.seen.get() or []):
            return False
        self.seen.add(value[1])
        return True


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    keyed = env.from_collection(SALES, SALE).key_by(lambda sale: sale[0], key_type=Types.STRING())
    keyed.map(RunningTotal(), Types.TUPLE([Types.STRING(), Types.LONG()])).print()
    env.execute("map")
    keyed.flat_map(Pairs(), Types.STRING()).print()
    env.execute("flat_map")
    keyed.filter(FirstOfItsKind()).print()
    env.execute("filter")


if __name__ == "__main__":
    main()
