"""Keys that are equal in Python and yet of different types, or of different texts: which of them share state."""

from decimal import Decimal

from outcomes import show_together
from pyflink.common import Row, Types
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import ValueStateDescriptor


class CountPerKey(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield f"{ctx.get_current_key()!r}: {self.count.value()}"


# a key of another kind lies between keys that are equal
UNTYPED = [
    ("numbers", [1, "-", 1.0, "-", True, "-", 1, "-", 1.0, "-", True]),
    ("inside tuples", [(1,), "-", (1.0,), "-", (True,), "-", (1,)]),
    ("zeros", [0.0, "-", -0.0, "-", 0, "-", 0.0]),
    ("texts and bytes", ["a", "-", b"a", "-", "a", "-", b"a"]),
    ("decimals", [Decimal("1.0"), "-", Decimal("1.00"), "-", Decimal("1.0")]),
    ("rows", [Row(1), "-", (1,), "-", Row(1), "-", Row(a=1)]),
    ("large numbers", [2**64, "-", 2.0**64, "-", 2**64]),
    ("None", [None, 0, None, "", None]),
]
TYPED = [
    ([1, 0, 1.0, 0, True, 0, 1], Types.INT()),
    ([1, 0, 1.0, 0, True, 0, 1], Types.LONG()),
    ([1, 0.0, 1.0, 2, True, 2, -0.0], Types.DOUBLE()),
    ([1, 0, True, False, 1, 0], Types.BOOLEAN()),
    ([Decimal("1.0"), 0, Decimal("1.00"), 0, Decimal("1.0"), 0, 1], Types.BIG_DEC()),
    ([(1, "a"), (0, ""), (1.0, "a"), (0, ""), (True, "a")], Types.TUPLE([Types.INT(), Types.STRING()])),
    ([Row(1), Row(0), Row(1.0), Row(0), Row(a=True)], Types.ROW_NAMED(["a"], [Types.INT()])),
]


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)

    def counts(values, key_type):
        indexes = env.from_collection(list(range(len(values))), Types.INT())
        keys = (lambda index: values[index], *([key_type] if key_type else []))
        return indexes.key_by(*keys).process(CountPerKey(), Types.STRING())

    show_together({label: counts(values, None) for label, values in UNTYPED})
    show_together({str(key_type): counts(values, key_type) for values, key_type in TYPED})


if __name__ == "__main__":
    main()
