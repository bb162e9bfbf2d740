"""key_by().execute_and_collect() and print() with keys and records of many types, and keyed streams after functions."""

import datetime
from decimal import Decimal

from outcomes import show
from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment

KEY = Types.ROW_NAMED(
    ["d", "b", "s", "n", "day", "pair", "list"],
    [
        Types.DOUBLE(),
        Types.BOOLEAN(),
        Types.STRING(),
        Types.BIG_DEC(),
        Types.SQL_DATE(),
        Types.TUPLE([Types.INT(), Types.STRING()]),
        Types.LIST(Types.INT()),
    ],
)
RECORD = Types.TUPLE([Types.MAP(Types.STRING(), Types.INT()), Types.ROW_NAMED(["k"], [Types.FLOAT()])])


def key_of(n):
    day = datetime.date(2020, 1, n)
    return Row(n / 4, n == 1, str(n), Decimal(n) / 8, day, (n, None if n == 3 else "x"), [n] * n)


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    numbers = env.from_collection([1, 2], Types.INT())
    show("key of many types", numbers.key_by(key_of, KEY))
    records = env.from_collection([({"a": 1}, Row(1.1)), ({}, Row(None))], RECORD)
    show("records of many types", records.key_by(lambda value: len(value[0]), Types.LONG()))
    show("converted key", numbers.key_by(lambda n: float(n), Types.LONG()))
    keyed = numbers.key_by(lambda n: n % 2, Types.INT())
    show("reduced", keyed.reduce(lambda one, other: one + other))
    show("keyed again", keyed.key_by(lambda n: -n, Types.INT()))
    show("filtered", keyed.filter(lambda n: n > 1))
    keyed.print()
    env.execute()


if __name__ == "__main__":
    main()
