"""/api/v1: live documents and logs."""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import redis
from rest_framework.test import APIClient

from backend.cluster import bus
from backend.cluster.cluster_document import cluster_document, job_entry
from backend.cluster.live_document import told_document
from backend.cluster.models import Job
from backend.cluster.services import now_ms
from tests.dispatcher import rows
from tests.support.bus_contents import beat, put_document, stop_beating
from tests.support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("bus_redis")


@pytest.fixture
def job(db: None) -> Job:
    return rows.running_job()


def told(job: Job) -> dict[str, Any]:
    """The document as the leader publishes it."""
    return told_document(job.document or {})


@pytest.fixture
def logs(home: Path, job: Job) -> Path:
    """The log files of two attempts, and things beside them that are none."""
    root = home / "logs" / "jobs" / job.id
    for attempt in (0, 1):
        directory = root / f"attempt-{attempt}"
        directory.mkdir(parents=True)
        (directory / "slot-0.out").write_text(f"attempt {attempt}\n")
        (directory / "slot-0.log").write_text("INFO started\n")
    (root / "attempt-1" / "slot-0.log.1").write_text("older\n")
    (root / "attempt-1" / "secrets.txt").write_text("canary-7f3a")
    (home / "admin-token").write_text("canary-7f3a")
    (root / "attempt-1" / "slot-7.log").symlink_to(home / "admin-token")
    (root / "attempt-2").symlink_to(home)
    (home / "slot-0.log").write_text("canary-7f3a")
    return root


def test_the_live_document_is_redis_and_then_sqls(api: APIClient, job: Job, bus_redis: redis.Redis) -> None:
    path = f"/api/v1/jobs/{job.id}/live"
    assert api.get(path).json()["state"] == "RUNNING"
    put_document(bus.JOB_KEY.format(job.id), {**told(job), "state": "FAILING"})
    assert api.get(path).json()["state"] == "FAILING"


def test_a_text_that_is_no_proper_one_does_not_break_the_answer(api: APIClient, job: Job) -> None:
    put_document(bus.JOB_KEY.format(job.id), {**told(job), "name": "half \ud83c"})
    assert api.get(f"/api/v1/jobs/{job.id}/live").json()["name"] == "half \ud83c"


def test_the_documents_of_topics_are_there_for_a_page_without_a_socket(api: APIClient, job: Job) -> None:
    put_document(bus.JOB_KEY.format(job.id), told(job) | {"state": "FAILING"})
    document = api.get(f"/api/v1/jobs/{job.id}/topic").json()
    assert (document["static"]["order"], document["moving"]["job"]["state"]) == ([rows.SOURCE, rows.SINK], "FAILING")
    assert document["freshness"]["source"] == "live"
    vertex = api.get(f"/api/v1/jobs/{job.id}/vertices/{rows.SINK}/topic").json()
    assert list(vertex["subtasks"]) == ["0", "1"] and vertex["version"] == document["version"]
    assert api.get(f"/api/v1/jobs/{job.id}/vertices/{'f' * 32}/topic").status_code == 404
    operators = api.get(f"/api/v1/jobs/{job.id}/operators/topic").json()
    assert list(operators["figures"]) == list(document["static"]["operators"])
    assert (operators["version"], operators["freshness"]["source"]) == (document["version"], "live")


def test_the_cluster_document(api: APIClient, job: Job) -> None:
    rows.taskmanager()
    cluster = api.get("/api/v1/cluster").json()
    assert (cluster["slots_total"], cluster["jobs"][0]["id"]) == (4, job.id)


def test_the_jobmanagers(api: APIClient, bus_redis: redis.Redis) -> None:
    bus.show_jobmanager("host:7")
    entry = {"id": "host:7", "role": "STANDBY", "epoch": None, "leading_since": None, "is_alive": True}
    assert api.get("/api/v1/jobmanagers").json() == {"jobmanagers": [entry], "redis_answers": True}


