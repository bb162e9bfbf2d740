"""Integers beyond the range of their type, inside of rows, tuples, lists, maps and arrays."""

from outcomes import show
from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment

CASES = [
    (Types.ROW([Types.STRING(), Types.INT()]), [Row("a", 2**31)]),
    (Types.ROW_NAMED(["outer"], [Types.ROW_NAMED(["inner"], [Types.BYTE()])]), [Row(outer=Row(inner=200))]),
    (Types.TUPLE([Types.SHORT(), Types.STRING()]), [(2**15, "a")]),
    (Types.LIST(Types.INT()), [[1, 2**31]]),
    (Types.MAP(Types.STRING(), Types.INT()), [{"a": 2**31}]),
    (Types.BASIC_ARRAY(Types.LONG()), [[2**63]]),
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
