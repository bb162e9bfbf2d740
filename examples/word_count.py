"""Word count: the tide tables' words, counted as they come in.

`flat_map` makes words of lines, `key_by` brings equal words together, `reduce` keeps a running count per word and emits
every step of it.
"""

from __future__ import annotations

from runtime.common import Types
from runtime.datastream import StreamExecutionEnvironment

LINES = ("the tide comes in", "the tide goes out", "and the moon looks on")


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    (
        env.from_collection(LINES, Types.STRING())
        .flat_map(str.split, output_type=Types.STRING())
        .map(lambda word: (word, 1), output_type=Types.TUPLE([Types.STRING(), Types.LONG()]))
        .key_by(lambda pair: pair[0], key_type=Types.STRING())
        .reduce(lambda a, b: (a[0], a[1] + b[1]))
        .print()
    )
    env.execute("word count")


if __name__ == "__main__":
    main()
