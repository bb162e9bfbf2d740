"""Streams without types: any Python value travels, and print shows it as Python does."""

from pyflink.common import Row
from pyflink.datastream import StreamExecutionEnvironment


class Tide:
    def __init__(self, height):
        self.height = height

    def __repr__(self):
        return f"Tide({self.height})"


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    values = env.from_collection([1, "two", 3.0, None, (4, "four"), [5], {"six": 6}, {7}, True])
    values.print()
    env.execute()
    values.map(lambda value: (type(value).__name__, value)).print("named")
    env.execute()
    numbers = env.from_collection([3, 1, 2])
    numbers.map(Tide).print()
    env.execute()
    numbers.map(lambda number: Row(number, str(number))).print()
    env.execute()
    tides = numbers.map(Tide).key_by(lambda tide: tide.height % 2)
    tides.reduce(lambda a, b: Tide(a.height + b.height)).print()
    env.execute()
    numbers.flat_map(lambda number: [number] * number).map(lambda number: number / 2).print()
    env.execute()


if __name__ == "__main__":
    main()
