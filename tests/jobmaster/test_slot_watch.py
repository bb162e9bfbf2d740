"""SlotWatch by example: slots that speak, fall silent, are lost or leave."""

from __future__ import annotations

from runtime.core.ids import Attempt, OperatorId, SlotId
from runtime.jobmaster.actions import (
    DeliverClientOutput,
    RefuseSlot,
    SendToSlot,
    StopWanted,
)
from runtime.jobmaster.events import SlotLost, StageEnded, Submitted, Tick
from runtime.jobmaster.job_state import JobState
from runtime.jobmaster.options import JobMasterOptions
from runtime.jobmaster.phases import Phase
from runtime.jobmaster.restart_strategy import FixedDelay
from runtime.jobmaster.slot_registry import SlotStatus
from runtime.task.messages import (
    ClientOutput,
    DeliverOperatorEvent,
    Heartbeat,
    HeartbeatRequest,
    OperatorEvent,
    SlotLeaving,
    StalledCall,
    StopDue,
    TaskState,
    TaskStateChanged,
)
from tests.jobmaster.simulation import Simulation

S = JobState


def test_a_call_that_does_not_return_is_shown_and_restarts_nothing(running: Simulation) -> None:
    task = running.current(0).tasks[0]
    call = StalledCall(task, 'File "job.py", line 3, in ask\n    requests.get(url)')
    running.advance(60_000)
    running.say(Heartbeat(SlotId(0), Attempt(0), 3, {}, stalled_ms=9_000, stalled_in=call))
    [stall] = running.machine.status().stalls
    assert (stall.slot, stall.task, stall.stack) == (0, task, call.stack)
    assert (stall.since_ms, stall.task_name) == (51_000, "Source: flights (1/2)")
    running.say(Heartbeat(SlotId(0), Attempt(0), 4, {}, stalled_ms=9_010, stalled_in=call))
    assert running.machine.status().stalls == (stall,), "the same call"
    assert running.machine.state is S.RUNNING
    running.say(Heartbeat(SlotId(0), Attempt(0), 5, {}))
    assert running.machine.status().stalls == ()


def test_a_slot_whose_user_code_hangs_is_lost_and_killed_where_that_is_asked_for() -> None:
    running = Simulation(strategy=FixedDelay(1, 1_000), options=JobMasterOptions(stall_timeout_ms=8_000))
    running.run_to_running()
    running.say(Heartbeat(SlotId(0), Attempt(0), 3, {}, stalled_ms=7_999))
    assert running.machine.state is S.RUNNING
    running.say(Heartbeat(SlotId(0), Attempt(0), 4, {}, stalled_ms=8_200))
    running.settle()
    assert running.killed() == [0]
    assert (
        "user code has not returned for 8 s, longer than task.stall.timeout allows"
        in running.machine.status().exceptions[0].cause.message
    )


def test_a_frozen_slot_is_noticed_within_ten_seconds_and_never_heard_again(running: Simulation) -> None:
    running.advance(20_000)
    assert running.machine.state is S.RUNNING
    frozen = running.current(1)
    frozen.silent = True
    running.advance(10_000)
    assert running.machine.attempt == 1
    assert "no heartbeat for 5 s" in running.machine.status().exceptions[0].cause.message
    before = running.machine.status().refused_messages
    frozen.silent = False
    output = ClientOutput(frozen.slot, frozen.attempt, "stdout", 0, b"ghost")
    assert running.say(output) == []
    (refusal,) = running.say(frozen.register())
    assert isinstance(refusal, RefuseSlot)
    assert running.machine.status().refused_messages == before + 2


def test_a_slot_declared_lost_is_not_heard_in_its_own_attempt(running: Simulation) -> None:
    running.current(0).silent = True
    running.deliver(SlotLost(SlotId(1), Attempt(0), "gone"))
    assert running.say(ClientOutput(SlotId(1), Attempt(0), "stdout", 0, b"ghost")) == []
    assert running.machine.status().refused_messages == 1


def test_a_master_that_slept_itself_does_not_blame_its_slots(running: Simulation) -> None:
    running.now_ms += 60_000
    running.deliver(Tick())
    assert running.machine.state is S.RUNNING
    assert running.sent(HeartbeatRequest) == [0, 1]


def test_heartbeats_are_asked_for_at_every_interval_and_carry_metrics(running: Simulation) -> None:
    running.advance(3_000)
    assert running.sent(HeartbeatRequest) == [0, 1] * 3
    task = running.current(0).tasks[0]
    running.say(Heartbeat(SlotId(0), Attempt(0), 3, {task: {"numRecordsOut": 7}}))
    assert running.machine.status().tasks[0].metrics == {"numRecordsOut": 7}
    final = TaskStateChanged(SlotId(0), Attempt(0), task, TaskState.FINISHED, metrics={"numRecordsOut": 9})
    running.say(final)
    running.say(Heartbeat(SlotId(0), Attempt(0), 4, {task: {"numRecordsOut": 8}}))
    assert running.machine.status().tasks[0].metrics == {"numRecordsOut": 9}


def test_a_slow_deployment_is_not_taken_for_a_dead_slot() -> None:
    s = Simulation()
    s.register_automatically = False
    s.deliver(Submitted())
    for slot in (0, 1):
        s.say(s.current(slot).register())
    s.queue.clear()
    s.current(0).silent = s.current(1).silent = True
    s.advance(30_000)
    assert s.machine.phase is Phase.DEPLOYING
    s.advance(300_000)
    assert "4 tasks were not deployed in time" in s.machine.status().exceptions[0].cause.message