def test_documents_say_how_old_they_are(api: APIClient, job: Job, bus_redis: redis.Redis) -> None:
    path = f"/api/v1/jobs/{job.id}/live"
    assert api.get(path).json()["freshness"] == {
        "age_ms": None, "source": "database", "is_stale": True, "reason": "No JobManager has sent a heartbeat.",
    }  # fmt: skip
    put_document(bus.JOB_KEY.format(job.id), {**told(job), "state": "RUNNING"})
    put_document(bus.CLUSTER_KEY, cluster_document([], [], 1, 1))
    beat()
    fresh = api.get(path).json()["freshness"]
    assert (fresh["source"], fresh["is_stale"]) == ("live", False) and 0 <= fresh["age_ms"] < 3_000
    assert not api.get("/api/v1/cluster").json()["freshness"]["is_stale"]
    beat(age_ms=25_000)
    reason = api.get(path).json()["freshness"]["reason"]
    assert re.fullmatch(r"The JobManager has sent no heartbeat for (2[5-9]|[3-5]\d) s\.", reason)
    assert api.get("/api/v1/cluster").json()["freshness"]["source"] == "database"


def test_the_clock_of_a_job_in_which_nothing_changes_goes_on_while_the_jobmanager_beats(
    api: APIClient, job: Job, bus_redis: redis.Redis
) -> None:
    path, written = f"/api/v1/jobs/{job.id}/live", now_ms() - 60_000
    kept = {**told(job), "state": "RESTARTING", "start_time": written - 1_000, "end_time": -1}
    Job.objects.filter(id=job.id).update(created_at=written - 1_000)
    put_document(bus.JOB_KEY.format(job.id), {**kept, "now": written, "duration": 1_000}, age_ms=60_000)
    beat()
    later = api.get(path).json()
    assert later["now"] - written == later["duration"] - 1_000 and 57_000 < later["now"] - written < 70_000
    # what nobody vouches for any more stands still
    beat(age_ms=25_000)
    frozen_at = api.get(path).json()["now"]
    [entry] = api.get("/v1/jobs/overview").json()["jobs"]
    assert abs(entry["start-time"] + entry["duration"] - frozen_at) < 2_000, "lists of jobs stand still, too"
    [entry] = api.get("/v1/applications/overview").json()["applications"]
    assert abs(entry["start-time"] + entry["duration"] - frozen_at) < 2_000
    assert 32_000 < frozen_at - written < 45_000
    stop_beating()
    assert api.get(path).json()["duration"] == 1_000
    put_document(bus.CLUSTER_KEY, cluster_document([], [], 1, 2))
    beat()
    put_document(bus.JOB_KEY.format(job.id), {**kept, "state": "FAILED", "now": written, "duration": 1_000})
    assert api.get(path).json()["duration"] == 1_000


def test_ages_do_not_depend_on_the_clock_of_the_leaders_machine(
    api: APIClient, job: Job, bus_redis: redis.Redis
) -> None:
    ahead = now_ms() + 3_600_000
    running = job_entry(told(job)) | {"end_time": -1, "duration": 1_000}
    ended = running | {"id": "f", "end_time": 5, "duration": 4}
    put_document(bus.CLUSTER_KEY, cluster_document([], [running, ended], ahead, 1), age_ms=60_000)
    beat()
    cluster = api.get("/api/v1/cluster").json()
    assert 58_000 < cluster["now"] - ahead == cluster["jobs"][0]["duration"] - 1_000 < 70_000
    assert cluster["jobs"][1]["duration"] == 4
    beat(age_ms=61_000)
    assert api.get("/api/v1/cluster").json()["freshness"]["source"] == "database"
    kept = {**told(job), "state": "RUNNING", "now": ahead, "duration": 1_000}
    put_document(bus.JOB_KEY.format(job.id), kept, age_ms=60_000)
    beat(age_ms=40_000)
    assert 18_000 < api.get(f"/api/v1/jobs/{job.id}/live").json()["now"] - ahead < 22_000


