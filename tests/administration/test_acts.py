"""What administrators ask for in the admin becomes the operations of the REST API, once, and says what it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError
from django.test import Client
from rest_framework.test import APIClient

from backend.audit.models import AuditEvent
from backend.cluster import services
from backend.cluster.models import Checkpoint, Job, Operation
from backend.cluster.withheld import given_of
from tests.administration.asking import confirm, hidden, text_of
from tests.cluster.snapshots import completed
from tests.dispatcher import rows
from tests.dispatcher.test_jars import PROGRAM, jar_id, upload

JOBS = "/admin/cluster/job/"
SAVEPOINTS = "/admin/administration/savepoint/"


def ask(act: str, *jobs: Job) -> str:
    return f"{JOBS}ask/{act}/?" + "&".join(f"id={job.id}" for job in jobs)


def latest_event() -> AuditEvent:
    found = AuditEvent.objects.order_by("-pk").first()
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("act", "kind", "said", "given", "parameters"),
    [
        (
            "savepoint",
            "savepoint",
            "A savepoint of flights is taken. The job goes on.",
            {"format": "NATIVE"},
            {"target_directory": None, "cancel_job": False, "format": "NATIVE"},
        ),
        (
            "stop",
            "stop",
            "its sinks commit, and the job ends as FINISHED",
            {"format": "CANONICAL", "drain": "on"},
            {"target_directory": None, "drain": True, "format": "CANONICAL"},
        ),
        ("cancel", "cancel", "flights ends as CANCELED, without a savepoint.", {}, {}),
    ],
)
def test_an_act_is_named_confirmed_and_asked_for_once_however_often_it_is_clicked(
    browser: Client, root: User, job: Job, act: str, kind: str, said: str, given: Any, parameters: Any
) -> None:
    page = browser.get(ask(act, job))
    assert page.status_code == 200 and said in text_of(page)
    assert not Operation.objects.exists() and latest_event().action == "POST api/v1/session"
    form = hidden(page) | given
    for _ in range(2):
        answer = browser.post(f"{JOBS}ask/{act}/", form)
        assert (answer.status_code, answer["Location"]) == (302, JOBS)
    operation = Operation.objects.get()
    assert (operation.kind, operation.job, operation.requested_by) == (kind, job, root)
    assert operation.parameters == parameters
    assert f"as operation {operation.trigger_id}" in text_of(browser.get(JOBS))
    events = AuditEvent.objects.filter(action=f"POST admin/cluster/job/ask/{act}/")
    assert [(event.user, event.result) for event in events] == [("root", "done")] * 2
    assert events[0].detail == {"act": act, f"Job flights ({job.id})": "done"}


def test_a_second_page_asks_a_second_time_for_what_can_be_done_twice(browser: Client, job: Job) -> None:
    for _ in range(2):
        assert confirm(browser, ask("savepoint", job), format="CANONICAL").status_code == 302
    assert Operation.objects.count() == 2


def test_of_several_jobs_those_that_have_ended_are_refused_by_name(browser: Client, job: Job) -> None:
    ended = rows.ended_job("FINISHED", "weather")
    page = browser.get(ask("cancel", job, ended))
    assert f"Not done: Job {ended.id} is already in state FINISHED" in text_of(page)
    answer = browser.post(f"{JOBS}ask/cancel/", hidden(page))
    assert answer.status_code == 207
    assert "Not all of it was done." in text_of(answer) and "requested as operation" in text_of(answer)
    assert [operation.job for operation in Operation.objects.all()] == [job]
    assert latest_event().detail == {
        "act": "cancel",
        f"Job flights ({job.id})": "done",
        f"Job weather ({ended.id})": f"refused: Job {ended.id} is already in state FINISHED",
    }


def test_the_audit_trail_names_all_rows_of_an_act_and_takes_any_id(browser: Client) -> None:
    jobs = [rows.running_job(f"job {number}") for number in range(60)]
    page = browser.get(ask("cancel", *jobs))
    ids = [*(job.id for job in jobs), "act", "request"]
    answer = browser.post(f"{JOBS}ask/cancel/", hidden(page) | {"id": ids})
    assert answer.status_code == 207
    detail = latest_event().detail
    assert {name: told for name, told in detail.items() if told == "done"}.keys() == {
        f"Job {job.name} ({job.id})" for job in jobs
    }
    assert detail["request"] == "refused: It does not exist." and detail["act"] == "cancel"


def test_a_page_stands_for_the_values_that_were_sent_first(browser: Client, job: Job) -> None:
    form = hidden(browser.get(ask("savepoint", job)))
    assert browser.post(f"{JOBS}ask/savepoint/", form | {"format": "CANONICAL"}).status_code == 302
    answer = browser.post(f"{JOBS}ask/savepoint/", form | {"format": "NATIVE"})
    assert answer.status_code == 409 and "was requested with other values" in text_of(answer)
    assert Operation.objects.get().parameters["format"] == "CANONICAL"


def test_a_job_that_ends_between_page_and_click_is_left_alone(browser: Client, job: Job) -> None:
    page = browser.get(ask("stop", job))
    Job.objects.filter(id=job.id).update(state="FAILED")
    answer = browser.post(f"{JOBS}ask/stop/", hidden(page) | {"format": "CANONICAL"})
    assert answer.status_code == 409 and "Nothing was done." in text_of(answer)
    assert not Operation.objects.exists() and latest_event().result == "failed"


def test_a_stop_that_is_open_with_another_target_is_not_replaced(browser: Client, job: Job) -> None:
    confirm(browser, ask("stop", job), format="CANONICAL")
    answer = confirm(browser, ask("stop", job), format="NATIVE")
    assert answer.status_code == 409 and "has other parameters" in text_of(answer)
    assert Operation.objects.count() == 1


def test_a_database_that_goes_away_is_told_and_asking_again_goes_on(
    browser: Client, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = rows.running_job("weather")
    form = hidden(browser.get(ask("cancel", job, other)))
    whole = services.request_operation

    def away(asked: Any, *args: Any) -> Operation:
        if asked.id == other.id:
            raise OperationalError("gone")
        return whole(asked, *args)

    monkeypatch.setattr(services, "request_operation", away)
    answer = browser.post(f"{JOBS}ask/cancel/", form)
    assert answer.status_code == 207 and "The database is unavailable" in text_of(answer)
    monkeypatch.setattr(services, "request_operation", whole)
    assert browser.post(f"{JOBS}ask/cancel/", form).status_code == 302
    assert Operation.objects.count() == 2


def test_a_place_that_is_not_allowed_is_refused(browser: Client, job: Job, home: Path) -> None:
    answer = confirm(browser, ask("savepoint", job), format="CANONICAL", target_directory="/etc")
    assert answer.status_code == 409 and "Directory: " in text_of(answer)
    assert not Operation.objects.exists()


@pytest.mark.parametrize(
    "form",
    [
        {"request": "x"},
        {"request": ""},
        {"format": "XML"},
        {"id": []},
        {"id": ["0" * 32]},
        {"id": [f"{n}" for n in range(101)]},
    ],
)
def test_a_form_that_makes_no_sense_asks_for_nothing(browser: Client, job: Job, form: dict[str, Any]) -> None:
    sent = hidden(browser.get(ask("savepoint", job))) | {"format": "CANONICAL"} | form
    assert browser.post(f"{JOBS}ask/savepoint/", sent).status_code in (400, 404)
    assert not Operation.objects.exists()


def test_what_is_chosen_in_the_list_leads_to_the_confirmation(browser: Client, job: Job) -> None:
    other = rows.running_job("weather")
    answer = browser.post(JOBS, {"action": "cancel", "_selected_action": [job.id, other.id]})
    assert answer.status_code == 302
    assert {*hidden(browser.get(answer["Location"]))["id"]} == {job.id, other.id}
    assert latest_event().detail == {"chosen": "cancel", "rows": 2}
    assert not Operation.objects.exists()


def test_a_write_without_the_csrf_token_is_refused(root: User, job: Job) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(root)
    form = hidden(client.get(ask("cancel", job)))
    del form["csrfmiddlewaretoken"]
    assert client.post(f"{JOBS}ask/cancel/", form).status_code == 403
    assert not Operation.objects.exists()


# --- savepoints -------------------------------------------------------------------------------------------------------


def taken(job: Job, location: str) -> Operation:
    return Operation.objects.create(
        job=job,
        kind=Operation.Kind.SAVEPOINT,
        state=Operation.State.COMPLETED,
        created_at=services.now_ms(),
        finished_at=services.now_ms(),
        result={"location": location, "checkpoint_id": 1},
    )


def test_a_savepoint_is_listed_and_disposed_of_by_the_leader(browser: Client, job: Job, home: Path) -> None:
    location = completed(home / "savepoints", job.id, 1).location
    savepoint = taken(job, location)
    Operation.objects.create(
        job=job, kind="savepoint", state="COMPLETED", created_at=1, finished_at=2, result={"error": "the disk is full"}
    )
    assert location in text_of(browser.get(SAVEPOINTS)) and "1 savepoint" in text_of(browser.get(SAVEPOINTS))
    path = f"{SAVEPOINTS}ask/dispose/?id={savepoint.trigger_id}"
    assert f"The files of {location} are deleted for good" in text_of(browser.get(path))
    form = hidden(browser.get(path))
    for _ in range(2):
        assert browser.post(f"{SAVEPOINTS}ask/dispose/", form).status_code == 302
    disposal = Operation.objects.get(kind="dispose")
    assert disposal.parameters == {"path": location} and disposal.job is None


def test_a_job_is_restored_as_the_program_was_started(browser: Client, root: User, api: APIClient, home: Path) -> None:
    name = jar_id(upload(api, "tiny.py", PROGRAM))
    body = {
        "programArgs": "--year 2013 --token c4n4ry-77",
        "parallelism": 2,
        "flinkConfiguration": {"restart-strategy.type": "none"},
    }
    first = Job.objects.get(id=api.post(f"/v1/jars/{name}/run", body, format="json").json()["jobid"])
    path = ask("restore", first)
    assert "end it first" in text_of(browser.get(path))
    Job.objects.filter(id=first.id).update(state="CANCELED")
    assert "neither savepoints nor checkpoints" in text_of(browser.get(path))
    location = completed(home / "savepoints", first.id, 1).location
    taken(first, location)
    page = browser.get(path)
    assert "The program of tiny (tiny.py) is started as a new job" in text_of(page)
    form = hidden(page) | {"snapshot": location, "claim_mode": "NO_CLAIM"}
    for _ in range(2):
        assert browser.post(f"{JOBS}ask/restore/", form).status_code == 302
    restored = Job.objects.exclude(id=first.id).get()
    arguments = ["--year", "2013", "--token", "c4n4ry-77"]
    assert (restored.submitted_by, given_of(restored).args, restored.parallelism) == (root, arguments, 2)
    assert restored.program_args == ["--year", "2013", "--token", "******"]
    assert restored.graph["configuration"]["execution.state-recovery.path"] == location
    assert restored.configuration["restart-strategy.type"] == "none"
    # what is not among its snapshots cannot be named
    answer = browser.post(f"{JOBS}ask/restore/", hidden(page) | {"snapshot": "file:///etc", "claim_mode": "CLAIM"})
    assert answer.status_code == 400


def test_a_restore_that_cannot_be_says_why(browser: Client, home: Path) -> None:
    ended = rows.ended_job("FAILED")
    Checkpoint.objects.create(
        job=ended, checkpoint_id=1, location="file:///gone", is_owned=True, is_savepoint=False,
        leader_epoch=1, attempt=0, triggered_at=1, completed_at=2, size=3,
    )  # fmt: skip
    assert "Its program has been deleted." in text_of(browser.get(ask("restore", ended)))
    answer = confirm(
        browser, ask("restore", ended), snapshot="file:///gone", claim_mode="NO_CLAIM", request="0" * 32, id=ended.id
    )
    assert answer.status_code == 409
    assert Job.objects.count() == 1
