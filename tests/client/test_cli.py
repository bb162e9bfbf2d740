"""The command line against a server: what it asks, what it prints, how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import termios
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from runtime import __version__
from runtime.client import cli
from tests.client.fake_cluster import JOB_ID, TOKEN, FakeCluster, document, freshness, overview

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
    job_id = run[2]["jobId"]
    assert upload[2] == {"field": "jarfile", "filename": "my job.py", "content": b"print(1)\n"}
    assert run[:2] == ("POST", "/v1/jars/my%20job.py/run")
    assert run[2] == {
        "jobId": job_id,
        "entryClass": "m",
        "programArgsList": ["--rate", "3", "--", "-p"],
        "parallelism": 2,
        "flinkConfiguration": {"a.b": "c=d"},
    }
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"Job has been submitted with JobID {job_id}"
    assert lines[1] == f"{cluster.url}/ui/jobs/{job_id}"
    assert lines[2] == "CREATED: needs 4 slots, 2 are free"
    assert lines[3].split() == ["RUNNING", "01:05", "read", "1,200", "(", "38/s)", "written", "90", "(", "3/s)"]
    assert lines[-1] == f"Job {job_id} is FINISHED after 01:05"


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
    assert "Job has been submitted" in shown.out


def test_run_says_why_the_job_is_restarted(
    tidemark: Tidemark, cluster: FakeCluster, program: str, capsys: Captured
) -> None:
    failure = {"timestamp": 2, "name": "ValueError", "message": "boom", "task_name": "map (1/2)", "attempt": 0}
    fails = {"failure": failure, "now": 1_000}
    cluster.documents = [
        document("RESTARTING", next_attempt_at=3_000, **fails),
        document("RUNNING", restarts=1, **fails),
        document("FINISHED", restarts=1, **fails),
    ]
    assert tidemark("run", program) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2] == "attempt 0 failed: map (1/2): boom; 0 restarts, next attempt in 2 s"
    assert sum("boom" in line for line in lines) == 1


def test_run_shows_where_a_call_is_that_does_not_return(
    tidemark: Tidemark, cluster: FakeCluster, program: str, capsys: Captured
) -> None:
    stall = {"task_name": "map (1/2)", "slot": 0, "since": 1_000, "stack": '  File "job.py", line 3, in ask'}
    later = stall | {"since": 30_000}
    still = document(stalls=[stall], now=12_000)
    cluster.documents = [document(), document(stalls=[stall], now=10_500), still, document()]
    cluster.documents += [document(stalls=[later], now=40_000), document("FINISHED", stalls=[later], now=50_000)]
    assert tidemark("run", program) == 0
    out = capsys.readouterr().out
    told = [line for line in out.splitlines() if "has not returned" in line]
    assert told == [
        "map (1/2): user code has not returned for 9 s",
        "map (1/2): user code has not returned for 10 s",
    ]
    assert out.count('    File "job.py", line 3, in ask\n') == 2
    assert out.count("only if task.stall.timeout is set") == 2


def test_info_and_logs_say_why_a_job_failed_last(tidemark: Tidemark, cluster: FakeCluster, capsys: Captured) -> None:
    failure = {"timestamp": 2, "name": "ValueError", "message": "boom", "task_name": "map (1/2)", "attempt": 3}
    cluster.documents = [document("RESTARTING", failure=failure, restarts=4, next_attempt_at=61_000, now=1_000)]
    cluster.logs = {"attempt-3/slot-0.out": "printed\n"}
    cause = "attempt 3 failed: map (1/2): boom; 4 restarts, next attempt in 60 s"
    assert tidemark("info", JOB_ID) == 0
    assert f"  {cause}" in capsys.readouterr().out
    assert tidemark("logs", JOB_ID) == 0
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("printed\n", f"tidemark: {cause}\n")


def test_a_finished_job_has_all_its_tasks(tidemark: Tidemark, cluster: FakeCluster, capsys: Captured) -> None:
    cluster.jobs = [overview(state="FINISHED") | {"tasks": {"total": 2, "running": 0, "finished": 2}}]
    assert tidemark("list", "-a") == 0
    assert capsys.readouterr().out.splitlines()[1].endswith("2/2")


def test_run_shows_what_the_program_has_printed(
    tidemark: Tidemark, cluster: FakeCluster, program: str, capsys: Captured
) -> None:
    route = "POST /v1/jars/my%20job.py/run"
    cluster.answers[route] = 200, {"jobid": JOB_ID, "warnings": [], "output": "reading config\n3 topics\n"}
    assert tidemark("run", "-d", program) == 0
    assert capsys.readouterr().out.splitlines()[:2] == ["reading config", "3 topics"]
    refusal = ["my job.py, line 3: NameError", "Traceback …", "Output of the program:\nreading config\n"]
    cluster.answers[route] = 400, {"errors": refusal}
    assert tidemark("run", "-d", program) == 1
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("reading config\n", "tidemark: my job.py, line 3: NameError\n")


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
    assert "an option is written KEY=VALUE" in capsys.readouterr().err


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
        job_id = cluster.calls[1][2]["jobId"]
        assert f"Job {job_id} is CANCELED" in process.stdout.read()
    assert ("PATCH", f"/v1/jobs/{job_id}", {"mode": "cancel"}) in cluster.calls


# --- Ctrl-C while the job is on its way ------------------------------------------------------------------------


class Held:
    """A request that the server does not answer before it is released."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.released = threading.Event()

    def __call__(self) -> bool:
        self.begun.set()
        return self.released.wait(20)


