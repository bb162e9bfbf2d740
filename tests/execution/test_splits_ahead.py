"""Splits that are dealt before a batch: read by their subtask alone, in flight until it is complete, never lost."""

from __future__ import annotations

import json

from runtime.common.configuration import Configuration
from runtime.metrics import MetricRegistry
from runtime.operators.sink import WriterContext
from runtime.operators.source_coordinator import (
    COORDINATOR_STATE,
    RECEIVED_STATE,
    AssignSplit,
    NoMoreSplits,
    NoSplitNow,
    SourceCoordinator,
)
from runtime.operators.two_phase_commit import TransactionIds
from runtime.state.snapshot import OperatorSnapshot, OperatorStateSnapshot, Redistribution
from runtime.task.client_output import SlotClientChannel
from runtime.testing import ManualClock, ScriptedSource
from runtime.testing.harness import ManualProcessingTimeService

SOURCE = ScriptedSource(["a"], ["b"], ["c"], ["d"], ["e"])


def taken(coordinator: SourceCoordinator, subtask: int) -> list[AssignSplit]:
    """Return all that a subtask is given in one batch."""
    return [answer for answer in coordinator.dealt_ahead(subtask) if isinstance(answer, AssignSplit)]


def restored(coordinator: SourceCoordinator, received: list[int]) -> SourceCoordinator:
    """Return the coordinator that goes on from a snapshot whose readers had received these assignments."""
    states = {
        COORDINATOR_STATE: coordinator.snapshot(),
        RECEIVED_STATE: OperatorStateSnapshot(Redistribution.UNION, [json.dumps(n).encode() for n in received]),
    }
    return SourceCoordinator(SOURCE, 2, OperatorSnapshot(operator_states=states))


def test_subtasks_are_dealt_splits_in_turn() -> None:
    coordinator = SourceCoordinator(SOURCE, 2, None)
    coordinator.deal_ahead(2)
    assert [[split.split for split in taken(coordinator, subtask)] for subtask in (0, 1)] == [["0", "2"], ["1", "3"]]
    assert coordinator.dealt_ahead(0)[-1] == NoSplitNow()


def test_all_splits_of_a_batch_are_dealt_at_once() -> None:
    coordinator = SourceCoordinator(SOURCE, 2, None)
    coordinator.deal_all()
    dealt = [[split.split for split in taken(coordinator, subtask)] for subtask in (0, 1)]
    assert dealt == [["0", "2", "4"], ["1", "3"]]
    assert coordinator.dealt_ahead(1)[-1] == NoMoreSplits()


def test_a_batch_that_is_run_again_is_given_the_same_splits() -> None:
    coordinator = SourceCoordinator(SOURCE, 2, None)
    coordinator.deal_ahead(2)
    first = taken(coordinator, 0)
    coordinator.deal_ahead(2)
    assert taken(coordinator, 0) == first


def test_what_a_batch_has_read_is_followed_by_more_until_there_is_none() -> None:
    coordinator = SourceCoordinator(SOURCE, 2, None)
    coordinator.deal_ahead(2)
    for subtask in (0, 1):
        coordinator.confirm([split.number for split in taken(coordinator, subtask)])
    coordinator.deal_ahead(2)
    assert [split.split for split in taken(coordinator, 0)] == ["4"]
    assert coordinator.dealt_ahead(1) == [NoMoreSplits()]


def test_splits_that_no_reader_has_received_are_dealt_again_after_a_restore() -> None:
    coordinator = SourceCoordinator(SOURCE, 2, None)
    coordinator.deal_ahead(2)
    # the snapshot is taken before the batch, whose readers get to one split, and to none
    received = [taken(coordinator, 0)[0].number]
    again = restored(coordinator, received)
    again.deal_ahead(4)
    found = sorted(split.split for subtask in (0, 1) for split in taken(again, subtask))
    assert found == ["1", "2", "3", "4"]


def test_writers_of_two_batches_of_an_attempt_name_their_transactions_apart() -> None:
    def context(number: int) -> WriterContext:
        clock = ManualClock()
        timers, metrics = ManualProcessingTimeService(clock), MetricRegistry().root()
        return WriterContext(
            0,
            1,
            0,
            "sink",
            None,
            Configuration(),
            clock,
            timers,
            metrics,
            SlotClientChannel(_nobody),
            pass_number=number,
        )

    ids = [TransactionIds(context(number)) for number in (1, 2)]
    assert len({str(made.next()) for made in ids for _ in range(3)}) == 6


def _nobody(channel: str, position: int, payload: bytes) -> None:
    """Take output that nobody is interested in."""
