"""cache(): what a first job has computed is read again by the next one, not computed again."""

from __future__ import annotations

from runtime.common import Types
from runtime.datastream import MapFunction, RuntimeContext, StreamExecutionEnvironment


class Costly(MapFunction):
    """Says that it is at work; the line reaches the program's output from wherever the function runs."""

    def open(self, runtime_context: RuntimeContext) -> None:
        print("computing")

    def map(self, value: int) -> int:
        return value * value


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    squares = env.from_collection([1, 2, 3], Types.LONG()).map(Costly(), Types.LONG()).cache()
    squares.print("first")
    env.execute("computes")
    squares.map(lambda square: square + 1, Types.LONG()).print("second")
    env.execute("reads what was kept")


if __name__ == "__main__":
    main()
