"""Side outputs of process functions, keyed and not, of windows and of timers; untyped tags."""

from pyflink.common import Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import KeyedProcessFunction, OutputTag, StreamExecutionEnvironment
from pyflink.datastream.functions import ProcessWindowFunction
from pyflink.datastream.window import TumblingEventTimeWindows

BIG = OutputTag("big", Types.TUPLE([Types.STRING(), Types.INT()]))
ANY = OutputTag("any")
READINGS = [("a", 1), ("b", 7), ("a", 12), ("a", 14), ("b", 15)]


class Seconds(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1] * 1000


class Sort(KeyedProcessFunction):
    def process_element(self, value, ctx):
        if value[1] > 10:
            yield BIG, value
        yield ANY, {"reading": value}
        ctx.timer_service().register_event_time_timer(60_000)
        yield value[1]

    def on_timer(self, timestamp, ctx):
        yield ANY, f"end of {ctx.get_current_key()}"
        yield -1


class Sizes(ProcessWindowFunction):
    def process(self, key, context, elements):
        elements = list(elements)
        if len(elements) > 1:
            yield BIG, (key, len(elements))
        yield f"{key} {context.window().start} {elements}"


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Seconds())
    readings = env.from_collection(READINGS, Types.TUPLE([Types.STRING(), Types.INT()]))
    keyed = readings.assign_timestamps_and_watermarks(strategy).key_by(lambda r: r[0], Types.STRING())
    sorted_out = keyed.process(Sort(), Types.INT())
    windows = keyed.window(TumblingEventTimeWindows.of(Time.seconds(10))).process(Sizes(), Types.STRING())
    # Flink sorts side outputs out only if somebody takes one
    sorted_out.print("main")
    sorted_out.get_side_output(BIG).print("big")
    sorted_out.get_side_output(ANY).print("any")
    windows.print("windows")
    windows.get_side_output(BIG).map(lambda pair: pair[1] * 100, Types.INT()).print("big windows")
    env.execute()


if __name__ == "__main__":
    main()
