"""A stream keyed twice: sums per word, then the words per sum; each update is a record."""

from pyflink.common import Types
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import MapStateDescriptor

WORDS = ["ebb", "and", "flow", "and", "ebb", "and", "flood"]
PAIR = Types.TUPLE([Types.STRING(), Types.INT()])


class WordsOfCount(KeyedProcessFunction):
    def open(self, runtime_context):
        self.words = runtime_context.get_map_state(MapStateDescriptor("words", Types.STRING(), Types.BOOLEAN()))

    def process_element(self, value, ctx):
        self.words.put(value[0], True)
        yield f"{ctx.get_current_key()} times: {' '.join(sorted(self.words.keys()))}"


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    counts = (
        env.from_collection(WORDS, Types.STRING())
        .map(lambda word: (word, 1), PAIR)
        .key_by(lambda pair: pair[0], Types.STRING())
        .reduce(lambda a, b: (a[0], a[1] + b[1]))
    )
    counts.key_by(lambda pair: pair[1], Types.INT()).process(WordsOfCount(), Types.STRING()).print()
    env.execute()


if __name__ == "__main__":
    main()
