"""Two operators of one name in a chain, the second of which fails at the record 300."""

from runtime.common import Configuration, Types, WatermarkStrategy
from runtime.connectors import DataGeneratorSource
from runtime.datastream import StreamExecutionEnvironment


def checked(n: int) -> int:
    if n == 300:
        raise ValueError("300 is too much")
    return n


def main() -> None:
    configuration = Configuration.from_dict({"restart-strategy.type": "none"})
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    numbers = env.from_source(
        DataGeneratorSource(lambda n: n, 1_000_000, 20, Types.LONG()), WatermarkStrategy.no_watermarks(), "numbers"
    )
    halves = numbers.filter(lambda n: n % 2 == 0).name("step")
    halves.map(checked, Types.LONG()).name("step").print().name("shown")
    env.execute("two steps")


if __name__ == "__main__":
    main()
