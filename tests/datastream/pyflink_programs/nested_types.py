"""Arrays, lists, maps, tuples and rows inside each other, as print shows them."""

import datetime
from decimal import Decimal

from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment

COLUMNS = [
    (Types.LIST(Types.LIST(Types.INT())), [[[1], [2, 3]], []]),
    (Types.LIST(Types.STRING()), [["a", ""]]),
    (Types.LIST(Types.TUPLE([Types.STRING(), Types.INT()])), [[("a", 1), ("b", 2)]]),
    (Types.MAP(Types.INT(), Types.LIST(Types.STRING())), [{1: ["x"]}, {}]),
    (Types.MAP(Types.STRING(), Types.DOUBLE()), [{"pi": 3.14}]),
    (Types.TUPLE([Types.TUPLE([Types.INT(), Types.INT()]), Types.STRING()]), [((1, 2), "x")]),
    (Types.ROW([Types.INT(), Types.LIST(Types.BOOLEAN())]), [Row(1, [True, False])]),
    (
        Types.ROW_NAMED(["d", "t"], [Types.SQL_DATE(), Types.SQL_TIMESTAMP()]),
        [Row(datetime.date(2020, 2, 29), datetime.datetime(1999, 12, 31, 23, 59, 59, 500_000))],
    ),
    (Types.TUPLE([Types.STRING(), Types.BIG_DEC()]), [("a", Decimal("1234567890.123456789"))]),
    (Types.TUPLE([Types.BYTE(), Types.SHORT(), Types.FLOAT(), Types.BOOLEAN()]), [(1, 2, 3.25, True)]),
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
