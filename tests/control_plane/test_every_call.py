"""Each call to the database and to the bus fails in turn: a scenario is run again for every call that it makes.

Slow tests take some of the calls; `make soak` takes every one.
"""

from __future__ import annotations

import dataclasses

import pytest

from backend.cluster.models import Operation
from tests.control_plane.scenario import ADOPTED, EVERY_STEP, Action, CallFault, Point, Request, Scenario, Submission
from tests.control_plane.simulate import check, simulate

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(4 * 3600)]

Kind = Operation.Kind
SWEPT = [pytest.param(EVERY_STEP, id="restarted"), pytest.param(ADOPTED, id="adopted")]
MAX_CALLS = 1_000
MAX_BUS_CALLS = 3_000


@pytest.mark.parametrize(
    "step", [97, pytest.param(23, marks=pytest.mark.slow), pytest.param(1, marks=pytest.mark.soak)]
)
@pytest.mark.parametrize("action", [Action.FAIL, Action.LOSE_ANSWER], ids=lambda action: action.name)
@pytest.mark.parametrize("scenario", SWEPT)
def test_whichever_call_fails_every_job_has_one_runner_and_every_operation_its_effect(
    scenario: Scenario, action: Action, step: int
) -> None:
    for nth in range(1, MAX_CALLS, step):
        fault = CallFault(Point.SQL, nth, action)
        verdict = simulate(dataclasses.replace(scenario, calls=(fault,)))
        check(verdict)
        if fault not in verdict.world.happened:
            assert nth > 200
            return
    pytest.fail(f"there are more than {MAX_CALLS} calls")


@pytest.mark.parametrize(
    "step", [389, pytest.param(101, marks=pytest.mark.slow), pytest.param(1, marks=pytest.mark.soak)]
)
@pytest.mark.parametrize("action", [Action.FAIL, Action.LOSE_ANSWER, Action.KILL], ids=lambda action: action.name)
@pytest.mark.parametrize("scenario", SWEPT)
def test_whichever_call_to_the_bus_fails_nothing_is_stranded(scenario: Scenario, action: Action, step: int) -> None:
    for nth in range(step, MAX_BUS_CALLS, step):
        fault = CallFault(Point.BUS, nth, action)
        verdict = simulate(dataclasses.replace(scenario, calls=(fault,)))
        check(verdict)
        if fault not in verdict.world.happened:
            assert nth > 200
            return
    pytest.fail(f"there are more than {MAX_BUS_CALLS} calls")


@pytest.mark.parametrize("step", [29, pytest.param(7, marks=pytest.mark.slow), pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize("is_adopted", [True, False], ids=["adopted", "restarted"])
def test_at_whichever_call_the_leader_dies_every_savepoint_is_told(is_adopted: bool, step: int) -> None:
    submissions = (Submission(0, is_adopted=is_adopted),)
    requests = (Request(2_500, Kind.SAVEPOINT, 0), Request(4_500, Kind.STOP, 0))
    for nth in range(step, MAX_CALLS, step):
        dies = CallFault(Point.SQL, nth, Action.KILL, nth % 2)
        verdict = simulate(Scenario(9, submissions=submissions, requests=requests, calls=(dies,)))
        check(verdict)
        if dies not in verdict.world.happened:
            assert nth > 50
            return
    pytest.fail(f"there are more than {MAX_CALLS} calls")