def run_process(cluster: FakeCluster, program: str, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "runtime.client.cli", "run", *options, program],
        env={**os.environ, "TIDEMARK_URL": cluster.url, "TIDEMARK_TOKEN": TOKEN},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.usefixtures("keyboard")
@pytest.mark.parametrize("options", [[], ["--detached"]])
def test_ctrl_c_while_the_program_is_planned_cancels_the_job_that_comes_of_it(
    cluster: FakeCluster, program: str, options: list[str]
) -> None:
    cluster.documents = [document("CREATED"), document("CANCELED")]
    cluster.before_run = held = Held()
    with run_process(cluster, program, *options) as process:
        assert held.begun.wait(20)
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        told = process.stdout.readline()
        held.released.set()
        rest, errors = process.communicate(timeout=20)
    job_id = cluster.calls[1][2]["jobId"]
    assert process.returncode == 130, errors
    assert told == f"Interrupted: job {job_id} is cancelled as soon as the server has planned it …\n"
    assert f"Job {job_id} is CANCELED" in rest
    assert ("PATCH", f"/v1/jobs/{job_id}", {"mode": "cancel"}) in cluster.calls


@pytest.mark.usefixtures("keyboard")
def test_ctrl_c_asks_again_to_cancel_while_nobody_answers(cluster: FakeCluster, program: str) -> None:
    cluster.documents, cluster.cancel_outages = [document("CREATED"), document("CANCELED")], [0, 503]
    cluster.before_run = held = Held()
    with run_process(cluster, program) as process:
        assert held.begun.wait(20)
        process.send_signal(signal.SIGINT)
        held.released.set()
        told, errors = process.communicate(timeout=30)
    job_id = cluster.calls[1][2]["jobId"]
    assert process.returncode == 130, errors
    assert f"Job {job_id} is CANCELED" in told and "trying again" in errors
    assert [method for method, _, _ in cluster.calls].count("PATCH") == 3


@pytest.mark.usefixtures("keyboard")
def test_ctrl_c_during_the_upload_says_that_no_job_was_started(cluster: FakeCluster, program: str) -> None:
    cluster.before_upload = held = Held()
    with run_process(cluster, program) as process:
        assert held.begun.wait(20)
        process.send_signal(signal.SIGINT)
        told, _ = process.communicate(timeout=20)
        held.released.set()
    assert process.returncode == 130 and told.endswith("Interrupted: no job was started\n")
    assert [path for _, path, _ in cluster.calls] == ["/v1/jars/upload"]


@pytest.mark.usefixtures("keyboard")
def test_a_second_ctrl_c_says_which_job_may_still_appear(cluster: FakeCluster, program: str) -> None:
    cluster.before_run = held = Held()
    with run_process(cluster, program) as process:
        assert held.begun.wait(20)
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
        held.released.set()
    job_id = cluster.calls[1][2]["jobId"]
    assert process.returncode == 130
    assert errors == f"tidemark: job {job_id} may still start or be running: `tidemark cancel {job_id[:8]}` ends it\n"


