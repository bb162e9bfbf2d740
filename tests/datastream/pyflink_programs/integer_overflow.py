"""Integers beyond the range of their type."""

from outcomes import show
from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

CASES = [
    (Types.BYTE(), [128]),
    (Types.BYTE(), [-129]),
    (Types.SHORT(), [2**15]),
    (Types.INT(), [2**31]),
    (Types.INT(), [-(2**31) - 1]),
    (Types.LONG(), [2**63]),
    (Types.LONG(), [1e300]),
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
