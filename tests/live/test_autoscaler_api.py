"""/api/v1/jobs/:id/autoscaler."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db.models.functions import Now
from rest_framework.test import APIClient

from backend.audit.models import AuditEvent
from backend.cluster.models import Job, Scaling
from tests.accounts.cast import client_of
from tests.dispatcher import rows

pytestmark = pytest.mark.usefixtures("bus_redis")

OFF: dict[str, Any] = {"enabled": False, "switched": None, "reason": "", "vertices": {}, "decisions": []}
DECIDING = {
    "enabled": True,
    "reason": "measuring: 42 s of 60 s of samples",
    "vertices": {rows.SINK: {"wanted": 3, "reason": "Busy."}},
    "last_decision": None,
}


@pytest.fixture
def job(db: None) -> Job:
    return rows.running_job()


def path(job: Job) -> str:
    return f"/api/v1/jobs/{job.id}/autoscaler"


def told(job: Job, autoscaler: dict[str, Any]) -> None:
    """The jobmanager has saved the job with this part of its document."""
    Job.objects.filter(id=job.id).update(document={**(job.document or {}), "autoscaler": autoscaler})


def decided(job: Job, number: int, cost_ms: float | None = 2_100.0) -> None:
    change = {"name": "window", "before": 2, "after": 3, "reason": f"Number {number}.", "true_rate": 9.5}
    Scaling.objects.create(
        job=job,
        decided_at=number,
        stamp=Now(),
        reason="rescaling window from 2 to 3",
        changes={rows.SINK: change},
        cost_ms=cost_ms,
    )


def test_it_is_off_unless_somebody_switches_it_on(api: APIClient, job: Job) -> None:
    assert api.get(path(job)).json() == OFF
    answer = api.put(path(job), {"enabled": True}, format="json")
    # the jobmanager has not noticed it yet
    assert answer.json() == {**OFF, "enabled": True, "switched": True}
    assert Job.objects.get(id=job.id).autoscaler_enabled is True
    assert api.put(path(job), {"enabled": False}, format="json").json() == {**OFF, "switched": False}
    assert api.put(path(job), {"enabled": None}, format="json").json() == OFF
    switches = AuditEvent.objects.order_by("-pk").values_list("detail", flat=True)[:3]
    assert [(told["before"], told["after"]) for told in reversed(switches)] == [
        (None, True),
        (True, False),
        (False, None),
    ]


def test_the_decision_has_its_reasons(api: APIClient, job: Job) -> None:
    told(job, DECIDING)
    found = api.get(path(job)).json()
    assert (found["enabled"], found["switched"], found["reason"]) == (True, None, DECIDING["reason"])
    assert found["vertices"] == DECIDING["vertices"]
    # what it decided before it was switched off counts no more
    assert api.put(path(job), {"enabled": False}, format="json").json() == {**OFF, "switched": False}


def test_decisions_are_listed_newest_first(api: APIClient, job: Job) -> None:
    decided(job, 1)
    decided(job, 2, cost_ms=None)
    decided(rows.running_job(), 3)
    decisions = api.get(path(job)).json()["decisions"]
    assert [(d["decided_at"], d["cost_ms"]) for d in decisions] == [(2, None), (1, 2_100.0)]
    assert decisions[0]["changes"] == {rows.SINK: {"name": "window", "before": 2, "after": 3, "reason": "Number 2."}}


def test_an_ended_job_cannot_be_switched_and_keeps_its_history(api: APIClient) -> None:
    job = rows.ended_job("FINISHED")
    told(job, DECIDING)
    decided(job, 1)
    assert api.put(path(job), {"enabled": True}, format="json").status_code == 409
    found = api.get(path(job)).json()
    assert (found["enabled"], found["vertices"], len(found["decisions"])) == (False, {}, 1)


@pytest.mark.parametrize("body", [{}, {"enabled": "yes"}, {"enabled": 1}, [], "on"])
def test_a_malformed_switch_is_refused(api: APIClient, job: Job, body: Any) -> None:
    answer = api.put(path(job), body, format="json")
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == "enabled"


def test_only_operators_may_switch_it(api: APIClient, job: Job, victor: User, oscar: User) -> None:
    viewer = client_of(victor)
    assert viewer.put(path(job), {"enabled": True}, format="json").status_code == 403
    assert viewer.get(path(job)).status_code == 200
    assert client_of(oscar).put(path(job), {"enabled": True}, format="json").status_code == 200
    assert api.get(f"/api/v1/jobs/{'f' * 32}/autoscaler").status_code == 404
    assert api.get("/api/v1/jobs/nonsense/autoscaler").status_code == 400
