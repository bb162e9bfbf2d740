"""Accumulators: numbers that all subtasks add up, and that the program has with the job's result."""

from __future__ import annotations

from runtime.common import AverageAccumulator, IntMaximum, Types
from runtime.datastream import FilterFunction, RuntimeContext, StreamExecutionEnvironment

LEVELS = (310, 702, 281, 655, 290, 900)


class Alarms(FilterFunction):
    """Levels above 600; says at the end how many there were and what all levels were like."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.alarms = runtime_context.get_int_counter("alarms")
        self.highest, self.mean = IntMaximum(), AverageAccumulator()
        runtime_context.add_accumulator("highest", self.highest)
        runtime_context.add_accumulator("mean", self.mean)

    def filter(self, value: int) -> bool:
        self.highest.add(value)
        self.mean.add(value)
        if value > 600:
            self.alarms.add(1)
        return value > 600


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection(LEVELS, Types.LONG()).rebalance().filter(Alarms()).print()
    result = env.execute("accumulators")
    for name, value in sorted(result.get_all_accumulator_results().items()):
        print(f"{name}: {value}")


if __name__ == "__main__":
    main()
