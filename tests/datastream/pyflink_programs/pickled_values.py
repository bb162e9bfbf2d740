"""Values without a type: collected as they were made, whatever they are."""

import datetime
from decimal import Decimal

from outcomes import show
from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment

VALUES = [
    *(2**100, 1.1, float("inf"), 1 + 2j, "日本", b"\x00\xff", True),
    *((1, None), [1, [2]], {"a": {1: 2}}, {3}, frozenset([4])),
    *(Decimal("1.10"), datetime.timedelta(days=1), datetime.date(2020, 1, 1), Row(1, "x")),
    *(range(3), datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)),
]


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    show("collected", env.from_collection(VALUES))
    show("mapped", env.from_collection(VALUES).map(lambda value: value))
    show("declared", env.from_collection(VALUES).map(lambda value: value, Types.PICKLED_BYTE_ARRAY()))
    # Flink cannot print bytes
    env.from_collection([value for value in VALUES if not isinstance(value, bytes)]).map(lambda value: value).print()
    env.execute()


if __name__ == "__main__":
    main()
