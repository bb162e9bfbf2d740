"""INSTANT, before and after the epoch."""

from outcomes import show
from pyflink.common import Types
from pyflink.common.time import Instant
from pyflink.datastream import StreamExecutionEnvironment

CASES = [
    (Types.INSTANT(), [Instant(0, 0), Instant(1_600_000_000, 123_456_789), Instant(-1, 999_999_999)]),
    (Types.INSTANT(), [5]),
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
