"""FLOAT values as the next function gets them: alone, inside of others, out of keys and state."""

from outcomes import show_together
from pyflink.common import Row, Types
from pyflink.datastream import AggregateFunction, KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)

CASES = [
    (Types.FLOAT(), [1.1, 3e38, 16777217.0]),
    (Types.ROW([Types.FLOAT(), Types.DOUBLE()]), [Row(1.1, 1.1), Row(None, None)]),
    (Types.TUPLE([Types.FLOAT(), Types.DOUBLE()]), [(0.1, 0.1)]),
    (Types.LIST(Types.FLOAT()), [[1.1, 0.5]]),
    (Types.BASIC_ARRAY(Types.FLOAT()), [[1.1, None]]),
    (Types.PRIMITIVE_ARRAY(Types.FLOAT()), [[1.1]]),
    (Types.MAP(Types.FLOAT(), Types.FLOAT()), [{1.1: 0.1}]),
]


class Larger(AggregateFunction):
    def create_accumulator(self):
        return 0.0

    def add(self, value, accumulator):
        return max(value, accumulator)

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return max(acc_a, acc_b)


class Keep(KeyedProcessFunction):
    """Shows what each kind of state has of the records before this one."""

    def open(self, runtime_context):
        self.value = runtime_context.get_state(ValueStateDescriptor("value", Types.FLOAT()))
        self.list = runtime_context.get_list_state(ListStateDescriptor("list", Types.FLOAT()))
        self.map = runtime_context.get_map_state(MapStateDescriptor("map", Types.STRING(), Types.FLOAT()))
        self.least = runtime_context.get_reducing_state(ReducingStateDescriptor("least", min, Types.FLOAT()))
        self.most = runtime_context.get_aggregating_state(AggregatingStateDescriptor("most", Larger(), Types.FLOAT()))

    def process_element(self, value, ctx):
        yield f"{self.value.value()} {list(self.list.get())} {list(self.map.values())}"
        yield f"{self.least.get()} {self.most.get()} of {ctx.get_current_key()}"
        self.value.update(value)
        self.list.add(value)
        self.map.put("f", value)
        self.least.add(value)
        self.most.add(value)


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    texts = {}
    for type_info, values in CASES:
        indexes = env.from_collection(list(range(len(values))), Types.INT())
        typed = indexes.map(lambda index, values=values: values[index], output_type=type_info)
        texts[f"{type_info} chained"] = typed.map(repr, Types.STRING())
        texts[f"{type_info} sent"] = typed.rebalance().map(repr, Types.STRING())
    floats = env.from_collection([1.1, 0.5, 2.25], Types.FLOAT())
    texts["from a collection"] = floats.map(repr, Types.STRING())
    texts["widened"] = floats.map(lambda value: value, Types.DOUBLE()).map(repr, Types.STRING())
    texts["state"] = floats.key_by(lambda value: value > 2, Types.BOOLEAN()).process(Keep(), Types.STRING())
    texts["keys"] = floats.key_by(lambda value: value, Types.FLOAT()).process(Keep(), Types.STRING())
    texts["sum"] = floats.key_by(lambda value: 0, Types.INT()).sum().map(repr, Types.STRING())
    show_together(texts)


if __name__ == "__main__":
    main()
