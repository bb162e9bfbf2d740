"""The credit ledger: credits are neither made nor lost, the window holds, and nobody waits for ever."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from runtime.network.credit import Credit, CreditError, FloatingPool, ReceiverCredit, SenderCredit

WINDOW = 100
POOL = 150
CHANNELS = 3


class CreditMachine(RuleBasedStateMachine):
    """The channels of one gate with a wire each way; credit messages may be repeated."""

    channels = st.integers(0, CHANNELS - 1)

    def __init__(self) -> None:
        super().__init__()
        self.pool = FloatingPool(POOL)
        self.senders = [SenderCredit(WINDOW) for _ in range(CHANNELS)]
        self.receivers = [ReceiverCredit(WINDOW, self.pool) for _ in range(CHANNELS)]
        self.backlogs: list[deque[int]] = [deque() for _ in range(CHANNELS)]
        self.wires: list[deque[tuple[int, int]]] = [deque() for _ in range(CHANNELS)]
        self.queues: list[deque[int]] = [deque() for _ in range(CHANNELS)]
        self.credits: list[deque[Credit]] = [deque() for _ in range(CHANNELS)]

    def lend(self) -> None:
        for receiver in self.pool.lend():
            self.credits[self.receivers.index(receiver)].append(receiver.announce())

    @rule(i=channels, size=st.integers(1, 2 * WINDOW))
    def queue_frame(self, i: int, size: int) -> None:
        self.senders[i].queue(size)
        self.backlogs[i].append(size)

    @rule(i=channels)
    def send(self, i: int) -> None:
        backlog, sender = self.backlogs[i], self.senders[i]
        if backlog and sender.may_send(backlog[0]):
            size = backlog.popleft()
            sender.send(size)
            self.wires[i].append((size, sender.backlog_bytes))

    @rule(i=channels)
    def receive(self, i: int) -> None:
        if self.wires[i]:
            size, backlog = self.wires[i].popleft()
            self.queues[i].append(size)
            self.receivers[i].receive(size, backlog)
            self.lend()

    @rule(i=channels)
    def consume(self, i: int) -> None:
        if self.queues[i]:
            if self.receivers[i].consume(self.queues[i].popleft()) is not None:
                self.credits[i].append(self.receivers[i].announce())
            self.lend()

    @rule(i=channels, repeat=st.booleans())
    def release(self, i: int, repeat: bool) -> None:
        if self.credits[i]:
            credit = self.credits[i][0] if repeat else self.credits[i].popleft()
            self.senders[i].release(*credit)

    @invariant()
    def bytes_are_accounted_for(self) -> None:
        for i, (sender, receiver) in enumerate(zip(self.senders, self.receivers, strict=True)):
            sender.check_invariants()
            receiver.check_invariants()
            assert sender.backlog_bytes == sum(self.backlogs[i])
            on_wire = sum(size for size, _ in self.wires[i])
            assert sender.sent_bytes - receiver.consumed_bytes == on_wire + sum(self.queues[i])
            assert sender.limit_bytes <= receiver.limit_bytes

    @invariant()
    def bytes_of_the_pool_are_neither_made_nor_lost(self) -> None:
        assert self.pool.available_bytes >= 0
        assert sum(receiver.floating_bytes for receiver in self.receivers) == self.pool.lent_bytes

    @invariant()
    def windows_and_pool_hold(self) -> None:
        over = 0
        for wire, queue in zip(self.wires, self.queues, strict=True):
            in_flight = [*queue, *(size for size, _ in wire)]
            if len(in_flight) > 1:
                over += max(0, sum(in_flight) - WINDOW)
        # a frame larger than all credit overdraws alone; behind it nothing is sent until it is consumed
        assert over <= POOL

    @invariant()
    def nobody_waits_for_ever(self) -> None:
        for i in range(CHANNELS):
            if self.backlogs[i] and not self.wires[i] and not self.queues[i] and not self.credits[i]:
                assert self.senders[i].may_send(self.backlogs[i][0])


TestCreditMachine = CreditMachine.TestCase


def test_frame_larger_than_the_window_is_sent_when_nothing_is_in_flight() -> None:
    sender = SenderCredit(10)
    sender.queue(25)
    assert sender.may_send(25)
    sender.send(25)
    sender.queue(1)
    assert not sender.may_send(1)
    sender.release(25)
    assert sender.may_send(1)


def test_sender_is_unavailable_once_a_window_is_queued() -> None:
    sender = SenderCredit(10)
    sender.queue(9)
    assert sender.is_available
    sender.queue(1)
    assert not sender.is_available


def test_sending_without_credit_is_refused() -> None:
    sender = SenderCredit(10)
    sender.queue(20)
    sender.send(10)
    with pytest.raises(CreditError, match="without credit"):
        sender.send(10)


@pytest.mark.parametrize("total", [6, 1000])
def test_giving_back_more_than_was_sent_is_refused(total: int) -> None:
    sender = SenderCredit(10)
    sender.queue(5)
    sender.send(5)
    with pytest.raises(CreditError, match="given back"):
        sender.release(total)


def test_receiver_refuses_what_is_beyond_the_window() -> None:
    receiver = ReceiverCredit(10)
    receiver.receive(8)
    with pytest.raises(CreditError, match="beyond the window"):
        receiver.receive(3)


@given(st.lists(st.integers(1, 40), min_size=1))
def test_everything_is_announced_when_the_queue_is_empty(sizes: list[int]) -> None:
    receiver = ReceiverCredit(10**6)
    for size in sizes:
        receiver.receive(size)
    announced = [receiver.consume(size) for size in sizes]
    assert announced[-1] == sum(sizes)


def test_channel_that_is_not_read_holds_the_pool_but_no_window_of_another() -> None:
    pool = FloatingPool(50)
    slow, other = ReceiverCredit(10, pool), ReceiverCredit(10, pool)
    slow.receive(10, backlog_bytes=500)
    assert pool.lend() == [slow]
    assert slow.announce() == Credit(0, 60)
    for _ in range(20):
        other.receive(5, backlog_bytes=5)
        assert pool.lend() == []
        assert other.consume(5) is not None
        assert other.announce().limit_bytes == other.consumed_bytes + 10


def test_pool_serves_those_with_a_backlog_in_turn() -> None:
    pool = FloatingPool(30)
    first, second, idle = (ReceiverCredit(10, pool) for _ in range(3))
    first.receive(10, backlog_bytes=100)
    assert pool.lend() == [first]
    second.receive(10, backlog_bytes=15)
    idle.receive(10, backlog_bytes=0)
    assert pool.lend() == [] and first.floating_bytes == 30
    first.receive(30, backlog_bytes=70)
    first.consume(20)
    # what the first has given back is shared out, though the backlog of the first would take it all
    assert pool.lend() == [first, second]
    assert (first.floating_bytes, second.floating_bytes, idle.floating_bytes) == (20, 10, 0)


def test_channel_that_ends_returns_what_it_has_borrowed() -> None:
    pool = FloatingPool(30)
    channel = ReceiverCredit(10, pool)
    channel.receive(10, backlog_bytes=25)
    pool.lend()
    channel.consume(10)
    channel.receive(1, backlog_bytes=0)
    channel.consume(1)
    channel.end()
    assert (pool.available_bytes, channel.floating_bytes) == (30, 0)


def test_limit_below_what_was_allowed_is_refused() -> None:
    sender = SenderCredit(10)
    with pytest.raises(CreditError, match="a limit of 9 bytes"):
        sender.release(0, 9)


def test_pool_of_a_negative_size_is_refused() -> None:
    with pytest.raises(ValueError, match="-1 bytes"):
        FloatingPool(-1)
