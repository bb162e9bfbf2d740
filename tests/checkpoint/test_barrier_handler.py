"""BarrierHandler: each checkpoint is cut at its barriers, whatever the order in which they come."""

from __future__ import annotations

import itertools
import random
from collections import deque
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.checkpoint.barrier_handler import (
    BarrierAction,
    BarrierHandler,
    Block,
    ChannelStateComplete,
    DropChannelState,
    EndRecording,
    GiveUp,
    SetTimer,
    TakeBarrier,
    TakeSnapshot,
    UnblockAll,
)
from runtime.core.checkpoint_options import Alignment, CheckpointOptions
from runtime.core.elements import CheckpointBarrier
from runtime.core.ids import CheckpointId

TIMEOUT_MS = 1_000


def barrier(
    number: int, alignment: Alignment = Alignment.ALIGNED, timeout_ms: int | None = None, born_ms: int = 0
) -> CheckpointBarrier:
    options = CheckpointOptions("file:///chk", "file:///shared", alignment=alignment, aligned_timeout_ms=timeout_ms)
    return CheckpointBarrier(CheckpointId(number), born_ms, options)


def as_unaligned(element: CheckpointBarrier) -> CheckpointBarrier:
    return barrier(element.checkpoint_id, Alignment.UNALIGNED)


# --- aligned ----------------------------------------------------------------------------------------------------------


def test_channels_wait_until_the_last_barrier_has_come() -> None:
    handler = BarrierHandler(3)
    assert handler.on_barrier(1, barrier(1), 0) == [Block(1)]
    assert handler.on_barrier(0, barrier(1), 5) == [Block(0)]
    assert handler.on_barrier(2, barrier(1), 9) == [Block(2), TakeSnapshot(barrier(1), 9), UnblockAll()]
    assert handler.pending_id is None


def test_a_channel_that_has_ended_counts_as_if_its_barrier_had_come() -> None:
    handler = BarrierHandler(3)
    assert handler.on_channel_ended(0, 0) == []
    assert handler.on_barrier(1, barrier(1), 1) == [Block(1)]
    assert handler.on_channel_ended(2, 4) == [TakeSnapshot(barrier(1), 3), UnblockAll()]
    assert handler.on_barrier(1, barrier(2), 5)[1:] == [TakeSnapshot(barrier(2), 0), UnblockAll()]


def test_alignment_is_given_up_when_a_newer_barrier_arrives() -> None:
    handler = BarrierHandler(2)
    handler.on_barrier(0, barrier(1), 0)
    newer = handler.on_barrier(1, barrier(2), 1)
    assert newer == [UnblockAll(), GiveUp(CheckpointId(1), CheckpointId(2)), Block(1)]
    assert handler.on_barrier(1, barrier(1), 2) == []
    assert handler.on_barrier(0, barrier(2), 3)[1:] == [TakeSnapshot(barrier(2), 2), UnblockAll()]


def test_an_aborted_checkpoint_lets_its_channels_go_and_its_other_barriers_mean_nothing() -> None:
    handler = BarrierHandler(2)
    handler.on_barrier(0, barrier(1), 0)
    assert handler.on_aborted(CheckpointId(1), 1) == [UnblockAll()]
    assert handler.on_barrier(1, barrier(1), 2) == []
    assert handler.on_aborted(CheckpointId(2), 3) == []
    assert handler.on_barrier(1, barrier(2), 4) == []
    assert handler.on_barrier(0, barrier(3), 5) == [Block(0)]


def test_a_checkpoint_that_is_aborted_while_an_older_one_aligns_does_not_touch_that() -> None:
    handler = BarrierHandler(2)
    handler.on_barrier(0, barrier(1), 0)
    assert handler.on_aborted(CheckpointId(2), 1) == []
    assert handler.on_barrier(1, barrier(1), 2)[1:] == [TakeSnapshot(barrier(1), 2), UnblockAll()]


# --- at least once ----------------------------------------------------------------------------------------------------


def test_at_least_once_blocks_nothing_and_counts_several_checkpoints() -> None:
    handler = BarrierHandler(2)
    one, two = barrier(1, Alignment.AT_LEAST_ONCE), barrier(2, Alignment.AT_LEAST_ONCE)
    assert handler.on_barrier(0, one, 0) == []
    assert handler.on_barrier(0, two, 1) == []
    assert handler.on_barrier(1, one, 2) == [TakeSnapshot(one, 2)]
    assert handler.on_barrier(1, two, 4) == [TakeSnapshot(two, 3)]


