"""Floats, decimals and truth values where integers of each size are declared, alone and inside of others."""

from decimal import Decimal

from outcomes import show
from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment

INTEGERS = Types.ROW([Types.BYTE(), Types.SHORT(), Types.INT(), Types.LONG()])

CASES = [
    (INTEGERS, [Row(127.0, -32768.0, 2147483647.0, 2.0**62), Row(-0.0, True, False, -(2.0**63))]),
    (
        Types.TUPLE([Types.LIST(Types.SHORT()), Types.MAP(Types.INT(), Types.INT()), Types.BASIC_ARRAY(Types.INT())]),
        [([1.0, 2.0], {1.0: True}, [1.0, False])],
    ),
    (INTEGERS, [Row(Decimal(1), Decimal("2.0"), Decimal(-3), Decimal(2**53))]),
    (Types.LONG(), [0.5, -1.5, 1e-300]),
    (Types.LONG(), [Decimal("4.5")]),
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
