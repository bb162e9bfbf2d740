"""Slot: what it answers to the JobMaster, in which order, and what it does when things break."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from runtime.common import Types, WatermarkStrategy
from runtime.connectors import BlackHoleSink, NumberSequenceSource
from runtime.core.ids import SlotId
from runtime.datastream import FlatMapFunction, MapFunction, StreamExecutionEnvironment
from runtime.datastream.connectors.file_system import FileSource, StreamFormat
from runtime.operators.sink import Committer, Sink, SinkError, SinkWriter, WriterContext
from runtime.operators.sink_operator import SinkOperator
from runtime.operators.source_coordinator import AssignSplit, NoMoreSplits, RequestSplit
from runtime.task.client_output import CLIENT_WINDOW_BYTES
from runtime.task.control_link import ControlLostError
from runtime.task.messages import (
    CancelTasks,
    ClientAck,
    ClientOutput,
    CommitFinished,
    DeliverOperatorEvent,
    HeartbeatRequest,
    OperatorEvent,
    RegisterSlot,
    ReleaseSlot,
    SlotCommitted,
    SlotFailed,
    SlotLeaving,
    Start,
    TaskState,
    TaskStateChanged,
)
from runtime.task.slot import METRICS_INTERVAL_MS
from tests.task.rigs import ATTEMPT, SlotRig, environment

STORY: list[str] = []
FAIL_ON: set[str] = set()


@pytest.fixture(autouse=True)
def fresh_story() -> Iterator[None]:
    STORY.clear()
    FAIL_ON.clear()
    yield
    FAIL_ON.clear()


class TwoPhaseSink(Sink):
    """Tells what happens to it; what it is given becomes visible on commit."""

    def create_writer(self, context: WriterContext, restored: Any) -> SinkWriter:
        return _TwoPhaseWriter()

    def create_committer(self) -> Committer:
        return _TellingCommitter()


class _TwoPhaseWriter(SinkWriter):
    def __init__(self) -> None:
        self._rows = 0

    def write(self, batch: Any) -> None:
        self._rows += batch.num_rows

    def prepare_commit(self) -> list[Any]:
        STORY.append("prepared")
        return [self._rows]

    def close(self) -> None:
        STORY.append("closed")
        if "close" in FAIL_ON:
            raise RuntimeError("cannot close")


class _TellingCommitter(Committer):
    def commit(self, committables: Any) -> None:
        if "commit" in FAIL_ON:
            raise RuntimeError("cannot commit")
        STORY.append(f"committed {list(committables)}")


def numbers_into(sink: Sink, parallelism: int = 1, count: int = 100) -> StreamExecutionEnvironment:
    env = environment(parallelism)
    env.from_source(NumberSequenceSource(1, count), WatermarkStrategy.no_watermarks(), "numbers").sink_to(sink)
    return env


# --- the protocol -----------------------------------------------------------------------------------------------------


def test_a_slot_registers_first_and_tells_of_every_step_of_its_tasks() -> None:
    rig = SlotRig(numbers_into(TwoPhaseSink()))
    [registered] = rig.link.sent
    assert registered == RegisterSlot(SlotId(0), ATTEMPT, os.getpid(), "localhost", "")
    rig.deploy()
    assert rig.states() == [TaskState.INITIALIZING]
    rig.run()
    assert rig.states() == [TaskState.INITIALIZING]  # nothing runs before all slots are ready
    rig.tell(Start({SlotId(0): ""}))
    assert rig.states()[1:] == [TaskState.RUNNING]
    rig.run()
    assert rig.states()[2:] == [TaskState.FINISHED]
    final = rig.link.all(TaskStateChanged)[-1].metrics
    assert final["numRecordsOut"] == 100
    assert STORY == ["prepared"]

    rig.tell(CommitFinished())
    assert STORY == ["prepared", "committed [100]"]
    assert rig.link.all(SlotCommitted) == [SlotCommitted(SlotId(0), ATTEMPT)]
    rig.tell(ReleaseSlot())
    assert STORY[2:] == ["closed"]
    assert rig.link.sent[-1] == SlotLeaving(SlotId(0), ATTEMPT)
    assert rig.link.closed
    assert rig.slot.is_released
    rig.slot.release()
    assert len(rig.link.all(SlotLeaving)) == 1


def test_what_is_kept_for_an_older_checkpoint_goes_when_the_job_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SinkOperator, "job_finished", lambda operator: STORY.append("the job is over"))
    for is_over in (False, True):
        STORY.clear()
        rig = SlotRig(numbers_into(TwoPhaseSink())).start()
        rig.run()
        rig.tell(CommitFinished())
        rig.tell(ReleaseSlot(is_over))
        assert STORY[2:] == ["the job is over", "closed"] if is_over else ["closed"]


def test_what_cannot_be_swept_at_the_end_fails_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(operator: SinkOperator) -> None:
        raise SinkError("the target does not answer")

    monkeypatch.setattr(SinkOperator, "job_finished", refuse)
    rig = SlotRig(numbers_into(TwoPhaseSink())).start()
    rig.run()
    rig.tell(CommitFinished())
    rig.tell(ReleaseSlot(is_over=True))
    assert not rig.link.all(SlotFailed)
    assert isinstance(rig.link.sent[-1], SlotLeaving)


def test_run_steps_until_the_slot_is_released() -> None:
    rig = SlotRig(numbers_into(BlackHoleSink())).deploy()
    rig.link.inbox.extend([Start({SlotId(0): ""}), CancelTasks(), ReleaseSlot()])
    rig.slot.run()
    assert rig.slot.is_released
    assert rig.states()[-1] is TaskState.CANCELED


def test_cancelled_tasks_are_closed_and_commit_nothing() -> None:
    rig = SlotRig(numbers_into(TwoPhaseSink(), count=1_000_000)).start()
    for _ in range(5):
        rig.step()
    rig.tell(CancelTasks())
    assert rig.states()[-1] is TaskState.CANCELED
    assert STORY == ["closed"]
    rig.tell(CancelTasks())
    rig.run()
    assert rig.states().count(TaskState.CANCELED) == 1
    rig.release()
    assert STORY == ["closed"]


def test_a_failing_commit_is_told_instead_of_committed() -> None:
    FAIL_ON.add("commit")
    rig = SlotRig(numbers_into(TwoPhaseSink())).start()
    rig.run()
    rig.tell(CommitFinished())
    [failed] = rig.link.all(SlotFailed)
    assert "cannot commit" in failed.failure.message
    assert failed.failure.task_name == "Source: numbers -> Sink: TwoPhaseSink (1/1)"
    assert not rig.link.all(SlotCommitted)
    rig.release()


def test_what_close_raises_is_told_before_anything_is_committed() -> None:
    class ClosesBadly(MapFunction):
        def map(self, value: int) -> int:
            return value

        def close(self) -> None:
            raise OSError("the connection was gone")

    env = environment(1)
    numbers = env.from_source(NumberSequenceSource(1, 5), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.map(ClosesBadly()).sink_to(TwoPhaseSink())
    rig = SlotRig(env).start()
    rig.run()
    assert rig.states()[-1] is TaskState.FINISHED
    rig.tell(CommitFinished())
    [failed] = rig.link.all(SlotFailed)
    assert "the connection was gone" in failed.failure.message
    assert not any("committed" in told for told in STORY)
    assert not rig.link.all(SlotCommitted)
    rig.release()


def test_a_failing_close_is_told_before_the_slot_leaves() -> None:
    FAIL_ON.add("close")
    rig = SlotRig(numbers_into(TwoPhaseSink())).start()
    rig.run()
    rig.tell(ReleaseSlot())
    [failed] = rig.link.all(SlotFailed)
    assert "cannot close" in failed.failure.message
    assert isinstance(rig.link.sent[-1], SlotLeaving)


def test_a_failing_close_after_a_failure_does_not_hide_the_cause() -> None:
    FAIL_ON.add("close")
    rig = SlotRig(numbers_into(TwoPhaseSink(), count=10_000_000)).start()
    rig.step()
    rig.slot._tasks.failed(rig.task(), ValueError("first"))
    rig.slot._tasks.failed(rig.task(), ValueError("second"))
    assert rig.failure().endswith("ValueError: first")
    assert rig.states().count(TaskState.FAILED) == 1
    assert not rig.link.all(SlotFailed)
    rig.release()


def test_a_slot_that_lost_its_jobmaster_closes_what_it_holds_and_raises() -> None:
    rig = SlotRig(numbers_into(TwoPhaseSink())).start()
    rig.link.lost = True
    with pytest.raises(ControlLostError):
        rig.slot.run()
    assert STORY == ["closed"]


def test_a_coordinator_whose_source_is_elsewhere_is_refused() -> None:
    rig = SlotRig(numbers_into(TwoPhaseSink()))
    rig.execution.deployments = lambda slot: ()  # type: ignore[method-assign,assignment,misc]
    rig.deploy()
    assert rig.link.all(SlotFailed)[0].failure.message.startswith("LookupError: the slot of source")
    rig.release()


def test_tasks_that_were_never_made_are_reported_as_cancelled() -> None:
    env = environment()
    missing = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "/nowhere/x.txt").build()
    env.from_source(missing, WatermarkStrategy.no_watermarks(), "lines").sink_to(BlackHoleSink())
    rig = SlotRig(env).deploy()
    assert "/nowhere/x.txt" in rig.link.all(SlotFailed)[0].failure.message
    assert rig.states() == []
    rig.tell(CancelTasks())
    rig.tell(CancelTasks())
    assert rig.states() == [TaskState.CANCELED]
    rig.release()


def test_a_slot_rests_after_a_failure_though_records_of_the_failed_task_were_still_to_be_sent() -> None:
    env = environment()
    numbers = env.from_source(NumberSequenceSource(1, 10_000_000), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.filter(lambda number: number < 3).rebalance().sink_to(BlackHoleSink())
    rig = SlotRig(env).start()
    while rig.task().next_flush_ms() is None:
        rig.step()
    rig.slot._tasks.failed(rig.task(), ValueError("broken"))
    rig.clock.advance(10_000)
    rig.run()
    assert rig.slot.idle_ms() > 0
    rig.release()


# --- coordinators -----------------------------------------------------------------------------------------------------


def payloads(rig: SlotRig, slot: int = 0) -> list[tuple[int | None, Any]]:
    """(target subtask, event) of what a slot has sent between coordinators and readers."""
    events = rig.links[SlotId(slot)].all(OperatorEvent)
    return [(event.target_subtask, pickle.loads(event.payload)) for event in events]


def test_readers_ask_the_coordinator_in_the_first_slot_for_splits() -> None:
    rig = SlotRig(numbers_into(BlackHoleSink(), parallelism=2)).start()
    for slot in rig.slots.values():
        slot.step()
    assert payloads(rig, 0) == [(None, RequestSplit())]
    assert payloads(rig, 1) == [(None, RequestSplit())]
    rig.run()
    answers = [event for event in payloads(rig) if event[0] is not None]
    assert {target for target, event in answers if isinstance(event, AssignSplit)} == {0, 1}
    assert {target for target, event in answers if isinstance(event, NoMoreSplits)} == {0, 1}
    assert all(target is None for target, _ in payloads(rig, 1))
    assert rig.states(0)[-1] is rig.states(1)[-1] is TaskState.FINISHED
    rig.release()


def test_an_event_for_a_task_that_has_ended_is_dropped() -> None:
    rig = SlotRig(numbers_into(BlackHoleSink())).start()
    rig.tell(CancelTasks())
    [task] = rig.execution.tasks
    operator = rig.graph.vertices[0].head.operator_id
    event = OperatorEvent(ATTEMPT, operator, task.subtask_index, None, pickle.dumps(NoMoreSplits()))
    from_reader = OperatorEvent(ATTEMPT, operator, None, 0, pickle.dumps("nonsense"))
    rig.tell(DeliverOperatorEvent(event))
    assert not rig.link.all(SlotFailed)
    rig.tell(DeliverOperatorEvent(from_reader))
    assert "nonsense" in rig.link.all(SlotFailed)[0].failure.message
    rig.release()


# --- heartbeats and client output -------------------------------------------------------------------------------------


def test_metrics_are_published_now_and_then_with_the_last_request_s_number() -> None:
    rig = SlotRig(numbers_into(BlackHoleSink())).start()
    rig.tell(HeartbeatRequest(7, 0))
    rig.clock.advance(METRICS_INTERVAL_MS)
    rig.run()
    assert rig.link.heartbeat is not None
    assert rig.link.heartbeat.sequence == 7
    [(task, metrics)] = rig.link.heartbeat.metrics.items()
    assert task == rig.task().task_id
    assert {"numRecordsOut", "busyTimeMsPerSecond", "isBackPressured"} <= metrics.keys()
    before = rig.link.heartbeat
    rig.clock.advance(METRICS_INTERVAL_MS - 1)
    rig.step()
    assert rig.link.heartbeat is before
    rig.clock.advance(1)
    rig.step()
    assert rig.link.heartbeat is not before
    rig.release()


class Long(FlatMapFunction):
    def flat_map(self, value: int) -> list[str]:
        return ["x" * 1_000] * 10


def test_tasks_wait_while_the_client_has_not_taken_what_was_printed() -> None:
    env = environment()
    numbers = env.from_source(NumberSequenceSource(1, 1_000), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.flat_map(Long(), Types.STRING()).print()
    rig = SlotRig(env).start()
    rig.run()
    sent = sum(len(output.payload) for output in rig.link.all(ClientOutput))
    assert CLIENT_WINDOW_BYTES <= sent < 1_000 * 10_010
    assert rig.states()[-1] is TaskState.RUNNING
    assert rig.slot.idle_ms() > 0
    rig.clock.advance(2_000)
    rig.step()
    assert rig.task().metrics()["backPressuredTimeMsPerSecond"] == pytest.approx(1000)
    acknowledged = 0
    while rig.states()[-1] is not TaskState.FINISHED:
        sent = sum(len(output.payload) for output in rig.link.all(ClientOutput))
        assert sent > acknowledged
        rig.link.inbox.append(ClientAck("stdout", sent))
        acknowledged = sent
        rig.run()
    outputs = rig.link.all(ClientOutput)
    assert {output.channel for output in outputs} == {"stdout"}
    assert b"".join(output.payload for output in outputs).count(b"\n") == 10_000
    rig.release()
