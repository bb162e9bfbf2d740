"""One stream taken apart by a ProcessFunction: a main output and two side outputs, typed and not."""

from pyflink.common import Types
from pyflink.datastream import OutputTag, ProcessFunction, StreamExecutionEnvironment

ODD = OutputTag("odd", Types.STRING())
SQUARES = OutputTag("squares", Types.LONG())


class Split(ProcessFunction):
    def process_element(self, value, ctx):
        if value % 2:
            yield ODD, f"odd {value}"
        else:
            yield value
        if value > 2:
            yield SQUARES, value * value


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    split = env.from_collection(list(range(6)), Types.INT()).process(Split(), Types.INT())
    # Flink sorts side outputs out only if somebody takes one
    split.print("even")
    split.get_side_output(ODD).map(str.upper, Types.STRING()).print("odd")
    split.get_side_output(SQUARES).print("squares")
    env.execute()


if __name__ == "__main__":
    main()