def test_at_least_once_gives_up_what_a_complete_one_has_overtaken() -> None:
    handler = BarrierHandler(2)
    one, two = barrier(1, Alignment.AT_LEAST_ONCE), barrier(2, Alignment.AT_LEAST_ONCE)
    handler.on_barrier(0, one, 0)
    handler.on_barrier(0, two, 0)
    assert handler.on_barrier(1, two, 2) == [GiveUp(CheckpointId(1), CheckpointId(2)), TakeSnapshot(two, 2)]


def test_at_least_once_and_the_end_of_a_channel() -> None:
    handler = BarrierHandler(2)
    one, two = barrier(1, Alignment.AT_LEAST_ONCE), barrier(2, Alignment.AT_LEAST_ONCE)
    handler.on_barrier(0, one, 0)
    handler.on_barrier(0, two, 0)
    assert handler.on_channel_ended(1, 3) == [TakeSnapshot(one, 3), TakeSnapshot(two, 3)]


def test_an_aligned_savepoint_among_at_least_once_checkpoints_leaves_no_channel_blocked() -> None:
    handler = BarrierHandler(2)
    counted = barrier(2, Alignment.AT_LEAST_ONCE)
    assert handler.on_barrier(0, barrier(1), 0) == [Block(0)]
    assert handler.on_barrier(1, counted, 1) == []
    assert handler.on_barrier(1, barrier(1), 2)[1:] == [TakeSnapshot(barrier(1), 2), UnblockAll()]
    assert handler.on_barrier(0, counted, 3) == [TakeSnapshot(counted, 2)]


# --- unaligned --------------------------------------------------------------------------------------------------------


def test_the_first_overtaking_barrier_is_enough() -> None:
    handler = BarrierHandler(3)
    one = barrier(1, Alignment.UNALIGNED)
    assert handler.on_announced(1, one, 0) == [
        TakeSnapshot(one, 0, (0, 1, 2)),
        TakeBarrier(1, CheckpointId(1)),
        EndRecording(1),
    ]
    assert handler.on_barrier(0, one, 1) == [EndRecording(0)]
    assert handler.on_channel_ended(2, 2) == [EndRecording(2), ChannelStateComplete(CheckpointId(1))]


def test_channels_that_have_ended_are_not_recorded() -> None:
    handler = BarrierHandler(2)
    one = barrier(1, Alignment.UNALIGNED)
    handler.on_channel_ended(0, 0)
    assert handler.on_announced(1, one, 0)[0] == TakeSnapshot(one, 0, (1,))
    assert handler.pending_id is None


def test_an_aligned_checkpoint_turns_unaligned_when_its_time_is_up() -> None:
    handler = BarrierHandler(3)
    one = barrier(1, timeout_ms=TIMEOUT_MS, born_ms=50)
    assert handler.on_barrier(0, one, 0) == [Block(0), SetTimer(CheckpointId(1), 50, TIMEOUT_MS)]
    assert handler.on_announced(1, one, 1) == []
    actions = handler.on_timeout(CheckpointId(1), 1_000)
    assert actions[0] == UnblockAll()
    snapshot = actions[1]
    assert isinstance(snapshot, TakeSnapshot) and snapshot.recorded == (1, 2) and snapshot.alignment_ms == 1_000
    assert snapshot.barrier.options.alignment is Alignment.UNALIGNED
    assert actions[2:] == [TakeBarrier(1, CheckpointId(1)), EndRecording(1)]
    assert handler.on_barrier(2, one, 2_000) == [EndRecording(2), ChannelStateComplete(CheckpointId(1))]
    assert handler.on_timeout(CheckpointId(1), 3_000) == []


def test_a_barrier_behind_a_full_queue_starts_the_clock() -> None:
    handler = BarrierHandler(2)
    one = barrier(1, timeout_ms=TIMEOUT_MS, born_ms=7)
    assert handler.on_announced(0, one, 0) == [SetTimer(CheckpointId(1), 7, TIMEOUT_MS)]
    assert handler.on_announced(1, one, 1) == []
    assert handler.on_barrier(0, one, 2) == [Block(0)]
    assert handler.on_barrier(1, one, 3)[1:] == [TakeSnapshot(one, 3), UnblockAll()]


def test_a_producers_patience_may_end_first() -> None:
    handler = BarrierHandler(2)
    one = barrier(1, timeout_ms=TIMEOUT_MS)
    handler.on_barrier(0, one, 0)
    actions = handler.on_announced(1, as_unaligned(one), 4)
    assert [type(action) for action in actions] == [
        UnblockAll,
        TakeSnapshot,
        TakeBarrier,
        EndRecording,
        ChannelStateComplete,
    ]


