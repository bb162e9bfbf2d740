"""List and map state of many types, and a map that holds None."""

from decimal import Decimal

from pyflink.common import Row, Types
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import ListStateDescriptor, MapStateDescriptor

PAIR = Types.TUPLE([Types.STRING(), Types.INT()])


class Gather(KeyedProcessFunction):
    def open(self, runtime_context):
        self.pairs = runtime_context.get_list_state(ListStateDescriptor("pairs", PAIR))
        self.rows = runtime_context.get_list_state(ListStateDescriptor("rows", Types.ROW([Types.INT()])))
        self.sums = runtime_context.get_map_state(MapStateDescriptor("sums", Types.STRING(), Types.BIG_DEC()))
        self.by_pair = runtime_context.get_map_state(MapStateDescriptor("by pair", PAIR, Types.LIST(Types.DOUBLE())))
        self.marks = runtime_context.get_map_state(MapStateDescriptor("marks", Types.STRING(), Types.INT()))

    def process_element(self, value, ctx):
        self.pairs.add(("n", value))
        self.rows.add_all([Row(value), Row(None)])
        self.sums.put("sum", (self.sums.get("sum") or Decimal(0)) + Decimal(value) / 8)
        self.by_pair.put_all([(("a", value), [value / 2]), (("b", 0), [])])
        self.marks.put("none", None)
        self.marks.put("some", value)
        yield f"{list(self.pairs.get())} {list(self.rows.get())}"
        yield f"{dict(self.sums.items())} {sorted(self.by_pair.keys())} {list(self.by_pair.values())[-1]}"
        yield f"{self.marks.contains('none')} {self.marks.contains('some')} {self.marks.contains('other')}"
        yield f"{self.marks.get('none')} {sorted(self.marks.keys())} {self.marks.is_empty()}"
        self.marks.remove("some")
        self.marks.remove("none")
        yield f"{self.marks.is_empty()} {list(self.marks.items())}"


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    numbers = env.from_collection([1, 2], Types.INT())
    numbers.key_by(lambda number: 0, Types.INT()).process(Gather(), Types.STRING()).print()
    env.execute()


if __name__ == "__main__":
    main()
