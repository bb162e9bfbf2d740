"""The command line against a server: what it asks, what it prints, how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from runtime import __version__
from runtime.client import cli
from tests.client.fake_cluster import JOB_ID, TOKEN, FakeCluster, document, overview

Tidemark = Callable[..., int]
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "my job.py"
    path.write_text("print(1)\n")
    return str(path)


# --- run --------------------------------------------------------------------------------------------------------------


def test_run_uploads_starts_and_watches_to_the_end(
    tidemark: Tidemark, cluster: FakeCluster, program: str, capsys: Captured
) -> None:
    cluster.documents = [
        document("CREATED", waiting_for="needs 4 slots, 2 are free"),
        document("RUNNING"),
        document("FINISHED"),
    ]
    arguments = ["-p", "2", "-D", "a.b=c=d", "--entry", "m", program, "--", "--rate", "3", "--", "-p"]
    assert tidemark("run", *arguments) == 0
    upload, run, *_ = cluster.calls
    assert upload[2] == {"field": "jarfile", "filename": "my job.py", "content": b"print(1)\n"}
    assert run[:2] == ("POST", "/v1/jars/my%20job.py/run")
    assert run[2] == {
        "entryClass": "m",
        "programArgsList": ["--rate", "3", "--", "-p"],
        "parallelism": 2,
        "flinkConfiguration": {"a.b": "c=d"},
    }
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"Job has been submitted with JobID {JOB_ID}"
    assert lines[1] == f"{cluster.url}/ui/jobs/{JOB_ID}"
    assert lines[2] == "CREATED: needs 4 slots, 2 are free"
    assert lines[3].split() == ["RUNNING", "01:05", "read", "1,200", "(", "38/s)", "written", "90", "(", "3/s)"]
    assert lines[-1] == f"Job {JOB_ID} is FINISHED after 01:05"


def test_run_detached_does_not_wait(tidemark: Tidemark, cluster: FakeCluster, program: str) -> None:
    assert tidemark("run", program, "--detached") == 0
    assert [path for _, path, _ in cluster.calls] == ["/v1/jars/upload", "/v1/jars/my%20job.py/run"]


def test_run_tells_what_the_program_is_warned_of(
    tidemark: Tidemark, cluster: FakeCluster, program: str, capsys: Captured
) -> None:
    answer = {"jobid": JOB_ID, "warnings": ["a.b has no effect: there is no such option"]}
    cluster.answers["POST /v1/jars/my%20job.py/run"] = 200, answer
    assert tidemark("run", "-d", program) == 0
    shown = capsys.readouterr()
    assert shown.err == "tidemark: warning: a.b has no effect: there is no such option\n"
    assert JOB_ID in shown.out


def test_run_fails_when_the_job_does(tidemark: Tidemark, cluster: FakeCluster, program: str, capsys: Captured) -> None:
    failure = {"timestamp": 2, "message": "boom\n  at line 3", "task_name": "map (1/2)"}
    cluster.documents = [document("FAILED", exceptions=[{"timestamp": 1, "message": "older"}, failure])]
    assert tidemark("run", program) == 1
    assert capsys.readouterr().err == "tidemark: job 'three numbers' failed: map (1/2): boom\n  at line 3\n"


def test_run_tells_the_programs_error_in_one_line(
    tidemark: Tidemark, cluster: FakeCluster, program: str, capsys: Captured
) -> None:
    error = "my job.py, line 3: NameError: name 'x' is not defined\nTraceback: …"
    cluster.answers["POST /v1/jars/my%20job.py/run"] = (400, {"errors": [error]})
    assert tidemark("run", program) == 1
    assert capsys.readouterr().err == "tidemark: my job.py, line 3: NameError: name 'x' is not defined\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "missing.py"], "missing.py: No such file or directory"),
        (["info", "nothing"], "there is no job 'nothing'"),
        (["logs", JOB_ID], "has no such log files"),
    ],
)
def test_errors_are_one_line(tidemark: Tidemark, capsys: Captured, arguments: list[str], message: str) -> None:
    assert tidemark(*arguments) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_an_option_without_a_value_is_refused(tidemark: Tidemark, program: str, capsys: Captured) -> None:
    assert tidemark("run", "-D", "novalue", program) == 1
    assert "an option reads key=value" in capsys.readouterr().err


@pytest.mark.usefixtures("keyboard")
def test_ctrl_c_cancels_the_job_where_nobody_can_be_asked(cluster: FakeCluster, program: str) -> None:
    cluster.documents = [document("RUNNING")]
    process = subprocess.Popen(
        [sys.executable, "-m", "runtime.client.cli", "run", program],
        env={**os.environ, "TIDEMARK_URL": cluster.url, "TIDEMARK_TOKEN": TOKEN},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    with process.stdout:
        while "RUNNING" not in process.stdout.readline():
            pass
        process.send_signal(signal.SIGINT)
        cluster.documents.append(document("CANCELED"))
        assert process.wait(10) == 130
        assert f"Job {JOB_ID} is CANCELED" in process.stdout.read()
    assert ("PATCH", f"/v1/jobs/{JOB_ID}", {"mode": "cancel"}) in cluster.calls


# --- the server -------------------------------------------------------------------------------------------------------


def test_a_refused_token_is_told(tidemark: Tidemark, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setenv("TIDEMARK_TOKEN", "wrong")
    assert tidemark("list") == 1
    assert "refuses the token" in capsys.readouterr().err


def test_a_server_that_is_gone_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    with FakeCluster().serving() as gone:
        pass
    monkeypatch.setenv("TIDEMARK_URL", gone.url)
    monkeypatch.setenv("TIDEMARK_TOKEN", TOKEN)
    assert cli.main(["list"]) == 1
    assert capsys.readouterr().err == f"tidemark: no server answers at {gone.url}: Connection refused\n"


def test_a_token_does_not_follow_redirects(tidemark: Tidemark, cluster: FakeCluster, capsys: Captured) -> None:
    cluster.answers["GET /v1/jobs/overview"] = (302, {})
    assert tidemark("list") == 1
    assert "HTTP status 302" in capsys.readouterr().err
    assert len(cluster.calls) == 1


# --- list, info, cancel -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "shown"),
    [
        ([], ["waits", "runs"]),
        (["-r"], ["runs"]),
        (["-s"], ["waits"]),
        (["-a"], ["waits", "runs", "done"]),
    ],
)
def test_list_shows_the_newest_job_first(
    tidemark: Tidemark, cluster: FakeCluster, capsys: Captured, option: list[str], shown: list[str]
) -> None:
    cluster.jobs = [
        overview("a" * 32, "done", "FINISHED", 1),
        overview("b" * 32, "waits", "CREATED", 3),
        overview("c" * 32, "runs", "RUNNING", 2),
    ]
    assert tidemark("list", *option) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split() == ["JOB", "NAME", "STATE", "STARTED", "DURATION", "TASKS"]
    assert [row.split()[1] for row in rows] == shown


def test_list_says_that_there_is_nothing(tidemark: Tidemark, cluster: FakeCluster, capsys: Captured) -> None:
    cluster.jobs = []
    assert tidemark("list") == 0
    assert "tidemark list -a" in capsys.readouterr().out


def test_info_as_json_has_the_pids_of_the_slots(tidemark: Tidemark, capsys: Captured) -> None:
    assert tidemark("info", JOB_ID[:6], "--json") == 0
    value = json.loads(capsys.readouterr().out)
    assert value["slots"] == [{"slot": 0, "pid": 4711, "host": "here", "taskmanager": "tm-1"}]
    assert value["vertices"][0]["metrics"]["records_in"] == 1200


def test_info_for_people_has_tasks_and_slots(tidemark: Tidemark, cluster: FakeCluster, capsys: Captured) -> None:
    cluster.documents = [document()]
    assert tidemark("info", "three numbers") == 0
    out = capsys.readouterr().out
    assert "Source: numbers -> Sink: print" in out
    assert "2.0 KiB" in out
    assert "4711" in out
    assert "Busiest: Source: numbers -> Sink: print (busy 2 %); nothing is back-pressured" in out


def test_cancel_waits_until_the_job_has_ended(tidemark: Tidemark, cluster: FakeCluster, capsys: Captured) -> None:
    cluster.documents = [document("CANCELLING"), document("CANCELED")]
    assert tidemark("cancel", "three numbers") == 0
    assert ("PATCH", f"/v1/jobs/{JOB_ID}", {"mode": "cancel"}) in cluster.calls
    assert capsys.readouterr().out == f"Job {JOB_ID} is CANCELED\n"


def test_cancel_of_a_job_that_has_ended_is_refused(tidemark: Tidemark, cluster: FakeCluster, capsys: Captured) -> None:
    cluster.answers[f"PATCH /v1/jobs/{JOB_ID}"] = (409, {"errors": [{"code": "ended", "message": "it has ended"}]})
    assert tidemark("cancel", JOB_ID) == 1
    assert capsys.readouterr().err == "tidemark: it has ended\n"


# --- logs -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def logs(cluster: FakeCluster) -> None:
    cluster.logs = {
        "attempt-0/slot-0.out": "old\n",
        "attempt-1/slot-0.out": "one\ntwo",
        "attempt-1/slot-0.out.1": "zero\n",
        "attempt-1/slot-0.log": "INFO began\n",
        "attempt-1/slot-1.out": "three\n",
    }


@pytest.mark.usefixtures("logs")
@pytest.mark.parametrize(
    ("options", "lines"),
    [
        (
            ["--kind", "log"],
            ["INFO began"],
        ),
        (
            [],
            [
                "slot-0.log | INFO began",
                "slot-0.out.1 | zero",
                "slot-0.out | one",
                "slot-1.out | three",
                "slot-0.out | two",
            ],
        ),
        (["--slot", "1"], ["three"]),
        (["--attempt", "0"], ["old"]),
    ],
)
def test_logs_are_those_of_the_latest_attempt_unless_chosen(
    tidemark: Tidemark, capsys: Captured, options: list[str], lines: list[str]
) -> None:
    assert tidemark("logs", JOB_ID, *options) == 0
    assert capsys.readouterr().out.splitlines() == lines


@pytest.mark.usefixtures("logs")
def test_logs_can_be_followed_until_the_job_ends(tidemark: Tidemark, cluster: FakeCluster, capsys: Captured) -> None:
    cluster.documents = [document(), document(), document("FINISHED")]
    assert tidemark("logs", "-f", JOB_ID, "--slot", "0", "--kind", "out") == 0
    assert capsys.readouterr().out.splitlines() == ["one", "two"]


# --- the rest ---------------------------------------------------------------------------------------------------------


def test_version_is_the_packages(capsys: Captured) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out == f"tidemark {__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["explode"], ["run"], ["run", "-p", "0", "x.py"], ["list", "-r", "-a"]])
def test_wrong_usage_is_told(arguments: list[str], capsys: Captured) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(arguments)
    assert end.value.code == 2
    assert "tidemark" in capsys.readouterr().err
