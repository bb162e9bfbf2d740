"""The credit ledger: credits are neither made nor lost, the window holds, and nobody waits for ever."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from runtime.network.credit import CreditError, ReceiverCredit, SenderCredit

WINDOW = 100


class CreditMachine(RuleBasedStateMachine):
    """Both ends of a channel with a wire each way; credit messages may be repeated."""

    def __init__(self) -> None:
        super().__init__()
        self.sender, self.receiver = SenderCredit(WINDOW), ReceiverCredit(WINDOW)
        self.backlog: deque[int] = deque()
        self.wire: deque[int] = deque()
        self.queue: deque[int] = deque()
        self.credits: deque[int] = deque()

    @rule(size=st.integers(1, 2 * WINDOW))
    def queue_frame(self, size: int) -> None:
        self.sender.queue(size)
        self.backlog.append(size)

    @precondition(lambda self: self.backlog and self.sender.may_send(self.backlog[0]))
    @rule()
    def send(self) -> None:
        self.wire.append(self.backlog.popleft())
        self.sender.send(self.wire[-1])

    @precondition(lambda self: self.wire)
    @rule()
    def receive(self) -> None:
        self.queue.append(self.wire.popleft())
        self.receiver.receive(self.queue[-1], self.sender.backlog_bytes)

    @precondition(lambda self: self.queue)
    @rule()
    def consume(self) -> None:
        announced = self.receiver.consume(self.queue.popleft())
        if announced is not None:
            self.credits.append(announced)

    @precondition(lambda self: self.credits)
    @rule(repeat=st.booleans())
    def release(self, repeat: bool) -> None:
        total = self.credits[0] if repeat else self.credits.popleft()
        self.sender.release(total)

    @invariant()
    def bytes_are_accounted_for(self) -> None:
        self.sender.check_invariants()
        self.receiver.check_invariants()
        assert self.sender.backlog_bytes == sum(self.backlog)
        assert self.sender.sent_bytes - self.receiver.consumed_bytes == sum(self.wire) + sum(self.queue)

    @invariant()
    def window_holds(self) -> None:
        in_flight = [*self.queue, *self.wire]
        assert sum(in_flight) <= WINDOW or len(in_flight) == 1

    @invariant()
    def nobody_waits_for_ever(self) -> None:
        if self.backlog and not self.wire and not self.queue and not self.credits:
            assert self.sender.may_send(self.backlog[0])


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