@pytest.mark.usefixtures("keyboard")
def test_ctrl_c_says_that_a_program_that_is_refused_has_started_no_job(cluster: FakeCluster, program: str) -> None:
    cluster.before_run = held = Held()
    cluster.answers["POST /v1/jars/my%20job.py/run"] = (400, {"errors": ["my job.py, line 3: NameError"]})
    with run_process(cluster, program) as process:
        assert held.begun.wait(20)
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        process.stdout.readline()
        held.released.set()
        rest, _ = process.communicate(timeout=20)
    assert process.returncode == 130
    assert rest == "No job was started: my job.py, line 3: NameError\n"


def test_a_run_whose_answer_is_lost_is_asked_for_again_and_is_one_job(
    tidemark: Tidemark, cluster: FakeCluster, program: str, capsys: Captured
) -> None:
    answers = iter([False, True])
    cluster.before_run = lambda: next(answers)
    assert tidemark("run", program) == 0
    first, second = (sent for method, path, sent in cluster.calls if path.endswith("/run"))
    assert first == second
    assert f"Job has been submitted with JobID {first['jobId']}" in capsys.readouterr().out


def test_a_run_whose_answer_was_lost_is_found_by_its_id(
    tidemark: Tidemark, cluster: FakeCluster, program: str, capsys: Captured
) -> None:
    refusal = (409, {"errors": ["Job was already submitted."]})

    def lose_the_first() -> bool:
        route = "POST /v1/jars/my%20job.py/run"
        if route in cluster.answers:
            return True
        cluster.answers[route] = refusal
        return False

    cluster.before_run = lose_the_first
    assert tidemark("run", "-d", program) == 0
    assert "Job has been submitted" in capsys.readouterr().out


def test_a_run_that_is_refused_at_once_is_not_taken_for_one_that_was_lost(
    tidemark: Tidemark, cluster: FakeCluster, program: str, capsys: Captured
) -> None:
    cluster.answers["POST /v1/jars/my%20job.py/run"] = (409, {"errors": ["the savepoint is needed by job 7"]})
    assert tidemark("run", "-d", program) == 1
    assert capsys.readouterr().err == "tidemark: the savepoint is needed by job 7\n"


# --- for scripts ------------------------------------------------------------------------------------------------------


def test_run_tells_a_script_the_id_and_nothing_else(
    tidemark: Tidemark, cluster: FakeCluster, program: str, capsys: Captured
) -> None:
    assert tidemark("run", "-d", "--json", program) == 0
    shown = capsys.readouterr()
    job_id = cluster.calls[1][2]["jobId"]
    assert json.loads(shown.out) == {"jobid": job_id, "url": f"{cluster.url}/ui/jobs/{job_id}", "warnings": []}
    assert "Job has been submitted" in shown.err


def test_run_tells_a_script_how_the_job_has_ended(tidemark: Tidemark, program: str, capsys: Captured) -> None:
    assert tidemark("run", "--json", program) == 0
    assert json.loads(capsys.readouterr().out)["state"] == "FINISHED"


def test_run_tells_a_script_why_the_job_has_failed(
    tidemark: Tidemark, cluster: FakeCluster, program: str, capsys: Captured
) -> None:
    failure = {"timestamp": 2, "message": "boom\n  at line 3", "task_name": "map (1/2)"}
    cluster.documents = [document("FAILED", exceptions=[failure])]
    assert tidemark("run", "--json", program) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["state"], told["failure"]) == ("FAILED", "map (1/2): boom\n  at line 3")


def test_cancel_tells_a_script_the_state(tidemark: Tidemark, cluster: FakeCluster, capsys: Captured) -> None:
    cluster.documents = [document("CANCELED")]
    assert tidemark("cancel", "--json", JOB_ID) == 0
    assert json.loads(capsys.readouterr().out) == {"jobid": JOB_ID, "state": "CANCELED"}


@pytest.mark.parametrize("command", [("cancel", JOB_ID), ("savepoint", JOB_ID), ("logs", "-f", JOB_ID)])
def test_a_command_that_waits_bears_with_a_server_that_is_restarted(
    tidemark: Tidemark, cluster: FakeCluster, capsys: Captured, command: tuple[str, ...]
) -> None:
    cluster.outages = [0, 0, 503, 503]
    cluster.documents = [document("RUNNING"), document("CANCELED")]
    cluster.operations = [{"state": "IN_PROGRESS"}, {"state": "COMPLETED", "result": {"location": "file:///sp"}}]
    assert tidemark(*command) == 0
    assert cluster.outages == []
    told = capsys.readouterr().err
    assert told.count("trying again for 30 s") == 1, "it is said once"


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


