"""What becomes of values of other types where DOUBLE, FLOAT or BOOLEAN is declared."""

from decimal import Decimal

from outcomes import show
from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

CASES = [
    (Types.DOUBLE(), [1, True, Decimal("1.5"), 2**70]),
    (Types.DOUBLE(), ["1.5"]),
    (Types.FLOAT(), [1, False, Decimal("0.1")]),
    (Types.BOOLEAN(), [1, 0, True]),
    (Types.BOOLEAN(), [2]),
    (Types.BOOLEAN(), [1.5]),
    (Types.BOOLEAN(), ["x"]),
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
