"""What becomes of values of other types where an integer type is declared."""

from outcomes import show
from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

CASES = [
    (Types.INT(), [1.0, -3.0]),
    (Types.INT(), [1.7]),
    (Types.LONG(), [True, False]),
    (Types.INT(), [float("nan")]),
    (Types.INT(), ["1"]),
    (Types.SHORT(), [None]),
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