def test_a_cluster_of_this_home_that_has_ended_is_told_with_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    with FakeCluster().serving() as gone:
        pass
    (tmp_path / ".tidemark").mkdir()
    (tmp_path / ".tidemark" / "url").write_text(gone.url)
    (tmp_path / ".tidemark" / "admin-token").write_text(TOKEN)
    monkeypatch.chdir(tmp_path)
    for variable in ("TIDEMARK_URL", "TIDEMARK_TOKEN", "TIDEMARK_HOME"):
        monkeypatch.delenv(variable, raising=False)
    assert cli.main(["list"]) == 1
    hint = f"the address is that of {tmp_path}/.tidemark; is `make run` still running, and is this its home?"
    assert capsys.readouterr().err == f"tidemark: no server answers at {gone.url}: Connection refused ({hint})\n"


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


@pytest.mark.parametrize("name", ["a name that goes on " * 40, "two\nlines \x1b[31m"])
def test_long_and_odd_names_fit_the_terminal(cluster: FakeCluster, name: str) -> None:
    cluster.jobs = [overview(name=name)]
    vertex = document()["vertices"][0] | {"name": name}
    cluster.documents = [document(name="short", vertices=[vertex])]
    for command in (["list"], ["info", JOB_ID]):
        lines = in_a_terminal(cluster, 80, *command).splitlines()
        assert max(len(line) for line in lines if not line.startswith("Why: ")) <= 80, lines
        assert "\x1b" not in "".join(lines)
        assert name.split()[0] in "".join(lines)
    if len(name) > 80:
        assert name.strip() in in_a_terminal(cluster, 80, "list", "--wide")


def in_a_terminal(cluster: FakeCluster, columns: int, *arguments: str) -> str:
    """Return the output of a command on a terminal with that many columns."""
    leader, follower = os.openpty()
    termios.tcsetwinsize(follower, (24, columns))
    with open(follower, "w") as terminal:  # noqa: PTH123 (a device)
        environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        process = subprocess.Popen(
            [sys.executable, "-m", "runtime.client.cli", *arguments],
            env={**environment, "TIDEMARK_URL": cluster.url, "TIDEMARK_TOKEN": TOKEN},
            stdin=subprocess.DEVNULL,
            stdout=terminal,
        )
    shown = b""
    # the last one to close the terminal ends the reading with an error
    with suppress(OSError), os.fdopen(leader, "rb", buffering=0) as screen:
        while part := screen.read(1 << 16):
            shown += part
    assert process.wait(20) == 0
    return shown.decode().replace("\r\n", "\n")


def test_info_for_people_has_tasks_and_slots(tidemark: Tidemark, cluster: FakeCluster, capsys: Captured) -> None:
    cluster.documents = [document()]
    assert tidemark("info", "three numbers") == 0
    out = capsys.readouterr().out
    assert "Source: numbers -> Sink: print" in out
    assert "2.0 KiB" in out
    assert "4711" in out


def test_info_says_what_holds_a_job_up_and_how_far_event_time_is(
    tidemark: Tidemark, cluster: FakeCluster, capsys: Captured
) -> None:
    vertex = document()["vertices"][0]
    cause = {"cause": "busy", "vertex": vertex["id"], "text": "is busy 98 % of the time", "figures": {}, "waiting": []}
    holder = {"vertex": vertex["id"], "subtask": 1, "split": "p3", "why": "behind", "behind": 185_000, "still": 0}
    event_time = {"newest": 1_356_998_400_000, "is_live": False, "held_by": {}, "speed": 1460.0, "holder": holder}
    event_time |= {"idle": [{"vertex": vertex["id"], "subtask": 0, "split": "p7"}], "num_idle": 3}
    cluster.documents = [document(causes={"limit": cause}, event_time=event_time), document(causes={})]
    assert tidemark("info", "three numbers") == 0
    out = capsys.readouterr().out
    assert f"\nWhy: {vertex['name']} is busy 98 % of the time\n" in out
    assert re.search(
        r"\nEvent time: 201\S+ \S+, 1,460\.0 × real time; last: .* \(subtask 1, split p3\), 03:05 behind that\n", out
    )
    assert f"\nIdle: {vertex['name']} (subtask 0, split p7); 2 more\n" in out
    assert tidemark("info", "three numbers") == 0
    assert "\nWhy: nothing holds the job up\n" in capsys.readouterr().out


