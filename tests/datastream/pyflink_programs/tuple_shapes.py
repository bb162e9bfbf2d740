"""Values that are not quite the tuple that is declared."""

from outcomes import show
from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment

CASES = [
    (Types.TUPLE([Types.INT(), Types.INT()]), [(1, 2, 3)]),
    (Types.TUPLE([Types.INT(), Types.INT()]), [[1, 2]]),
    (Types.TUPLE([Types.INT(), Types.STRING()]), [Row(1, "a")]),
    (Types.TUPLE([Types.INT()]), [5]),
    (Types.TUPLE([Types.TUPLE([Types.INT()]), Types.LIST(Types.STRING())]), [((1,), ["a"])]),
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
