"""What is read of state in the next bundle, of values that were not quite of its declared type."""

from decimal import Decimal

from outcomes import show_together
from pyflink.common import Configuration, Row, Types
from pyflink.datastream import AggregateFunction, KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)

VALUES = [
    (Types.INT(), 2.0),
    (Types.LONG(), True),
    (Types.BOOLEAN(), 1),
    (Types.DOUBLE(), 3),
    (Types.FLOAT(), 0.1),
    (Types.BIG_DEC(), 2),
    (Types.BIG_DEC(), Decimal("0.1234567890123456789012345")),
    (Types.LIST(Types.DOUBLE()), [1, 2]),
    (Types.TUPLE([Types.INT(), Types.FLOAT()]), (True, 1)),
    (Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()]), Row(b="x", a=1.0)),
    (Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()]), Row(1, None)),
]


class Latest(AggregateFunction):
    def create_accumulator(self):
        return None

    def add(self, value, accumulator):
        return value

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_b


class Keep(KeyedProcessFunction):
    """Puts a value into a state of each kind with the first record, and shows them with the second one."""

    def __init__(self, kind, kept):
        self.kind = kind
        self.kept = kept

    def open(self, runtime_context):
        kind = self.kind
        self.value = runtime_context.get_state(ValueStateDescriptor("value", kind))
        self.list = runtime_context.get_list_state(ListStateDescriptor("list", kind))
        self.map = runtime_context.get_map_state(MapStateDescriptor("map", Types.STRING(), kind))
        self.reducing = runtime_context.get_reducing_state(ReducingStateDescriptor("sum", lambda a, b: b, kind))
        self.latest = runtime_context.get_aggregating_state(AggregatingStateDescriptor("latest", Latest(), kind))

    def process_element(self, value, ctx):
        if value == 1:
            self.value.update(self.kept)
            self.list.add_all([self.kept, self.kept])
            self.map.put("k", self.kept)
            self.reducing.add(self.kept)
            self.reducing.add(self.kept)
            self.latest.add(self.kept)
        else:
            yield f"value {self.value.value()!r}"
            yield f"list {list(self.list.get())!r}"
            yield f"map {self.map.get('k')!r} {list(self.map.values())!r}"
            yield f"reducing {self.reducing.get()!r}"
            yield f"aggregating {self.latest.get()!r}"


def main() -> None:
    configuration = Configuration()
    # so that the two records come in bundles of their own
    configuration.set_integer("python.fn-execution.bundle.size", 1)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)
    keyed = env.from_collection([1, 2], Types.INT()).key_by(lambda number: 0, Types.INT())
    show_together({f"{kind} of {kept!r}": keyed.process(Keep(kind, kept), Types.STRING()) for kind, kept in VALUES})


if __name__ == "__main__":
    main()
