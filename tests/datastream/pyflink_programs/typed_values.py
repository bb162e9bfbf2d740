"""What `print` shows of each type, and what a declared type makes of a value."""

import datetime
from decimal import Decimal

from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment

COLUMNS = [
    (Types.BOOLEAN(), [True, False]),
    (Types.BYTE(), [1, -128]),
    (Types.SHORT(), [1, -(2**15)]),
    (Types.INT(), [1, -(2**31)]),
    (Types.LONG(), [2**40, -1]),
    (Types.FLOAT(), [110.1, 0.5, 1e10]),
    (Types.DOUBLE(), [110.1, 1e7, 123456.789, 1e-4, 100.0, float("nan"), float("inf")]),
    (Types.STRING(), ["tide", "", "zwölf"]),
    (Types.BIG_DEC(), [Decimal("1.50"), Decimal("-0.001")]),
    (Types.SQL_DATE(), [datetime.date(2013, 1, 31)]),
    (Types.SQL_TIME(), [datetime.time(10, 2, 3)]),
    (Types.SQL_TIMESTAMP(), [datetime.datetime(2013, 1, 31, 10, 2, 3, 4000), datetime.datetime(2013, 1, 31)]),
    (Types.LIST(Types.INT()), [[1, 2, 3], []]),
    (Types.MAP(Types.STRING(), Types.LONG()), [{"a": 1}, {}]),
    (Types.TUPLE([Types.STRING(), Types.DOUBLE()]), [("a", 1.0), ("", 2.5)]),
    (Types.ROW([Types.STRING(), Types.INT()]), [Row("a", 1), Row(None, 2)]),
    (
        Types.ROW_NAMED(["name", "marks"], [Types.STRING(), Types.BASIC_ARRAY(Types.INT())]),
        [Row(name="a", marks=[1, 2])],
    ),
    (Types.PICKLED_BYTE_ARRAY(), [{"a": (1, None)}, ("x", 2.0), "text", 3, None]),
]


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    for type_info, values in COLUMNS:
        indexes = env.from_collection(list(range(len(values))), Types.INT())
        indexes.map(lambda index, values=values: values[index], output_type=type_info).print()
        env.execute()


if __name__ == "__main__":
    main()
