"""Dates, times and timestamps inside of rows, tuples, lists, maps and arrays."""

import datetime

from outcomes import show, show_together
from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment

DAY = datetime.date(2020, 2, 29)
TIME = datetime.time(12, 34, 56, 789_000)
MOMENT = datetime.datetime(2020, 1, 2, 3, 4, 5, 678_901)
EPOCH = datetime.datetime(1970, 1, 1)

CASES = {
    "row": (
        Types.ROW([Types.SQL_DATE(), Types.SQL_TIME(), Types.SQL_TIMESTAMP()]),
        [Row(DAY, TIME, MOMENT), Row(EPOCH.date(), EPOCH.time(), EPOCH), Row(None, None, None)],
    ),
    "tuple": (Types.TUPLE([Types.SQL_DATE(), Types.SQL_TIME(), Types.SQL_TIMESTAMP()]), [(DAY, TIME, MOMENT)]),
    "lists": (
        Types.ROW([Types.LIST(Types.SQL_DATE()), Types.LIST(Types.SQL_TIMESTAMP())]),
        [Row([DAY, EPOCH.date()], [MOMENT]), Row([], [])],
    ),
    "maps": (
        Types.ROW([Types.MAP(Types.STRING(), Types.SQL_TIMESTAMP()), Types.MAP(Types.SQL_DATE(), Types.SQL_TIME())]),
        [Row({"at": MOMENT}, {DAY: TIME})],
    ),
    "array": (Types.OBJECT_ARRAY(Types.SQL_DATE()), [[DAY, None]]),
    "datetime for a DATE": (Types.ROW([Types.SQL_DATE()]), [Row(MOMENT)]),
}
COLLECTED = Types.ROW([Types.SQL_DATE(), Types.LIST(Types.SQL_DATE()), Types.MAP(Types.SQL_DATE(), Types.SQL_TIME())])


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    texts = {}
    for label, (type_info, values) in CASES.items():
        indexes = env.from_collection(list(range(len(values))), Types.INT())
        typed = indexes.map(lambda index, values=values: values[index], type_info)
        texts[label] = typed.rebalance().map(repr, Types.STRING())
    show_together(texts)
    one = env.from_collection([1], Types.INT())
    show("collected", one.map(lambda n: Row(DAY, [DAY], {DAY: datetime.time(12, 34, 56)}), COLLECTED))


if __name__ == "__main__":
    main()
