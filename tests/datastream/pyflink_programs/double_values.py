"""DOUBLE values as they are collected, alone and inside of others."""

from outcomes import show
from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment

CASES = [
    (Types.DOUBLE(), [1.1, 1e308, 5e-324, -0.0, float("inf"), float("-inf"), float("nan")]),
    (Types.ROW([Types.DOUBLE(), Types.LIST(Types.DOUBLE())]), [Row(1.1, [1e22, -0.0]), Row(None, [])]),
    (Types.TUPLE([Types.DOUBLE(), Types.INT()]), [(float("inf"), 1)]),
    (Types.MAP(Types.STRING(), Types.DOUBLE()), [{"pi": 3.14, "none": None}]),
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
