"""BIG_INT, small and large."""

from outcomes import show
from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

CASES = [
    (Types.BIG_INT(), [1]),
    (Types.BIG_INT(), [2**62]),
    (Types.BIG_INT(), [2**63]),
    (Types.BIG_INT(), [1.5]),
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
