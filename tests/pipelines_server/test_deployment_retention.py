"""Which deployments are deleted, and which rows keep others."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User

from backend.cluster import services as cluster_services
from backend.cluster.containment import Containment
from backend.cluster.leadership import LeadershipLostError
from backend.cluster.models import Job
from backend.cluster.row_retention import RowRetention
from backend.pipelines import services
from backend.pipelines.deployment_retention import KEPT, LOOK_MS, MAX_AT_ONCE, DeploymentRetention
from backend.pipelines.documents import check
from backend.pipelines.led_deployments import LedDeployments
from backend.pipelines.models import OPEN_STATES, Deployment
from runtime.testing import ManualClock
from tests.cluster.graphs import graph_json
from tests.cluster.leading import take_leadership
from tests.pipelines_server.documents import document

pytestmark = pytest.mark.django_db


def deployments(user: User, number: int) -> list[Deployment]:
    """Deployments of a new pipeline, oldest first, whose jobs have no rows any more."""
    pipeline, version = services.create_pipeline(check(document()), user)
    rows = [
        Deployment(
            pipeline=pipeline,
            version=version,
            created_by=user,
            created_at=at,
            state=("RUNNING", "FAILED", "ROLLED_BACK")[at % 3],
            graph={},
            idempotency_key=f"{pipeline.id}-{at}",
        )
        for at in range(number)
    ]
    return Deployment.objects.bulk_create(rows)


class Leader:
    def __init__(self) -> None:
        self.leadership = take_leadership("leader")
        self.clock = ManualClock(10_000_000)
        self.retention = DeploymentRetention(self.leadership, self.clock, Containment())

    def settle(self) -> None:
        self.clock.advance(LOOK_MS)
        for _ in range(20):
            self.retention.poll()


def test_the_newest_of_each_pipeline_stay(alice: User) -> None:
    many, few = deployments(alice, KEPT + MAX_AT_ONCE + 7), deployments(alice, 3)
    leader = Leader()
    leader.retention.poll()
    assert Deployment.objects.count() == KEPT + 7 + 3
    leader.settle()
    kept = {row.id for row in (*many[-KEPT:], *few)}
    assert set(Deployment.objects.values_list("id", flat=True)) == kept
    assert services.list_versions(many[0].pipeline).count() == 1


def test_what_is_under_way_or_replaced_or_has_a_job_stays(alice: User) -> None:
    under_way, replaced, with_job, *rest = deployments(alice, KEPT + 3)
    Deployment.objects.filter(id=under_way.id).update(state=OPEN_STATES[0], previous=replaced)
    job = cluster_services.submit_job(graph_json(1), None, [], {}, alice)
    Deployment.objects.filter(id=with_job.id).update(job_id=job.id)
    leader = Leader()
    extra = Deployment.objects.create(
        pipeline=rest[0].pipeline, version=rest[0].version, created_by=alice, created_at=10**6, state="RUNNING",
        graph={}, idempotency_key="extra",
    )  # fmt: skip
    leader.settle()
    left = set(Deployment.objects.values_list("id", flat=True))
    assert {under_way.id, replaced.id, with_job.id, extra.id} <= left and len(left) <= KEPT + 3
    Deployment.objects.filter(id=under_way.id).update(state="FAILED")
    Job.objects.all().delete()
    leader.settle()
    left = set(Deployment.objects.values_list("id", flat=True))
    assert len(left) == KEPT and not {under_way.id, replaced.id, with_job.id} & left


def test_a_job_that_a_deployment_under_way_replaces_keeps_its_row(alice: User) -> None:
    old, new = deployments(alice, 2)
    job = cluster_services.submit_job(graph_json(1), None, [], {}, alice)
    Job.objects.update(state="FINISHED")
    Deployment.objects.filter(id=old.id).update(job_id=job.id)
    Deployment.objects.filter(id=new.id).update(state=OPEN_STATES[-1], previous=old)
    leadership, clock = take_leadership("leader"), ManualClock(10_000_000)
    led = LedDeployments(leadership, clock, Containment())
    retention = RowRetention(leadership, 0, led.needed_jobs, clock)
    retention.poll(())
    assert Job.objects.count() == 1 and job.id in led.needed_jobs()
    Deployment.objects.filter(id=new.id).update(state="ROLLED_BACK")
    clock.advance(LOOK_MS)
    retention.poll(())
    assert not Job.objects.exists() and not led.needed_jobs()
    # the deployment stays, without its job
    assert Deployment.objects.count() == 2


def test_a_leader_that_was_replaced_deletes_nothing(alice: User) -> None:
    deployments(alice, KEPT + 1)
    leader = Leader()
    take_leadership("successor")
    with pytest.raises(LeadershipLostError):
        leader.retention.poll()
    assert Deployment.objects.count() == KEPT + 1
