"""BIG_DEC: all digits stay, alone and inside of others."""

from decimal import Decimal

from outcomes import show
from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment

CASES = [
    (Types.BIG_DEC(), [Decimal("0.1234567890123456789012345"), Decimal("-1E+3"), Decimal("1.50")]),
    (Types.BIG_DEC(), [Decimal("123456789012345678901234567890.123456789012345678901")]),
    (Types.BIG_DEC(), [1, 1.5, 0.1]),
    (Types.BIG_DEC(), ["1.5"]),
    (Types.BIG_DEC(), [Decimal("NaN")]),
    (Types.ROW([Types.BIG_DEC()]), [Row(Decimal("0.1234567890123456789012345"))]),
    (Types.TUPLE([Types.STRING(), Types.BIG_DEC()]), [("a", Decimal("1E-25"))]),
    (Types.LIST(Types.BIG_DEC()), [[Decimal("0.0000000000000000000001")]]),
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
