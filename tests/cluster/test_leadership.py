"""Leadership: one epoch per leader, and no write of a leader that has been replaced."""

from __future__ import annotations

import pytest

from backend.cluster import services
from backend.cluster.job_store import JobStore
from backend.cluster.leadership import LeadershipLostError, take_leadership
from backend.cluster.models import Job, LeaderEpoch
from tests.cluster.graphs import graph_json

pytestmark = pytest.mark.django_db


def submitted() -> Job:
    return services.submit_job(graph_json(), None, [], {}, None)


def taken(store: JobStore) -> list[str]:
    """Ids of the jobs without a runner, which are the store's leader's afterwards."""
    jobs = store.without_runner(())
    return [job.id for job in jobs if store.take(job)]


def test_every_leader_gets_a_higher_epoch() -> None:
    assert [take_leadership(name, 1).epoch for name in ("a", "b", "c")] == [1, 2, 3]
    assert LeaderEpoch.objects.get().holder == "c"


def test_a_replaced_leader_can_neither_claim_nor_save(live_redis: str) -> None:
    old = JobStore(take_leadership("old", 1))
    job = submitted()
    assert taken(old) == [job.id]
    other = submitted()
    new = JobStore(take_leadership("new", 2))
    job.state = "RUNNING"
    with pytest.raises(LeadershipLostError, match="new leads with epoch 2"):
        old.save(job, [])
    with pytest.raises(LeadershipLostError):
        taken(old)
    assert Job.objects.get(id=job.id).state == "INITIALIZING"
    assert taken(new) == [job.id, other.id]
    assert old.without_runner(()) == []


def test_a_job_that_nobody_runs_is_found_until_somebody_does(live_redis: str) -> None:
    store = JobStore(take_leadership("a", 1))
    job = submitted()
    for _ in range(2):
        assert taken(store) == [job.id]
    assert Job.objects.get(id=job.id).leader_epoch == 1
    assert store.without_runner([job.id]) == []
    Job.objects.filter(id=job.id).update(state="FAILED")
    assert store.without_runner(()) == []


def test_a_failure_is_written_once_per_attempt(live_redis: str) -> None:
    store = JobStore(take_leadership("a", 1))
    job = submitted()
    entry = {
        "timestamp": 5,
        "name": "ValueError",
        "message": "bad",
        "stacktrace": "Traceback",
        "task_name": "map (1/2)",
        "location": "host:1",
        "attempt": 0,
        "suppressed": [],
    }
    store.save(job, [entry])
    store.save(job, [entry | {"suppressed": [{"name": "x", "message": "y", "task_name": ""}]}])
    [known] = store.known_exceptions(job)
    assert known["suppressed"]
