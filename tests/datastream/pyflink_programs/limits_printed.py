"""The limits of every number type, as print shows them."""

from decimal import Decimal

from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment

COLUMNS = [
    (Types.BYTE(), [127, -128, 0]),
    (Types.SHORT(), [2**15 - 1, -(2**15)]),
    (Types.INT(), [2**31 - 1, -(2**31)]),
    (Types.LONG(), [2**63 - 1, -(2**63)]),
    (Types.FLOAT(), [3.4028235e38, 1e-45, -0.0, float("nan"), float("-inf"), 16777216.0, 0.001, 0.0001]),
    (Types.DOUBLE(), [1.7976931348623157e308, 5e-324, -0.0, 1e-3, 9999999.0, 1e21, float("-inf")]),
    (Types.BIG_DEC(), [Decimal("1E+5"), Decimal("1E-10"), Decimal("-0.00"), Decimal("12345678901234567890.5")]),
    (Types.TUPLE([Types.BYTE(), Types.FLOAT(), Types.DOUBLE()]), [(-1, 1.1, 1e10)]),
    (Types.LIST(Types.FLOAT()), [[1.1, 3e38]]),
    (Types.ROW([Types.FLOAT(), Types.DOUBLE()]), [Row(1.1, 1e16), Row(0.5, 1e-7)]),
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
