"""Coordinators of a slot: what is created, what they answer and tell each other, how their failures are told."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from runtime.common import Duration, WatermarkStrategy
from runtime.connectors import BlackHoleSink, NumberSequenceSource
from runtime.core.ids import CheckpointId, OperatorId, SlotId
from runtime.operators.source_coordinator import AssignSplit, NoMoreSplits, RequestSplit, SourceCoordinator
from runtime.operators.watermark_alignment import ReportWatermark, SourceWatermark
from runtime.task.messages import (
    CoordinatorsSnapshotted,
    DeclineCheckpoint,
    Deploy,
    OperatorEvent,
    RegisterSlot,
    SlotFailed,
)
from runtime.task.processing_time import TimerQueue
from runtime.task.slot_reports import SlotReports
from runtime.task.slot_sources import SlotSources
from runtime.testing.clock import ManualClock
from tests.task.rigs import ATTEMPT, FakeControlLink, SlotRig, environment

SLOT = SlotId(0)


class Rig:
    """The coordinators of a slot of a job with two sources, "left" and "right", in one alignment group."""

    def __init__(self, slot: SlotId = SLOT, parallelism: int = 1) -> None:
        env = environment(parallelism)
        aligned = WatermarkStrategy.for_monotonous_timestamps().with_watermark_alignment("g", Duration.of_seconds(1))
        for name in ("left", "right"):
            env.from_source(NumberSequenceSource(1, 4), aligned, name).sink_to(BlackHoleSink())
        self._job = SlotRig(env, 1 << 20)
        self.clock = ManualClock(1_000_000)
        self.link = FakeControlLink()
        self.timers = TimerQueue(self.clock)
        reports = SlotReports(self.link, RegisterSlot(slot, ATTEMPT, 1, "localhost", ""), self.clock)
        self.sources = SlotSources(slot, reports, self.timers, self.clock)
        heads = [vertex.head for vertex in self._job.graph.vertices]
        self.left, self.right = (head.operator_id for head in heads if head.name.startswith("Source"))
        execution = self._job.execution
        self.deploy = Deploy(
            job_id=self._job.graph.job_id,
            job_name="job",
            attempt=ATTEMPT,
            configuration={},
            job_parameters={},
            tasks=execution.deployments(slot),
            coordinator_slots=execution.coordinator_slots,
            coordinator_states={},
        )

    def hear(self, operator_id: OperatorId, event: object, subtask: int | None = 0) -> None:
        self.sources.deliver(OperatorEvent(ATTEMPT, operator_id, None, subtask, pickle.dumps(event)))

    def told(self) -> list[tuple[OperatorId, int | None, Any]]:
        """(operator, target subtask, event) of what was sent so far; forgets it."""
        events = self.link.all(OperatorEvent)
        self.link.sent.clear()
        return [(event.operator_id, event.target_subtask, pickle.loads(event.payload)) for event in events]

    def failures(self) -> list[str]:
        return [message.failure.message for message in self.link.all(SlotFailed)]


@pytest.fixture
def rig() -> Rig:
    made = Rig()
    assert made.sources.create(made.deploy)
    return made


def test_a_reader_is_answered_by_the_coordinator_of_its_source(rig: Rig) -> None:
    rig.hear(rig.left, RequestSplit())
    rig.hear(rig.left, RequestSplit())
    [(first, subtask, split), (second, _, end)] = rig.told()
    assert (first, second, subtask) == (rig.left, rig.left, 0)
    assert isinstance(split, AssignSplit) and end == NoMoreSplits()
    rig.hear(rig.right, RequestSplit())
    assert rig.told()[0][0] == rig.right


def test_a_slot_without_coordinators_takes_no_mail_and_snapshots_nothing() -> None:
    elsewhere = Rig(SlotId(1), parallelism=2)
    assert elsewhere.sources.create(elsewhere.deploy)
    elsewhere.hear(elsewhere.left, RequestSplit())
    assert elsewhere.told() == []
    elsewhere.sources.snapshot(CheckpointId(3))
    assert [dict(message.states) for message in elsewhere.link.all(CoordinatorsSnapshotted)] == [{}]


def test_what_cannot_be_handled_fails_the_slot_and_names_the_source(rig: Rig) -> None:
    rig.hear(rig.left, "nonsense")
    [message] = rig.failures()
    assert "left" in message and "cannot handle 'nonsense'" in message


def test_news_of_one_source_reach_the_others_once_and_all_again_after_a_change_of_leader(rig: Rig) -> None:
    rig.hear(rig.left, ReportWatermark(700))
    [(target, _, _), (peer, none, news)] = rig.told()
    assert (target, peer, none) == (rig.left, rig.right, None)
    assert news == SourceWatermark("g", rig.left, 700)
    rig.hear(rig.left, ReportWatermark(700))
    assert [peer for peer, _, _ in rig.told()] == [rig.left]
    rig.sources.resync()
    assert (rig.right, None, SourceWatermark("g", rig.left, 700)) in rig.told()
    # and what the others say is heard: the group waits for the one that lags
    rig.hear(rig.left, SourceWatermark("g", rig.right, 100), subtask=None)
    rig.hear(rig.left, ReportWatermark(5_000))
    assert rig.told()[0][2].max_allowed == 1_100


def test_a_coordinator_that_cannot_be_made_fails_the_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Rig()

    def fail(*_: object) -> None:
        raise OSError("no such directory")

    monkeypatch.setattr(NumberSequenceSource, "create_enumerator", fail)
    assert not broken.sources.create(broken.deploy)
    [message] = broken.failures()
    assert "left" in message and "no such directory" in message
    broken.sources.close()


def test_an_enumerator_that_cannot_be_closed_holds_nobody_up(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[int] = []

    def fail(self: SourceCoordinator) -> None:
        closed.append(1)
        raise RuntimeError("the connection is gone")

    monkeypatch.setattr(SourceCoordinator, "close", fail)
    rig.sources.close()
    assert len(closed) == 2


def test_splits_are_searched_for_until_a_search_fails_or_the_slot_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    searches: list[int] = []
    monkeypatch.setattr(SourceCoordinator, "discovery_delay_ms", lambda self: 50)
    monkeypatch.setattr(SourceCoordinator, "discover", lambda self: searches.append(1))
    searching = Rig()
    assert searching.sources.create(searching.deploy)

    def pass_time() -> None:
        searching.clock.advance(50)
        while (due := searching.timers.pop_due()) is not None:
            due[1](due[0])

    pass_time()
    pass_time()
    assert len(searches) == 4

    def fail(self: SourceCoordinator) -> None:
        raise OSError("the directory is gone")

    monkeypatch.setattr(SourceCoordinator, "discover", fail)
    pass_time()
    pass_time()
    assert ["the directory is gone" in message for message in searching.failures()] == [True, True]
    monkeypatch.setattr(SourceCoordinator, "discover", lambda self: searches.append(1))
    leaving = Rig()
    assert leaving.sources.create(leaving.deploy)
    leaving.sources.close()
    leaving.clock.advance(50)
    while (due := leaving.timers.pop_due()) is not None:
        due[1](due[0])
    assert len(searches) == 4


def test_a_snapshot_that_fails_declines_the_checkpoint(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.sources.snapshot(CheckpointId(7))
    [taken] = rig.link.all(CoordinatorsSnapshotted)
    assert (taken.checkpoint_id, set(taken.states)) == (7, {rig.left, rig.right})

    def fail(self: SourceCoordinator) -> None:
        raise RuntimeError("lost the list")

    monkeypatch.setattr(SourceCoordinator, "snapshot", fail)
    rig.sources.snapshot(CheckpointId(8))
    [declined] = rig.link.all(DeclineCheckpoint)
    assert (declined.task, declined.checkpoint_id) == (None, 8) and "lost the list" in declined.cause.message
