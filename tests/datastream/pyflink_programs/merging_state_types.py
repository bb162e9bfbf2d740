"""Reducing and aggregating state with types of their own."""

from decimal import Decimal

from pyflink.common import Row, Types
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.functions import AggregateFunction
from pyflink.datastream.state import AggregatingStateDescriptor, ReducingStateDescriptor


class Mean(AggregateFunction):
    def create_accumulator(self):
        return (0, 0.0)

    def add(self, value, accumulator):
        return accumulator[0] + 1, accumulator[1] + value

    def get_result(self, accumulator):
        return accumulator[1] / accumulator[0]

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Keep(KeyedProcessFunction):
    def open(self, runtime_context):
        accumulator = Types.TUPLE([Types.LONG(), Types.DOUBLE()])
        row = Types.ROW_NAMED(["n"], [Types.LONG()])
        self.mean = runtime_context.get_aggregating_state(AggregatingStateDescriptor("mean", Mean(), accumulator))
        self.sum = runtime_context.get_reducing_state(
            ReducingStateDescriptor("sum", lambda a, b: a + b, Types.BIG_DEC())
        )
        self.text = runtime_context.get_reducing_state(
            ReducingStateDescriptor("text", lambda a, b: a + b, Types.STRING())
        )
        self.row = runtime_context.get_reducing_state(
            ReducingStateDescriptor("row", lambda a, b: Row(n=a.n + b.n), row)
        )

    def process_element(self, value, ctx):
        self.mean.add(value)
        self.sum.add(Decimal(value) / 10)
        self.text.add(str(value))
        self.row.add(Row(n=value))
        yield f"{ctx.get_current_key()} {self.mean.get()} {self.sum.get()} {self.text.get()} {self.row.get().n}"
        if value == 3:
            self.mean.clear()
            self.sum.clear()
            yield f"{self.mean.get()} {self.sum.get()}"


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    numbers = env.from_collection([1, 2, 3, 4, 5], Types.INT())
    numbers.key_by(lambda number: number % 2, Types.INT()).process(Keep(), Types.STRING()).print()
    env.execute()


if __name__ == "__main__":
    main()