def test_info_tells_a_data_skew_and_no_even_spread(tidemark: Tidemark, cluster: FakeCluster, capsys: Captured) -> None:
    vertex = document()["vertices"][0]
    cluster.documents = [
        document(causes={}, skew={vertex["id"]: [0.31, 1.42, 0, 1.25, 3.46, 1]}),
        document(causes={}, skew={vertex["id"]: [1.1, 2.0, 3, 0.05, 1.1, 2]}),
        document(causes={}, skew={vertex["id"]: [0.05, 1.1, 2, None, None, None]}),
    ]
    lines = []
    for _ in range(3):
        assert tidemark("info", "three numbers") == 0
        lines.append([line for line in capsys.readouterr().out.splitlines() if line.startswith("Data skew: ")])
    since = "since the start CV 31 %, subtask 0 gets 1.4 × the average"
    assert lines == [
        [f"Data skew: {vertex['name']}: now CV 125 %, subtask 1 gets 3.5 × the average; {since}"],
        [f"Data skew: {vertex['name']}: since the start CV 110 %, subtask 3 gets 2.0 × the average"],
        [],
    ]


def test_info_says_what_a_job_waits_for(tidemark: Tidemark, cluster: FakeCluster, capsys: Captured) -> None:
    cluster.documents = [document("CREATED", waiting_for="needs 4 slots, 2 are free")]
    assert tidemark("info", "three numbers") == 0
    assert "\nwaiting: needs 4 slots, 2 are free\n" in capsys.readouterr().out


def test_info_tells_a_call_that_does_not_return_once(
    tidemark: Tidemark, cluster: FakeCluster, capsys: Captured
) -> None:
    stall = {"task_name": "map (1/2)", "slot": 0, "since": 1_000, "stack": '  File "job.py", line 3, in ask'}
    waiting_for = "user code that has not returned, in map (1/2)"
    cluster.documents = [document(stalls=[stall], waiting_for=waiting_for, now=10_500)]
    assert tidemark("info", "three numbers") == 0
    out = capsys.readouterr().out
    assert "map (1/2): user code has not returned for" in out
    assert waiting_for not in out


def test_cancel_waits_until_the_job_has_ended(tidemark: Tidemark, cluster: FakeCluster, capsys: Captured) -> None:
    cluster.documents = [document("CANCELLING"), document("CANCELED")]
    assert tidemark("cancel", "three numbers") == 0
    assert ("PATCH", f"/v1/jobs/{JOB_ID}", {"mode": "cancel"}) in cluster.calls
    assert capsys.readouterr().out == f"Job {JOB_ID} is CANCELED\n"


def test_cancel_of_a_job_that_has_ended_is_refused(tidemark: Tidemark, cluster: FakeCluster, capsys: Captured) -> None:
    cluster.answers[f"PATCH /v1/jobs/{JOB_ID}"] = (409, {"errors": [{"code": "ended", "message": "it has ended"}]})
    assert tidemark("cancel", JOB_ID) == 1
    assert capsys.readouterr().err == "tidemark: it has ended\n"


def jobmanager(name: str, **fields: Any) -> dict[str, Any]:
    return {"id": name, "role": "STANDBY", "epoch": None, "leading_since": None, "is_alive": True} | fields


