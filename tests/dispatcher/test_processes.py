"""Logs, standard output, threads and environment of the processes, as Flink's clients read them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django import Settings
from rest_framework.test import APIClient

from backend.cluster import bus
from backend.cluster.job_logs import job_log_directory
from backend.cluster.leadership import ROLE
from backend.cluster.models import Job, LeaderEpoch, TaskManager
from backend.cluster.process_report import ProcessReporter
from backend.cluster.slot_output import read_slot_output
from tests.cluster.redis_fixture import running_redis
from tests.dispatcher import rows

TM = f"/v1/taskmanagers/{rows.TASKMANAGER}"
JOBMANAGER = "localhost:4710"


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_redis(tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.fixture
def processes(
    no_redis: None, settings: Settings, redis_url: str, home: Path, job: Job, taskmanager: TaskManager
) -> Iterator[Job]:
    """A JobManager that leads and a TaskManager that runs a job; both have logged "begins" and reported."""
    settings.REDIS_URL = redis_url
    bus.disconnect()
    bus.client().flushall()
    LeaderEpoch.objects.create(name=ROLE, epoch=1, holder=JOBMANAGER)
    for process, kind in ((JOBMANAGER, "jobmanager"), (rows.TASKMANAGER, "taskmanager")):
        reporter = ProcessReporter(process, kind)
        reporter.start()
        logging.getLogger("backend.test").warning("the %s begins", kind)
        reporter.stop()
    yield job
    bus.disconnect()


def attempt_of(job: Job) -> int:
    assert job.document is not None
    return int(job.document["attempt"])


def print_lines(job: Job, slot: int, text: str, segment: str = "e1.0") -> Path:
    """Write what a slot has printed, as a leader does."""
    path = job_log_directory(job.id) / f"attempt-{attempt_of(job)}" / f"slot-{slot}.out.{segment}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def text(api: APIClient, path: str) -> str:
    answer = api.get(path)
    assert (answer.status_code, answer["Content-Type"]) == (200, "text/plain; charset=utf-8"), answer.content
    return answer.content.decode()


@pytest.mark.parametrize(("place", "kind"), [("/v1/jobmanager", "jobmanager"), (TM, "taskmanager")])
def test_the_log_of_a_process_is_listed_and_read(api: APIClient, processes: Job, place: str, kind: str) -> None:
    entry, *_ = api.get(f"{place}/logs").json()["logs"]
    assert (entry["name"], entry["mtime"] > 0) == (f"{kind}.log", True)
    for path in ("log", f"logs/{kind}.log"):
        log = text(api, f"{place}/{path}")
        assert f"the {kind} begins" in log and len(log.encode()) == entry["size"]
    assert api.get(f"{place}/logs/other.log").status_code == 404


def test_a_process_that_has_said_nothing_yet_has_an_empty_log(
    no_redis: None, settings: Settings, redis_url: str, api: APIClient, taskmanager: TaskManager
) -> None:
    settings.REDIS_URL = redis_url
    bus.disconnect()
    bus.client().flushall()
    reporter = ProcessReporter(rows.TASKMANAGER, "taskmanager")
    reporter.start()
    reporter.stop()
    read = api.get(f"{TM}/log")
    assert (read.status_code, read.content) == (200, b"")
    assert api.get(f"{TM}/logs/other.log").status_code == 404
    bus.disconnect()


def test_a_taskmanager_shows_what_its_slots_have_printed(api: APIClient, processes: Job) -> None:
    print_lines(processes, 0, "1 flight\n")
    print_lines(processes, 1, "2 flights\n")
    print_lines(processes, 7, "of a slot elsewhere\n")
    printed = text(api, f"{TM}/stdout")
    assert printed == (f"# job {processes.id}, slot 0\n1 flight\n# job {processes.id}, slot 1\n2 flights\n")
    assert text(api, f"{TM}/logs/taskmanager.out") == printed
    assert {log["name"]: log["size"] for log in api.get(f"{TM}/logs").json()["logs"]}["taskmanager.out"] == 19
    assert text(api, "/v1/jobmanager/stdout") == ""


def test_of_long_output_the_newest_whole_lines_are_read(home: Path, job: Job) -> None:
    print_lines(job, 0, "".join(f"line {number}\n" for number in range(100)), "e1.0")
    print_lines(job, 0, "the end\n", "e2.790")
    output = read_slot_output(job.id, attempt_of(job), 0, 30)
    assert (output.text, output.size) == ("line 98\nline 99\nthe end\n"[-24:], 798)


def test_links_lead_nowhere(home: Path, job: Job, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hunter2\n")
    print_lines(job, 1, "").unlink()
    (job_log_directory(job.id) / f"attempt-{attempt_of(job)}" / "slot-1.out.e1.0").symlink_to(secret)
    assert read_slot_output(job.id, attempt_of(job), 1, 100).text == ""


def test_threads_and_environment_are_those_of_the_process(api: APIClient, processes: Job) -> None:
    for place in ("/v1/jobmanager", TM):
        threads = {info["threadName"]: info for info in api.get(f"{place}/thread-dump").json()["threadInfos"]}
        assert threads["MainThread"]["stringifiedThreadInfo"].startswith('"MainThread" Id=')
        assert "\n\tat " in threads["MainThread"]["stringifiedThreadInfo"]
    environment = api.get("/v1/jobmanager/environment").json()
    assert environment["jvm"]["version"].startswith("Python 3") and environment["classpath"]


def test_status_metrics_are_those_of_the_process(api: APIClient, processes: Job) -> None:
    for place in ("/v1/jobmanager", TM):
        [used] = api.get(f"{place}/metrics?get=Status.JVM.Memory.Heap.Used").json()
        assert int(used["value"]) > 1 << 20
    collectors = api.get(TM).json()["metrics"]["garbageCollectors"]
    assert [entry["name"] for entry in collectors] == ["All", "Gen0", "Gen1", "Gen2"]
    [figures] = api.get("/v1/taskmanagers/metrics?get=Status.JVM.Threads.Count").json()
    assert figures["min"] == figures["max"] >= 1


def test_a_process_that_has_not_reported_has_nothing(api: APIClient, taskmanager: TaskManager, home: Path) -> None:
    assert api.get(f"{TM}/log").status_code == 404
    assert api.get("/v1/jobmanager/log").status_code == 404
    assert api.get(f"{TM}/thread-dump").json() == {"threadInfos": []}
    assert api.get("/v1/jobmanager/environment").json()["classpath"] == []
    assert api.get("/v1/jobmanager/logs").json() == {"logs": []}


@pytest.mark.parametrize("route", ["log", "logs", "logs/taskmanager.log", "stdout", "thread-dump"])
def test_an_unknown_taskmanager_is_not_found(api: APIClient, taskmanager: TaskManager, route: str) -> None:
    answer = api.get(f"/v1/taskmanagers/elsewhere:1-aaaaaa/{route}")
    assert (answer.status_code, list(answer.json())) == (404, ["errors"])


def test_where_flinks_page_finds_logs(api: APIClient, job: Job) -> None:
    jobmanager = api.get(f"/v1/jobs/{job.id}/jobmanager/log-url").json()
    taskmanager = api.get(f"/v1/jobs/{job.id}/taskmanagers/{rows.TASKMANAGER}/log-url").json()
    assert jobmanager == {"url": "http://testserver/ui/jobmanagers"}
    assert taskmanager["url"].startswith("http://testserver/ui/taskmanagers/localhost%3A4711")
    assert {entry["key"] for entry in api.get(f"/v1/jobs/{job.id}/jobmanager/config").json()} >= {"spark.master"}


def test_a_jobs_metrics_tell_its_checkpoints(api: APIClient, job: Job) -> None:
    names = ("numberOfCompletedCheckpoints", "lastCompletedCheckpointId", "lastCheckpointExternalPath", "numRescales")
    path = f"/v1/jobs/{job.id}/metrics?get={','.join(names)}"
    values = {entry["id"]: entry["value"] for entry in api.get(path).json()}
    assert job.document is not None
    section = job.document["checkpoints"]
    latest = section["latest"]["completed"]
    assert values == {
        "numberOfCompletedCheckpoints": str(section["counts"]["completed"]),
        "lastCompletedCheckpointId": str(latest["id"]),
        "lastCheckpointExternalPath": latest["external_path"],
        "numRescales": "0",
    }
