"""What functions may return: nothing, lists, generators, tuples, strings; and what is made of it."""

from pyflink.common import Types
from pyflink.datastream import FlatMapFunction, ProcessFunction, StreamExecutionEnvironment


class Nothing(FlatMapFunction):
    def flat_map(self, value):
        return []


class Letters(FlatMapFunction):
    def flat_map(self, value):
        return value


class Early(FlatMapFunction):
    def flat_map(self, value):
        if value == "flow":
            return
        yield value
        yield value.upper()


class Listed(ProcessFunction):
    def process_element(self, value, ctx):
        return [value, value[::-1]]


class Silent(ProcessFunction):
    def process_element(self, value, ctx):
        return None


def collected(stream):
    with stream.execute_and_collect() as values:
        return list(values)


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    words = env.from_collection(["ebb", "flow"], Types.STRING())
    print(collected(words.flat_map(Nothing(), Types.STRING())))
    print(collected(words.flat_map(Letters(), Types.STRING())))
    print(collected(words.flat_map(lambda word: (word, word), Types.STRING())))
    print(collected(words.flat_map(lambda word: range(len(word)), Types.INT())))
    print(collected(words.process(Listed(), Types.STRING())))
    print(collected(words.process(Silent(), Types.STRING())))
    print(collected(words.map(len)))
    print(collected(words.map(lambda word: len(word) > 3, Types.BOOLEAN())))
    print(collected(words.filter(lambda word: word.startswith("f"))))
    print(collected(words.flat_map(Early(), Types.STRING())))


if __name__ == "__main__":
    main()
