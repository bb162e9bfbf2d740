"""Dates, times and timestamps as they are collected."""

import datetime

from outcomes import show
from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

CASES = [
    (Types.SQL_DATE(), [datetime.date(2020, 2, 29), datetime.date(1970, 1, 1), datetime.date(9999, 12, 31)]),
    (Types.SQL_DATE(), [datetime.date(1, 1, 1)]),
    (Types.SQL_DATE(), [datetime.datetime(2020, 1, 2, 3)]),
    (Types.SQL_DATE(), ["2020-01-01"]),
    (Types.SQL_TIME(), [datetime.time(0), datetime.time(23, 59, 59)]),
    (Types.SQL_TIME(), [datetime.time(1, 2, 3, 456_789)]),
    (Types.SQL_TIMESTAMP(), [datetime.datetime(2020, 1, 2, 3, 4, 5, 678_000)]),
    (Types.SQL_TIMESTAMP(), [datetime.date(2020, 1, 2)]),
]


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    for type_info, values in CASES:
        indexes = env.from_collection(list(range(len(values))), Types.INT())
        converted = indexes.map(lambda index, values=values: values[index], output_type=type_info)
        show(f"{type_info} of {values}", converted)


if __name__ == "__main__":
    main()
