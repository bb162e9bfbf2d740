"""Every call of the jobmanager to the database fails in turn: no job is left without a runner, no operation unseen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.db import DatabaseError

from backend.cluster import services
from backend.cluster.jobmanager import JobManager
from backend.cluster.models import Job, Operation
from tests.cluster.failing_database import FailingDatabase, Loss
from tests.cluster.graphs import RESTARTING, graph_json
from tests.cluster.leading import new_leader, take_leadership
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]

#: jobs that a former leader has run, or had wait
JOBS = {"failed": {}, "restarted": RESTARTING, "cancelled": RESTARTING, "cancelled while it waits": {}, "waits": {}}
HAD_RUN = ("failed", "restarted", "cancelled")
ENDING = ("failed", "cancelled", "cancelled while it waits")
#: state and restarts, once a new leader has seen to them
EXPECTED = {
    "failed": ("FAILED", 0),
    "restarted": ("RESTARTING", 1),
    "cancelled": ("CANCELED", 0),
    "cancelled while it waits": ("CANCELED", 0),
    "waits": ("CREATED", 0),
    "new": ("CREATED", 0),
}
MAX_CALLS = 300
#: of a database that answers again
RECOVERY_S = 10.0


@pytest.fixture
def lead(home: Path, live_redis: str) -> Iterator[Any]:
    """Makes jobmanagers, which end with the test or with the next one."""
    leading: list[JobManager] = []

    def send(worker_name: str, task: str, expires_s: float, **arguments: Any) -> None:
        pass

    def end() -> None:
        while leading:
            leading.pop().close()

    def start() -> JobManager:
        end()
        leading.append(new_leader(home, send))
        return leading[0]

    yield start
    end()


def submit(**options: str) -> Job:
    return services.submit_job(graph_json(1, **options), None, [], {}, None)


def turn(manager: JobManager) -> None:
    """Run one turn of the loop in which everything is due."""
    manager.hasten()
    with suppress(DatabaseError):
        manager.step(0.01)


def left_behind() -> dict[str, Job]:
    """Jobs in each state in which a new leader finds them, one of them to be cancelled."""
    Job.objects.all().delete()
    jobs = {name: submit(**options) for name, options in JOBS.items()}
    for name, job in jobs.items():
        job.state = "RUNNING" if name in HAD_RUN else "CREATED"
        job.state_times = {job.state: 5}
        job.leader_epoch = take_leadership("earlier").epoch
        job.save()
    services.request_cancel(jobs["cancelled"], None)
    return jobs


def is_as_expected(manager: JobManager, jobs: dict[str, Job]) -> bool:
    """Return whether every job has the expected state, has a runner if and only if it has not ended, and all is
    answered."""
    turn(manager)
    rows = {name: Job.objects.get(id=job.id) for name, job in jobs.items()}
    return (
        {name: (row.state, row.restarts) for name, row in rows.items()} == EXPECTED
        and set(manager.jobs.runners) == {row.id for name, row in rows.items() if name not in ENDING}
        and not Operation.objects.exclude(state=Operation.State.COMPLETED).exists()
        and not manager.jobs.unsaved
    )


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("loss", list(Loss))
def test_whichever_call_fails_every_job_has_one_runner_and_every_operation_its_effect(
    loss: Loss, step: int, lead: Any
) -> None:
    first = 1 if loss is Loss.REQUEST else 3
    for nth in range(min(first, step), MAX_CALLS, step):
        jobs = left_behind()
        manager = lead()
        database = FailingDatabase(nth, loss)
        with database.in_use():
            turn(manager)
        jobs["new"] = submit()
        # it waits, and has a runner
        services.request_cancel(jobs["cancelled while it waits"], None)
        with database.in_use():
            for _ in range(3):
                turn(manager)
        what = f"call {nth}, {loss.value}: {database.failed}"
        wait_until(partial(is_as_expected, manager, jobs), RECOVERY_S, what)
        assert Job.objects.get(id=jobs["restarted"].id).exceptions.count() == 1, what
        if not database.failed:
            assert nth > 50
            return
    pytest.fail(f"there are more than {MAX_CALLS} calls")
