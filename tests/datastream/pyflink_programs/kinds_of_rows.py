"""Row kinds through functions, keys, state, unions, side outputs and into the collected results."""

from outcomes import show_together
from pyflink.common import Row, RowKind, Types
from pyflink.datastream import KeyedProcessFunction, OutputTag, ProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import ListStateDescriptor, ValueStateDescriptor


def row_type():
    return Types.ROW_NAMED(["k", "n"], [Types.STRING(), Types.INT()])


SIDE = OutputTag("side", row_type())


def change(index):
    return Row.of_kind(list(RowKind)[index], "ab"[index % 2], index)


def told(row):
    return f"{row.get_row_kind()} {row[0]} {row[1]}"


class Aside(ProcessFunction):
    def process_element(self, value, ctx):
        yield SIDE, value


class Keep(KeyedProcessFunction):
    def open(self, runtime_context):
        self.last = runtime_context.get_state(ValueStateDescriptor("last", row_type()))
        self.all = runtime_context.get_list_state(ListStateDescriptor("all", row_type()))

    def process_element(self, value, ctx):
        last = self.last.value()
        yield f"{last and told(last)}; {[told(row) for row in self.all.get()]}"
        self.last.update(value)
        self.all.add(value)


def show_rows(label, stream):
    with stream.execute_and_collect() as rows:
        print(f"{label}: {[told(row) for row in rows]}")


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    changes = env.from_collection([0, 1, 2, 3], Types.INT()).map(change, row_type())
    show_rows("collected", changes)
    show_rows("from a collection", env.from_collection([change(1), change(3)], row_type()))
    keyed = changes.key_by(lambda row: row.k, Types.STRING())
    pairs = changes.map(lambda row: (row.n, row), Types.TUPLE([Types.INT(), row_type()]))
    streams = {
        "filtered": changes.filter(lambda row: row.get_row_kind() != RowKind.DELETE),
        "mapped to itself": changes.map(lambda row: row, row_type()),
        "made anew": changes.map(lambda row: Row(k=row.k, n=row.n), row_type()),
        "sent": changes.rebalance(),
        "reduced": keyed.reduce(lambda one, other: other),
        "summed": keyed.sum("n"),
        "in a tuple": pairs.map(lambda pair: pair[1], row_type()),
        "side output": changes.process(Aside(), row_type()).get_side_output(SIDE),
        "untyped": changes.map(lambda row: row),
    }
    texts = {label: stream.map(told, Types.STRING()) for label, stream in streams.items()}
    show_together({**texts, "state": keyed.process(Keep(), Types.STRING())})


if __name__ == "__main__":
    main()
