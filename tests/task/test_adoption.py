"""A slot's report to a JobMaster that adopts it; sources repeat what was lost with the old one."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from runtime.common import WatermarkStrategy
from runtime.connectors import BlackHoleSink, NumberSequenceSource
from runtime.core.ids import CheckpointId, SlotId
from runtime.datastream import StreamExecutionEnvironment
from runtime.operators.source_coordinator import AssignSplit, RequestSplit, ResyncSplits
from runtime.task.control_link import LeaderChanged
from runtime.task.messages import (
    AcknowledgeCheckpoint,
    ClientAck,
    ClientOutput,
    CommitFinished,
    DeliverOperatorEvent,
    OperatorEvent,
    ResyncSources,
    SlotCommitted,
    SlotReport,
    TaskState,
)
from tests.task import test_slot_checkpoints
from tests.task.rigs import SlotRig, environment
from tests.task.test_slot import FAIL_ON, STORY, TwoPhaseSink, fresh_story, numbers_into
from tests.task.test_slot_checkpoints import fresh

__all__ = ["fresh", "fresh_story"]


def adopted(rig: SlotRig, slot: int = 0) -> SlotReport:
    """Have every slot come over, and return the report of one."""
    before = len(rig.links[SlotId(slot)].all(SlotReport))
    rig.tell(LeaderChanged(2))
    return rig.links[SlotId(slot)].all(SlotReport)[before]


def test_a_slot_tells_a_new_jobmaster_the_state_and_age_of_its_tasks() -> None:
    rig = SlotRig(numbers_into(TwoPhaseSink(), count=1_000_000)).start()
    rig.step()
    rig.clock.advance(2_500)
    report = adopted(rig)
    assert (report.slot, report.attempt) == (SlotId(0), rig.slot.attempt)
    [task] = report.tasks
    assert (task.state, task.failure, task.age_ms, task.ended_ms_ago) == (TaskState.RUNNING, None, 2_500, None)
    assert task.metrics["numRecordsOut"] == rig.task().metrics()["numRecordsOut"]
    assert (report.failures, report.pending, report.last_seen, report.has_committed) == ((), {}, 0, False)
    rig.release()


def test_a_slot_tells_again_why_its_task_and_the_slot_itself_failed() -> None:
    FAIL_ON.add("commit")
    rig = SlotRig(numbers_into(TwoPhaseSink())).start()
    rig.run()
    rig.tell(CommitFinished())
    assert "cannot commit" in adopted(rig).failures[0].message
    rig.release()

    rig = SlotRig(numbers_into(TwoPhaseSink(), count=1_000_000)).start()
    rig.step()
    rig.slot._tasks.failed(rig.task(), ValueError("first"))
    [task] = adopted(rig).tasks
    assert task.state is TaskState.FAILED
    assert task.failure is not None
    assert task.failure.message.endswith("ValueError: first")
    rig.release()


def test_a_slot_that_has_committed_says_so_and_commits_no_second_time() -> None:
    rig = SlotRig(numbers_into(TwoPhaseSink())).start()
    rig.run()
    rig.tell(CommitFinished())
    report = adopted(rig)
    assert report.has_committed
    assert report.tasks[0].metrics["numRecordsOut"] == 100
    rig.tell(CommitFinished())
    assert len(rig.link.all(SlotCommitted)) == 2
    assert [told for told in STORY if told.startswith("committed")] == ["committed [100]"]
    rig.release()


def test_a_new_jobmaster_hears_of_undecided_checkpoints_and_what_was_acknowledged_for_them(tmp_path: Path) -> None:
    rig = test_slot_checkpoints.running(tmp_path)
    for number in (1, 2, 3):
        rig.trigger(number)
        rig.step_until(lambda number=number: rig.is_acknowledged(number))  # type: ignore[misc]
    rig.complete(1)
    rig.abort(3)
    sent = len(rig.link.sent)
    report = adopted(rig)
    assert report.pending == {CheckpointId(2): rig.options[CheckpointId(2)]}
    assert report.last_seen == 3
    again = [m for m in rig.link.sent[sent + 1 :] if isinstance(m, AcknowledgeCheckpoint)]
    assert {m.checkpoint_id for m in again} == {2}
    assert {m.task for m in again} == set(rig.execution.tasks)
    rig.release()


def test_a_completion_that_is_told_twice_is_acted_on_once(tmp_path: Path) -> None:
    rig = test_slot_checkpoints.running(tmp_path)
    for _ in range(30):
        rig.step()
    rig.trigger(1)
    rig.step_until(lambda: rig.is_acknowledged(1))
    rig.complete(1)
    committed = [told for told in test_slot_checkpoints.STORY if told.startswith("committed")]
    assert len(committed) == 1
    rig.complete(1)
    assert [told for told in test_slot_checkpoints.STORY if told.startswith("committed")] == committed
    rig.release()


def test_output_that_the_old_jobmaster_has_not_acknowledged_follows_the_report() -> None:
    rig = SlotRig(numbers_into(TwoPhaseSink(), count=1_000_000)).start()
    for payload in (b"one", b"two", b"three"):
        rig.slot.client.send("stdout", payload)
    rig.tell(ClientAck("stdout", 3))
    adopted(rig)
    outputs = [(m.position, m.payload) for m in rig.link.all(ClientOutput)]
    assert outputs == [(0, b"one"), (3, b"two"), (6, b"three"), (3, b"two"), (6, b"three")]
    rig.tell(ClientAck("stdout", 11))
    adopted(rig)
    assert len(rig.link.all(ClientOutput)) == 5
    rig.release()


# --- sources ----------------------------------------------------------------------------------------------------------


def reading(parallelism: int = 2) -> SlotRig:
    """A job that reads one range of numbers per subtask."""
    env: StreamExecutionEnvironment = environment(parallelism)
    source = NumberSequenceSource(1, 1_000)
    env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").sink_to(BlackHoleSink())
    return SlotRig(env).start()


def events(rig: SlotRig, kind: type) -> list[OperatorEvent]:
    sent = [m for link in rig.links.values() for m in link.all(OperatorEvent)]
    return [m for m in sent if isinstance(pickle.loads(m.payload), kind)]


def lose(rig: SlotRig, kind: type) -> None:
    """Step until an event of that kind has been sent, and lose everything that the JobMaster had in hand then."""
    for _ in range(100):
        for slot in rig.slots.values():
            slot.step()
        if events(rig, kind):
            break
        rig.route()
    for slot_id, link in rig.links.items():
        rig._routed[slot_id] = len(link.sent)
    assert events(rig, kind)


def finish(rig: SlotRig) -> None:
    """Have a new JobMaster adopt the slots and run the job to its end."""
    rig.tell(LeaderChanged(2))
    rig.tell(ResyncSources())
    rig.run()
    assert all(rig.states(slot)[-1] is TaskState.FINISHED for slot in rig.slots)


@pytest.mark.parametrize("kind", [RequestSplit, AssignSplit])
def test_splits_that_are_asked_for_or_dealt_when_the_jobmaster_dies_are_read_once(kind: type) -> None:
    rig = reading()
    lose(rig, kind)
    rig.run()
    assert not any(rig.states(slot)[-1] is TaskState.FINISHED for slot in rig.slots), "nobody waits for an answer"
    finish(rig)
    assigned = [pickle.loads(m.payload) for m in events(rig, AssignSplit)]
    dealt = {event.number: event.split for event in assigned}
    assert len({str(split) for split in dealt.values()}) == len(dealt), "a split was dealt out under two numbers"
    assert records_out(rig) == 1_000
    rig.release()


def records_out(rig: SlotRig) -> int:
    """Return how many records the sources have emitted."""
    return sum(int(str(task.metrics()["numRecordsOut"])) for slot in rig.slots.values() for task in slot._tasks.all)


def test_an_assignment_that_was_not_lost_after_all_is_taken_once() -> None:
    rig = reading()
    for _ in range(100):
        rig.step()
        if events(rig, AssignSplit):
            break
    # delivered, and repeated by the coordinator that cannot know
    again = events(rig, AssignSplit)[0]
    assert again.target_subtask is not None
    target = rig.execution.operator_slot(again.operator_id, again.target_subtask)
    assert target is not None
    rig.links[target].inbox.append(DeliverOperatorEvent(again))
    finish(rig)
    assert records_out(rig) == 1_000
    rig.release()


def test_a_reader_that_asks_for_nothing_gets_nothing_for_its_resync() -> None:
    rig = reading(1)
    for _ in range(100):
        rig.step()
        if rig.task().metrics()["numRecordsOut"]:
            break
    before = len(events(rig, AssignSplit))
    rig.tell(ResyncSources())
    assert [pickle.loads(m.payload).is_asking for m in events(rig, ResyncSplits)] == [False]
    rig.route()
    rig.slot._take_messages()
    assert len(events(rig, AssignSplit)) == before
    rig.release()
