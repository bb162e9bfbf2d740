"""A JobMaster that is killed, or frozen past its lease, in each phase of its work: whoever follows goes on from there.

A phase is a condition on the JobMaster; the fault strikes when it holds for the first time, and a phase that is never
reached fails its test. Phases of a checkpoint are points of the simulation, see `test_adoption`. A stop between its
savepoint and its end is left to `tests.chaos.leaders`: users of the simulation ask the JobMaster alone, and hear
nothing of a stop that another one has finished.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from runtime.checkpoint.messages import DeleteFiles
from runtime.jobmaster.phases import TEARDOWN, Phase
from tests.simulation.adoption import ORPHAN_TIMEOUT_MS
from tests.simulation.faults import Action, Fault, Point
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


def is_restarting(world: World, leader: JobMasterProcess) -> bool:
    return machine(leader).phase in TEARDOWN and machine(leader)._operations._rescale is None


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


RESCALED = (Fault(Point.STEP, 200, Action.RESCALE, 3),)
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
    LeaderPhase("an operation has begun", has_begun_operation, (Fault(Point.STEP, 200, Action.SAVEPOINT),)),
    LeaderPhase("it adopts: slots are invited", has_invited, LOST),
    LeaderPhase("it adopts: some slots have reported", is_half_reported, LOST),
    LeaderPhase("it adopts: some slots know what was given up", is_half_aborted, LOST),
)


def struck_in(phase: LeaderPhase, action: Action) -> tuple[Verdict, list[str]]:
    """Run the scenario of a phase with the leader struck in it; also return who was struck."""
    struck: list[str] = []

    def watch(world: World) -> None:
        leader = world.leader
        if struck or leader is None or leader.is_frozen or not phase.holds(world, leader):
            return
        struck.append(leader.name)
        if action is Action.KILL_JOBMASTER:
            world.kill(leader)
        else:
            world.replace_leader(leader, FROZEN_MS)

    for seed in SEEDS:
        scenario = Scenario(seed, faults=phase.faults, orphan_timeout_ms=ORPHAN_TIMEOUT_MS)
        verdict = simulate(scenario, watch=watch)
        if struck or verdict.violations:
            break
    return verdict, struck


@pytest.mark.parametrize("action", [Action.KILL_JOBMASTER, Action.FREEZE_JOBMASTER], ids=lambda a: a.name)
@pytest.mark.parametrize("phase", PHASES, ids=lambda phase: phase.name)
def test_a_leader_that_is_lost_in_a_phase_of_its_work_loses_and_repeats_nothing(
    phase: LeaderPhase, action: Action
) -> None:
    verdict, struck = struck_in(phase, action)
    assert struck, f"never: {phase.name}\n{verdict.report()}"
    assert not verdict.violations, verdict.report()
    if phase.keeps_attempt:
        assert verdict.world.last_attempt == 0, verdict.report()
        assert verdict.world.num_adopted, verdict.report()