def test_a_frozen_redis_takes_no_route_down(
    api: APIClient, job: Job, frozen: Callable[[], AbstractContextManager[None]]
) -> None:
    put_document(bus.JOB_KEY.format(job.id), {**told(job), "state": "FAILING"})
    # the first request of a process takes a second to find its route
    assert api.get("/api/v1/cluster").status_code == 200
    with frozen():
        began = time.monotonic()
        for path in ("cluster", f"jobs/{job.id}/live", f"jobs/{job.id}/operations"):
            assert api.get(f"/api/v1/{path}").status_code == 200
        for path in ("overview", "jobs/overview", f"jobs/{job.id}", f"jobs/{job.id}/accumulators", "taskmanagers"):
            assert api.get(f"/v1/{path}").status_code == 200
        # one of them waited for Redis, the others did not
        assert time.monotonic() - began < 3 * bus.READ_TIMEOUT_S
        answer = api.get(f"/api/v1/jobs/{job.id}/live").json()
        assert answer["state"] == "RUNNING"
        assert answer["freshness"] == {
            "age_ms": None, "source": "database", "is_stale": True, "reason": "Redis does not answer.",
        }  # fmt: skip
        assert api.get("/readyz").json() == {"database": "ok", "redis": "unreachable"}
    wait_until(lambda: api.get(f"/api/v1/jobs/{job.id}/live").json()["state"] == "FAILING", 5, "Redis")


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        (f"/api/v1/jobs/{'f' * 32}/live", 404, "not_found"),
        (f"/api/v1/jobs/{'f' * 32}/topic", 404, "not_found"),
        (f"/api/v1/jobs/{'f' * 32}/vertices/{'a' * 32}/topic", 404, "not_found"),
        (f"/api/v1/jobs/{'f' * 32}/operators/topic", 404, "not_found"),
        ("/api/v1/jobs/zz/operators/topic", 400, "invalid"),
        (f"/api/v1/jobs/{'f' * 32}/logs", 404, "not_found"),
        ("/api/v1/jobs/zz/live", 400, "invalid"),
        ("/api/v1/nope", 404, "not_found"),
        ("/api/nope", 404, "not_found"),
    ],
)
def test_errors_of_the_product_have_codes(api: APIClient, path: str, status: int, code: str) -> None:
    answer = api.get(path)
    assert answer.status_code == status
    [error] = answer.json()["errors"]
    assert error.keys() == {"code", "field", "message"}
    assert error["code"] == code


# --- logs -------------------------------------------------------------------------------------------------------------


def test_logs_are_listed_newest_attempt_first(api: APIClient, job: Job, logs: Path) -> None:
    files = api.get(f"/api/v1/jobs/{job.id}/logs").json()["files"]
    assert [file["name"] for file in files] == [
        "attempt-1/slot-0.log",
        "attempt-1/slot-0.log.1",
        "attempt-1/slot-0.out",
        "attempt-0/slot-0.log",
        "attempt-0/slot-0.out",
    ]
    assert files[2] | {"mtime": 0} == {
        "name": "attempt-1/slot-0.out",
        "attempt": 1,
        "slot": 0,
        "kind": "out",
        "size": 10,
        "mtime": 0,
    }


