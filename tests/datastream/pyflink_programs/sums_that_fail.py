"""Sums of what is no number, and sums and reductions beyond the range of their type."""

from outcomes import show
from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

BIG = 2**30


def keyed(env, values, type_info=None):
    return env.from_collection(values, type_info).key_by(lambda value: 0, Types.INT())


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    show("INT", keyed(env, [BIG, BIG], Types.INT()).sum())
    show("BYTE", keyed(env, [100, 100], Types.BYTE()).sum())
    pairs = [("a", 30_000), ("a", 30_000)]
    show("SHORT in a tuple", keyed(env, pairs, Types.TUPLE([Types.STRING(), Types.SHORT()])).sum(1))
    show("LONG", keyed(env, [2**62, 2**62], Types.LONG()).sum())
    show("reduce", keyed(env, [BIG, BIG], Types.INT()).reduce(lambda a, b: a + b))
    show("BOOLEAN", keyed(env, [True, True], Types.BOOLEAN()).sum())
    show("texts", keyed(env, [("a", "x"), ("a", "y")], Types.TUPLE([Types.STRING(), Types.STRING()])).sum(1))
    show("lists", keyed(env, [[1], [2]]).sum())
    show("None", keyed(env, [("a", 1), ("a", None)]).sum(1))
    show("a field of a number", keyed(env, [1, 2], Types.INT()).sum(1))


if __name__ == "__main__":
    main()
