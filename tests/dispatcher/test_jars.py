"""/jars: upload, list, delete, plan and run; programs are run in real child processes."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from pytest_django import Settings
from rest_framework.test import APIClient

from backend.accounts.roles import Role, set_role
from backend.accounts.shared_counts import SharedCounts
from backend.audit.models import AuditEvent
from backend.cluster import services
from backend.cluster.checkpoint_home import cluster_storage
from backend.cluster.models import Artifact, Job
from backend.cluster.withheld import given_of
from backend.dispatcher import programs, submissions
from backend.dispatcher.planning_queue import PlanningQueue
from backend.dispatcher.programs import ProgramRequest
from runtime.client.extract import ExtractedJob
from tests.accounts.cast import PASSWORD, client_of
from tests.cluster.snapshots import completed
from tests.dispatcher import rows

PROGRAM = """
import sys
from runtime.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection(list(range(10))).map(lambda x: x + 1).name("add one").print()
print("arguments", sys.argv[1:])
env.execute("tiny")
"""

pytestmark = pytest.mark.usefixtures("home")


def upload(api: APIClient, name: str, content: bytes | str, field: str = "jarfile") -> Any:
    file = io.BytesIO(content.encode() if isinstance(content, str) else content)
    file.name = name
    return api.post("/v1/jars/upload", {field: file}, format="multipart")


def jar_id(answer: Any) -> str:
    assert answer.status_code == 200, answer.content
    assert answer.json()["status"] == "success"
    return str(answer.json()["filename"].rsplit("/", 1)[1])


def archive(**files: str) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as target:
        for name, text in files.items():
            target.writestr(name.replace("__slash__", "/") + ".py", text)
    return content.getvalue()


def test_an_upload_is_stored_under_its_digest_and_listed(api: APIClient, alice: User, home: Path) -> None:
    digest = sha256(PROGRAM.encode()).hexdigest()
    assert jar_id(upload(api, "tiny.py", PROGRAM)) == f"{digest}_tiny.py"
    [stored] = (home / "artifacts").glob(f"{digest}.*/*")
    assert (stored.name, stored.read_text()) == ("tiny.py", PROGRAM)
    [entry] = api.get("/v1/jars").json()["files"]
    assert (entry["id"], entry["name"]) == (f"{digest}_tiny.py", "tiny.py")
    assert Artifact.objects.get().uploaded_by == alice
    # nothing half-done is left
    assert list((home / "artifacts").rglob("*.tmp")) == []


def test_the_same_content_again_is_the_same_artifact(api: APIClient) -> None:
    upload(api, "one.py", PROGRAM)
    upload(api, "two.py", PROGRAM, field="file")
    [entry] = api.get("/v1/jars").json()["files"]
    assert entry["name"] == "two.py"


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("../../../../etc/cron.d/job.py", "job.py"),
        ("..\\..\\job.py", "job.py"),
        ("/abs/job.py", "job.py"),
        ("a b;$(rm).py", "a_b___rm_.py"),
        ("..hidden.py", "hidden.py"),
        ("%2e%2e%2fjob.py", "_2e_2e_2fjob.py"),
        ("größe.py", "gr__e.py"),
        ("x" * 300 + ".py", "x" * 117 + ".py"),
    ],
)
def test_the_clients_file_name_cannot_lead_anywhere(api: APIClient, home: Path, given: str, kept: str) -> None:
    upload(api, given, PROGRAM)
    files = [path for path in home.rglob("*") if path.is_file()]
    assert [path.name for path in files] == [kept]
    assert files[0].parent.parent == home / "artifacts"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("job.jar", PROGRAM),
        ("job.exe", PROGRAM),
        (".py", PROGRAM),
        ("job", PROGRAM),
        ("job.py", ""),
        ("job.zip", PROGRAM),
        ("job.whl", b"PK\x03\x04 cut off"),
    ],
)
def test_what_is_no_program_is_refused_and_leaves_nothing(
    api: APIClient, home: Path, name: str, content: bytes | str
) -> None:
    answer = upload(api, name, content)
    assert answer.status_code == 400
    assert list(answer.json()) == ["errors"]
    assert [path for path in home.rglob("*") if path.is_file()] == []
    assert not Artifact.objects.exists()


def test_exactly_one_file_is_taken(api: APIClient) -> None:
    assert api.post("/v1/jars/upload", {"note": "none"}, format="multipart").status_code == 400
    two = {name: io.BytesIO(b"x") for name in ("a", "b")}
    for name, file in two.items():
        file.name = f"{name}.py"
    assert api.post("/v1/jars/upload", two, format="multipart").status_code == 400
    assert api.post("/v1/jars/upload", {}, format="json").status_code == 415


def test_a_file_over_the_limit_is_refused(api: APIClient, home: Path, settings: Settings) -> None:
    settings.TIDEMARK_MAX_UPLOAD_BYTES = 100
    assert upload(api, "job.py", "#" * 101).status_code == 413
    assert upload(api, "job.py", "#" * 100).status_code == 200
    assert len([path for path in home.rglob("*") if path.is_file()]) == 1


def test_a_deleted_artifact_is_gone(api: APIClient, home: Path) -> None:
    name = jar_id(upload(api, "job.py", PROGRAM))
    assert api.delete(f"/v1/jars/{name}").json() == {}
    assert api.get("/v1/jars").json()["files"] == []
    assert [path for path in home.rglob("*") if path.is_file()] == []
    assert api.delete(f"/v1/jars/{name}").status_code == 404


def test_an_artifact_of_a_job_that_has_not_ended_stays(api: APIClient) -> None:
    name = jar_id(upload(api, "job.py", PROGRAM))
    job = rows.running_job()
    Job.objects.update(artifact=Artifact.objects.get())
    answer = api.delete(f"/v1/jars/{name}")
    assert answer.status_code == 409
    assert job.id in answer.json()["errors"][0]
    Job.objects.update(state="FINISHED")
    assert api.delete(f"/v1/jars/{name}").status_code == 200


def test_who_may_not_submit_can_neither_upload_nor_plan_nor_run(api: APIClient, oscar: User) -> None:
    name = jar_id(upload(api, "job.py", PROGRAM))
    operator = client_of(oscar)
    refused = upload(operator, "other.py", PROGRAM)
    assert (refused.status_code, refused.json()) == (403, {"errors": ["Requires the role developer."]})
    assert operator.get(f"/v1/jars/{name}/plan").status_code == 403
    assert operator.post(f"/v1/jars/{name}/plan").status_code == 403
    assert operator.post(f"/v1/jars/{name}/run").status_code == 403
    assert operator.delete(f"/v1/jars/{name}").status_code == 403
    assert operator.get("/v1/jars").status_code == 200


# --- plan and run -----------------------------------------------------------------------------------------------------


def test_the_plan_of_a_program(api: APIClient) -> None:
    name = jar_id(upload(api, "tiny.py", PROGRAM))
    body = {"parallelism": 2, "programArgsList": ["--year", "2013"]}
    answer = api.post(f"/v1/jars/{name}/plan", body, format="json")
    assert answer.status_code == 200, answer.content
    plan = answer.json()["plan"]
    assert plan["name"] == "tiny"
    assert any("add one" in node["description"] for node in plan["nodes"])
    assert "['--year', '2013']" in answer.json()["output"]


def test_the_plan_has_the_operators_as_the_program_wrote_them_and_its_text(api: APIClient) -> None:
    name = jar_id(upload(api, "tiny.py", PROGRAM))
    operators = api.post(f"/v1/jars/{name}/plan").json()["operators"]
    assert operators["files"] == {"tiny.py": PROGRAM}
    nodes = {node["name"]: node for node in operators["nodes"]}
    place, _, line = nodes["add one"]["defined_at"].rpartition(":")
    assert place == "tiny.py"
    assert ".map(" in PROGRAM.splitlines()[int(line) - 1]
    known = {node["id"] for node in operators["nodes"]}
    assert len(known) == len(operators["nodes"]) == 1 + len(operators["edges"])
    assert all({edge["source"], edge["target"]} <= known for edge in operators["edges"])


def test_the_text_of_an_archives_modules_comes_with_its_plan_unless_it_is_too_large(api: APIClient) -> None:
    large = f"{PROGRAM}\n# {'x' * (256 << 10)}\n"
    for module, shown in ((PROGRAM, ["jobs.zip/jobs/__main__.py"]), (large, [])):
        name = jar_id(upload(api, "jobs.zip", archive(jobs__slash____init__="", jobs__slash____main__=module)))
        operators = api.post(f"/v1/jars/{name}/plan").json()["operators"]
        assert [*operators["files"]] == shown
    assert not Job.objects.exists()


def test_running_a_program_leaves_a_job_for_the_leader(api: APIClient, alice: User) -> None:
    name = jar_id(upload(api, "tiny.py", PROGRAM))
    wanted = "0123456789abcdef" * 2
    body = {
        "parallelism": "3",
        "programArgs": '--year 2013 --title "a year\'s weather" --pattern \\d+',
        "jobId": wanted,
        "flinkConfiguration": {"restart-strategy.type": "fixed-delay"},
    }
    answer = api.post(f"/v1/jars/{name}/run", body, format="json")
    assert answer.status_code == 200, answer.content
    assert answer.json()["jobid"] == wanted
    job = Job.objects.get()
    assert (job.id, job.name, job.state, job.submitted_by) == (wanted, "tiny", "INITIALIZING", alice)
    assert job.program_args == ["--year", "2013", "--title", "a year's weather", "--pattern", r"\d+"]
    assert job.artifact == Artifact.objects.get()
    assert job.parallelism == 3
    assert job.configuration["restart-strategy.type"] == "fixed-delay"
    assert job.graph["configuration"]["restart-strategy.type"] == "fixed-delay"
    assert api.post(f"/v1/jars/{name}/run", body, format="json").status_code == 409


def test_a_program_runs_by_the_entry_that_the_list_shows(api: APIClient) -> None:
    for file, content in (("tiny.py", PROGRAM), ("jobs.zip", archive(__main__=PROGRAM))):
        name = jar_id(upload(api, file, content))
        [entry] = [listed["entry"][0]["name"] for listed in api.get("/v1/jars").json()["files"] if listed["id"] == name]
        answer = api.get(f"/v1/jars/{name}/plan", {"entry-class": entry})
        assert answer.status_code == 200, answer.content


def test_secrets_that_a_program_is_given_are_in_no_answer_row_or_event(api: APIClient) -> None:
    canary = "c4n4ry-of-jars"
    source = PROGRAM.replace('.name("add one")', '.name("to " + sys.argv[2]).uid("add")').replace(
        "env.from_coll", "env.get_config().set_global_job_parameters({'db.password': sys.argv[2]})\nenv.from_coll"
    )
    name = jar_id(upload(api, "tiny.py", source))
    body = {
        "programArgsList": ["--db-password", canary, "--rate", "3"],
        "flinkConfiguration": {"api.token": canary},
    }
    told = []
    for route in ("plan", "run"):
        answer = api.post(f"/v1/jars/{name}/{route}", body, format="json")
        assert answer.status_code == 200, answer.content
        assert "arguments ['--db-password', '" in answer.json()["output"]
        told.append(answer.content.decode())
    job = Job.objects.get()
    given = given_of(job)
    assert (given.args, given.submission["configuration"]["api.token"]) == (body["programArgsList"], canary)
    assert given.graph["job_parameters"] == {"db.password": canary}
    program = api.get(f"/api/v1/jobs/{job.id}/restore-points").json()["program"]
    assert program["args"] == ["--db-password", "******", "--rate", "3"] and program["hidden"] == ["api.token"]
    for path in ("", "/config", "/plan", "/vertices/" + job.plan["nodes"][0]["id"]):
        told.append(api.get(f"/v1/jobs/{job.id}{path}").content.decode())
    told += [str(list(model.objects.values())) for model in (Job, AuditEvent)]
    failing = jar_id(upload(api, "failing.py", "import sys\nprint(sys.argv)\nraise ValueError(sys.argv[2])"))
    refused = api.post(f"/v1/jars/{failing}/run", body, format="json")
    assert refused.status_code == 400 and "ValueError" in refused.content.decode()
    for text in (*told, refused.content.decode()):
        assert canary not in text
    # what was hidden is not taken for the secret
    again = body | {"programArgsList": program["args"]}
    assert api.post(f"/v1/jars/{name}/run", again, format="json").status_code == 400


@pytest.mark.parametrize("route", ["plan", "run"])
def test_a_program_that_finds_no_turn_is_answered_with_the_time_to_come_again(
    api: APIClient, monkeypatch: pytest.MonkeyPatch, route: str
) -> None:
    queue = PlanningQueue(turns=1, max_waiting=0, max_wait_s=30)
    monkeypatch.setattr(programs, "_queue", queue)
    name = jar_id(upload(api, "tiny.py", PROGRAM))
    with queue.turn():
        answer = api.post(f"/v1/jars/{name}/{route}")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    assert answer.json()["errors"] == ["0 other programs wait to be planned: try again in 1 s."]
    assert not Job.objects.exists()


def test_two_requests_of_one_id_at_the_same_moment_are_one_job(
    api: APIClient, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = jar_id(upload(api, "tiny.py", PROGRAM))
    wanted = "0123456789abcdef" * 2

    def overtaken(artifact: Artifact, request: ProgramRequest, has_left: Callable[[], bool]) -> ExtractedJob:
        extracted = programs.extract(artifact, request, has_left)
        services.submit_job(extracted.graph_json, artifact, [], {}, alice, job_id=wanted)
        return extracted

    monkeypatch.setattr(submissions, "extract", overtaken)
    answer = api.post(f"/v1/jars/{name}/run", {"jobId": wanted}, format="json")
    assert answer.status_code == 409
    assert answer.json()["errors"] == [f"Job {wanted} was already submitted."]
    assert Job.objects.get().id == wanted


def deactivate(user: User) -> None:
    User.objects.filter(pk=user.pk).update(is_active=False)


def revoke(user: User) -> None:
    user.api_tokens.all().delete()


def demote(user: User) -> None:
    set_role(user, Role.OPERATOR)


def delete(user: User) -> None:
    user.delete()


@pytest.mark.parametrize(("takes_away", "code"), [(deactivate, 401), (revoke, 401), (demote, 403), (delete, 401)])
def test_who_has_lost_access_while_a_program_was_planned_runs_nothing(
    api: APIClient,
    alice: User,
    monkeypatch: pytest.MonkeyPatch,
    takes_away: Callable[[User], None],
    code: int,
) -> None:
    name = jar_id(upload(api, "tiny.py", PROGRAM))

    def meanwhile(artifact: Artifact, request: ProgramRequest, has_left: Callable[[], bool]) -> ExtractedJob:
        extracted = programs.extract(artifact, request, has_left)
        takes_away(alice)
        return extracted

    monkeypatch.setattr(submissions, "extract", meanwhile)
    answer = api.post(f"/v1/jars/{name}/run", {}, format="json")
    assert answer.status_code == code, answer.content
    assert "meanwhile" in answer.json()["errors"][0]
    assert not Job.objects.exists()


def test_micro_batches_can_be_switched_off(api: APIClient, settings: Settings) -> None:
    name = jar_id(upload(api, "tiny.py", PROGRAM))
    request = {"flinkConfiguration": {"execution.mode": "micro-batch"}}
    settings.TIDEMARK_MICRO_BATCHES = False
    answer = api.post(f"/v1/jars/{name}/run", request, format="json")
    assert answer.status_code == 400 and not Job.objects.exists()
    assert "switched off on this cluster (TIDEMARK_MICRO_BATCHES)" in answer.json()["errors"][0]
    blocking = {"execution.runtime-mode": "batch", "execution.batch-shuffle-mode": "ALL_EXCHANGES_BLOCKING"}
    answer = api.post(f"/v1/jars/{name}/run", {"flinkConfiguration": blocking}, format="json")
    assert answer.status_code == 400 and "all_exchanges_pipelined; this is switched off" in answer.json()["errors"][0]
    settings.TIDEMARK_MICRO_BATCHES = True
    assert api.post(f"/v1/jars/{name}/run", request, format="json").status_code == 200


def test_an_archive_is_run_by_its_package(api: APIClient) -> None:
    content = archive(job__slash____init__="", job__slash____main__=PROGRAM)
    name = jar_id(upload(api, "job.zip", content))
    assert api.get("/v1/jars").json()["files"][0]["entry"][0]["name"] == "job"
    answer = api.post(f"/v1/jars/{name}/run")
    assert answer.status_code == 200, answer.content
    assert Job.objects.get().name == "tiny"


def test_a_program_starts_from_a_savepoint(api: APIClient, home: Path) -> None:
    name = jar_id(upload(api, "tiny.py", PROGRAM))
    location = completed(home / "savepoints", "c" * 32, 1).location
    body = {"savepointPath": f"{location}/_metadata", "allowNonRestoredState": True, "claimMode": "CLAIM"}
    answer = api.post(f"/v1/jars/{name}/run", body, format="json")
    assert answer.status_code == 200, answer.content
    configuration = Job.objects.get().graph["configuration"]
    assert configuration["execution.state-recovery.path"] == location
    assert configuration["execution.state-recovery.claim-mode"] == "claim"
    assert configuration["execution.state-recovery.ignore-unclaimed-state"] == "true"
    missing = (home / "savepoints" / "none").as_uri()
    answer = api.post(f"/v1/jars/{name}/run", {"savepointPath": missing}, format="json")
    assert answer.status_code == 400
    assert "nothing exists at this location" in answer.json()["errors"][0]


def test_a_foreign_savepoint_is_started_from_only_where_those_are_taken(
    api: APIClient, home: Path, settings: Settings
) -> None:
    name = jar_id(upload(api, "tiny.py", PROGRAM))
    foreign = completed(home / "savepoints", "c" * 32, 1).location
    own = completed(home / "savepoints", "c" * 32, 2, files=cluster_storage().signed_files()).location
    settings.TIDEMARK_FOREIGN_SNAPSHOTS = False
    answer = api.post(f"/v1/jars/{name}/run", {"savepointPath": foreign}, format="json")
    assert answer.status_code == 400
    assert "TIDEMARK_FOREIGN_SNAPSHOTS=0" in answer.json()["errors"][0]
    # since then the key was replaced
    former, settings.TIDEMARK_CLUSTER_KEYS = settings.TIDEMARK_CLUSTER_KEYS, ["a-key-that-is-as-long-as-it-has-to-be"]
    assert api.post(f"/v1/jars/{name}/run", {"savepointPath": own}, format="json").status_code == 400
    settings.TIDEMARK_CLUSTER_KEYS += former
    assert api.post(f"/v1/jars/{name}/run", {"savepointPath": own}, format="json").status_code == 200


def test_the_audit_trail_names_the_program_its_arguments_and_the_job(api: APIClient) -> None:
    name = jar_id(upload(api, "tiny.py", PROGRAM))
    digest = sha256(PROGRAM.encode()).hexdigest()
    uploaded = AuditEvent.objects.latest("pk").detail
    assert uploaded == {"sha256": digest, "file": "tiny.py", "bytes": len(PROGRAM)}
    body = {
        "programArgsList": ["--api-token", "canary-7f3a", "--rows", "7"],
        "flinkConfiguration": {"s3.secret-key": "canary-7f3a", "parallelism.default": "2"},
    }
    job_id = api.post(f"/v1/jars/{name}/run", body, format="json").json()["jobid"]
    event = AuditEvent.objects.latest("pk")
    assert (event.detail["sha256"], event.detail["job"]) == (digest, job_id)
    assert event.detail["arguments"] == ["--api-token", "******", "--rows", "7"]
    assert event.detail["options"]["parallelism.default"] == "2" and "canary" not in str(event.detail)


def test_a_program_that_fails_says_where(api: APIClient) -> None:
    name = jar_id(upload(api, "broken.py", "year = {}\nyear['2013']\n"))
    answer = api.get(f"/v1/jars/{name}/plan?parallelism=2")
    assert answer.status_code == 400
    text = "\n".join(answer.json()["errors"])
    assert "KeyError" in text and "broken.py" in text and "line 2" in text


def test_another_sites_link_runs_no_program(api: APIClient, alice: User, settings: Settings) -> None:
    settings.TIDEMARK_SUBMISSIONS_PER_MINUTE = 100
    name = jar_id(upload(api, "tiny.py", PROGRAM))
    victim = APIClient()
    assert victim.login(username="alice", password=PASSWORD)
    answer = victim.get(f"/v1/jars/{name}/plan", headers={"sec-fetch-site": "cross-site"})
    assert answer.status_code == 403 and "use POST" in answer.json()["errors"][0]
    event = AuditEvent.objects.latest("pk")
    assert (event.user, event.action, event.result) == ("alice", "GET v1/jars/<str:jar_id>/plan", "denied")
    # nor does it use up what its victim may submit in a minute
    assert [count.events for count in SharedCounts("submissions").read([f"user:{alice.pk}"])] == [1]
    assert victim.get(f"/v1/jars/{name}/plan", headers={"sec-fetch-site": "same-origin"}).status_code == 200
    assert AuditEvent.objects.latest("pk").result == "done"


def test_a_program_that_fails_shows_what_it_had_printed(api: APIClient) -> None:
    name = jar_id(upload(api, "broken.py", "print('so far so good')\nyear = {}\nyear['2013']\n"))
    message, traceback, output = api.post(f"/v1/jars/{name}/run", {}, format="json").json()["errors"]
    assert "KeyError" in message and "line 3" in traceback
    assert output == "Output of the program:\nso far so good\n"


def test_what_a_program_prints_comes_with_its_plan_and_with_its_job(api: APIClient) -> None:
    name = jar_id(upload(api, "tiny.py", PROGRAM))
    for path in ("plan", "run"):
        answer = api.post(f"/v1/jars/{name}/{path}", {"programArgsList": ["x"]}, format="json").json()
        assert answer["output"] == "arguments ['x']\n" and "no uid" in answer["warnings"][0]


def test_a_job_graph_of_flink_is_refused_with_the_way_to_submit(api: APIClient) -> None:
    answer = api.post("/v1/jobs", {"jobGraphFileName": "graph"}, format="json")
    assert answer.status_code == 405 and "tidemark run" in answer.json()["errors"][0]


@pytest.mark.parametrize("name", ["a\\0b", "half \\ud83c"])
def test_names_that_no_database_keeps_are_refused(api: APIClient, name: str) -> None:
    jar = jar_id(upload(api, "tiny.py", PROGRAM.replace("add one", name)))
    answer = api.post(f"/v1/jars/{jar}/run")
    assert answer.status_code == 400
    assert "A name in the program" in answer.json()["errors"][0]


def test_a_program_sees_no_secrets(api: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TIDEMARK_ADMIN_TOKEN", "DATABASE_URL", "REDIS_URL", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "canary-7f3a")
    name = jar_id(upload(api, "spy.py", "import os\nraise ValueError(dict(os.environ))\n"))
    answer = api.post(f"/v1/jars/{name}/plan")
    assert answer.status_code == 400
    assert b"PYTHONPATH" in answer.content
    assert b"canary" not in answer.content


@pytest.mark.parametrize(
    "body",
    [
        {"parallelism": 0},
        {"parallelism": "many"},
        {"parallelism": -1},
        {"programArgsList": "--year"},
        {"programArgsList": [1]},
        {"programArgs": ["--year"]},
        {"programArgs": "--title 'without an end"},
        {"entryClass": 7},
        {"jobId": "zz"},
        {"flinkConfiguration": {"a": 1}},
        {"flinkConfiguration": ["a"]},
        {"savepointPath": "/savepoints/1"},
        {"savepointPath": 1},
        {"savepointPath": "", "claimMode": "LEGACY"},
        {"allowNonRestoredState": "perhaps"},
        {"programArgsList": ["a\0b"]},
        {"programArgsList": ["\ud800"]},
        {"flinkConfiguration": {"a\0": "b"}},
        [],
        "text",
    ],
)
def test_requests_that_make_no_sense_are_refused(api: APIClient, body: Any) -> None:
    name = jar_id(upload(api, "tiny.py", PROGRAM))
    answer = api.post(f"/v1/jars/{name}/run", json.dumps(body), content_type="application/json")
    assert answer.status_code == 400
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    ("body", "content_type", "status"), [(b"{", "application/json", 400), (b"a=b", "text/plain", 415)]
)
def test_bodies_that_cannot_be_read(api: APIClient, body: bytes, content_type: str, status: int) -> None:
    name = jar_id(upload(api, "tiny.py", PROGRAM))
    answer = api.post(f"/v1/jars/{name}/run", body, content_type=content_type)
    assert answer.status_code == status
    assert list(answer.json()) == ["errors"]


@pytest.mark.parametrize("jar", ["..", "%2e%2e", "..%2f..%2fdb.sqlite3", "artifacts", "0" * 64, "0" * 64 + "_../x.py"])
def test_ids_of_artifacts_lead_nowhere_else(api: APIClient, jar: str) -> None:
    answer = api.delete(f"/v1/jars/{jar}")
    assert answer.status_code in (404, 405)
    assert list(answer.json()) == ["errors"]
