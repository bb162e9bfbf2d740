"""/api/v1/jobs/:id/logs/search: the logs of all slots of a job as one."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rest_framework.test import APIClient

from backend.cluster import bus, services
from backend.cluster.job_logs import JobLogs, SlotLogWriter
from backend.cluster.leadership import ROLE
from backend.cluster.models import Job, LeaderEpoch
from backend.cluster.process_log import RecentLog
from runtime.core.ids import Attempt, SlotId, TaskId, operator_id_of
from runtime.task.client_output import SlotClientChannel
from runtime.task.log_records import RecordHandler, record_text
from runtime.task.running_task import AsTask
from tests.dispatcher import rows
from tests.support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("bus_redis")

Get = Callable[..., Any]


@pytest.fixture
def job(db: None) -> Job:
    return rows.running_job()


class Slots:
    """Slots of a job, whose output goes the way that it goes to the files, but for the network."""

    def __init__(self, root: Path) -> None:
        self._writer = SlotLogWriter(1)
        self._logs = JobLogs(self._writer, root)
        self._channels: dict[tuple[int, int], SlotClientChannel] = {}

    def channel(self, slot: int, attempt: int) -> SlotClientChannel:
        if (slot, attempt) not in self._channels:

            def send(name: str, position: int, payload: bytes) -> None:
                self._logs.deliver(SlotId(slot), Attempt(attempt), name, position, payload, lambda: None)

            channel = self._channels[slot, attempt] = SlotClientChannel(send)
            channel.redact = lambda text: text.replace("s3cret", "<pg.password>")
        return self._channels[slot, attempt]

    def log(
        self, level: int, at_s: float, text: str, task: TaskId | None = None, slot: int = 0, attempt: int = 0
    ) -> None:
        """Have a slot log a record at a time."""
        record = logging.makeLogRecord({"name": "demo", "levelno": level, "msg": text, "created": at_s})
        if task is None:
            RecordHandler(self.channel(slot, attempt), "log").handle(record)
        else:
            with AsTask(task):
                RecordHandler(self.channel(slot, attempt), "log").handle(record)

    def print(self, text: str, slot: int = 0) -> None:
        self.channel(slot, 0).send("stdout", text.encode())

    def written(self) -> None:
        wait_until(lambda: self._logs.are_written, 10, "the logs")

    def close(self) -> None:
        self._logs.close()
        self._writer.close()


@pytest.fixture
def slots(home: Path, job: Job) -> Slots:
    """Two slots that have logged, in two attempts."""
    slots = Slots(home / "logs" / "jobs" / job.id)
    slots.log(logging.INFO, 1_000.0, "opened", TaskId(rows.SOURCE, 0))
    slots.log(logging.WARNING, 1_002.0, "slow", TaskId(rows.SINK, 1), slot=1)
    slots.log(logging.ERROR, 1_001.0, "bad record: s3cret", TaskId(rows.SINK, 0))
    slots.log(logging.INFO, 1_003.5, "restored", attempt=1)
    slots.print("hello\n")
    slots.written()
    slots.close()
    return slots


@pytest.fixture
def get(api: APIClient, job: Job, slots: Slots) -> Get:
    def get(status: int = 200, **query: Any) -> Any:
        answer = api.get(f"/api/v1/jobs/{job.id}/logs/search", query)
        assert answer.status_code == status, answer.content
        return answer.json()

    return get


def texts(answer: dict[str, Any]) -> list[str]:
    return [entry["text"].removeprefix("demo - ") for entry in answer["entries"]]


def test_the_log_of_a_job_is_that_of_all_its_slots_newest_first(get: Get, home: Path) -> None:
    answer = get()
    assert texts(answer) == ["hello", "restored", "slow", "bad record: <pg.password>", "opened"]
    assert (answer["cursor"], answer["is_complete"], answer["left"], answer["searched_to"]) == (None, True, 0, None)
    assert (answer["logs"], answer["left_out"]) == (4, 0)
    slow = answer["entries"][2]
    assert slow | {"offset": 0} == {
        "time": 1_002_000,
        "level": "WARN",
        "attempt": 0,
        "slot": 1,
        "kind": "log",
        "vertex": rows.SINK,
        "subtask": 1,
        "operator": "",
        "name": "attempt-0/slot-1.log",
        "offset": 0,
        "text": "demo - slow",
        "is_cut": False,
    }
    printed = answer["entries"][0]
    assert (printed["level"], printed["vertex"], printed["subtask"], printed["kind"]) == ("", "", None, "out")
    assert printed["time"] > 1_003_500


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"order": "oldest"}, ["opened", "bad record: <pg.password>", "slow", "restored", "hello"]),
        ({"level": "WARN"}, ["slow", "bad record: <pg.password>"]),
        ({"level": "ERROR"}, ["bad record: <pg.password>"]),
        ({"level": "FATAL"}, []),
        ({"vertex": rows.SINK}, ["slow", "bad record: <pg.password>"]),
        ({"vertex": rows.SINK, "slot": 1}, ["slow"]),
        ({"attempt": 1}, ["restored"]),
        ({"attempt": 9}, []),
        ({"kind": "out"}, ["hello"]),
        ({"q": "RECORD"}, ["bad record: <pg.password>"]),
        ({"q": "s3cret"}, []),
        ({"q": "", "from": 1_002_000}, ["hello", "restored", "slow"]),
    ],
)
def test_entries_are_chosen_by_what_their_slots_have_said(get: Get, query: dict[str, Any], found: list[str]) -> None:
    assert texts(get(**query)) == found


@pytest.mark.parametrize("order", ["newest", "oldest"])
def test_requests_go_on_where_the_last_one_stopped(get: Get, order: str) -> None:
    whole, seen = texts(get(order=order)), []
    cursor: dict[str, str] = {}
    for _ in range(5):
        answer = get(order=order, limit=1, **cursor)
        seen += texts(answer)
        cursor = {"cursor": answer["cursor"]}
    assert seen == whole


def test_what_is_written_later_is_followed(get: Get, home: Path, job: Job) -> None:
    follow = get(limit=1)["follow"]
    assert texts(get(order="oldest", cursor=follow)) == []
    slots = Slots(home / "logs" / "jobs" / job.id)
    slots.log(logging.INFO, 2_000.0, "later", slot=5, attempt=1)
    slots.written()
    slots.close()
    answer = get(order="oldest", cursor=follow)
    assert texts(answer) == ["later"]
    assert texts(get(order="oldest", cursor=answer["cursor"])) == []


def test_what_an_operator_has_logged_is_found_by_its_uid(get: Get, home: Path, job: Job) -> None:
    slots = Slots(home / "logs" / "jobs" / job.id)
    operator = operator_id_of("uid-3")
    line = record_text(4.0, logging.INFO, TaskId(rows.SINK, 1), "demo - counted", operator) + "\n"
    slots.channel(2, 1).send("log", line.encode())
    slots.written()
    slots.close()
    [entry] = get(operator="uid-3")["entries"]
    assert (entry["text"], entry["operator"], entry["vertex"], entry["subtask"]) == (
        "demo - counted",
        "uid-3",
        rows.SINK,
        1,
    )
    assert texts(get(operator="uid-4")) == []
    assert texts(get(vertex=rows.SINK, operator="uid-3")) == ["counted"]


class Process:
    """A JobManager or TaskManager that logs."""

    def __init__(self, process: str) -> None:
        self._log = RecentLog(process)

    def log(self, at_s: float, text: str, level: int = logging.INFO) -> None:
        record = {"name": "backend.cluster", "levelno": level, "msg": text, "created": at_s}
        self._log.handle(logging.makeLogRecord(record))
        self._log.write()


def leading() -> Process:
    """The JobManager that leads."""
    now = services.now_ms()
    LeaderEpoch.objects.update_or_create(name=ROLE, defaults={"epoch": 1, "holder": "host:1", "since": now})
    return Process("host:1")


def test_what_jobmanager_and_taskmanager_have_logged_about_a_job_stands_between(get: Get, job: Job) -> None:
    other, leader, taskmanager = "f" * 32, leading(), Process(rows.TASKMANAGER)
    leader.log(1_000.5, f"job {job.id} (flights) was taken: attempt 0")
    leader.log(1_000.6, f"job {other} waits")
    leader.log(1_000.7, "the lease was renewed late")
    taskmanager.log(1_001.5, f"job {job.id}, attempt 0: stage 1 with 2 slots begins")
    taskmanager.log(1_001.6, f"job {other}, attempt 0: stage 1 ended")
    taskmanager.log(1_001.7, "a command was refused", logging.WARNING)
    Process("elsewhere:1").log(1_001.8, "not here")
    found = get(order="oldest")
    assert [text.removeprefix("backend.cluster - ") for text in texts(found)] == [
        "opened",
        f"job {job.id} (flights) was taken: attempt 0",
        "bad record: <pg.password>",
        f"job {job.id}, attempt 0: stage 1 with 2 slots begins",
        "a command was refused",
        "slow",
        "restored",
        "hello",
    ]
    refused = found["entries"][4]
    told = (refused["kind"], refused["name"], refused["attempt"], refused["slot"], refused["level"], refused["time"])
    assert told == ("taskmanager", f"taskmanager/{rows.TASKMANAGER}", None, None, "WARN", 1_001_700)
    assert texts(get(kind="jobmanager")) == [f"backend.cluster - job {job.id} (flights) was taken: attempt 0"]
    assert texts(get(kind="taskmanager", level="WARN")) == ["backend.cluster - a command was refused"]
    assert texts(get(attempt=1)) == ["restored"] and texts(get(kind="out")) == ["hello"]
    assert texts(get(q="REFUSED", **{"from": 1_001_000})) == ["backend.cluster - a command was refused"]
    one_by_one: list[str] = []
    cursor: dict[str, str] = {}
    for _ in found["entries"]:
        answer = get(limit=1, **cursor)
        one_by_one += texts(answer)
        cursor = {"cursor": answer["cursor"]}
    assert one_by_one == texts(found)[::-1]


def test_lines_of_a_process_are_followed_once_also_when_redis_has_lost_them(get: Get) -> None:
    taskmanager = Process(rows.TASKMANAGER)
    taskmanager.log(1.0, "before")
    follow = get(limit=1)["follow"]
    taskmanager.log(2.0, "after")
    answer = get(order="oldest", cursor=follow)
    assert texts(answer) == ["backend.cluster - after"]
    bus.client().delete(bus.PROCESS_LOG_KEY.format(rows.TASKMANAGER))
    answer = get(order="oldest", cursor=answer["cursor"])
    assert texts(answer) == []
    taskmanager.log(3.0, "written again")
    answer = get(order="oldest", cursor=answer["cursor"])
    assert texts(answer) == ["backend.cluster - written again"]
    # one that begins anew under the same id
    Process(rows.TASKMANAGER).log(4.0, "another process")
    assert texts(get(order="oldest", cursor=answer["cursor"])) == ["backend.cluster - another process"]


def test_a_long_entry_is_cut_around_what_was_looked_for(get: Get, home: Path, job: Job) -> None:
    slots = Slots(home / "logs" / "jobs" / job.id)
    slots.log(logging.INFO, 3_000.0, "ä" * 20_000 + "needle" + "y" * 20_000, attempt=2)
    slots.written()
    slots.close()
    [entry] = get(q="NEEDLE")["entries"]
    assert entry["is_cut"] and "needle" in entry["text"] and len(entry["text"]) == 4_000


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"q": "x" * 600}, "q"),
        ({"q": "a\nb"}, "q"),
        ({"q": "a\0"}, "q"),
        ({"level": "LOUD"}, "level"),
        ({"level": "info"}, "level"),
        ({"kind": "err"}, "kind"),
        ({"kind": "out", "level": "INFO"}, "kind"),
        ({"kind": "taskmanager", "vertex": rows.SINK}, "kind"),
        ({"operator": "uid-9"}, "operator"),
        ({"order": "up"}, "order"),
        ({"attempt": "-1"}, "attempt"),
        ({"attempt": "x"}, "attempt"),
        ({"slot": "1e3"}, "slot"),
        ({"slot": "9" * 40}, "slot"),
        ({"vertex": "f" * 32}, "vertex"),
        ({"vertex": "../../x"}, "vertex"),
        ({"from": "yesterday"}, "from"),
        ({"limit": 0}, "limit"),
        ({"limit": 1_001}, "limit"),
        ({"cursor": "../../../etc/passwd"}, "cursor"),
        ({"cursor": ""}, "cursor"),
    ],
)
def test_bad_parameters_are_named(get: Get, query: dict[str, Any], field: str) -> None:
    assert get(400, **query)["errors"][0]["field"] == field


def test_a_cursor_of_the_other_order_is_refused(get: Get) -> None:
    assert get(400, cursor=get()["follow"])["errors"][0]["field"] == "cursor"


def test_no_file_but_the_logs_of_the_job_is_searched(get: Get, home: Path, job: Job) -> None:
    root = home / "logs" / "jobs" / job.id
    (home / "admin-token").write_text("canary\n")
    (root / "attempt-0" / "secrets.txt").write_text("canary\n")
    (root / "attempt-0" / "slot-7.log").symlink_to(home / "admin-token")
    (root / "attempt-3").symlink_to(home)
    (home / "slot-0.log").write_text("canary\n")
    assert texts(get(q="canary")) == []


def test_a_job_without_logs_has_an_empty_one(api: APIClient, job: Job, home: Path) -> None:
    answer = api.get(f"/api/v1/jobs/{job.id}/logs/search").json()
    assert (answer["entries"], answer["is_complete"], answer["size"]) == ([], True, 0)
    assert api.get(f"/api/v1/jobs/{'f' * 32}/logs/search").status_code == 404
    assert api.get("/api/v1/jobs/x/logs/search").status_code == 400


def test_a_storage_that_cannot_be_read_is_told(get: Get, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def broken(path: Any, *how: Any, **kind: Any) -> int:
        if "slot-" in str(path):
            raise OSError(errno.EIO, "Input/output error")
        return real(path, *how, **kind)

    monkeypatch.setattr(os, "open", broken)
    get(503)
