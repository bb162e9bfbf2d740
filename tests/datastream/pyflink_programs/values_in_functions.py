"""What the next function gets of a value of each type."""

import datetime
from decimal import Decimal

from pyflink.common import Row, Types
from pyflink.common.time import Instant
from pyflink.datastream import StreamExecutionEnvironment

COLUMNS = [
    (Types.BYTE(), [-128]),
    (Types.FLOAT(), [1.1, 3e38, float("inf")]),
    (Types.DOUBLE(), [1, -0.0]),
    (Types.BIG_DEC(), [Decimal("1.10"), 2]),
    (Types.BOOLEAN(), [1, False]),
    (Types.SQL_DATE(), [datetime.date(2020, 2, 29)]),
    (Types.SQL_TIME(), [datetime.time(1, 2, 3, 456_000)]),
    (Types.SQL_TIMESTAMP(), [datetime.datetime(2020, 1, 2, 3, 4, 5, 678_000)]),
    (Types.INSTANT(), [Instant(1, 2)]),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), [b"ab\xff"]),
    (Types.ROW_NAMED(["a", "b"], [Types.FLOAT(), Types.STRING()]), [Row(b="x", a=0.1)]),
    (Types.MAP(Types.STRING(), Types.LIST(Types.INT())), [{"a": [1]}]),
]


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    for type_info, values in COLUMNS:
        indexes = env.from_collection(list(range(len(values))), Types.INT())
        typed = indexes.map(lambda index, values=values: values[index], output_type=type_info).start_new_chain()
        # an exchange, so that the values travel
        typed.rebalance().map(lambda value: f"{type(value).__name__} {value!r}", Types.STRING()).print()
        env.execute()


if __name__ == "__main__":
    main()
