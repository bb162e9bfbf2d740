"""Updates that state of each kind takes in the same call: several in a row, None, empty lists, clear and again."""

from outcomes import show, show_together
from pyflink.common import Types
from pyflink.datastream import AggregateFunction, KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)


class Longest(AggregateFunction):
    def create_accumulator(self):
        return ("", 0)

    def add(self, value, accumulator):
        return max(accumulator[0], value, key=len), accumulator[1] + 1

    def get_result(self, accumulator):
        return f"{accumulator[0]} of {accumulator[1]}"

    def merge(self, acc_a, acc_b):
        return max(acc_a[0], acc_b[0], key=len), acc_a[1] + acc_b[1]


class Use(KeyedProcessFunction):
    """Lets a function work with a state that was made by another one, and emits what it yields."""

    def __init__(self, make, use):
        self.make = make
        self.use = use

    def open(self, runtime_context):
        self.state = self.make(runtime_context)

    def process_element(self, value, ctx):
        return [repr(told) for told in self.use(self.state, value)]


def a_value(ctx):
    return ctx.get_state(ValueStateDescriptor("value", Types.STRING()))


def a_list(ctx):
    return ctx.get_list_state(ListStateDescriptor("list", Types.LONG()))


def a_map(ctx):
    return ctx.get_map_state(MapStateDescriptor("map", Types.STRING(), Types.LONG()))


def a_sum(ctx):
    return ctx.get_reducing_state(ReducingStateDescriptor("sum", lambda a, b: a + b, Types.LONG()))


def a_longest(ctx):
    accumulator = Types.TUPLE([Types.STRING(), Types.INT()])
    return ctx.get_aggregating_state(AggregatingStateDescriptor("longest", Longest(), accumulator))


def use_value(state, number):
    yield state.value()
    state.update(f"{number}")
    state.update(f"{number}{number}")
    yield state.value()
    state.clear()
    yield state.value()
    state.update(f"last {number}")


def update_to_none(state, number):
    yield state.value()
    state.update("some")
    state.update(None)
    yield state.value()


def use_list(state, number):
    yield list(state.get())
    state.add(number)
    state.add_all([number * 10, number * 100])
    yield list(state)
    state.update([number])
    yield list(state.get())
    state.add(0)


def empty_list(state, number):
    state.add(number)
    state.add_all([])
    yield list(state.get())
    state.update([])
    yield list(state.get())


def use_map(state, number):
    yield sorted(state.items())
    state.put("a", number)
    state["b"] = number * 10
    yield state["a"], "b" in state, "c" in state, sorted(state)
    state.remove("a")
    del state["b"]
    yield state.get("a"), state.is_empty()
    state.put_all([("c", number), ("c", number + 1)])


def use_sum(state, number):
    yield state.get()
    state.add(number)
    state.add(number * 10)
    yield state.get()
    if number == 2:
        state.clear()


def use_longest(state, number):
    yield state.get()
    state.add("x" * number)
    state.add("")
    yield state.get()
    if number == 2:
        state.clear()


CASES = [
    ("value", a_value, use_value),
    ("list", a_list, use_list),
    ("empty list", a_list, empty_list),
    ("map", a_map, use_map),
    ("sum", a_sum, use_sum),
    ("longest", a_longest, use_longest),
]


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    numbers = env.from_collection([1, 2, 3], Types.INT()).key_by(lambda number: 0, Types.INT())
    show_together({label: numbers.process(Use(make, use), Types.STRING()) for label, make, use in CASES})
    show("update to None", numbers.process(Use(a_value, update_to_none), Types.STRING()))


if __name__ == "__main__":
    main()
