"""What from_collection makes of values of a declared type."""

from functools import partial

from outcomes import show
from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

CASES = [
    (Types.SHORT(), [1, 43878]),
    (Types.INT(), [2**31]),
    (Types.FLOAT(), [1.1, 3e38]),
    (Types.STRING(), ["a", "日本"]),
    (Types.TUPLE([Types.STRING(), Types.DOUBLE()]), [("a", 1.5)]),
    (Types.BOOLEAN(), [True, False]),
]


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    for type_info, values in CASES:
        show(f"{type_info} of {values}", partial(env.from_collection, values, type_info))


if __name__ == "__main__":
    main()
