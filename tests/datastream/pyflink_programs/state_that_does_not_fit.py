"""Values that do not fit the declared type of a state."""

from outcomes import show
from pyflink.common import Types
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)


class Use(KeyedProcessFunction):
    """Makes a state and changes it."""

    def __init__(self, make, change):
        self.make = make
        self.change = change

    def open(self, runtime_context):
        self.state = self.make(runtime_context)

    def process_element(self, value, ctx):
        self.change(self.state)
        yield "changed"


def value_of(kind):
    return lambda ctx: ctx.get_state(ValueStateDescriptor("value", kind))


def list_of(kind):
    return lambda ctx: ctx.get_list_state(ListStateDescriptor("list", kind))


def map_of(key, kind):
    return lambda ctx: ctx.get_map_state(MapStateDescriptor("map", key, kind))


def sum_of(kind):
    return lambda ctx: ctx.get_reducing_state(ReducingStateDescriptor("sum", lambda a, b: a + b, kind))


CASES = [
    ("value 2**31", value_of(Types.INT()), lambda state: state.update(2**31)),
    ("value of another type", value_of(Types.STRING()), lambda state: state.update(1)),
    ("value that fits", value_of(Types.DOUBLE()), lambda state: state.update(1)),
    ("list add", list_of(Types.SHORT()), lambda state: state.add(2**15)),
    ("list add_all", list_of(Types.BYTE()), lambda state: state.add_all([1, 128])),
    ("list update", list_of(Types.STRING()), lambda state: state.update(["a", 1])),
    ("map value", map_of(Types.STRING(), Types.INT()), lambda state: state.put("a", 2**31)),
    ("map key", map_of(Types.INT(), Types.INT()), lambda state: state.put("a", 1)),
    ("sum", sum_of(Types.INT()), lambda state: [state.add(2**30), state.add(2**30)]),
]


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    for label, make, change in CASES:
        numbers = env.from_collection([1], Types.INT()).key_by(lambda number: 0, Types.INT())
        show(label, numbers.process(Use(make, change), Types.STRING()))


if __name__ == "__main__":
    main()
