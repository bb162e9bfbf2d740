"""Parallelisms that are offered to a job: when its next attempt takes them up, and when it comes at once."""

from __future__ import annotations

import pytest

from runtime.checkpoint.settings import CheckpointSettings
from runtime.core.ids import VertexId
from runtime.jobmaster.actions import ReleaseAttempt, RequestSlots
from runtime.jobmaster.events import ParallelismOffered, RescaleRequested, SlotLost, StageEnded, Submitted
from runtime.jobmaster.job_state import JobState
from runtime.jobmaster.phases import Phase
from runtime.jobmaster.restart_strategy import FixedDelay
from tests.jobmaster.simulation import EVERY_SECOND, Simulation, two_pipelines

S = JobState


def all_at(s: Simulation, parallelism: int) -> dict[VertexId, int]:
    return {v.vertex_id: parallelism for v in s.graph.vertices}


def has(s: Simulation) -> set[int]:
    return set(s.machine.status().parallelism.values())


def requested(s: Simulation) -> list[int]:
    """How many slots were requested, one time after another."""
    return [sum(len(r.slots) for r in a.regions) for a in s.actions if isinstance(a, RequestSlots)]


@pytest.fixture
def s() -> Simulation:
    """A job with checkpoints of parallelism 2."""
    return Simulation(strategy=FixedDelay(3, 1_000), settings=EVERY_SECOND)


def test_a_new_job_begins_with_what_it_was_offered_before(s: Simulation) -> None:
    s.deliver(ParallelismOffered(all_at(s, 1)))
    s.run_to_running()
    assert (has(s), requested(s), s.machine.attempt) == ({1}, [1], 0)


def test_an_attempt_whose_slots_do_not_come_begins_anew_with_fewer(s: Simulation) -> None:
    s.register_automatically = False
    s.deliver(Submitted())
    s.register_automatically = True
    s.deliver(ParallelismOffered(all_at(s, 1)))
    s.settle()
    assert (s.machine.state, has(s), requested(s)) == (S.RUNNING, {1}, [2, 1])
    # its request is withdrawn, and neither a restart nor a failure is counted
    assert [a.attempt for a in s.actions if isinstance(a, ReleaseAttempt)] == [0]
    assert (s.machine.attempt, s.machine.status().restarts, s.machine.status().failures) == (1, 0, 0)
    assert s.states == [S.RUNNING]


def test_an_attempt_with_a_slot_goes_on(s: Simulation) -> None:
    s.register_automatically = False
    s.deliver(Submitted())
    s.deliver_registration(0)
    s.deliver(ParallelismOffered(all_at(s, 1)))
    assert (s.machine.phase, requested(s)) == (Phase.REQUESTING, [2])


def test_an_offer_of_what_it_has_withdraws_the_one_before(s: Simulation) -> None:
    s.run_to_running()
    s.deliver(ParallelismOffered(all_at(s, 4)))
    s.deliver(ParallelismOffered(all_at(s, 2)))
    s.fail_task()
    s.advance(2_000)
    assert (has(s), s.machine.status().restarts) == ({2}, 1)


@pytest.mark.parametrize("parallelism", [1, 4])
def test_a_running_job_takes_it_up_at_its_next_restart_only(s: Simulation, parallelism: int) -> None:
    s.run_to_running()
    s.advance(1_500)
    s.deliver(ParallelismOffered(all_at(s, parallelism)))
    s.settle()
    assert (has(s), s.machine.attempt) == ({2}, 0)
    s.deliver(SlotLost(s.current(0).slot, s.machine.attempt, "its TaskManager is gone"))
    s.advance(2_000)
    assert (s.machine.state, has(s), requested(s)) == (S.RUNNING, {parallelism}, [2, parallelism])
    # from its checkpoint
    assert s.restored_from(0) == [1, 1]
    assert (s.machine.status().restarts, s.machine.status().failures) == (1, 1)


def test_a_restart_that_waits_for_slots_takes_what_there_is_and_counts_once(s: Simulation) -> None:
    s.run_to_running()
    s.register_automatically = False
    s.fail_task()
    s.advance(3_000)
    assert (s.machine.state, s.machine.phase) == (S.RESTARTING, Phase.REQUESTING)
    s.register_automatically = True
    s.deliver(ParallelismOffered(all_at(s, 1)))
    s.settle()
    assert (s.machine.state, has(s), s.machine.status().restarts) == (S.RUNNING, {1}, 1)


def test_a_rescaling_is_newer_than_an_offer_before_it(s: Simulation) -> None:
    s.run_to_running()
    s.deliver(ParallelismOffered(all_at(s, 1)))
    s.deliver(RescaleRequested("r", all_at(s, 3)))
    s.settle()
    assert (has(s), s.answers["r"].error) == ({3}, None)


def test_a_rescaling_whose_slots_do_not_come_ends_with_those_there_are(s: Simulation) -> None:
    s.run_to_running()
    s.deliver(RescaleRequested("r", all_at(s, 4)))
    while s.machine.phase is not Phase.REQUESTING:
        s.deliver(s.queue.pop(0))
    s.queue.clear()
    s.deliver(ParallelismOffered(all_at(s, 3)))
    s.settle()
    assert (s.machine.state, has(s), s.answers["r"].error) == (S.RUNNING, {3}, None)
    assert (s.machine.status().restarts, s.machine.status().failures) == (0, 0)


def test_more_than_the_max_parallelism_changes_nothing(s: Simulation) -> None:
    s.run_to_running()
    s.deliver(ParallelismOffered(all_at(s, 129)))
    s.fail_task()
    s.advance(2_000)
    assert has(s) == {2}


def test_a_region_without_slots_makes_the_whole_job_go_on_with_fewer() -> None:
    settings = CheckpointSettings(interval_ms=1_000, savepoint_directory="file:///saved")
    s = Simulation(two_pipelines(2), FixedDelay(3, 500), settings)
    s.run_to_running()
    s.advance(1_100)
    right = s.machine.status().tasks[-1].slot
    s.register_automatically = False
    for slot in [slot for slot in s.slots.values() if slot.slot >= right - 1]:
        slot.gone = True
    s.deliver(StageEnded(1, s.machine.attempt, "its TaskManager is gone"))
    s.advance(1_000)
    assert (s.machine.state, s.machine.phase) == (S.RESTARTING, Phase.STARTED)
    s.register_automatically = True
    s.deliver(ParallelismOffered(all_at(s, 1)))
    s.settle()
    s.advance(20_000)
    assert (s.machine.state, has(s)) == (S.RUNNING, {1})
    assert s.restored_from(0) != [None]
    assert s.machine.status().restarts == 1
