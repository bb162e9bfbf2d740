"""Words of a few lines, counted as they come: flat_map, map to a typed tuple, key_by, sum and reduce."""

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

LINES = ["the tide comes in", "the tide goes out", "and the moon looks on"]


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    words = env.from_collection(LINES, Types.STRING()).flat_map(str.split, output_type=Types.STRING())
    pairs = words.map(lambda word: (word, 1), output_type=Types.TUPLE([Types.STRING(), Types.INT()]))
    pairs.key_by(lambda pair: pair[0], key_type=Types.STRING()).sum(1).print()
    env.execute("sum")

    lengths = words.map(lambda word: (len(word), word), output_type=Types.TUPLE([Types.LONG(), Types.STRING()]))
    lengths.key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], f"{a[1]}+{b[1]}")).print()
    env.execute("reduce")


if __name__ == "__main__":
    main()
