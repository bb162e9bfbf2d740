"""/api/v1/jobs/:jobid/switch: what is refused before anything is stopped, and what is recorded and told."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from pytest_django import Settings
from rest_framework.test import APIClient

from backend.audit.models import AuditEvent
from backend.cluster import services
from backend.cluster.models import Artifact, Job, Operation
from backend.dispatcher.models import ExecutionSwitch
from backend.dispatcher.switches import planned_job
from tests.accounts.cast import client_of
from tests.cluster.graphs import graph_json
from tests.dispatcher.test_jars import jar_id, upload

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("home")]

SECRET = "canary-7f3a"
PROGRAM = """
import sys
from runtime.common import Duration, WatermarkStrategy
from runtime.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
numbers = env.from_collection(list(range(10)))
if "--idle" in sys.argv:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_idleness(Duration.of_seconds(1))
    numbers = numbers.map(lambda x: x).assign_timestamps_and_watermarks(strategy)
if "--continuous" in sys.argv:
    env.get_configuration().set_string("execution.mode", "continuous")
numbers.map(lambda x: x + 1).print()
print("arguments", sys.argv[1:])
env.execute("tiny")
"""


def run(api: APIClient, *args: str, **options: str) -> Job:
    """A job of the program that runs, as far as rows say so."""
    program = jar_id(upload(api, "tiny.py", PROGRAM))
    submission = {"entry": None, "parallelism": 2, "configuration": options}
    artifact, owner = Artifact.objects.get(id=program[:64]), User.objects.get(username="alice")
    job = services.submit_job(graph_json(2, "tiny", **options), artifact, args, options, owner, submission)
    Job.objects.update(state="RUNNING", state_times={"RUNNING": 1})
    return Job.objects.get(id=job.id)


def switch(api: APIClient, job: Job, execution: str = "micro-batch", **more: Any) -> Any:
    return api.post(f"/api/v1/jobs/{job.id}/switch", {"execution": execution, **more}, format="json")


def newest(api: APIClient, job_id: str) -> Any:
    return api.get(f"/api/v1/jobs/{job_id}/switch").json()["switch"]


def refusal(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["errors"][0]["message"]


def test_a_switch_is_planned_with_the_jobs_own_secrets_which_are_in_no_answer_row_or_event(
    api: APIClient, anonymous: APIClient
) -> None:
    job = run(api, "--password", SECRET, **{"s3.secret-key": SECRET})
    answer = switch(api, job)
    assert answer.status_code == 202
    told = answer.json()
    assert (told["state"], told["old_job_id"], told["job_id"], told["goes_on_as"]) == ("CHECKED", job.id, None, None)
    row = ExecutionSwitch.objects.get()
    assert newest(api, job.id) == newest(api, row.old_job_id) == told
    planned = planned_job(row, "file:///sp")
    assert planned.args == ["--password", SECRET] and planned.configuration["s3.secret-key"] == SECRET
    assert planned.graph["configuration"]["execution.mode"] == "micro-batch"
    assert planned.submission["parallelism"] == 2 and planned.submission["configuration"]["s3.secret-key"] == SECRET
    events = AuditEvent.objects.filter(action__endswith="/switch")
    assert [event.detail for event in events] == [{"execution": "micro-batch", "switch": row.id, "job": row.job_id}]
    seen = [answer.content.decode(), api.get(f"/api/v1/jobs/{job.id}/switch").content.decode(), row.planned]
    assert SECRET not in "".join([*seen, *(json.dumps(event.detail) for event in AuditEvent.objects.all())])
    assert not Operation.objects.exists()
    assert anonymous.get(f"/api/v1/jobs/{job.id}/switch").status_code == 401


def test_the_same_again_is_one_switch_and_another_one_waits(api: APIClient) -> None:
    job = run(api)
    first = switch(api, job, key="a-double-click").json()["id"]
    assert switch(api, job, key="a-double-click").json()["id"] == first
    assert switch(api, job, key="somebody-else").json()["id"] == first
    assert switch(api, job).json()["id"] == first
    assert refusal(switch(api, job, "continuous"))[0] == 409
    ExecutionSwitch.objects.update(state="RUNNING")
    # the request is known, whatever has become of the job
    Job.objects.filter(id=job.id).update(state="FINISHED")
    assert switch(api, job, key="a-double-click").json()["id"] == first
    status, why = refusal(switch(api, job, "continuous", key="a-double-click"))
    assert status == 409 and "key" in why
    assert ExecutionSwitch.objects.count() == 1


def test_what_micro_batches_cannot_do_is_refused_before_the_job_is_stopped(api: APIClient) -> None:
    job = run(api, "--idle", "--password", SECRET)
    answer = switch(api, job)
    status, why = refusal(answer)
    assert status == 400 and "micro-batches" in why and "idleness" in why
    assert SECRET not in answer.content.decode()
    assert not ExecutionSwitch.objects.exists() and not Operation.objects.exists()
    assert newest(api, job.id) is None


def test_a_program_that_chooses_its_execution_itself_is_not_switched(api: APIClient) -> None:
    job = run(api, "--continuous")
    status, why = refusal(switch(api, job))
    assert status == 409 and "chooses its execution itself" in why
    assert not ExecutionSwitch.objects.exists() and not Operation.objects.exists()


def test_jobs_that_cannot_be_switched_are_left_alone(api: APIClient, settings: Settings) -> None:
    job = run(api)
    whys = {"RESTARTING": "only a running job", "FINISHED": "already in state FINISHED"}
    for state, expected in whys.items():
        Job.objects.filter(id=job.id).update(state=state)
        status, why = refusal(switch(api, job))
        assert status == 409 and expected in why
    Job.objects.filter(id=job.id).update(state="RUNNING")
    status, why = refusal(switch(api, job, "continuous"))
    assert status == 409 and "continuous already" in why
    settings.TIDEMARK_SWITCH_OBSTACLES = [f"{__name__}.drawn"]
    assert refusal(switch(api, job)) == (409, "it was drawn")
    settings.TIDEMARK_SWITCH_OBSTACLES = []
    Job.objects.filter(id=job.id).update(artifact=None)
    status, why = refusal(switch(api, job))
    assert status == 409 and "deleted" in why
    assert not ExecutionSwitch.objects.exists()


def drawn(job_id: str) -> str:
    """An obstacle."""
    return "it was drawn"


def test_a_cluster_without_micro_batches_refuses_them(api: APIClient, settings: Settings) -> None:
    job = run(api)
    settings.TIDEMARK_MICRO_BATCHES = False
    status, why = refusal(switch(api, job))
    assert status == 400 and "TIDEMARK_MICRO_BATCHES" in why and not ExecutionSwitch.objects.exists()


def test_a_batch_is_not_switched(api: APIClient) -> None:
    job = run(api, **{"execution.runtime-mode": "BATCH"})
    status, why = refusal(switch(api, job))
    assert status == 409 and "batch" in why


@pytest.mark.parametrize("body", [{}, {"execution": "batch"}, {"execution": "continuous", "key": "short"}, [1]])
def test_a_body_that_says_something_else_is_refused(api: APIClient, job: Job, body: Any) -> None:
    answer = api.post(f"/api/v1/jobs/{job.id}/switch", body, format="json")
    assert answer.status_code == 400 and answer.json()["errors"][0]["field"] in ("execution", "key")


def test_whoever_may_not_submit_or_does_not_own_the_job_is_refused(
    api: APIClient, oscar: User, job: Job, settings: Settings
) -> None:
    assert switch(client_of(oscar), job).status_code == 403
    settings.TIDEMARK_OWNERS_ONLY = True
    assert switch(api, job).status_code == 403
    settings.TIDEMARK_OWNERS_ONLY = False
    settings.TIDEMARK_SUBMIT = False
    assert switch(api, job).status_code == 403


def test_both_jobs_tell_of_a_switch_and_what_goes_on(api: APIClient, alice: User, job: Job) -> None:
    row = ExecutionSwitch.objects.create(
        state="ROLLED_BACK", state_times={"ROLLED_BACK": 5}, old_job_id=job.id, execution="micro-batch",
        message="no slots", savepoint="file:///sp", idempotency_key="a-key", created_by=alice, created_at=1,
    )  # fmt: skip
    told = newest(api, job.id)
    assert (told["goes_on_as"], told["message"], told["savepoint"]) == (row.rollback_job_id, "no slots", "file:///sp")
    Job.objects.filter(id=job.id).update(id=row.job_id)
    ExecutionSwitch.objects.update(state="SUBMITTED")
    told = newest(api, row.job_id)
    assert (told["job_id"], told["goes_on_as"], told["created_by"]) == (row.job_id, row.job_id, "alice")
    status, why = refusal(switch(api, Job.objects.get(id=row.job_id)))
    assert status == 409 and "just now" in why