def test_where_records_must_stay_in_line_overtaking_barriers_are_aligned_and_passed_on_as_they_are() -> None:
    handler = BarrierHandler(2, allows_unaligned=False)
    one = barrier(1, Alignment.UNALIGNED)
    assert handler.on_announced(0, one, 0) == []
    assert handler.on_barrier(0, one, 1) == [Block(0)]
    assert handler.on_barrier(1, one, 2)[1:] == [TakeSnapshot(one, 1), UnblockAll()]


def test_an_overtaking_barrier_waits_for_an_older_savepoint() -> None:
    handler = BarrierHandler(2)
    two = barrier(2, Alignment.UNALIGNED)
    handler.on_barrier(0, barrier(1), 0)
    assert handler.on_announced(0, two, 1) == []
    actions = handler.on_barrier(1, barrier(1), 2)
    assert actions[1:4] == [TakeSnapshot(barrier(1), 2), UnblockAll(), TakeSnapshot(two, 0, (0, 1))]
    assert actions[4:] == [TakeBarrier(0, CheckpointId(2)), EndRecording(0)]


def test_an_overtaking_barrier_goes_ahead_when_the_savepoint_before_it_is_given_up() -> None:
    handler = BarrierHandler(2)
    two = barrier(2, Alignment.UNALIGNED)
    assert handler.on_announced(0, barrier(1), 0) == []
    assert handler.on_announced(0, two, 1) == []
    assert handler.on_aborted(CheckpointId(1), 2)[0] == TakeSnapshot(two, 0, (0, 1))


def test_recording_is_dropped_when_the_checkpoint_is() -> None:
    handler = BarrierHandler(2)
    one = barrier(1, Alignment.UNALIGNED)
    handler.on_announced(0, one, 0)
    assert handler.on_aborted(CheckpointId(1), 1) == [DropChannelState()]
    assert handler.on_announced(1, one, 2) == []
    assert handler.on_barrier(1, one, 2) == []


# --- against a model --------------------------------------------------------------------------------------------------

END = "end"
Element = int | CheckpointBarrier | str


@dataclass
class Channel:
    """Elements of a channel that are still to be sent, have arrived, and were processed."""

    coming: deque[Element]
    all: list[Element]
    queue: deque[Element] = field(default_factory=deque)
    taken: list[int] = field(default_factory=list)
    blocked: bool = False
    recorded: list[int] | None = None
    taken_barriers: set[int] = field(default_factory=set)

    def before(self, number: int) -> list[int]:
        """Records that belong to a checkpoint."""
        records: list[int] = []
        for element in self.all:
            if isinstance(element, CheckpointBarrier) and element.checkpoint_id == number:
                break
            if isinstance(element, int):
                records.append(element)
        return records


class Model:
    """A task that does what a handler says, over channels in memory."""

    def __init__(self, channels: list[Channel]) -> None:
        self.channels = channels
        self.handler = BarrierHandler(len(channels))
        self.state: dict[int, list[list[int]]] = {}
        self.channel_state: dict[int, list[list[int]]] = {}
        self.complete: set[int] = set()
        self.given_up: set[int] = set()
        self.timers: list[int] = []
        self.recording: int | None = None
        self.parts: dict[int, list[int]] = {}
        self.mode: dict[int, Alignment] = {}

    def arrive(self, index: int) -> None:
        channel = self.channels[index]
        element = channel.coming.popleft()
        channel.queue.append(element)
        if isinstance(element, CheckpointBarrier):
            self.perform(self.handler.on_announced(index, element, 0))

    def poll(self, index: int) -> None:
        channel = self.channels[index]
        element = channel.queue.popleft()
        if isinstance(element, CheckpointBarrier):
            if element.checkpoint_id in channel.taken_barriers:
                return
            self.perform(self.handler.on_barrier(index, element, 0))
        elif isinstance(element, int):
            channel.taken.append(element)
            if channel.recorded is not None:
                channel.recorded.append(element)
        else:
            self.perform(self.handler.on_channel_ended(index, 0))

    def perform(self, actions: list[BarrierAction]) -> None:
        for action in actions:
            match action:
                case Block(index):
                    self.channels[index].blocked = True
                case UnblockAll():
                    for channel in self.channels:
                        channel.blocked = False
                case TakeSnapshot(cut, _, recorded):
                    number = cut.checkpoint_id
                    assert number not in self.state and number not in self.given_up
                    self.state[number] = [list(channel.taken) for channel in self.channels]
                    self.mode[number] = cut.options.alignment
                    if not recorded:
                        self.complete.add(number)
                    else:
                        self.recording, self.parts = number, {}
                    for index in recorded:
                        self.channels[index].recorded = []
                case TakeBarrier(index, number):
                    channel = self.channels[index]
                    channel.taken_barriers.add(number)
                    assert channel.recorded is not None
                    for element in channel.queue:
                        if isinstance(element, CheckpointBarrier) and element.checkpoint_id == number:
                            break
                        if isinstance(element, int):
                            channel.recorded.append(element)
                case EndRecording(index):
                    self.parts[index] = self.channels[index].recorded or []
                    self.channels[index].recorded = None
                case ChannelStateComplete(number):
                    assert number == self.recording
                    self.complete.add(number)
                    self.channel_state[number] = [self.parts.get(i, []) for i in range(len(self.channels))]
                    self.recording = None
                case DropChannelState():
                    self.recording, self.parts = None, {}
                    for channel in self.channels:
                        channel.recorded = None
                case GiveUp(number):
                    assert number not in self.state
                    self.given_up.add(number)
                case SetTimer(number):
                    self.timers.append(number)

    def check(self, aborted: set[int]) -> None:
        for number in self.complete - aborted:
            for index, channel in enumerate(self.channels):
                state = self.state[number][index]
                in_flight = self.channel_state.get(number, [[]] * len(self.channels))[index]
                if self.mode[number] is Alignment.AT_LEAST_ONCE:
                    assert set(channel.before(number)) <= set(state)
                else:
                    assert state + in_flight == channel.before(number), (number, index)


