"""/jobs and what hangs on one job."""

from __future__ import annotations

from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from backend.accounts.services import create_token
from backend.cluster.models import Job, Operation, TaskManager
from tests.accounts.cast import PASSWORD, client_of
from tests.dispatcher import rows

DATA = Path(__file__).parent / "data"


def test_overview_counts_jobs_and_slots(api: APIClient, job: Job, taskmanager: TaskManager) -> None:
    for state in ("FINISHED", "FINISHED", "CANCELED", "FAILED"):
        rows.ended_job(state)
    answer = api.get("/v1/overview").json()
    counts = {key: answer[key] for key in answer if key.startswith("jobs-")}
    assert counts == {"jobs-running": 1, "jobs-finished": 2, "jobs-cancelled": 1, "jobs-failed": 1}
    assert (answer["taskmanagers"], answer["slots-total"]) == (1, 4)


def test_jobs_are_listed_with_their_states(api: APIClient, job: Job) -> None:
    ended = rows.ended_job("CANCELED")
    listed = {entry["id"]: entry["status"] for entry in api.get("/v1/jobs").json()["jobs"]}
    assert listed == {job.id: "RUNNING", ended.id: "CANCELED"}


def test_the_jobs_overview_counts_tasks(api: APIClient, job: Job) -> None:
    [entry] = api.get("/v1/jobs/overview").json()["jobs"]
    assert (entry["jid"], entry["state"], entry["end-time"]) == (job.id, "RUNNING", -1)
    assert (entry["tasks"]["running"], entry["tasks"]["total"]) == (4, 4)
    assert entry["duration"] >= 3000


def test_a_job_that_waits_has_tasks_in_state_created(api: APIClient) -> None:
    job = rows.submitted_job()
    detail = api.get(f"/v1/jobs/{job.id}").json()
    assert detail["state"] == "INITIALIZING"
    assert [vertex["status"] for vertex in detail["vertices"]] == ["CREATED", "CREATED"]
    assert detail["vertices"][0]["start-time"] == detail["vertices"][0]["duration"] == -1
    assert detail["timestamps"]["INITIALIZING"] == job.created_at


def test_a_job_says_what_its_vertices_do(api: APIClient, job: Job) -> None:
    detail = api.get(f"/v1/jobs/{job.id}").json()
    source = detail["vertices"][0]
    assert (source["id"], source["status"], source["tasks"]["RUNNING"]) == (rows.SOURCE, "RUNNING", 2)
    assert (source["metrics"]["read-records"], source["metrics"]["write-records"]) == (400, 50)
    assert detail["status-counts"]["RUNNING"] == 2
    assert detail["waiting-for"] == ""
    assert detail["timestamps"]["RUNNING"] > detail["timestamps"]["CREATED"] > 0
    sink_node = next(node for node in detail["plan"]["nodes"] if node["id"] == rows.SINK)
    [edge] = sink_node["inputs"]
    assert (edge["id"], edge["ship_strategy"]) == (rows.SOURCE, "HASH")


def test_status_plan_and_configuration(api: APIClient, job: Job) -> None:
    assert api.get(f"/v1/jobs/{job.id}/status").json() == {"status": "RUNNING"}
    plan = api.get(f"/v1/jobs/{job.id}/plan").json()["plan"]
    assert (plan["jid"], len(plan["nodes"])) == (job.id, 2)
    config = api.get(f"/v1/jobs/{job.id}/config").json()["execution-config"]
    assert (config["job-parallelism"], config["restart-strategy"]) == (2, "Restart deactivated.")
    assert config["user-config"]["parallelism.default"] == "2"


def test_the_restart_strategy_is_the_one_that_applies(api: APIClient, job: Job) -> None:
    Job.objects.update(configuration={"execution.checkpointing.interval": "10 s"})
    config = api.get(f"/v1/jobs/{job.id}/config").json()["execution-config"]
    assert config["restart-strategy"].startswith("Restart with exponential delay")
    Job.objects.update(configuration={"restart-strategy.type": "of an earlier release"})
    config = api.get(f"/v1/jobs/{job.id}/config").json()["execution-config"]
    assert "restart-strategy.type" in config["restart-strategy"]


def test_secrets_of_a_configuration_are_hidden(api: APIClient, job: Job) -> None:
    Job.objects.update(configuration={"s3.secret-key": "hunter2", "sink.url": "postgres://me:hunter2@db/x"})
    answer = api.get(f"/v1/jobs/{job.id}/config")
    assert b"hunter2" not in answer.content
    assert answer.json()["execution-config"]["user-config"]["sink.url"] == "postgres://******@db/x"


