"""ValueState of each type: what is read is what was written."""

import datetime
from decimal import Decimal

from pyflink.common import Row, Types
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import ValueStateDescriptor

VALUES = [
    ("boolean", Types.BOOLEAN(), True),
    ("byte", Types.BYTE(), -128),
    ("long", Types.LONG(), 2**63 - 1),
    ("double", Types.DOUBLE(), 0.1),
    ("string", Types.STRING(), "日本"),
    ("decimal", Types.BIG_DEC(), Decimal("0.1234567890123456789012345")),
    ("date", Types.SQL_DATE(), datetime.date(2020, 2, 29)),
    ("time", Types.SQL_TIME(), datetime.time(1, 2, 3)),
    ("timestamp", Types.SQL_TIMESTAMP(), datetime.datetime(2020, 1, 2, 3, 4, 5, 678_000)),
    ("list", Types.LIST(Types.STRING()), ["a", ""]),
    ("map", Types.MAP(Types.STRING(), Types.LONG()), {"a": 1}),
    ("tuple", Types.TUPLE([Types.INT(), Types.STRING()]), (1, "a")),
    ("row", Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()]), Row(a=1, b=None)),
    ("pickled", Types.PICKLED_BYTE_ARRAY(), {"any": (1, {2})}),
]


class Keep(KeyedProcessFunction):
    def open(self, runtime_context):
        self.states = [runtime_context.get_state(ValueStateDescriptor(name, kind)) for name, kind, _ in VALUES]

    def process_element(self, value, ctx):
        for state, (name, _, kept) in zip(self.states, VALUES, strict=True):
            yield f"{ctx.get_current_key()} {name}: {state.value()!r}"
            if state.value() is None:
                state.update(kept)
            else:
                state.clear()


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    numbers = env.from_collection([1, 2, 1, 1], Types.INT())
    numbers.key_by(lambda number: number, Types.INT()).process(Keep(), Types.STRING()).print()
    env.execute()


if __name__ == "__main__":
    main()
