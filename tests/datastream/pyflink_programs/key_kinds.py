"""Keys of many kinds: what the key of the context is, and that equal ones meet."""

from decimal import Decimal

from pyflink.common import Row, Types
from pyflink.datastream import KeyedProcessFunction, KeySelector, StreamExecutionEnvironment
from pyflink.datastream.state import ValueStateDescriptor

NUMBERS = [3, 1, 4, 1, 5, 9, 2, 6]


class CountPerKey(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield f"{ctx.get_current_key()!r} {value} {self.count.value()}"


class Parity(KeySelector):
    def get_key(self, value):
        return value % 2 == 0


KEYS = [
    (Parity(), Types.BOOLEAN()),
    (lambda n: n // 4, Types.INT()),
    (lambda n: "odd" if n % 2 else "even", Types.STRING()),
    (lambda n: n / 2, Types.DOUBLE()),
    (lambda n: (n % 2, str(n % 3)), Types.TUPLE([Types.INT(), Types.STRING()])),
    (lambda n: Decimal(n % 3), None),
    (lambda n: (n % 2, None), None),
    (lambda n: Row(n % 2), None),
    (lambda n: 0, None),
]


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    numbers = env.from_collection(NUMBERS, Types.INT())
    for selector, key_type in KEYS:
        keyed = numbers.key_by(selector) if key_type is None else numbers.key_by(selector, key_type)
        keyed.process(CountPerKey(), Types.STRING()).print()
        env.execute()


if __name__ == "__main__":
    main()