def test_exceptions_come_newest_first_and_say_what_else_broke(api: APIClient, job: Job) -> None:
    for attempt in range(3):
        rows.failure_of(job, attempt, f"attempt {attempt}")
    history = api.get(f"/v1/jobs/{job.id}/exceptions?maxExceptions=2").json()["exceptionHistory"]
    assert history["truncated"] is True
    assert ["attempt 2" in e["stacktrace"] for e in history["entries"]] == [True, False]
    [other] = history["entries"][0]["concurrentExceptions"]
    assert (other["exceptionName"], other["taskName"]) == ("SlotLost", "Source: flights (2/2)")
    assert api.get(f"/v1/jobs/{job.id}/exceptions").json()["exceptionHistory"]["truncated"] is False
    # earlier ones are counted, and not kept
    Job.objects.filter(id=job.id).update(num_failures=4)
    history = api.get(f"/v1/jobs/{job.id}/exceptions").json()["exceptionHistory"]
    assert history["truncated"] is True and len(history["entries"]) == 3


def test_an_exception_names_a_taskmanager_that_can_be_asked_for(
    api: APIClient, job: Job, taskmanager: TaskManager
) -> None:
    rows.failure_of(job, 0)
    [entry] = api.get(f"/v1/jobs/{job.id}/exceptions").json()["exceptionHistory"]["entries"]
    assert (entry["taskManagerId"], entry["endpoint"]) == (taskmanager.id, "localhost:4712")
    assert api.get(f"/v1/taskmanagers/{entry['taskManagerId']}").status_code == 200


@pytest.mark.parametrize(
    ("state", "status"), [("FINISHED", "SUCCEEDED"), ("CANCELED", "CANCELED"), ("FAILED", "FAILED")]
)
def test_the_result_of_a_job_that_ended(api: APIClient, state: str, status: str) -> None:
    job = rows.ended_job(state)
    if state == "FAILED":
        rows.failure_of(job, 0, "no year")
    answer = api.get(f"/v1/jobs/{job.id}/execution-result").json()
    assert answer["status"]["id"] == "COMPLETED"
    result = answer["job-execution-result"]
    assert (result["id"], result["application-status"]) == (job.id, status)
    assert result["net-runtime"] >= 0
    assert ("failure-cause" in result) == (state == "FAILED")


def test_the_cause_of_a_failed_job_is_one_that_java_clients_can_read(api: APIClient) -> None:
    job = rows.ended_job("FAILED")
    message = "window failed: 12:30 is no time of the year 2013"
    Job.objects.update(failure={"message": message, "stacktrace": "Traceback …\nValueError: no year", "timestamp": 1})
    path = f"/v1/jobs/{job.id}/execution-result"
    cause = api.get(path).json()["job-execution-result"]["failure-cause"]
    # no class is known: the text up to a colon is none
    assert (cause["class"], cause["message"]) == ("tidemark.JobFailed", message)
    rows.failure_of(job, 0, "no year")
    cause = api.get(path).json()["job-execution-result"]["failure-cause"]
    assert cause["class"] == "ValueError" and cause["stack-trace"].endswith("ValueError: no year")
    serialized = b64decode(cause["serialized-throwable"])
    # class descriptions, byte for byte as Flink 2.3 writes them
    assert serialized.startswith((DATA / "serialized_throwable_head.bin").read_bytes())
    for text in (f"ValueError: {message}", cause["stack-trace"], "ValueError"):
        data = text.encode()
        assert b"t" + len(data).to_bytes(2, "big") + data in serialized


def test_job_metrics_are_texts(api: APIClient, job: Job) -> None:
    assert {"id": "numRestarts"} in api.get(f"/v1/jobs/{job.id}/metrics").json()
    [restarts, uptime] = api.get(f"/v1/jobs/{job.id}/metrics?get=numRestarts,uptime,nonsense").json()
    assert restarts == {"id": "numRestarts", "value": "0"}
    assert int(uptime["value"]) >= 1000


def test_metrics_of_all_jobs_are_aggregated(api: APIClient, job: Job) -> None:
    rows.running_job()
    answer = api.get("/v1/jobs/metrics?get=numRestarts&agg=max,sum").json()
    assert answer == [{"id": "numRestarts", "max": 0.0, "sum": 0.0}]
    assert api.get("/v1/jobs/metrics?get=numRestarts&agg=mode").status_code == 400


