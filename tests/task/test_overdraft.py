"""A step may overdraw, a little; and what falls due before the job runs is not lost."""

from __future__ import annotations

from runtime.common import WatermarkStrategy
from runtime.connectors import BlackHoleSink, DataGeneratorSource, NumberSequenceSource
from runtime.core.elements import MIN_WATERMARK
from runtime.core.ids import SlotId
from runtime.task.messages import Start
from runtime.task.task import OVERDRAFT_BYTES
from tests.task.rigs import SlotRig, environment

WINDOW = 10_000


def test_slices_shrink_until_one_record_that_becomes_thousands_fits() -> None:
    env = environment(1, {"execution.buffer-timeout.interval": "0 ms"})
    numbers = env.from_source(NumberSequenceSource(1, 100_000), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.flat_map(lambda n: [f"{n}-{i:04}" for i in range(1000)]).rebalance().sink_to(BlackHoleSink())
    rig = SlotRig(env, window_bytes=WINDOW).start()
    source = rig.task(0)
    [writer] = source._writers
    overdrafts = []
    step = source.step

    def observed_step() -> bool:
        worked = step()
        if worked:
            overdrafts.append(writer.overdraft_bytes)
        return worked

    source.step = observed_step  # type: ignore[method-assign]
    while len(overdrafts) < 60:
        rig.step()
    first, last = max(overdrafts[:20]), max(overdrafts[-20:])
    assert first > OVERDRAFT_BYTES
    # a slice that stays below the allowance is doubled, one that exceeds it is halved
    assert last <= 2 * (OVERDRAFT_BYTES + WINDOW)
    rig.release()


def test_periodic_watermarks_go_on_though_their_first_timer_was_due_before_the_start() -> None:
    env = environment(1)
    source = DataGeneratorSource(lambda index: index, count=1000, rows_per_second=100)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value)
    env.from_source(source, strategy, "numbers").rebalance().sink_to(BlackHoleSink())
    rig = SlotRig(env).deploy()
    # other slots take their time
    rig.clock.advance(5000)
    rig.slot.step()
    rig.tell(Start({SlotId(0): ""}))
    for _ in range(2000):
        rig.step()
        rig.clock.advance(1)
    assert int(str(rig.task(0).metrics()["currentOutputWatermark"])) > MIN_WATERMARK
    rig.release()
