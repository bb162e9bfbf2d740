"""The records of a keyed stream are collected with their keys."""

from outcomes import show
from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    numbers = env.from_collection([3, 1, 2], Types.INT())
    odd = numbers.key_by(lambda number: number % 2, Types.INT())
    show("typed", odd)
    show("without a key type", numbers.key_by(lambda number: number % 2))
    rows = env.from_collection([Row("a", 1.1)], Types.ROW([Types.STRING(), Types.FLOAT()]))
    show("rows", rows.key_by(lambda row: row[0], Types.STRING()))
    untyped = env.from_collection([("a", 1), ("b", 2)])
    show("untyped", untyped.key_by(lambda pair: pair[0]))


if __name__ == "__main__":
    main()
