"""Typed records through every partitioning."""

from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment

ROW = Types.ROW_NAMED(["k", "f", "l"], [Types.STRING(), Types.FLOAT(), Types.LIST(Types.INT())])


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    rows = [Row(k="a" * n, f=n / 10, l=[n] * n) for n in range(1, 5)]
    source = env.from_collection(rows, ROW)
    streams = {
        "rebalance": source.rebalance(),
        "rescale": source.rescale(),
        "shuffle": source.shuffle(),
        "broadcast": source.broadcast(),
    }
    for name, stream in streams.items():
        texts = stream.map(lambda row: f"{row.k} {row.f} {row.l}", Types.STRING())
        with texts.execute_and_collect() as results:
            print(name, sorted(results))


if __name__ == "__main__":
    main()