def test_logs_that_are_deleted_while_they_are_listed_are_left_out(
    api: APIClient, job: Job, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    glob = Path.glob

    def deleted(self: Path, pattern: str) -> Iterator[Path]:
        if self.name == "attempt-0":
            # what pathlib does in a directory that is gone by now
            raise FileNotFoundError(self)
        return glob(self, pattern)

    monkeypatch.setattr(Path, "glob", deleted)
    answer = api.get(f"/api/v1/jobs/{job.id}/logs")
    assert answer.status_code == 200
    assert {file["attempt"] for file in answer.json()["files"]} == {1}


def test_a_job_without_logs_has_an_empty_list(api: APIClient, job: Job, home: Path) -> None:
    assert api.get(f"/api/v1/jobs/{job.id}/logs").json() == {"files": []}


@pytest.mark.parametrize("separator", ["/", "%2F"])
def test_a_log_is_read_page_by_page(api: APIClient, job: Job, logs: Path, separator: str) -> None:
    path = f"/api/v1/jobs/{job.id}/logs/attempt-1{separator}slot-0.out"
    first = api.get(f"{path}?limit=4").json()
    assert first == {
        "name": "attempt-1/slot-0.out",
        "offset": 0,
        "next_offset": 4,
        "begin": 0,
        "size": 10,
        "first_line": 1,
        "lines": 1,
        "text": "atte",
    }
    rest = api.get(f"{path}?offset=4").json()
    assert (rest["text"], rest["next_offset"]) == ("mpt 1\n", 10)
    assert api.get(f"{path}?offset=10").json()["text"] == ""


def test_a_log_is_read_from_its_end_by_whole_lines(api: APIClient, job: Job, logs: Path) -> None:
    (logs / "attempt-0" / "slot-0.out").write_text("first line\nsecond line\n")
    answer = api.get(f"/api/v1/jobs/{job.id}/logs/attempt-0/slot-0.out?offset=-15").json()
    assert (answer["text"], answer["offset"], answer["next_offset"]) == ("second line\n", 11, 23)


def test_a_log_that_was_rotated_is_read_from_its_begin(api: APIClient, job: Job, logs: Path) -> None:
    answer = api.get(f"/api/v1/jobs/{job.id}/logs/attempt-0/slot-0.out?offset=5000").json()
    assert (answer["offset"], answer["text"]) == (0, "attempt 0\n")


def test_the_tail_of_a_log_says_which_lines_it_has(api: APIClient, job: Job, logs: Path) -> None:
    path = f"/api/v1/jobs/{job.id}/logs/attempt-0/slot-0.out"
    for text, lines in (("one\ntwo\nthree\n", 3), ("one\ntwo\nthree", 3), ("", 0)):
        (logs / "attempt-0" / "slot-0.out").write_text(text)
        answer = api.get(f"{path}?offset=-7").json()
        assert answer["lines"] == lines
        assert (answer["text"].strip(), answer["first_line"]) == (("three", 3) if text else ("", 1))


def test_a_log_that_several_leaders_wrote_is_one(api: APIClient, job: Job, logs: Path) -> None:
    directory = logs / "attempt-1"
    # the first has been deleted; the last leader began where the one before had come to
    (directory / "slot-1.out.e3.100").write_text("one\ntwo\n")
    (directory / "slot-1.out.e3.108").write_text("three\nnever written, as far as anybody knows")
    (directory / "slot-1.out.e5.114").write_text("four\n")
    (directory / "slot-1.out.e5.mark").write_text("")
    files = api.get(f"/api/v1/jobs/{job.id}/logs").json()["files"]
    [file] = [file for file in files if file["slot"] == 1]
    assert (file["name"], file["size"]) == ("attempt-1/slot-1.out", 19)
    path = f"/api/v1/jobs/{job.id}/logs/attempt-1/slot-1.out"
    answer = api.get(path).json()
    assert answer["text"] == "one\ntwo\nthree\nfour\n"
    assert [answer[name] for name in ("offset", "begin", "next_offset", "size", "lines")] == [100, 100, 119, 119, 4]
    answer = api.get(f"{path}?offset=-7").json()
    assert (answer["text"], answer["offset"], answer["first_line"]) == ("four\n", 114, 4)
    assert api.get(f"{path}?offset=112&limit=4").json()["text"] == "e\nfo"
    # the next leader has cut off what was not finished, and the slot sends it again
    answer = api.get(f"{path}?offset=130").json()
    assert [answer[name] for name in ("offset", "next_offset", "size", "text", "first_line")] == [130, 130, 119, "", 5]
    found = api.get(f"/api/v1/jobs/{job.id}/log-search?name=attempt-1/slot-1.out&query=O").json()
    assert [(match["offset"], match["line"]) for match in found["matches"]] == [(100, 1), (104, 2), (114, 4)]
    assert api.get(f"{path}.e5.114").status_code == 404


def test_a_search_looks_at_the_whole_file(api: APIClient, job: Job, logs: Path) -> None:
    (logs / "attempt-0" / "slot-0.out").write_text("first line\nsecond\nlast line")
    path = f"/api/v1/jobs/{job.id}/log-search?name=attempt-0/slot-0.out&query=LINE"
    assert api.get(path).json() == {
        "name": "attempt-0/slot-0.out",
        "query": "LINE",
        "size": 27,
        "lines": 3,
        "matches": [{"line": 1, "offset": 0, "text": "first line"}, {"line": 3, "offset": 18, "text": "last line"}],
        "searched_to": 27,
        "is_complete": True,
    }
    first = api.get(f"{path}&limit=1").json()
    assert (len(first["matches"]), first["searched_to"], first["is_complete"]) == (1, 18, False)
    assert [m["line"] for m in api.get(f"{path}&from={first['searched_to']}").json()["matches"]] == [3]
    assert api.get(f"{path}&case=true").json()["matches"] == []


@pytest.mark.parametrize("query", ["", "a%0Ab", "x" * 600, "a%00"])
def test_a_search_for_no_proper_text_is_refused(api: APIClient, job: Job, logs: Path, query: str) -> None:
    answer = api.get(f"/api/v1/jobs/{job.id}/log-search?name=attempt-0/slot-0.out&query={query}")
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "query")