def test_slots_that_read_on_have_all_the_time_that_it_takes() -> None:
    s = Simulation()
    s.register_automatically = False
    s.deliver(Submitted())
    for slot in (0, 1):
        s.say(s.current(slot).register())
    s.queue.clear()
    s.current(0).silent = s.current(1).silent = True
    for minute in range(1, 21):
        s.advance(60_000)
        s.say(Heartbeat(SlotId(1), Attempt(0), minute, {}, restored_bytes=minute * 50_000_000))
    assert s.machine.phase is Phase.DEPLOYING
    assert "(1,000 MB have been read)" in s.machine.status().waiting_for
    # no further
    s.advance(240_000)
    s.say(Heartbeat(SlotId(1), Attempt(0), 21, {}, restored_bytes=1_000_000_000))
    assert s.machine.phase is Phase.DEPLOYING
    s.advance(60_000)
    assert "4 tasks were not deployed in time" in s.machine.status().exceptions[0].cause.message


def test_a_stage_that_fails_takes_its_slots_with_it(running: Simulation) -> None:
    running.deliver(StageEnded(0, Attempt(0), "executor lost"))
    running.settle()
    assert "the stage of region 0 ended: executor lost" in running.machine.status().exceptions[0].cause.message
    assert running.killed() == [0, 1]
    assert running.machine.state is S.RESTARTING


def test_a_stage_that_returns_after_its_slots_left_is_no_failure() -> None:
    s = Simulation()
    s.run_to_running()
    s.finish_tasks()
    while s.machine.phase is not Phase.LEAVING:
        s.deliver(s.queue.pop(0))
    s.queue.clear()
    s.deliver(StageEnded(0, Attempt(0), None))
    assert (s.machine.state, s.killed()) == (S.FINISHED, [])


def test_a_slot_that_leaves_by_itself_fails_the_job(running: Simulation) -> None:
    running.say(SlotLeaving(SlotId(0), Attempt(0)))
    assert running.machine.state is S.FAILING
    assert "slot 0 left although it was in use" in running.machine.status().exceptions[0].cause.message


def test_operator_events_go_to_the_slot_that_hosts_their_target(running: Simulation) -> None:
    source = running.graph.vertices[0].head.operator_id
    to_coordinator = OperatorEvent(Attempt(0), source, None, 1, b"request split")
    to_reader = OperatorEvent(Attempt(0), source, 1, None, b"assign split")
    assert running.say(to_coordinator) == [SendToSlot(SlotId(0), Attempt(0), DeliverOperatorEvent(to_coordinator))]
    assert running.say(to_reader) == [SendToSlot(SlotId(1), Attempt(0), DeliverOperatorEvent(to_reader))]
    assert running.say(OperatorEvent(Attempt(0), source, 9, None, b"")) == []
    assert running.say(OperatorEvent(Attempt(0), OperatorId("nobody"), 0, None, b"")) == []
    assert running.machine.status().refused_messages == 2


def test_client_output_is_delivered_also_while_failing(running: Simulation) -> None:
    running.fail_task(0)
    output = ClientOutput(SlotId(1), Attempt(0), "stdout", 7, b"hi\n")
    assert running.say(output) == [DeliverClientOutput(SlotId(1), Attempt(0), "stdout", 7, b"hi\n")]


def test_a_second_registration_is_refused(running: Simulation) -> None:
    (refusal,) = running.say(running.current(0).register())
    assert refusal == RefuseSlot(SlotId(0), Attempt(0), "slot 0 is unknown, registered already, or given up")
    assert running.machine.status().slots[0].status is SlotStatus.LIVE


def test_a_task_never_goes_back_nor_changes_its_slot(running: Simulation) -> None:
    task = running.current(0).tasks[0]
    running.say(TaskStateChanged(SlotId(0), Attempt(0), task, TaskState.INITIALIZING))
    running.say(TaskStateChanged(SlotId(1), Attempt(0), task, TaskState.FINISHED))
    assert running.machine.status().refused_messages == 2
    assert running.machine.status().tasks[0].state is TaskState.RUNNING


def test_a_job_without_more_batches_is_to_stop_when_all_slots_say_so(running: Simulation) -> None:
    slots = [running.current(0), running.current(1)]
    assert StopWanted() not in running.say(StopDue(slots[0].slot, slots[0].attempt))
    assert StopWanted() not in running.say(StopDue(slots[0].slot, slots[0].attempt))
    assert StopWanted() in running.say(StopDue(slots[1].slot, slots[1].attempt))
    # the answer may be lost: it is said again
    assert StopWanted() in running.say(StopDue(slots[1].slot, slots[1].attempt))


def test_what_another_attempt_said_of_its_batches_does_not_count() -> None:
    running = Simulation(strategy=FixedDelay(1, 1_000))
    running.run_to_running()
    for slot in (running.current(0), running.current(1)):
        running.say(StopDue(slot.slot, slot.attempt))
    running.say(SlotLeaving(SlotId(0), Attempt(0)))
    running.settle()
    running.advance(2_000)
    assert running.machine.attempt == 1
    again = running.current(0)
    assert StopWanted() not in running.say(StopDue(again.slot, again.attempt))
