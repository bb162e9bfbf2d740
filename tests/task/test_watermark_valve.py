"""WatermarkValve against a small model: the least watermark of the channels that count, and never back."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from runtime.core.elements import MAX_WATERMARK, MIN_WATERMARK, WatermarkStatus
from runtime.task.watermark_valve import WatermarkValve

ACTIVE, IDLE = WatermarkStatus.ACTIVE, WatermarkStatus.IDLE
Told = tuple[int | None, WatermarkStatus | None]


@dataclass
class Channel:
    watermark: int = MIN_WATERMARK
    active: bool = True
    ended: bool = False
    #: came back from idleness with a watermark below the merged one, and has not caught up
    behind: bool = False

    @property
    def counts(self) -> bool:
        return self.active and not self.ended and not self.behind


@dataclass
class Model:
    """The rules, said once more: what counts is recomputed from scratch after every event."""

    channels: list[Channel]
    watermark: int = MIN_WATERMARK
    idle: bool = False
    all_ended: bool = field(default=False)

    def watermark_of(self, index: int, watermark: int) -> None:
        channel = self.channels[index]
        if channel.active and watermark > channel.watermark:
            channel.watermark = watermark
            channel.behind = channel.behind and watermark < self.watermark
            self._merge()

    def status_of(self, index: int, active: bool) -> None:
        channel = self.channels[index]
        if channel.active == active:
            return
        channel.active = active
        channel.behind = active and channel.watermark < self.watermark
        if active:
            self.idle = False
        else:
            self._merge()
            self._go_idle_if_nobody_is_active()

    def end_of(self, index: int) -> None:
        self.channels[index].ended = True
        if all(channel.ended for channel in self.channels):
            self.all_ended = True
            return
        self._merge()
        self._go_idle_if_nobody_is_active()

    def _go_idle_if_nobody_is_active(self) -> None:
        living = [channel for channel in self.channels if not channel.ended]
        if not any(channel.active for channel in living):
            self.idle = True
            self.watermark = max(self.watermark, *(channel.watermark for channel in living))

    def _merge(self) -> None:
        counting = [channel.watermark for channel in self.channels if channel.counts]
        if counting:
            self.watermark = max(self.watermark, min(counting))


EVENTS = st.lists(
    st.tuples(st.integers(0, 2), st.one_of(st.integers(-5, 30), st.sampled_from(["idle", "active", "end"]))),
    max_size=40,
)


@given(channels=st.integers(1, 3), events=EVENTS)
def test_the_valve_agrees_with_the_model(channels: int, events: list[tuple[int, int | str]]) -> None:
    valve, model = WatermarkValve(channels), Model([Channel() for _ in range(channels)])
    for index, event in events:
        if index >= channels or model.channels[index].ended:
            continue
        before = model.watermark
        was_idle = model.idle
        told: Told
        if isinstance(event, int):
            model.watermark_of(index, event)
            told = valve.on_watermark(index, event), None
        elif event == "end":
            model.end_of(index)
            told = valve.on_end(index)
        else:
            model.status_of(index, event == "active")
            told = valve.on_status(index, ACTIVE if event == "active" else IDLE)
        status = None if model.idle == was_idle else IDLE if model.idle else ACTIVE
        assert told == (model.watermark if model.watermark > before else None, status)
        assert valve.watermark == model.watermark >= before
        assert valve.status is (IDLE if model.idle else ACTIVE)


def test_the_slowest_channel_holds_the_others_back() -> None:
    valve = WatermarkValve(3)
    assert [valve.on_watermark(channel, 10 + channel) for channel in range(3)] == [None, None, 10]
    assert valve.on_watermark(0, 20) == 11
    assert valve.on_watermark(0, 15) is None


def test_an_idle_channel_does_not_hold_the_others_back() -> None:
    valve = WatermarkValve(2)
    valve.on_watermark(0, 10)
    assert valve.on_status(1, IDLE) == (10, None)
    assert valve.on_watermark(0, 20) == 20


def test_a_channel_that_comes_back_counts_once_it_has_caught_up() -> None:
    valve = WatermarkValve(2)
    valve.on_watermark(0, 10)
    valve.on_status(1, IDLE)
    assert valve.on_status(1, ACTIVE) == (None, None)
    assert valve.on_watermark(1, 5) is None
    assert valve.on_watermark(0, 20) == 20
    assert valve.on_watermark(1, 30) is None
    assert valve.on_watermark(0, 40) == 30


def test_when_all_are_idle_the_furthest_of_them_decides() -> None:
    valve = WatermarkValve(2)
    valve.on_watermark(0, 10)
    valve.on_watermark(1, 20)
    assert valve.on_status(0, IDLE) == (20, None)
    assert valve.on_status(1, IDLE) == (None, IDLE)
    assert valve.on_status(1, IDLE) == (None, None)
    assert valve.on_status(0, ACTIVE) == (None, ACTIVE)


def test_an_ended_channel_no_longer_counts() -> None:
    valve = WatermarkValve(2)
    valve.on_watermark(0, 10)
    valve.on_watermark(1, 5)
    assert valve.on_end(1) == (10, None)
    assert valve.on_end(1) == (None, None)
    assert valve.on_status(0, IDLE) == (None, IDLE)


def test_the_end_of_all_channels_adds_nothing_to_what_they_said() -> None:
    valve = WatermarkValve(2)
    assert valve.on_end(0) == (None, None)
    assert not valve.is_at_end
    assert valve.on_watermark(1, MAX_WATERMARK) == MAX_WATERMARK
    assert valve.is_at_end
    assert valve.on_end(1) == (None, None)
