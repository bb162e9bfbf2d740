"""Values that are not quite the row that is declared."""

from outcomes import show
from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment

CASES = [
    (Types.ROW([Types.INT(), Types.INT()]), [Row(1, 2, 3)]),
    (Types.ROW([Types.INT(), Types.INT()]), [Row(1)]),
    (Types.ROW([Types.INT(), Types.STRING()]), [(1, "a")]),
    (Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.INT()]), [Row(b=1, a=2)]),
    (Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.INT()]), [Row(c=1, a=2)]),
    (Types.ROW_NAMED(["a"], [Types.INT()]), [{"a": 1}]),
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
