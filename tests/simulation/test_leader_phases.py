"""A JobMaster that is killed, or frozen past its lease, in each phase of its work: whoever follows goes on from there.

A phase is a condition on the JobMaster; the fault strikes when it holds for the first time, and a phase that is never
reached fails its test. Phases of a checkpoint are points of the simulation, see `test_adoption`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from runtime.checkpoint.messages import DeleteFiles, StoreCheckpoint
from runtime.jobmaster.phases import TEARDOWN, Phase
from tests.simulation.adoption import ORPHAN_TIMEOUT_MS
from tests.simulation.faults import Action, Fault, Point
from tests.simulation.regions import num_restarts_alone, num_starts_of_all, simulate_regions
from tests.simulation.scenario import Scenario
from tests.simulation.simulate import Verdict, simulate
from tests.simulation.world import JobMasterProcess, World

pytestmark = pytest.mark.timeout(300)

FROZEN_MS = 3_000
SEEDS = range(3, 23)
"""Of which the first is taken that reaches the phase."""


def machine(leader: JobMasterProcess) -> Any:
    return leader.driver._machine


def pending(leader: JobMasterProcess) -> Any:
    return machine(leader)._checkpoints._coordinator._pending


def reports(leader: JobMasterProcess) -> int:
    return len(machine(leader)._adoption._reports)


def is_idle(world: World, leader: JobMasterProcess) -> bool:
    return machine(leader).phase is Phase.STARTED and world.passed[Point.RECORDED] > 2 and not pending(leader)


def holds_events(world: World, leader: JobMasterProcess) -> bool:
    return bool(machine(leader)._checkpoints._held)


def deletes_files(world: World, leader: JobMasterProcess) -> bool:
    storage: Any = leader.driver._storage
    return any(isinstance(action, DeleteFiles) for action in storage._worker._actions)


def is_rescaling(phase: Phase) -> Callable[[World, JobMasterProcess], bool]:
    return lambda world, leader: (
        Point.STEP in world.passed and has_begun_anew(leader) and machine(leader).phase is phase
    )


def has_begun_anew(leader: JobMasterProcess) -> bool:
    """Return whether its job was being rescaled, or restarted, at some time."""
    return machine(leader)._operations._rescale is not None or machine(leader).attempt > 0


def waits_to_rescale(world: World, leader: JobMasterProcess) -> bool:
    return machine(leader)._operations._rescale is not None and machine(leader).phase is Phase.STARTED


def is_storing_stop(world: World, leader: JobMasterProcess) -> bool:
    storage: Any = leader.driver._storage
    is_next = isinstance(next(iter(storage._worker._actions), None), StoreCheckpoint)
    return is_next and [p.is_last for p in pending(leader).values()] == [True]


def is_stopping(phase: Phase, attempt: int = 0) -> Callable[[World, JobMasterProcess], bool]:
    return lambda world, leader: (
        machine(leader)._checkpoints.stopped_by is not None
        and machine(leader).phase is phase
        and machine(leader).attempt == attempt
    )


def half_have_left(world: World, leader: JobMasterProcess) -> bool:
    is_leaving = is_stopping(Phase.LEAVING)(world, leader)
    return is_leaving and 0 < len(world.slots()) < len(machine(leader)._run.slots)


def is_restarting(world: World, leader: JobMasterProcess) -> bool:
    return machine(leader).phase in TEARDOWN and machine(leader)._operations._rescale is None


def is_restarting_region(*phases: Phase) -> Callable[[World, JobMasterProcess], bool]:
    return lambda world, leader: bool(
        leader.epoch == 1 and [r for r in machine(leader)._regions._restarts.values() if r.phase in phases]
    )


def has_begun_operation(world: World, leader: JobMasterProcess) -> bool:
    return bool(leader.driver._requests)


def has_invited(world: World, leader: JobMasterProcess) -> bool:
    return machine(leader).phase is Phase.RECONCILING and not reports(leader)


def is_half_reported(world: World, leader: JobMasterProcess) -> bool:
    return machine(leader).phase is Phase.RECONCILING and reports(leader) > 0


def is_half_aborted(world: World, leader: JobMasterProcess) -> bool:
    heard = {slot.name for slot in world.slots() if slot.link.master is leader and slot.has_resynced}
    return leader.epoch > 1 and 0 < len(heard) < len(world.slots())


@dataclass(frozen=True)
class LeaderPhase:
    """A phase, and what brings it about."""

    name: str
    holds: Callable[[World, JobMasterProcess], bool]
    faults: tuple[Fault, ...] = ()
    keeps_attempt: bool = True
    """Whether the attempt has to be adopted."""
    at: Point | None = None
    """Where the leader is struck once it holds; None: at once."""
    stops: bool = False
    """Whether the job has to be stopped with its one savepoint."""
    then: Callable[[World, JobMasterProcess], bool] | None = None
    """When the next leader is struck, too."""
    has_two_regions: bool = False
    """Whether the job is twice in one job, and only the half that was being restarted begins anew."""


RESCALED = (Fault(Point.STEP, 200, Action.RESCALE, 3),)
STOPPED = (Fault(Point.STEP, 200, Action.STOP),)
DRAINED = (Fault(Point.STEP, 200, Action.STOP, 1),)
BROKEN = (Fault(Point.PROCESS, 150, Action.RAISE),)
LOST = (Fault(Point.STEP, 300, Action.KILL_JOBMASTER),)
PHASES = (
    LeaderPhase("idle", is_idle),
    LeaderPhase("assignments of splits held", holds_events),
    LeaderPhase("row removed, files not deleted", deletes_files),
    LeaderPhase("to be rescaled", waits_to_rescale, RESCALED, keeps_attempt=False),
    LeaderPhase("rescaled: tasks stop", is_rescaling(Phase.CANCELLING_TASKS), RESCALED, keeps_attempt=False),
    LeaderPhase("rescaled: slots are requested", is_rescaling(Phase.REQUESTING), RESCALED, keeps_attempt=False),
    LeaderPhase("rescaled: tasks are deployed", is_rescaling(Phase.DEPLOYING), RESCALED, keeps_attempt=False),
    LeaderPhase(
        "a region is restarted",
        is_restarting,
        (Fault(Point.PROCESS, 90, Action.RAISE),),
        keeps_attempt=False,
    ),
    *(
        LeaderPhase(
            f"one of two regions is restarted: {name}", is_restarting_region(*phases), BROKEN, has_two_regions=True
        )
        for name, phases in (
            ("it is taken down", TEARDOWN),
            ("its slots are requested", (Phase.REQUESTING,)),
            ("its tasks are deployed", (Phase.DEPLOYING,)),
        )
    ),
    LeaderPhase("an operation has begun", has_begun_operation, (Fault(Point.STEP, 200, Action.SAVEPOINT),)),
    LeaderPhase("it adopts: slots are invited", has_invited, LOST),
    LeaderPhase("it adopts: some slots have reported", is_half_reported, LOST),
    LeaderPhase("it adopts: some slots know what was given up", is_half_aborted, LOST),
    LeaderPhase("stop: its savepoint is written", is_storing_stop, STOPPED, at=Point.METADATA_WRITTEN, stops=True),
    LeaderPhase("drain: its savepoint is written", is_storing_stop, DRAINED, at=Point.METADATA_WRITTEN, stops=True),
    LeaderPhase("stop: its savepoint is recorded", is_storing_stop, STOPPED, at=Point.RECORDED, stops=True),
    LeaderPhase("drain: its savepoint is recorded", is_storing_stop, DRAINED, at=Point.RECORDED, stops=True),
    LeaderPhase("stop: tasks end", is_stopping(Phase.STARTED), STOPPED, stops=True),
    LeaderPhase("stop: sinks commit", is_stopping(Phase.COMMITTING), STOPPED, stops=True),
    LeaderPhase("drain: sinks commit", is_stopping(Phase.COMMITTING), DRAINED, stops=True),
    LeaderPhase("stop: some slots have left", half_have_left, STOPPED, False, stops=True),
    *(
        LeaderPhase(
            f"stop: some slots have left, and the next one: {phase.value}",
            *(half_have_left, STOPPED, False),
            stops=True,
            then=is_stopping(phase, attempt=1),
        )
        for phase in (Phase.REQUESTING, Phase.DEPLOYING, Phase.COMMITTING, Phase.LEAVING)
    ),
)


def struck_in(phase: LeaderPhase, action: Action) -> tuple[Verdict, list[str]]:
    """Run the scenario of a phase with the leader struck in it; also return who was struck."""
    struck: list[str] = []
    num_struck = 1 + (phase.then is not None)

    def watch(world: World) -> None:
        leader, holds = world.leader, phase.then if struck else phase.holds
        is_done = len(struck) == num_struck
        if is_done or leader is None or leader.is_frozen or holds is None or not holds(world, leader):
            return
        struck.append(leader.name)
        if phase.at is not None:
            nth = world.passed[phase.at] + 1
            world._faults[phase.at, nth] = Fault(phase.at, nth, action, FROZEN_MS)
        elif action is Action.KILL_JOBMASTER:
            world.kill(leader)
        else:
            world.replace_leader(leader, FROZEN_MS)

    for seed in SEEDS:
        scenario = Scenario(seed, faults=phase.faults, orphan_timeout_ms=ORPHAN_TIMEOUT_MS, max_turns=50_000)
        verdict = (simulate_regions if phase.has_two_regions else simulate)(scenario, watch=watch)
        if len(struck) == num_struck or verdict.violations:
            break
        struck.clear()
    return verdict, struck


@pytest.mark.parametrize("action", [Action.KILL_JOBMASTER, Action.FREEZE_JOBMASTER], ids=lambda a: a.name)
@pytest.mark.parametrize("phase", PHASES, ids=lambda phase: phase.name)
def test_a_leader_that_is_lost_in_a_phase_of_its_work_loses_and_repeats_nothing(
    phase: LeaderPhase, action: Action
) -> None:
    verdict, struck = struck_in(phase, action)
    assert struck, f"never: {phase.name}\n{verdict.report()}"
    assert not verdict.violations, verdict.report()
    if phase.has_two_regions:
        # the other one goes on with its attempt
        assert verdict.world.num_adopted, verdict.report()
        assert num_starts_of_all(verdict) <= 1, verdict.report()
        assert num_restarts_alone(verdict) >= 1, verdict.report()
    elif phase.stops:
        assert verdict.world.resumed.total() == 1, verdict.report()
    elif phase.keeps_attempt:
        assert verdict.world.last_attempt == 0, verdict.report()
        assert verdict.world.num_adopted, verdict.report()