def test_cluster_shows_who_leads_and_who_stands_by(tidemark: Tidemark, cluster: FakeCluster, capsys: Captured) -> None:
    leader = {"role": "LEADER", "epoch": 12, "leading_since": 1_700_000_000_000}
    cluster.jobmanagers = [jobmanager("host:7", **leader), jobmanager("host:8")]
    taskmanager = {"id": "host:9-ab", "state": "REGISTERED", "spark_master": "local[4]", "slots": 4, "free_slots": 1}
    lost = taskmanager | {"id": "host:1-cd", "state": "LOST"}
    ending = taskmanager | {"id": "host:2-ef", "state": "DRAINING", "free_slots": 0}
    cluster.cluster |= {"slots_total": 4, "slots_available": 1, "taskmanagers": [taskmanager, lost, ending]}
    assert tidemark("cluster") == 0
    heading, first, second, empty, _, usable, draining, slots = capsys.readouterr().out.splitlines()
    assert heading.split() == ["JOBMANAGER", "ROLE", "EPOCH", "LEADS", "SINCE"]
    assert first.split()[:3] == ["host:7", "leader", "12"]
    assert second.split() == ["host:8", "standby", "-", "-"]
    assert (empty, usable.split()) == ("", ["host:9-ab", "local[4]", "1", "4"])
    assert draining.split() == ["host:2-ef", "local[4]", "draining", "4"]
    assert slots == "1 of 4 slots are free."
    assert tidemark("cluster", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["jobmanagers"], told["slots"]) == (cluster.jobmanagers, {"total": 4, "available": 1})


def test_cluster_says_that_nobody_leads_or_that_the_leader_is_silent(
    tidemark: Tidemark, cluster: FakeCluster, capsys: Captured
) -> None:
    cluster.cluster = {"slots_total": 0, "slots_available": 0, "taskmanagers": [], "freshness": freshness(SILENT)}
    cluster.redis_answers = False
    assert tidemark("cluster") == 0
    shown = capsys.readouterr()
    assert "No JobManager leads." in shown.out and "No TaskManager is registered." in shown.out
    assert SILENT in shown.err and "Redis does not answer" in shown.err
    silent = {"role": "LEADER", "epoch": 2, "leading_since": 1_700_000_000_000, "is_alive": False}
    cluster.jobmanagers = [jobmanager("host:7", **silent)]
    assert tidemark("cluster") == 0
    assert "leader, silent" in capsys.readouterr().out


def test_cluster_does_not_say_that_no_slot_is_free_where_only_the_jobmanager_would_know(
    tidemark: Tidemark, cluster: FakeCluster, capsys: Captured
) -> None:
    taskmanager = {"id": "host:9-ab", "state": "REGISTERED", "spark_master": "local[4]", "slots": 4, "free_slots": 0}
    of_database = freshness(SILENT) | {"source": "database"}
    known = {"slots_total": 4, "slots_available": 0, "taskmanagers": [taskmanager]}
    cluster.cluster = known | {"freshness": of_database}
    assert tidemark("cluster") == 0
    *_, row, slots = capsys.readouterr().out.splitlines()
    assert (row.split(), slots) == (["host:9-ab", "local[4]", "-", "4"], "4 slots; how many are free is not known.")
    assert tidemark("cluster", "--json") == 0
    assert json.loads(capsys.readouterr().out)["slots"] == {"total": 4, "available": None}


# --- what is out of date ----------------------------------------------------------------------------------------------

SILENT = "The JobManager has sent no heartbeat for 12 s."


@pytest.mark.parametrize("arguments", [["list"], ["list", "--json"], ["info", JOB_ID], ["info", "--json", JOB_ID]])
def test_what_is_out_of_date_is_said_to_be(
    tidemark: Tidemark, cluster: FakeCluster, capsys: Captured, arguments: list[str]
) -> None:
    assert tidemark(*arguments) == 0
    assert capsys.readouterr().err == ""
    cluster.cluster = {"freshness": freshness(SILENT)}
    cluster.documents = [document(freshness=freshness(SILENT))]
    assert tidemark(*arguments) == 0
    shown = capsys.readouterr()
    assert shown.err == f"tidemark: {SILENT} The data shown may be out of date.\n"
    assert JOB_ID in shown.out


def test_cancel_says_once_that_nobody_is_heard_who_could_end_the_job(
    tidemark: Tidemark, cluster: FakeCluster, capsys: Captured
) -> None:
    silent = document(freshness=freshness(SILENT))
    cluster.documents = [document(), silent, silent, document("CANCELED")]
    assert tidemark("cancel", JOB_ID) == 0
    shown = capsys.readouterr()
    assert shown.err == f"tidemark: {SILENT} Still waiting; Ctrl-C ends the waiting only.\n"
    assert shown.out == f"Job {JOB_ID} is CANCELED\n"


