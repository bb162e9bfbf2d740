"""Deployments over REST; programs are extracted in real child processes."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from rest_framework.test import APIClient

from backend.audit.models import AuditEvent
from backend.cluster import services as cluster_services
from backend.cluster import storage_calls
from backend.cluster.models import Artifact, Checkpoint, Job, Operation
from backend.pipelines import deployments
from backend.pipelines.models import Deployment
from runtime.client.extract import extract_job_graph
from runtime.common import options
from runtime.graph.codec import job_graph_from_json
from runtime.graph.normal_form import normal_form
from runtime.pipeline import load_catalog
from tests.accounts.cast import client_of
from tests.cluster.snapshots import completed
from tests.pipeline.generator import SERVERS, grown
from tests.pipelines_server.documents import BASE, document
from tests.pipelines_server.test_pipelines import create, save

KEY = "a-click-of-mine"


def deploy(api: APIClient, pipeline: str, version: int = 1, key: str = KEY, **body: Any) -> Any:
    return api.post(
        f"{BASE}/{pipeline}/deployments",
        {"version": version, **body},
        format="json",
        headers={"Idempotency-Key": key},
    )


@pytest.fixture
def running(api: APIClient) -> str:
    """A pipeline whose first version runs."""
    pipeline = create(api)
    answer = deploy(api, pipeline, key="the-first-click")
    assert answer.status_code == 202, answer.json()
    Job.objects.update(state="RUNNING", state_times={"RUNNING": 1})
    Deployment.objects.update(state="RUNNING")
    return pipeline


def test_a_version_becomes_a_job_as_an_upload_does(api: APIClient) -> None:
    pipeline = create(api)
    answer = deploy(api, pipeline).json()
    job, artifact = Job.objects.get(), Artifact.objects.get()
    assert (answer["state"], answer["job_id"], answer["job_state"]) == ("SUBMITTED", job.id, "INITIALIZING")
    assert (job.name, job.artifact, artifact.file_name) == ("Hot auctions", artifact, "hot-auctions-v1.py")
    assert set(answer["operators"].values()) == {"n1", "n2"}
    assert answer["operators"].keys() <= {o["operator_id"] for v in job.graph["vertices"] for o in v["operators"]}
    listed = api.get(f"{BASE}/{pipeline}").json()["deployment"]
    assert (listed["id"], listed["version"], listed["job_id"]) == (answer["id"], 1, job.id)
    of_job = api.get(f"{BASE}/jobs/{job.id}").json()["drawn"]
    assert (of_job["pipeline"], of_job["version"], of_job["operators"]) == (pipeline, 1, answer["operators"])
    [source] = [operator for operator, node in answer["operators"].items() if node == "n1"]
    assert of_job["outputs"] == {"n1": {"out": [{"operator": source, "side_output": ""}]}}
    assert api.get(f"{BASE}/jobs/{'0' * 32}").json() == {"drawn": None}
    assert api.get(f"{BASE}/{pipeline}/deployments/{answer['id']}").json() == answer
    assert api.get(f"{BASE}/{pipeline}/deployments").json()["deployments"] == [answer]


def test_the_audit_trail_says_what_was_replaced_by_which_version(api: APIClient, running: str) -> None:
    assert AuditEvent.objects.latest("pk").detail["before"] is None
    old = Job.objects.get()
    save(api, running, 1, document(rows=7))
    assert AuditEvent.objects.latest("pk").detail == {"version": 2}
    answer = deploy(api, running, 2).json()
    told = AuditEvent.objects.latest("pk").detail
    assert told["before"] == {"version": 1, "job": old.id}
    # the answer names the job once it exists
    new = Deployment.objects.get(id=answer["id"])
    assert (told["version"], told["deployment"], told["job"]) == (2, new.id, new.job_id)
    assert told["restore"] == {"keeps_state": True, "allows_loss": False, "location": ""}


def test_a_double_click_makes_one_job(api: APIClient) -> None:
    pipeline = create(api)
    first, second = deploy(api, pipeline).json(), deploy(api, pipeline).json()
    assert first == second
    assert (Job.objects.count(), Deployment.objects.count()) == (1, 1)
    save(api, pipeline, 1, document(rows=7))
    other = deploy(api, pipeline, 2)
    assert (other.status_code, other.json()["errors"][0]["code"]) == (409, "key_taken")


def test_a_key_of_a_deployment_with_another_choice_of_state_is_refused(api: APIClient) -> None:
    pipeline = create(api)
    first = deploy(api, pipeline, keeps_state=False).json()
    choices: tuple[dict[str, Any], ...] = ({}, {"keeps_state": False, "allows_loss": True})
    for choice in choices:
        other = deploy(api, pipeline, **choice)
        # not answered with a job that keeps no state
        assert (other.status_code, other.json()["errors"][0]["code"]) == (409, "key_taken")
    # the leader writes down what it has stopped
    row = Deployment.objects.get()
    Deployment.objects.update(restore={**row.restore, "savepoint": "/savepoint"})
    assert deploy(api, pipeline, keeps_state=False).json()["id"] == first["id"]


@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_pipeline_that_is_archived_while_a_version_is_planned_is_not_deployed(
    api: APIClient, monkeypatch: pytest.MonkeyPatch, is_deleted: bool
) -> None:
    pipeline = create(api)
    plan = deployments.plan

    def overtaken(*args: Any) -> Any:
        api.patch(f"{BASE}/{pipeline}", {"archived": True}, format="json")
        if is_deleted:
            api.delete(f"{BASE}/{pipeline}")
        return plan(*args)

    monkeypatch.setattr(deployments, "plan", overtaken)
    assert deploy(api, pipeline).status_code == (404 if is_deleted else 409)
    assert (Job.objects.count(), Deployment.objects.count()) == (0, 0)


def test_who_is_deactivated_while_a_version_is_planned_deploys_nothing(
    api: APIClient, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline, plan = create(api), deployments.plan

    def overtaken(*args: Any) -> Any:
        User.objects.filter(pk=alice.pk).update(is_active=False)
        return plan(*args)

    monkeypatch.setattr(deployments, "plan", overtaken)
    assert deploy(api, pipeline).status_code == 401
    assert (Job.objects.count(), Deployment.objects.count()) == (0, 0)


def test_another_click_while_the_first_is_under_way_is_refused(api: APIClient) -> None:
    pipeline = create(api)
    deploy(api, pipeline)
    answer = deploy(api, pipeline, key="another-click")
    assert (answer.status_code, Job.objects.count()) == (409, 1)
    api.patch(f"{BASE}/{pipeline}", {"archived": True}, format="json")
    assert api.delete(f"{BASE}/{pipeline}").status_code == 409


def test_two_clicks_that_are_planned_at_once_make_one_job(api: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one comes while the first one's program is being planned."""
    pipeline = create(api)
    plan, answers = deployments.plan, []

    def overtaken(*args: Any) -> Any:
        monkeypatch.setattr(deployments, "plan", plan)
        answers.append(deploy(api, pipeline).json())
        return plan(*args)

    monkeypatch.setattr(deployments, "plan", overtaken)
    assert deploy(api, pipeline).json() == answers[0]
    assert (Job.objects.count(), Deployment.objects.count()) == (1, 1)


