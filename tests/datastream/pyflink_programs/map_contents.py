"""MAP: keys and values of many types, None among them, maps inside of others."""

import datetime
from decimal import Decimal

from outcomes import show
from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment

DAY = datetime.date(2020, 1, 1)


def values_of(*types):
    return Types.ROW([Types.MAP(Types.STRING(), value) for value in types])


def keys_of(*types):
    return Types.ROW([Types.MAP(key, Types.INT()) for key in types])


CASES = [
    (
        values_of(Types.STRING(), Types.DOUBLE(), Types.FLOAT(), Types.BOOLEAN(), Types.BIG_DEC(), Types.SQL_DATE()),
        [
            Row({"a": ""}, {"a": 1}, {"a": 1.1}, {"a": False}, {"a": Decimal("1.10")}, {"a": DAY}),
            Row(*[{"n": None}] * 6),
        ],
    ),
    (
        values_of(Types.LIST(Types.INT()), Types.ROW([Types.INT()]), Types.MAP(Types.INT(), Types.INT())),
        [Row({"a": [1], "b": []}, {"a": Row(None)}, {"a": {1: None}, "b": {}}), Row({}, {}, {})],
    ),
    (
        keys_of(Types.BYTE(), Types.LONG(), Types.BOOLEAN(), Types.DOUBLE(), Types.SQL_DATE()),
        [Row({-128: 1}, {2**40: 2}, {True: 1, False: 0}, {0.5: 1}, {DAY: 1})],
    ),
    (Types.MAP(Types.STRING(), Types.INT()), [{None: 1}]),
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