def test_run_says_at_once_that_the_jobmanager_is_silent_and_when_it_is_back(
    tidemark: Tidemark, cluster: FakeCluster, program: str, capsys: Captured
) -> None:
    silent = [document(freshness=freshness(SILENT.replace("12", str(age)))) for age in (4, 5, 6)]
    cluster.documents = [document(), *silent, document(), document("FINISHED")]
    assert tidemark("run", program) == 0
    lines = capsys.readouterr().out.splitlines()[2:]
    assert [line.split()[0] for line in lines] == ["RUNNING", "The", "RUNNING", "FINISHED", "Job"]
    assert lines[1].startswith(f"{SILENT.replace('12', '4')} Last known: RUNNING")


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


@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&- 2>&-"])
def test_a_command_works_with_closed_streams(cluster: FakeCluster, closed: str) -> None:
    done = in_a_shell(cluster, f'exec "$@" {closed}', "list", "--all")
    assert (done.returncode, done.stderr) == (0, "")
    assert JOB_ID in done.stdout or ">&-" in closed


def test_a_working_directory_that_is_gone_is_told(cluster: FakeCluster, tmp_path: Path) -> None:
    directory = tmp_path / "gone"
    directory.mkdir()
    done = in_a_shell(cluster, f'cd "{directory}" && rmdir "{directory}" && exec "$@"', "list")
    assert done.stderr == "tidemark: the working directory does not exist any more: change to another one\n"
    assert done.returncode == 1


def test_names_with_letters_that_the_terminal_has_not_are_shown(cluster: FakeCluster) -> None:
    cluster.jobs = [overview(JOB_ID, "Größe", "RUNNING", 1)]
    done = in_a_shell(cluster, 'PYTHONIOENCODING=ascii exec "$@"', "list")
    assert (done.returncode, done.stderr) == (0, "")
    assert r"Gr\xf6\xdfe" in done.stdout


def in_a_shell(cluster: FakeCluster, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", script, "sh", sys.executable, "-m", "runtime.client", *arguments],
        env={**os.environ, "TIDEMARK_URL": cluster.url, "TIDEMARK_TOKEN": TOKEN},
        capture_output=True,
        text=True,
        check=False,
    )


def test_version_is_the_packages(capsys: Captured) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out == f"tidemark {__version__}\n"


@pytest.mark.parametrize(
    "arguments", [["explode"], ["run"], ["run", "-p", "0", "x.py"], ["list", "-r", "-a"], ["run", "--par", "2", "x.py"]]
)
def test_wrong_usage_is_told(arguments: list[str], capsys: Captured) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(arguments)
    assert end.value.code == 2
    assert "tidemark" in capsys.readouterr().err


def test_without_a_command_there_is_help(capsys: Captured) -> None:
    assert cli.main([]) == 2
    assert "run examples/hello_events.py" in capsys.readouterr().err


COMMANDS = ["new", "run", "cluster", "list", "info", "logs", "cancel", "stop", "checkpoint", "checkpoints", "rescale"]
ACTIONS = ["take", "list", "inspect", "dispose"]


@pytest.mark.parametrize(
    "command", [[], *([name] for name in COMMANDS), ["savepoint"], *(["savepoint", name] for name in ACTIONS)]
)
def test_every_command_has_help_with_an_example(command: list[str], capsys: Captured) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main([*command, "--help"])
    assert end.value.code == 0
    shown = capsys.readouterr().out
    assert f"example:\n  tidemark {' '.join(command)}".rstrip() in shown
    assert all(len(line) <= 120 for line in shown.splitlines())


@pytest.mark.parametrize("given", [["--count", "1000"], ["input.txt"], ["--parallel", "3"]])
def test_arguments_of_the_program_without_the_dashes_get_a_hint(given: list[str], capsys: Captured) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(["run", "job.py", *given])
    assert end.value.code == 2
    shown = " ".join(given)
    hint = f"Arguments of the program follow --: tidemark run PROGRAM -- {shown}"
    assert capsys.readouterr().err == f"tidemark: unknown arguments: {shown}. {hint}; see `tidemark run --help`\n"


def test_what_a_command_does_not_take_points_to_its_help(capsys: Captured) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(["rescale", "three numbers", "2", "--force"])
    assert end.value.code == 2
    assert capsys.readouterr().err == "tidemark: unknown arguments: --force; see `tidemark rescale --help`\n"