# --- cancel -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("query", ["", "?mode=cancel"])
def test_cancelling_leaves_an_operation_for_the_leader(api: APIClient, alice: User, job: Job, query: str) -> None:
    answer = api.patch(f"/v1/jobs/{job.id}{query}", {}, format="json")
    assert (answer.status_code, answer.json()) == (202, {})
    operation = Operation.objects.get()
    assert (operation.job_id, operation.kind, operation.state) == (job.id, "cancel", "PENDING")
    assert operation.requested_by == alice


def test_cancelling_twice_is_one_operation(api: APIClient, job: Job) -> None:
    for _ in range(2):
        assert api.patch(f"/v1/jobs/{job.id}").status_code == 202
    assert Operation.objects.count() == 1


def test_a_job_that_ended_cannot_be_cancelled(api: APIClient) -> None:
    answer = api.patch(f"/v1/jobs/{rows.ended_job('FINISHED').id}")
    assert answer.status_code == 409
    assert "FINISHED" in answer.json()["errors"][0]


def test_other_ways_to_end_a_job_are_refused(api: APIClient, job: Job) -> None:
    assert api.patch(f"/v1/jobs/{job.id}?mode=stop").status_code == 400
    assert not Operation.objects.exists()


def test_who_only_looks_on_cannot_cancel(victor: User, oscar: User, job: Job) -> None:
    for path in (f"/v1/jobs/{job.id}", f"/v1/applications/{job.id}/cancel", f"/v1/jobs/{job.id}/yarn-cancel"):
        method = {"cancel": "post", "yarn-cancel": "get"}.get(path.rsplit("/", 1)[1], "patch")
        assert getattr(client_of_once(victor), method)(path).status_code == 403
    assert not Operation.objects.exists()
    assert client_of(oscar).patch(f"/v1/jobs/{job.id}").status_code == 202


def test_who_only_looks_on_cannot_cancel_by_head_either(victor: User, job: Job) -> None:
    assert client_of(victor).head(f"/v1/jobs/{job.id}/yarn-cancel").status_code == 403
    assert not Operation.objects.exists()


def client_of_once(user: User) -> APIClient:
    """A client with a token of its own."""
    client = APIClient()
    user.api_tokens.all().delete()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {create_token(user, 'test')}")
    return client


def test_flinks_page_cancels_with_a_get(alice: User, job: Job) -> None:
    page = APIClient(enforce_csrf_checks=True)
    assert page.login(username="alice", password=PASSWORD)
    assert page.get(f"/jobs/{job.id}/yarn-cancel", HTTP_SEC_FETCH_SITE="same-origin").status_code == 202


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"HTTP_SEC_FETCH_SITE": "cross-site"},
        {"HTTP_SEC_FETCH_SITE": "none"},
        {"HTTP_REFERER": "http://testserver.evil.example/"},
        # our own page was made to lead there
        {"HTTP_SEC_FETCH_SITE": "same-origin", "HTTP_SEC_FETCH_MODE": "navigate"},
        {"HTTP_REFERER": "http://testserver/ui/login", "HTTP_ACCEPT": "text/html,application/xhtml+xml"},
    ],
)
def test_another_sites_link_cancels_nothing(alice: User, job: Job, headers: dict[str, str]) -> None:
    victim = APIClient()
    assert victim.login(username="alice", password=PASSWORD)
    kwargs: dict[str, Any] = headers
    assert victim.get(f"/jobs/{job.id}/yarn-cancel", **kwargs).status_code == 403
    assert not Operation.objects.exists()


def test_on_plain_http_the_pages_own_requests_are_known_by_their_referer(alice: User, job: Job) -> None:
    page = APIClient()
    assert page.login(username="alice", password=PASSWORD)
    answer = page.get(f"/jobs/{job.id}/yarn-cancel", HTTP_REFERER="http://testserver/ui/jobs")
    assert answer.status_code == 202


# --- applications -----------------------------------------------------------------------------------------------------


def test_every_job_is_an_application(api: APIClient, job: Job) -> None:
    [entry] = api.get("/v1/applications/overview").json()["applications"]
    assert (entry["id"], entry["status"], entry["jobs"]) == (job.id, "RUNNING", {"RUNNING": 1})
    detail = api.get(f"/v1/applications/{job.id}").json()
    assert detail["jobs"][0]["jid"] == job.id
    assert detail["timestamps"]["CREATED"] == job.state_times["INITIALIZING"]
    rows.failure_of(job, 0)
    history = api.get(f"/v1/applications/{job.id}/exceptions").json()["exceptionHistory"]
    assert history["entries"][0]["jobId"] == job.id
    assert api.post(f"/v1/applications/{job.id}/cancel").status_code == 202
