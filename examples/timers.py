"""Timers: a gauge that has been silent for ten minutes of event time is reported.

Each reading deletes the gauge's timer and sets a new one; at the end of the input time jumps to its end, so that every
gauge is reported once more.
"""

from __future__ import annotations

from collections.abc import Iterable

from runtime.common import Duration, Types, WatermarkStrategy
from runtime.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from runtime.datastream.state import ValueStateDescriptor

MINUTE = 60_000
#: gauge, minute
READINGS = (("Emden", 0), ("Husum", 1), ("Emden", 8), ("Emden", 14), ("Husum", 30), ("Emden", 31))


class Silence(KeyedProcessFunction):
    """Watches one gauge per key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.due = runtime_context.get_state(ValueStateDescriptor("due", Types.LONG()))

    def process_element(self, value: tuple[str, int], ctx: KeyedProcessFunction.Context) -> None:
        due, now = self.due.value(), ctx.timestamp()
        assert now is not None
        if due is not None:
            ctx.timer_service().delete_event_time_timer(due)
        self.due.update(now + 10 * MINUTE)
        ctx.timer_service().register_event_time_timer(now + 10 * MINUTE)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[str]:
        self.due.clear()
        yield f"{ctx.get_current_key()} silent since minute {timestamp // MINUTE - 10}"


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    # one subtask and a watermark behind every reading: time then moves with the input, reading by reading
    env.set_parallelism(1)
    env.get_config().set_auto_watermark_interval(0)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_minutes(1)).with_timestamp_assigner(
        lambda reading, _: int(reading[1]) * MINUTE
    )
    (
        env.from_collection(READINGS, Types.TUPLE([Types.STRING(), Types.LONG()]))
        .assign_timestamps_and_watermarks(strategy)
        .key_by(lambda reading: reading[0], key_type=Types.STRING())
        .process(Silence(), Types.STRING())
        .print()
    )
    env.execute("timers")


if __name__ == "__main__":
    main()