def test_a_search_reads_listed_files_only(api: APIClient, job: Job, logs: Path) -> None:
    for name in ("attempt-1/secrets.txt", "../../../admin-token", "attempt-1/slot-7.log", ""):
        assert api.get(f"/api/v1/jobs/{job.id}/log-search?query=canary&name={name}").status_code == 404


@pytest.mark.parametrize("limit", [4, 5, 6, 7])
def test_no_character_is_torn_apart(api: APIClient, job: Job, logs: Path, limit: int) -> None:
    text = "größe → 漢字 🌊 " * 5
    (logs / "attempt-0" / "slot-0.out").write_text(text)
    path = f"/api/v1/jobs/{job.id}/logs/attempt-0/slot-0.out"
    offset, parts = 0, []
    while offset < len(text.encode()):
        page = api.get(f"{path}?offset={offset}&limit={limit}").json()
        assert page["next_offset"] > offset
        parts.append(page["text"])
        offset = page["next_offset"]
    assert "".join(parts) == text


def test_bytes_that_are_no_text_do_not_stop_the_reader(api: APIClient, job: Job, logs: Path) -> None:
    (logs / "attempt-0" / "slot-0.out").write_bytes(b"\xff\xfe\xc3" * 20)
    page = api.get(f"/api/v1/jobs/{job.id}/logs/attempt-0/slot-0.out?limit=7").json()
    assert page["next_offset"] >= 4


@pytest.mark.parametrize(
    "name",
    [
        "../../../admin-token",
        "..%2f..%2f..%2fadmin-token",
        "..%252f..%252f..%252fadmin-token",
        "attempt-1/../../../../admin-token",
        "attempt-1/secrets.txt",
        "attempt-1/slot-7.log",
        "attempt-2/slot-0.log",
        "attempt-1//slot-0.log",
        "attempt-1/./slot-0.log",
        "/etc/passwd",
        "%2fetc%2fpasswd",
        "attempt-1/slot-0.log%00.txt",
        "attempt-1\\slot-0.log",
        "file:///etc/passwd",
        ".",
        "..",
        "attempt-1",
    ],
)
def test_nothing_but_listed_files_is_read(api: APIClient, job: Job, logs: Path, name: str) -> None:
    answer = api.get(f"/api/v1/jobs/{job.id}/logs/{name}")
    assert answer.status_code == 404
    assert b"canary" not in answer.content and b"root:" not in answer.content


@pytest.mark.parametrize(
    "query", ["offset=x", "limit=0", "limit=x", "limit=99999999999", "offset=1e3", "offset=" + "9" * 40]
)
def test_numbers_that_are_none_are_refused(api: APIClient, job: Job, logs: Path, query: str) -> None:
    answer = api.get(f"/api/v1/jobs/{job.id}/logs/attempt-0/slot-0.out?{query}")
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == query.split("=")[0]


@pytest.mark.parametrize("path", ["", "/attempt-1/slot-0.out"])
def test_a_storage_of_logs_that_is_away_is_told_and_no_internal_error(
    api: APIClient, job: Job, logs: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Path.stat

    def stale(self: Path, **how: bool) -> os.stat_result:
        if self.name.startswith("slot-"):
            raise OSError(errno.EIO, "Input/output error")
        return real(self, **how)

    monkeypatch.setattr(Path, "stat", stale)
    assert api.get(f"/api/v1/jobs/{job.id}/logs{path}").status_code == 503
