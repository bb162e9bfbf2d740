"""BIG_DEC through several functions: all digits stay, whatever is added, divided, reduced and kept."""

from decimal import Decimal, localcontext

from outcomes import show, show_together
from pyflink.common import Row, Types
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import ValueStateDescriptor

AMOUNTS = [Decimal("0.1"), Decimal("12345678901234567890.12345678901234567890"), Decimal("-1E-30"), Decimal("2.50")]


class Total(KeyedProcessFunction):
    """The sum of all amounts, of up to 60 digits."""

    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.BIG_DEC()))

    def process_element(self, value, ctx):
        with localcontext() as context:
            context.prec = 60
            self.total.update((self.total.value() or Decimal(0)) + value)
        yield self.total.value()


def precise_sum(one, other):
    with localcontext() as context:
        context.prec = 60
        return one + other


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    amounts = env.from_collection(AMOUNTS, Types.BIG_DEC())
    keyed = amounts.key_by(lambda amount: amount > 0, Types.BOOLEAN())
    scaled = amounts.map(lambda amount: Row(amount, amount.scaleb(5)), Types.ROW([Types.BIG_DEC(), Types.BIG_DEC()]))
    listed = amounts.map(lambda amount: [amount, amount + 1], Types.LIST(Types.BIG_DEC()))
    streams = {
        "as they are": amounts,
        "third": amounts.map(lambda amount: amount / 3, Types.BIG_DEC()),
        "product": amounts.map(lambda amount: amount * amount, Types.BIG_DEC()),
        "rounded": amounts.map(lambda amount: round(amount, 2), Types.BIG_DEC()),
        "sent": amounts.map(lambda amount: -amount, Types.BIG_DEC()).rebalance(),
        "sum": keyed.sum(),
        "least": keyed.min(),
        "reduced": keyed.reduce(precise_sum),
        "state": keyed.process(Total(), Types.BIG_DEC()),
        "rows": scaled.map(lambda row: row[1], Types.BIG_DEC()),
        "lists": listed.map(lambda pair: pair[1], Types.BIG_DEC()),
        "from floats": amounts.map(lambda amount: float(amount), Types.BIG_DEC()),
        "from integers": amounts.map(lambda amount: int(amount), Types.BIG_DEC()),
    }
    texts = {label: stream.map(lambda amount: f"{amount:f}", Types.STRING()) for label, stream in streams.items()}
    show_together(texts)
    show("infinite", amounts.map(lambda amount: Decimal("Infinity"), Types.BIG_DEC()))


if __name__ == "__main__":
    main()