@pytest.mark.django_db(transaction=True)
def test_no_storage_is_waited_for_while_nobody_else_can_write(
    api: APIClient, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline, ask, asked = create(api), storage_calls.ask_location, list[str]()

    def noted(location: str, *arguments: Any, **options: Any) -> Any:
        assert not connection.in_atomic_block, location
        asked.append(location)
        return ask(location, *arguments, **options)

    monkeypatch.setattr(storage_calls, "ask_location", noted)
    location = completed(tmp_path / "savepoints", "c" * 32, 1).location
    assert deploy(api, pipeline, location=location).status_code == 202
    assert asked and Job.objects.exists()


def test_a_key_is_needed(api: APIClient) -> None:
    pipeline = create(api)
    answer = api.post(f"{BASE}/{pipeline}/deployments", {"version": 1}, format="json")
    assert (answer.status_code, Job.objects.count()) == (428, 0)


def test_a_version_with_problems_is_not_deployed(api: APIClient) -> None:
    pipeline = create(api)
    save(api, pipeline, 1, document(edges={}))
    answer = deploy(api, pipeline, 2)
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (409, "not_deployable")
    assert answer.json()["problems"][0]["node"] == "n2"
    assert (Job.objects.count(), Deployment.objects.count(), Artifact.objects.count()) == (0, 0, 0)


def test_python_that_fails_tells_so_and_deploys_nothing(api: APIClient) -> None:
    pipeline = create(api)
    save(api, pipeline, 1, document(code=["raise ValueError('mine')"]))
    answer = deploy(api, pipeline, 2)
    assert answer.status_code == 400
    assert "mine" in answer.content.decode()
    assert (Job.objects.count(), Deployment.objects.count()) == (0, 0)


def test_who_may_deploy(api: APIClient, oscar: User, victor: User) -> None:
    pipeline = create(api)
    oscars = client_of(oscar)
    assert deploy(client_of(victor), pipeline).status_code == 403
    assert deploy(oscars, pipeline).status_code == 403
    deploy(api, pipeline)
    Job.objects.update(state="FINISHED")
    Deployment.objects.update(state="RUNNING")
    assert deploy(oscars, pipeline, key="an-operators-click").status_code == 202


def test_a_job_that_runs_is_replaced_by_the_leader(api: APIClient, running: str) -> None:
    save(api, running, 1, document(rows=7))
    answer = deploy(api, running, 2).json()
    # nothing has been done yet
    assert (answer["state"], answer["job_id"], answer["report"]) == ("COMPILED", None, None)
    assert answer["previous"] == Deployment.objects.get(version__number=1).id
    assert (Job.objects.count(), Operation.objects.count()) == (1, 0)


def checkpointed(job: Job, root: Path, number: int = 1) -> str:
    """Let a job complete a checkpoint without state, and return its location."""
    location = completed(root, job.id, number).metadata.options.directory
    Checkpoint.objects.create(
        job=job,
        checkpoint_id=number,
        location=location,
        is_owned=True,
        is_savepoint=False,
        leader_epoch=1,
        triggered_at=number,
        completed_at=number + 1,
        size=0,
    )
    return location


def test_a_report_says_what_becomes_of_state(api: APIClient, running: str, tmp_path: Any) -> None:
    checkpointed(Job.objects.get(), tmp_path / "checkpoints")
    answer = api.post(f"{BASE}/{running}/compatibility", {"version": 1}, format="json").json()
    assert answer["running"]["version"] == 1
    assert {line["verdict"] for line in answer["report"]["operators"]} == {"new"}
    assert answer["report"]["is_restorable"] is True
    assert set(answer["nodes"].values()) == {"n1", "n2"}
    assert Operation.objects.count() == 0


def test_snapshots_of_all_jobs_of_a_pipeline_can_be_started_from(api: APIClient, running: str, home: Path) -> None:
    first = Job.objects.get()
    older, newer = (checkpointed(first, home / "checkpoints", number) for number in (1, 2))
    Job.objects.update(state="FINISHED")
    second = deploy(api, running, key="the-second-click", location=older).json()
    own = checkpointed(Job.objects.get(id=second["job_id"]), home / "checkpoints", 3)
    points = api.get(f"{BASE}/{running}/restore-points").json()["points"]
    # the second job was started from one of the first, which stays that one's
    assert [(point["location"], point["kind"], point["checkpoint_id"]) for point in points] == [
        (own, "checkpoint", 3),
        (newer, "checkpoint", 2),
        (older, "checkpoint", 1),
    ]
    assert [point["job_id"] for point in points] == [second["job_id"], first.id, first.id]
    assert (points[1]["job_state"], points[1]["version"]) == ("FINISHED", 1)


def test_a_version_starts_from_the_snapshot_that_is_chosen(api: APIClient, running: str, home: Path) -> None:
    location = checkpointed(Job.objects.get(), home / "checkpoints")
    Job.objects.update(state="FAILED")
    answer = deploy(api, running, location=location).json()
    assert (answer["state"], answer["starts_from"], answer["report"]["is_restorable"]) == ("SUBMITTED", location, True)
    configuration = Job.objects.get(id=answer["job_id"]).configuration
    assert configuration[options.RECOVERY_PATH.key] == location


def test_a_snapshot_that_is_chosen_is_looked_at_before_anything_is_stopped(
    api: APIClient, running: str, home: Path
) -> None:
    location = checkpointed(Job.objects.get(), home / "checkpoints")
    shown = api.post(f"{BASE}/{running}/compatibility", {"version": 1, "location": location}, format="json").json()
    assert (shown["running"]["version"], shown["report"]["is_restorable"]) == (1, True)
    missing = f"file://{home}/savepoints/savepoint-none"
    refused = deploy(api, running, location=missing)
    assert (refused.status_code, Deployment.objects.count()) == (409, 1)
    assert "The snapshot cannot be read" in refused.json()["errors"][0]["message"]
    outside = api.post(f"{BASE}/{running}/compatibility", {"version": 1, "location": "file:///etc"}, format="json")
    assert (outside.status_code, outside.json()["errors"][0]["field"]) == (400, "location")
    # without state there is nothing to look at
    assert deploy(api, running, location=missing, keeps_state=False).json()["starts_from"] is None


def test_a_checkpoint_that_ends_with_the_running_job_does_not_replace_it(
    api: APIClient, running: str, home: Path
) -> None:
    location = checkpointed(Job.objects.get(), home / "checkpoints")
    points = api.get(f"{BASE}/{running}/restore-points").json()["points"]
    assert [point["deleted_by"] for point in points] == [["stop", "cancel"]]
    refused = deploy(api, running, location=location)
    assert (refused.status_code, Deployment.objects.count(), Operation.objects.count()) == (409, 1, 0)
    assert "is deleted when version 1 is stopped" in refused.json()["errors"][0]["message"]


def check_export(api: APIClient, value: dict[str, Any], directory: Path) -> None:
    """The exported program makes the whole graph that was deployed, wherever it is and whatever it is called."""
    made = api.post(BASE, {"document": value, "message": ""}, format="json", headers={"Idempotency-Key": "made-once"})
    assert made.status_code == 201, made.json()
    pipeline = made.json()["id"]
    answer = deploy(api, pipeline)
    assert answer.status_code == 202, answer.json()
    exported = api.get(f"{BASE}/{pipeline}/export?format=python").json()
    assert exported["stripped"] == []
    program = directory / "elsewhere" / "of_mine.py"
    program.parent.mkdir()
    program.write_text(exported["text"])
    extracted = normal_form(extract_job_graph(program, parallelism=1).graph)
    deployed = normal_form(job_graph_from_json(Job.objects.get().graph))
    assert extracted == deployed


CATALOG = load_catalog([])
#: one pipeline of each of these in `make test`: Python of the pipeline's own, columns, files
FEW_TYPES = ("python.process", "window.aggregate", "sink.files")


def grown_with(kind: str, directory: Path) -> dict[str, Any]:
    return grown(random.Random(f"exported {kind}"), CATALOG, directory, kind)


def test_the_exported_program_makes_the_graph_that_is_deployed(api: APIClient, tmp_path: Path) -> None:
    check_export(api, document(), tmp_path)


@pytest.mark.parametrize("kind", FEW_TYPES)
def test_the_exported_program_of_a_generated_pipeline_makes_its_graph(
    kind: str, api: APIClient, tmp_path: Path
) -> None:
    check_export(api, grown_with(kind, tmp_path), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(CATALOG.types.keys() - SERVERS - set(FEW_TYPES)))
def test_the_exported_program_of_every_node_type_makes_the_graph_that_is_deployed(
    kind: str, api: APIClient, tmp_path: Path
) -> None:
    check_export(api, grown_with(kind, tmp_path), tmp_path)


def failed_since(pipeline: str, number: int) -> None:
    """As many deployments have failed since the one that runs."""
    running = Deployment.objects.get()
    values = {"pipeline_id": pipeline, "version": running.version, "created_by": running.created_by, "graph": {}}
    Deployment.objects.bulk_create(
        Deployment(
            **values,
            created_at=running.created_at + 1 + at,
            state=("FAILED", "ROLLED_BACK")[at % 2],
            idempotency_key=f"failed-{at}",
        )
        for at in range(number)
    )


@pytest.mark.parametrize("number", [50, 120])
def test_what_runs_is_found_behind_many_that_have_failed(api: APIClient, running: str, number: int) -> None:
    first = Deployment.objects.get()
    failed_since(running, number)
    listed = api.get(f"{BASE}/{running}/deployments").json()["deployments"]
    assert (listed[-1]["id"], listed[-1]["job_state"]) == (first.id, "RUNNING")
    assert len(listed) == min(number, 100) + 1
    answer = deploy(api, running).json()
    # it replaces the job, and none is started beside that
    assert (answer["state"], answer["previous"]) == ("COMPILED", first.id)
    assert Job.objects.count() == 1


def refusal(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["errors"][0]["code"]


def test_what_was_not_seen_is_not_replaced(api: APIClient, running: str) -> None:
    first = Deployment.objects.get()
    for seen in (None, "0" * 32):
        answer = deploy(api, running, replaces=seen)
        assert refusal(answer) == (409, "other_runs")
        assert "Version 1 of the pipeline runs by now" in answer.json()["errors"][0]["message"]
    # nor is state lost where a job has ended
    Job.objects.update(state="FINISHED")
    answer = deploy(api, running, replaces=first.id)
    assert refusal(answer) == (409, "other_runs")
    assert "has ended by now" in answer.json()["errors"][0]["message"]
    assert (Deployment.objects.count(), Operation.objects.count()) == (1, 0)
    assert deploy(api, running, replaces=7).status_code == 400
    assert deploy(api, running, replaces=None).status_code == 202


def test_what_was_seen_is_replaced_and_scripts_need_not_look(api: APIClient, running: str) -> None:
    first = Deployment.objects.get()
    answer = deploy(api, running, replaces=first.id)
    assert (answer.status_code, answer.json()["previous"]) == (202, first.id)
    # a key is answered as it was, whatever runs now
    assert deploy(api, running, replaces=None).json() == answer.json()
    Deployment.objects.filter(id=answer.json()["id"]).update(state="FAILED")
    assert deploy(api, running, key="of-a-script").json()["previous"] == first.id


@pytest.mark.parametrize("seen", [{}, {"replaces": None}])
def test_a_job_that_begins_while_a_version_is_planned_or_checked_is_not_overlooked(
    api: APIClient, monkeypatch: pytest.MonkeyPatch, seen: dict[str, Any]
) -> None:
    """Somebody deploys while the storage is asked, and that job runs at once."""
    pipeline = create(api)
    check = cluster_services.check_locations

    def overtaken(*args: Any) -> Any:
        monkeypatch.setattr(cluster_services, "check_locations", check)
        deploy(api, pipeline, key="a-colleagues")
        Job.objects.update(state="RUNNING", state_times={"RUNNING": 1})
        Deployment.objects.update(state="RUNNING")
        return check(*args)

    monkeypatch.setattr(cluster_services, "check_locations", overtaken)
    assert refusal(deploy(api, pipeline, **seen)) == (409, "other_runs")
    assert (Job.objects.count(), Deployment.objects.count()) == (1, 1)


def test_a_double_click_where_nothing_was_seen_to_run_is_one_deployment(
    api: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second request finds the job of the first one, which is its own."""
    pipeline = create(api)
    plan, answers = deployments.plan, []

    def overtaken(*args: Any) -> Any:
        monkeypatch.setattr(deployments, "plan", plan)
        answers.append(deploy(api, pipeline, replaces=None).json())
        return plan(*args)

    monkeypatch.setattr(deployments, "plan", overtaken)
    assert deploy(api, pipeline, replaces=None).json() == answers[0]
    assert (Job.objects.count(), Deployment.objects.count()) == (1, 1)
