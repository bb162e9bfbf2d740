"""Side outputs of each type, of keyed functions, co-functions and late data, and values in them that do not fit."""

import datetime
from decimal import Decimal

from outcomes import show, show_together
from pyflink.common import Row, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import (
    CoProcessFunction,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    StreamExecutionEnvironment,
)
from pyflink.datastream.window import TumblingEventTimeWindows

CASES = [
    (Types.BOOLEAN(), 1),
    (Types.SHORT(), 2.0),
    (Types.FLOAT(), 1.1),
    (Types.BIG_DEC(), Decimal("0.1234567890123456789012345")),
    (Types.SQL_DATE(), datetime.date(2020, 2, 29)),
    (Types.LIST(Types.DOUBLE()), [1, 2.5]),
    (Types.MAP(Types.STRING(), Types.INT()), {"a": None}),
    (Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()]), Row(b="x", a=1)),
    (Types.PICKLED_BYTE_ARRAY(), ({"any"}, 1)),
]


TAGS = [OutputTag(f"side {index}", kind) for index, (kind, _) in enumerate(CASES)]


class Aside(ProcessFunction):
    def process_element(self, value, ctx):
        for tag, (_, aside) in zip(TAGS, CASES, strict=True):
            yield tag, aside


class AsideByKey(KeyedProcessFunction):
    def __init__(self, tag):
        self.tag = tag

    def process_element(self, value, ctx):
        yield self.tag, (ctx.get_current_key(), value)


class AsideOfBoth(CoProcessFunction):
    def __init__(self, tag):
        self.tag = tag

    def process_element1(self, value, ctx):
        yield self.tag, Row(value, None)

    def process_element2(self, value, ctx):
        yield value


class Second(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1] * 1000


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    numbers = env.from_collection([1], Types.INT())
    sides = numbers.process(Aside(), Types.INT())
    texts = {str(tag.type_info): sides.get_side_output(tag).map(repr, Types.STRING()) for tag in TAGS}
    pairs = OutputTag("pairs", Types.TUPLE([Types.BOOLEAN(), Types.FLOAT()]))
    keyed = env.from_collection([1, 2], Types.INT()).key_by(lambda n: n == 1, Types.BOOLEAN())
    texts["keyed"] = keyed.process(AsideByKey(pairs), Types.INT()).get_side_output(pairs).map(repr, Types.STRING())
    rows = OutputTag("rows", Types.ROW([Types.DOUBLE(), Types.STRING()]))
    both = numbers.connect(env.from_collection(["x"], Types.STRING())).process(AsideOfBoth(rows), Types.STRING())
    texts["of both: main"] = both.map(repr, Types.STRING())
    texts["of both: side"] = both.get_side_output(rows).map(repr, Types.STRING())
    late = OutputTag("late", Types.TUPLE([Types.STRING(), Types.FLOAT()]))
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Second())
    events = env.from_collection([("a", 1.5), ("a", 2.25)], Types.TUPLE([Types.STRING(), Types.FLOAT()]))
    events = events.assign_timestamps_and_watermarks(strategy)
    windows = events.key_by(lambda e: e[0], Types.STRING()).window(TumblingEventTimeWindows.of(Time.seconds(10)))
    totals = windows.side_output_late_data(late).reduce(lambda one, other: (one[0], one[1] + other[1]))
    texts["window: main"] = totals.map(repr, Types.STRING())
    texts["window: late data"] = totals.get_side_output(late).map(repr, Types.STRING())
    show_together(texts)
    show("collected", sides.get_side_output(TAGS[-2]))


if __name__ == "__main__":
    main()
