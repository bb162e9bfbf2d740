"""Value, list, map, reducing and aggregating state of a KeyedProcessFunction."""

from pyflink.common import Types
from pyflink.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from pyflink.datastream.functions import AggregateFunction
from pyflink.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)

EVENTS = [("a", 3), ("b", 5), ("a", 3), ("a", -1), ("b", 5), ("c", 0), ("a", 7)]


class Count(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + 1

    def get_result(self, accumulator):
        return f"{accumulator} so far"

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


class Remember(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext):
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.INT()))
        self.all = runtime_context.get_list_state(ListStateDescriptor("all", Types.INT()))
        self.times = runtime_context.get_map_state(MapStateDescriptor("times", Types.INT(), Types.LONG()))
        self.sum = runtime_context.get_reducing_state(ReducingStateDescriptor("sum", lambda a, b: a + b, Types.INT()))
        self.count = runtime_context.get_aggregating_state(AggregatingStateDescriptor("count", Count(), Types.INT()))

    def process_element(self, value, ctx):
        key, number = value
        if number < 0:
            for state in (self.last, self.all, self.times, self.sum, self.count):
                state.clear()
            yield f"{ctx.get_current_key()}: cleared"
            return
        before = self.last.value()
        self.last.update(number)
        self.all.add(number)
        self.times.put(number, (self.times.get(number) or 0) + 1)
        self.sum.add(number)
        self.count.add(number)
        yield f"{key}: {before} {list(self.all.get())} {dict(self.times.items())} {self.sum.get()} {self.count.get()}"


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    events = env.from_collection(EVENTS, Types.TUPLE([Types.STRING(), Types.INT()]))
    events.key_by(lambda event: event[0], key_type=Types.STRING()).process(Remember(), Types.STRING()).print()
    env.execute()


if __name__ == "__main__":
    main()
