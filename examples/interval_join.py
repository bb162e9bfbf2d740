"""Interval join: each order with the payments that came up to ten minutes after it, by event time.

Either side waits in state only as long as the other may still come.
"""

from __future__ import annotations

from collections.abc import Iterable

from runtime.common import Duration, Time, Types, WatermarkStrategy
from runtime.datastream import ProcessJoinFunction, StreamExecutionEnvironment

MINUTE = 60_000
EVENT = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])
#: number, cents, minute
ORDERS = (("A1", 1999, 0), ("A2", 500, 3), ("A3", 720, 5))
PAYMENTS = (("A1", 1000, 2), ("A2", 500, 14), ("A1", 999, 9), ("A3", 720, 5))

Event = tuple[str, int, int]


class Paid(ProcessJoinFunction):
    """Emits one line per pair."""

    def process_element(self, left: Event, right: Event, ctx: ProcessJoinFunction.Context) -> Iterable[str]:
        yield f"{left[0]}: {right[1]} of {left[1]} cents after {right[2] - left[2]} minutes"


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_minutes(30)).with_timestamp_assigner(
        lambda event, _: int(event[2]) * MINUTE
    )
    orders = env.from_collection(ORDERS, EVENT).assign_timestamps_and_watermarks(strategy)
    payments = env.from_collection(PAYMENTS, EVENT).assign_timestamps_and_watermarks(strategy)
    (
        orders.key_by(lambda order: order[0], key_type=Types.STRING())
        .interval_join(payments.key_by(lambda payment: payment[0], key_type=Types.STRING()))
        .between(Time.minutes(0), Time.minutes(10))
        .process(Paid(), Types.STRING())
        .print()
    )
    env.execute("interval join")


if __name__ == "__main__":
    main()
