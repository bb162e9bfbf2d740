"""Broadcast state: rules that reach every subtask, applied to a keyed stream.

Rules and readings come in no order towards each other, so readings wait in keyed state until the rules are complete:
the timer at the end of event time compares them with the limits.
"""

from __future__ import annotations

from collections.abc import Iterable

from runtime.common import Types, WatermarkStrategy
from runtime.datastream import KeyedBroadcastProcessFunction, RuntimeContext, StreamExecutionEnvironment
from runtime.datastream.state import ListStateDescriptor, MapStateDescriptor

READINGS = (("Emden", 310), ("Husum", 702), ("Emden", 655), ("Husum", 281), ("Cuxhaven", 900))
#: the latest rule of a gauge holds
LIMITS = (("Emden", 300), ("Emden", 600), ("Husum", 700))
PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
LIMIT_STATE = MapStateDescriptor("limits", Types.STRING(), Types.LONG())
END_OF_TIME = 2**63 - 1
Pair = tuple[str, int]


class Watch(KeyedBroadcastProcessFunction[str, Pair, Pair, str]):
    """Readings above the limit of their gauge."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.readings = runtime_context.get_list_state(ListStateDescriptor("readings", Types.LONG()))

    def process_element(
        self, value: tuple[str, int], ctx: KeyedBroadcastProcessFunction.ReadOnlyContext
    ) -> Iterable[str]:
        self.readings.add(value[1])
        ctx.timer_service().register_event_time_timer(END_OF_TIME)
        return ()

    def process_broadcast_element(
        self, value: tuple[str, int], ctx: KeyedBroadcastProcessFunction.Context
    ) -> Iterable[str]:
        ctx.get_broadcast_state(LIMIT_STATE).put(value[0], value[1])
        return ()

    def on_timer(self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext) -> Iterable[str]:
        gauge = ctx.get_current_key()
        limit = ctx.get_broadcast_state(LIMIT_STATE).get(gauge)
        for level in self.readings.get():
            if limit is not None and level > limit:
                yield f"{gauge}: {level} is above {limit}"


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    timeless = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda _value, _time: 0)
    readings = env.from_collection(READINGS, PAIR).assign_timestamps_and_watermarks(timeless)
    limits = env.from_collection(LIMITS, PAIR).assign_timestamps_and_watermarks(timeless).set_parallelism(1)
    watched = readings.key_by(lambda reading: reading[0], key_type=Types.STRING()).connect(
        limits.broadcast(LIMIT_STATE)
    )
    watched.process(Watch(), Types.STRING()).print()
    env.execute("broadcast rules")


if __name__ == "__main__":
    main()
