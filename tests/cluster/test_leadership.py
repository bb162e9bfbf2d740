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


def test_every_leader_gets_a_higher_epoch() -> None:
    assert [take_leadership(name, 1).epoch for name in ("a", "b", "c")] == [1, 2, 3]
    assert LeaderEpoch.objects.get().holder == "c"


def test_a_replaced_leader_can_neither_claim_nor_save(live_redis: str) -> None:
    old = JobStore(take_leadership("old", 1))
    submitted()
    [job] = old.claim_new(5)
    submitted()
    new = JobStore(take_leadership("new", 2))
    job.state = "RUNNING"
    with pytest.raises(LeadershipLostError, match="new leads with epoch 2"):
        old.save(job, [])
    with pytest.raises(LeadershipLostError):
        old.claim_new(6)
    assert Job.objects.get(id=job.id).state == "CREATED"
    assert [orphan.id for orphan in new.orphans()] == [job.id]
    assert len(new.claim_new(7)) == 1


def test_a_job_is_claimed_once(live_redis: str) -> None:
    store = JobStore(take_leadership("a", 1))
    job = submitted()
    assert [claimed.id for claimed in store.claim_new(9)] == [job.id]
    assert store.claim_new(10) == []
    row = Job.objects.get(id=job.id)
    assert (row.state, row.leader_epoch, row.state_times["CREATED"]) == ("CREATED", 1, 9)


def test_a_failure_is_written_once_per_attempt(live_redis: str) -> None:
    store = JobStore(take_leadership("a", 1))
    submitted()
    [job] = store.claim_new(1)
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
