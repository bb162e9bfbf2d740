"""Submission switched off, and programs restricted to a list: over every route, and the services behind them."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer
from rest_framework.test import APIClient

from backend.accounts.roles import Role, set_role
from backend.accounts.services import create_token
from backend.accounts.submission import OFF
from backend.administration.acts import Asking, RefusedAct, RestoreJob
from backend.audit.models import AuditEvent
from backend.cluster.models import Artifact, Job, new_id
from backend.pipelines import first_run
from runtime.client import cli
from tests.accounts.cast import client_of
from tests.accounts.test_closed_routes import _path
from tests.accounts.test_matrix import OFFERED, needed
from tests.administration.test_acts import taken
from tests.cluster.snapshots import completed
from tests.dispatcher.test_jars import PROGRAM, jar_id, upload
from tests.pipelines_server.documents import BASE
from tests.pipelines_server.test_deployments import deploy
from tests.pipelines_server.test_pipelines import create

#: what runs code of users for them, or takes it
PROGRAMS = {
    ("POST", "jars/upload"),
    ("GET", "jars/<str:jar_id>/plan"),
    ("POST", "jars/<str:jar_id>/plan"),
    ("POST", "jars/<str:jar_id>/run"),
    ("POST", "api/v1/jobs/<str:job_id>/switch"),
    ("POST", "api/v1/pipelines/<str:pipeline_id>/compatibility"),
    ("POST", "api/v1/pipelines/<str:pipeline_id>/deployments"),
}
DRAFTS = {
    ("POST", "api/v1/pipelines/plan"),
    ("POST", "api/v1/pipelines/preview"),
    ("POST", "api/v1/pipelines/read-schema"),
    ("POST", "api/v1/pipelines/tests"),
}

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def home(settings: Settings, tmp_path: Path) -> Path:
    settings.TIDEMARK_HOME = tmp_path
    return tmp_path


@pytest.fixture
def admin() -> APIClient:
    user = User.objects.create_user("root")
    set_role(user, Role.ADMIN)
    return client_of(user)


@pytest.fixture
def listed(settings: Settings, tmp_path: Path) -> Path:
    """The list of allowed programs, empty."""
    path = tmp_path / "programs.sha256"
    path.write_text("# nothing yet\n")
    settings.TIDEMARK_ALLOWED_PROGRAMS = str(path)
    return path


def refused_routes(client: APIClient, said: str) -> set[tuple[str, str]]:
    """The routes without /v1 that are refused with these words, for each of which one event was left that has them.

    What a viewer may read runs nothing: the matrix of roles says so.
    """
    found = set()
    for method, route in sorted(OFFERED):
        if method == "GET" and needed(method, route) is Role.VIEWER:
            continue
        before = AuditEvent.objects.count()
        answer = client.generic(method, _path(route), "{}", content_type="application/json")
        if answer.status_code != 403:
            continue
        assert said in answer.content.decode(), route
        event = AuditEvent.objects.latest("pk")
        assert AuditEvent.objects.count() == before + 1, (method, route)
        assert (event.user, event.action, event.result) == ("root", f"{method} {route}", "denied")
        assert said in event.detail["refused"]
        found.add((method, route.removeprefix("v1/")))
    return found


def test_submission_that_is_switched_off_is_refused_for_administrators_too(
    admin: APIClient, settings: Settings
) -> None:
    assert refused_routes(admin, "") == set()
    settings.TIDEMARK_SUBMIT = False
    assert refused_routes(admin, OFF) == PROGRAMS | DRAFTS


def test_drafts_are_not_run_where_programs_are_listed(admin: APIClient, listed: Path) -> None:
    assert refused_routes(admin, "only programs that are listed") == DRAFTS


def test_clients_can_tell_that_nothing_is_taken(api: APIClient, settings: Settings) -> None:
    def told() -> tuple[Any, ...]:
        options = {entry["key"]: entry["value"] for entry in api.get("/v1/jobmanager/config").json()}
        features = api.get("/v1/config").json()["features"]
        return api.get("/api/v1/session").json()["submission"], features["web-submit"], options["web.submit.enable"]

    assert told() == ("", True, "true")
    settings.TIDEMARK_SUBMIT = False
    assert told() == (OFF, False, "false")
    answer = api.post("/api/v1/pipelines/preview", {}, format="json")
    assert answer.json() == {"errors": [{"code": "submission_off", "field": "", "message": OFF}]}


def test_a_program_that_is_listed_is_taken_and_run_and_no_other(api: APIClient, listed: Path) -> None:
    digest = sha256(PROGRAM.encode()).hexdigest()
    answer = upload(api, "flights.py", PROGRAM)
    assert answer.status_code == 403
    assert answer.json() == {
        "errors": [f"flights.py is not among the programs that this cluster runs: its sha256 {digest} is not listed."]
    }
    assert digest in AuditEvent.objects.latest("pk").detail["refused"]
    assert not Artifact.objects.exists()
    # as sha256sum writes it; without a restart
    listed.write_text(f"# of the build\n{'0' * 64}  other.py\n{digest.upper()} *build/flights.py\n")
    jar = jar_id(upload(api, "flights.py", PROGRAM))
    assert api.post(f"/v1/jars/{jar}/run", {}, format="json").status_code == 200
    # struck out afterwards
    listed.write_text("")
    for path in ("plan", "run"):
        assert api.post(f"/v1/jars/{jar}/{path}", {}, format="json").status_code == 403
    assert Job.objects.count() == 1


def test_options_bring_no_code_along_with_a_listed_program(api: APIClient, listed: Path, tmp_path: Path) -> None:
    (tmp_path / "further.py").write_text("print('code that nobody has listed')")
    listed.write_text(sha256(PROGRAM.encode()).hexdigest())
    jar = jar_id(upload(api, "flights.py", PROGRAM))
    body = {"flinkConfiguration": {"python.files": str(tmp_path / "further.py")}}
    for route in ("plan", "run"):
        answer = api.post(f"/v1/jars/{jar}/{route}", body, format="json")
        assert (answer.status_code, "python.files" in answer.content.decode()) == (403, True)
    assert api.post(f"/v1/jars/{jar}/run", {}, format="json").status_code == 200


@pytest.mark.parametrize("content", [None, b"\xff\xfe", b"not a digest\n"])
def test_a_list_that_cannot_be_read_allows_nothing(
    api: APIClient, listed: Path, content: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    if content is None:
        listed.unlink()
    else:
        listed.write_bytes(content)
    assert upload(api, "flights.py", PROGRAM).status_code == 403
    assert "TIDEMARK_ALLOWED_PROGRAMS" in caplog.text


def test_a_pipeline_is_deployed_once_its_program_is_listed(api: APIClient, listed: Path) -> None:
    pipeline = create(api)
    answer = deploy(api, pipeline)
    assert answer.status_code == 403
    [error] = answer.json()["errors"]
    assert error["code"] == "program_not_listed"
    listed.write_text(error["message"].split("sha256 ")[1].split(" ")[0])
    answer = deploy(api, pipeline)
    assert answer.status_code == 202, answer.json()
    assert Job.objects.count() == 1


def test_pipelines_are_still_written_where_nothing_is_submitted(api: APIClient, settings: Settings) -> None:
    settings.TIDEMARK_SUBMIT = False
    pipeline = create(api)
    assert deploy(api, pipeline).status_code == 403
    assert api.get(f"{BASE}/{pipeline}").status_code == 200


def test_the_first_run_makes_nothing_that_could_not_run(alice: User, settings: Settings, listed: Path) -> None:
    assert not first_run.is_due()
    settings.TIDEMARK_ALLOWED_PROGRAMS = ""
    assert first_run.is_due()
    settings.TIDEMARK_SUBMIT = False
    assert first_run.first_run(alice, 1) is None and not first_run.is_due()


def test_the_admin_restores_nothing(api: APIClient, alice: User, home: Path, settings: Settings) -> None:
    jar = jar_id(upload(api, "flights.py", PROGRAM))
    job_id = api.post(f"/v1/jars/{jar}/run", {}, format="json").json()["jobid"]
    job = Job.objects.get(id=job_id)
    location = completed(home / "savepoints", job_id, 1).location
    taken(job, location)
    Job.objects.filter(id=job_id).update(state="FAILED")
    job.refresh_from_db()
    act = RestoreJob()
    assert act.obstacle(job) is None
    browser = Client()
    set_role(alice, Role.ADMIN)
    browser.force_login(alice)
    settings.TIDEMARK_SUBMIT = False
    page = browser.get(f"/admin/cluster/job/ask/restore/?id={job_id}")
    assert OFF in page.content.decode()
    # a confirmation that was opened before, and the service behind it
    form = {"id": job_id, "request": new_id(), "snapshot": location, "claim_mode": "NO_CLAIM"}
    answer = browser.post("/admin/cluster/job/ask/restore/", form)
    assert answer.status_code == 409 and Job.objects.count() == 1
    event = AuditEvent.objects.latest("pk")
    assert event.result == "failed" and OFF in json.dumps(event.detail)
    with pytest.raises(RefusedAct, match="switched off"):
        act.do(job, Asking(alice, new_id(), form | {"allow_non_restored_state": False}, lambda: False))


@pytest.mark.django_db(transaction=True)
def test_the_command_line_says_why(
    live_server: LiveServer,
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings.TIDEMARK_SUBMIT = False
    user = User.objects.create_user("alice")
    set_role(user, Role.DEVELOPER)
    monkeypatch.setenv("TIDEMARK_URL", live_server.url)
    monkeypatch.setenv("TIDEMARK_TOKEN", create_token(user, "test"))
    (tmp_path / "job.py").write_text(PROGRAM)
    assert cli.main(["run", "-d", str(tmp_path / "job.py")]) != 0
    assert OFF in capsys.readouterr().err
    assert AuditEvent.objects.filter(user="alice", result="denied", action="POST v1/jars/upload").count() == 1
