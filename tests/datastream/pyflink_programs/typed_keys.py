"""Key types convert keys: equal ones meet, and what does not fit fails."""

import datetime
from decimal import Decimal

from outcomes import show
from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment

KEYS = [
    (lambda n: float(n % 2), Types.INT()),
    (lambda n: n % 2, Types.DOUBLE()),
    (lambda n: n % 2 == 0, Types.LONG()),
    (lambda n: Decimal(n % 2), Types.BIG_DEC()),
    (lambda n: datetime.date(2020, 1, 1 + n % 2), Types.SQL_DATE()),
    (lambda n: Row(n % 2, "x"), Types.ROW([Types.INT(), Types.STRING()])),
    (lambda n: (n % 2, (n % 2,)), Types.TUPLE([Types.INT(), Types.TUPLE([Types.LONG()])])),
    (lambda n: [n % 2], Types.LIST(Types.INT())),
    (lambda n: None, Types.INT()),
    (lambda n: 2**31, Types.INT()),
    (lambda n: "x", Types.INT()),
]


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    numbers = env.from_collection([1, 2, 3, 5, 4], Types.INT())
    for index, (selector, key_type) in enumerate(KEYS):
        show(f"{index} {key_type}", numbers.key_by(selector, key_type).reduce(lambda a, b: a + b))


if __name__ == "__main__":
    main()
