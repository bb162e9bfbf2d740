"""Keys without a key type: lists, dicts, sets, and numbers that are equal in Python."""

from outcomes import show
from pyflink.datastream import StreamExecutionEnvironment


def together(one, other):
    return [one, other]


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    show("lists", env.from_collection([[1], [2], [1]]).key_by(lambda v: v).reduce(together))
    show("texts and bytes", env.from_collection(["a", b"a", "a"]).key_by(lambda v: v).reduce(together))
    show("numbers", env.from_collection([1, 1.0, True]).key_by(lambda v: v).reduce(together))
    show("dicts", env.from_collection([{"a": 1}, {"a": 2}]).key_by(lambda v: v).reduce(together))
    show("sets", env.from_collection([{1}, {1}]).key_by(lambda v: v).reduce(together))


if __name__ == "__main__":
    main()
