"""FLOAT values as they are collected, alone and inside of others."""

from outcomes import show
from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment

CASES = [
    (Types.FLOAT(), [1.1, 3e38, 1e-10, 16777217.0, -0.0]),
    (Types.FLOAT(), [float("nan")]),
    (Types.FLOAT(), [1e39]),
    (
        Types.ROW([Types.FLOAT(), Types.LIST(Types.FLOAT()), Types.BASIC_ARRAY(Types.FLOAT())]),
        [Row(1.1, [1.1, 0.1], [3e38, None])],
    ),
    (Types.TUPLE([Types.FLOAT(), Types.TUPLE([Types.FLOAT()])]), [(1.1, (0.1,))]),
    (Types.MAP(Types.FLOAT(), Types.FLOAT()), [{1.1: 0.1}]),
    (Types.PRIMITIVE_ARRAY(Types.FLOAT()), [[1.1]]),
    (Types.OBJECT_ARRAY(Types.FLOAT()), [[1.1, 2.5]]),
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
