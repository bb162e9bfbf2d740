"""Side outputs with types: converted, collected, and failing as main outputs do."""

from outcomes import show
from pyflink.common import Row, Types
from pyflink.datastream import OutputTag, ProcessFunction, StreamExecutionEnvironment

PAIRS = OutputTag("pairs", Types.TUPLE([Types.STRING(), Types.FLOAT()]))
ROWS = OutputTag("rows", Types.ROW_NAMED(["n", "half"], [Types.LONG(), Types.DOUBLE()]))
BYTES = OutputTag("bytes", Types.BYTE())


class Split(ProcessFunction):
    """Emits something made of each value to a side output."""

    def __init__(self, tag, make):
        self.tag = tag
        self.make = make

    def process_element(self, value, ctx):
        yield value * 10
        yield self.tag, self.make(value)


CASES = [
    (PAIRS, lambda value: (str(value), value / 10)),
    (ROWS, lambda value: Row(half=value / 2, n=value)),
    (BYTES, lambda value: value + 100),
    (BYTES, lambda value: value + 127),
]


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    for tag, make in CASES:
        numbers = env.from_collection([1, 2], Types.INT())
        side = numbers.process(Split(tag, make), Types.LONG()).get_side_output(tag)
        show(tag.type_info, side)


if __name__ == "__main__":
    main()
