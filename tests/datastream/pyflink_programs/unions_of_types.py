"""Unions of streams of one type, of types that differ, of untyped ones, and of a stream with itself."""

from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment


def show_sorted(label, make):
    """As show(), of results that have no order."""
    try:
        with make().execute_and_collect() as results:
            print(f"{label}: {sorted(map(repr, results))}")
    except Exception:
        print(f"{label}: refused")


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    ints = env.from_collection([1, 2], Types.INT())
    tens = ints.map(lambda n: n * 10, Types.INT())
    longs = env.from_collection([3, 2**40], Types.LONG())
    texts = env.from_collection(["a"], Types.STRING())
    untyped = env.from_collection([{"a": 1}, "b"])
    rows = env.from_collection([Row(a=1, b="x")], Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()]))
    other_rows = env.from_collection([Row(c=2, d="y")], Types.ROW_NAMED(["c", "d"], [Types.INT(), Types.STRING()]))
    show_sorted("three of one type", lambda: ints.union(ints.filter(lambda n: n > 1), tens))
    show_sorted("untyped", lambda: untyped.union(untyped.map(lambda value: [value])))
    show_sorted("INT and LONG", lambda: ints.union(longs))
    show_sorted("INT and STRING", lambda: ints.union(texts))
    show_sorted("INT and untyped", lambda: ints.union(untyped))
    show_sorted("rows of other names", lambda: rows.union(other_rows))
    keyed = ints.union(tens).key_by(lambda n: n % 10, Types.INT())
    show_sorted("keyed", lambda: keyed.reduce(lambda one, other: one + other).filter(lambda total: total > 10))


if __name__ == "__main__":
    main()