@st.composite
def channel_contents(draw: st.DrawFn) -> list[list[Element]]:
    """Records, barriers in order and ends; each checkpoint in a way of its own, barriers of ended channels missing."""
    num_barriers = draw(st.integers(1, 4))
    ways = draw(
        st.lists(
            st.sampled_from([Alignment.ALIGNED, Alignment.UNALIGNED, "timeout"]),
            min_size=num_barriers,
            max_size=num_barriers,
        )
        | st.just([Alignment.AT_LEAST_ONCE] * num_barriers)
    )
    barriers = [
        barrier(number, timeout_ms=TIMEOUT_MS) if way == "timeout" else barrier(number, Alignment(way))
        for number, way in enumerate(ways, 1)
    ]
    contents = []
    numbers = itertools.count()
    for _ in range(draw(st.integers(1, 4))):
        ends_after = draw(st.integers(0, num_barriers))
        content: list[Element] = []
        for number, cut in enumerate(barriers, 1):
            content.extend(next(numbers) for _ in range(draw(st.integers(0, 3))))
            if number > ends_after:
                break
            content.append(cut)
        content.extend(next(numbers) for _ in range(draw(st.integers(0, 2))))
        contents.append([*content, END])
    return contents


@given(channel_contents(), st.integers(0, 2**32))
def test_every_complete_checkpoint_is_cut_exactly_at_its_barriers(contents: list[list[Element]], seed: int) -> None:
    # drawing each step from Hypothesis would take most of the time
    choose = random.Random(seed)
    model = Model([Channel(deque(content), content) for content in contents])
    aborted: set[int] = set()
    while True:
        steps: list[tuple[str, int]] = []
        for index, channel in enumerate(model.channels):
            if channel.coming:
                steps.append(("arrive", index))
            if channel.queue and not channel.blocked:
                steps.append(("poll", index))
        if not steps:
            break
        steps.extend(("time", number) for number in model.timers)
        kind, index = choose.choice(steps)
        if kind == "arrive":
            model.arrive(index)
        elif kind == "poll":
            model.poll(index)
        else:
            model.timers.remove(index)
            model.perform(model.handler.on_timeout(CheckpointId(index), 0))
        if choose.random() < 0.03:
            number = choose.randint(1, 4)
            aborted.add(number)
            model.perform(model.handler.on_aborted(CheckpointId(number), 0))
        model.check(aborted)
    # nothing is left waiting, and every checkpoint that had a barrier was answered
    assert not any(channel.blocked or channel.recorded for channel in model.channels)
    assert model.handler.pending_id is None
    seen = {e.checkpoint_id for content in contents for e in content if isinstance(e, CheckpointBarrier)}
    assert seen - aborted <= model.complete | model.given_up


@pytest.mark.parametrize("alignment", [Alignment.ALIGNED, Alignment.UNALIGNED, Alignment.AT_LEAST_ONCE])
def test_a_single_channel_never_waits(alignment: Alignment) -> None:
    handler = BarrierHandler(1)
    cut = barrier(1, alignment)
    actions = handler.on_barrier(0, cut, 0)
    assert TakeSnapshot(cut, 0.0) in actions
    assert handler.pending_id is None
