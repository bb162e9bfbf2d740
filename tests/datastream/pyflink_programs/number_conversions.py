"""Values of the declared types, at their limits, as they come back to the program: widened, rounded, cut."""

from decimal import Decimal

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

CONVERSIONS = [
    (Types.BYTE(), [127, -128]),
    (Types.SHORT(), [2**15 - 1, -1]),
    (Types.INT(), [2**31 - 1, -5]),
    (Types.FLOAT(), [1.1, 16777217.0, 3.0e38, 1e-10]),
    (Types.DOUBLE(), [1, 2.5, 1e300, -0.0]),
    (Types.BIG_DEC(), [Decimal("0.1"), Decimal("100"), Decimal("-0.123456789012345678")]),
    (Types.BOOLEAN(), [True, False]),
    (Types.STRING(), ["1", "é", "日本"]),
]


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    for type_info, values in CONVERSIONS:
        indexes = env.from_collection(list(range(len(values))), Types.INT())
        converted = indexes.map(lambda index, values=values: values[index], output_type=type_info)
        with converted.execute_and_collect() as results:
            print([(type(result).__name__, result) for result in results])


if __name__ == "__main__":
    main()
