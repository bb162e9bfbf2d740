"""A real web process, as clients see it: many submissions at once, and bodies that are too large."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest

from backend.accounts.failed_logins import FREE_FAILURES
from runtime.client.rest import RequestRefusedError, RestClient
from runtime.client.server import Server
from tests.cluster.redis_fixture import running_redis
from tests.dispatcher.web_server import ROOT, WebProcess, running_web
from tests.support.memory import peak_bytes
from tests.support.waiting import wait_until

# children are whole Pythons with the engine in them, two at a time
pytestmark = pytest.mark.timeout(290)

FLINK_LIB = os.environ.get("FLINK_LIB")
PROBE = Path(__file__).parent / "data" / "JobResultProbe.java"
PROGRAM = """
import time
from runtime.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1, 2, 3]).print()
time.sleep(2)
env.execute("program {number}")
"""


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebProcess]:
    with running_web(tmp_path_factory.mktemp("home")) as serving:
        yield serving


@pytest.fixture
def server(web: WebProcess) -> Server:
    return web.server


@pytest.mark.slow
def test_twenty_programs_that_are_submitted_at_once_are_all_accepted(server: Server, tmp_path: Path) -> None:
    def submit(number: int) -> str:
        client = RestClient(server)
        program = tmp_path / f"program_{number}.py"
        program.write_text(PROGRAM.format(number=number))
        return client.run(client.upload(program), (), {}, None, None)

    with ThreadPoolExecutor(20) as pool:
        accepted = list(pool.map(submit, range(20)))
    assert len(set(accepted)) == 20
    assert {job["name"] for job in RestClient(server).jobs()} == {f"program {number}" for number in range(20)}


def workers_of(web: WebProcess) -> list[psutil.Process]:
    """The processes that answer; not the one that starts them."""
    found = []
    for process in psutil.Process(web.pid).children():
        # others end meanwhile
        with suppress(psutil.Error):
            if "resource_tracker" not in " ".join(process.cmdline()):
                found.append(process)
    return found


def test_web_processes_on_one_port_are_replaced_one_by_one_and_end_together(tmp_path: Path) -> None:
    with running_web(tmp_path, 2) as web:
        wait_until(lambda: len(workers_of(web)) == 2, 30, "two web processes")
        lost, other = workers_of(web)
        lost.kill()
        wait_until(lambda: len(workers_of(web)) == 2 and lost not in workers_of(web), 60, "another one")
        assert other in workers_of(web)
        assert RestClient(web.server).jobs() == []
        workers = workers_of(web)
        psutil.Process(web.pid).kill()
        assert not psutil.wait_procs(workers, timeout=30)[1], "they hold the port"


def asked(web: WebProcess, method: str, path: str, body: object = None, **headers: str) -> tuple[int, Any, str]:
    """Ask on a connection of its own; return status, answer and cookies."""
    connection = http.client.HTTPConnection(urlsplit(web.server.url).netloc, timeout=60)
    with closing(connection):
        headers |= {"Content-Type": "application/json"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        cookies = [value.partition(";")[0] for name, value in answer.getheaders() if name.lower() == "set-cookie"]
        return answer.status, json.loads(answer.read() or "null"), "; ".join(cookies)


def test_two_web_processes_count_logins_leave_events_and_end_sessions_together(tmp_path: Path) -> None:
    (tmp_path / "redis").mkdir()
    with (
        running_redis(tmp_path / "redis") as url,
        running_web(tmp_path, 2, REDIS_URL=url) as web,
        ThreadPoolExecutor(24) as pool,
    ):
        admin = {"Authorization": f"Bearer {web.server.token}"}

        def guess(number: int) -> int:
            given = {"username": "admin", "password": f"guess {number}", "token": ""}
            return asked(web, "POST", "/api/v1/session", given)[0]

        statuses = list(pool.map(guess, range(24)))
        # with a moment between, a sixth may be judged
        assert FREE_FAILURES <= statuses.count(401) <= FREE_FAILURES + 1
        assert set(statuses) == {401, 429}
        _, made, _ = asked(web, "POST", "/api/v1/tokens", {"name": "session", "scope": "viewer"}, **admin)
        given = {"username": "", "password": "", "token": made["token"]}
        status, _, cookies = asked(web, "POST", "/api/v1/session", given)
        assert status == 200

        def read(_: int) -> int:
            return asked(web, "GET", "/api/v1/cluster", Cookie=cookies)[0]

        assert set(pool.map(read, range(12))) == {200}
        assert asked(web, "DELETE", f"/api/v1/tokens/{made['entry']['id']}", **admin)[0] == 200
        assert set(pool.map(read, range(12))) == {401}
        _, told, _ = asked(web, "GET", "/api/v1/audit", **admin)
        assert [event["action"] for event in told["events"]].count("POST api/v1/session") == 25


SLEEPER = """
import subprocess
import sys

subprocess.run([sys.executable, "-c", "import time; time.sleep(600)", {mark!r}])
"""


@contextmanager
def watched(argument: str) -> Iterator[set[int]]:
    """Give the ids of all processes that have had this argument so far: programs can leave no traces in files."""
    seen, ended = set[int](), threading.Event()

    def look() -> None:
        while not ended.wait(0.05):
            seen.update(p.pid for p in psutil.process_iter(["cmdline"]) if argument in (p.info["cmdline"] or ()))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()


def test_programs_of_clients_that_have_left_hold_up_nobody(server: Server, tmp_path: Path) -> None:
    mark = f"sleeper-{uuid.uuid4().hex}"
    sleeper, program = tmp_path / "sleeper.py", tmp_path / "program.py"
    sleeper.write_text(SLEEPER.format(mark=mark))
    program.write_text(PROGRAM.format(number="of one who stayed"))
    client = RestClient(server)
    path, headers = f"/v1/jars/{client.upload(sleeper)}/run", {"Authorization": f"Bearer {server.token}"}
    with ExitStack() as stack:
        started = stack.enter_context(watched(mark))
        # two are run, the others wait for a turn
        leavers = [http.client.HTTPConnection(urlsplit(server.url).netloc) for _ in range(5)]
        for leaver in leavers:
            stack.callback(leaver.close)
            leaver.request("POST", path, b"{}", headers | {"Content-Type": "application/json"})
        wait_until(lambda: len(started) == 2, 60, "two programs run")
        for leaver in leavers:
            leaver.close()
        # one alone would be run for a minute
        began = time.monotonic()
        client.run(client.upload(program), (), {}, None, None)
        assert time.monotonic() - began < 45
        assert len(started) == 2, "no program is run for a client that has left"


MAIN = """
from helpers import plus_one
from runtime.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1, 2]).map(plus_one).uid("plus").print()
print("modules are here")
env.execute("{name}")
"""


@pytest.mark.parametrize("how", ["directory", "py-files"])
def test_programs_of_several_modules_are_run(server: Server, tmp_path: Path, how: str) -> None:
    directory = tmp_path / "my_job"
    directory.mkdir()
    (directory / "main.py").write_text(MAIN.format(name=how))
    (directory / "helpers.py").write_text("def plus_one(n):\n    return n + 1\n")
    given = ("my_job/",) if how == "directory" else ("--py-files", "my_job/helpers.py", "my_job/main.py")
    command = (sys.executable, "-m", "runtime.client.cli", "run", "--detached", *given)
    environment = {"TIDEMARK_URL": server.url, "TIDEMARK_TOKEN": server.token, "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        command, cwd=tmp_path, env=os.environ | environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 0, run.stderr
    assert "modules are here" in run.stdout + run.stderr
    [job] = [job for job in RestClient(server).jobs() if job["name"] == how]
    assert job["jid"] in run.stdout


def test_a_program_over_the_limit_is_refused_with_the_limit(server: Server, tmp_path: Path) -> None:
    program = tmp_path / "large.zip"
    with program.open("wb") as file:
        file.truncate(260 << 20)
    with pytest.raises(RequestRefusedError, match=r"at most 268435456 bytes \(256 MiB\)") as refused:
        RestClient(server).upload(program)
    assert refused.value.status == 413


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the peak of a process's memory is in /proc")
@pytest.mark.parametrize("credentials", [{}, {"Authorization": "Bearer x"}, {"Cookie": "tidemark-session=x"}])
def test_a_flood_of_uploads_of_nobody_takes_no_memory(web: WebProcess, credentials: dict[str, str]) -> None:
    """Each announces 256 MiB, and sends until it is told to stop."""

    def flood(_: int) -> None:
        with closing(http.client.HTTPConnection(urlsplit(web.server.url).netloc, timeout=60)) as connection:
            connection.putrequest("POST", "/v1/jars/upload")
            headers = {"Content-Type": "multipart/form-data; boundary=x", "Content-Length": str(256 << 20)}
            for name, value in (headers | credentials).items():
                connection.putheader(name, value)
            connection.endheaders()
            # the server has answered and gone
            with suppress(OSError):
                for _ in range(256):
                    connection.send(bytes(1 << 20))

    flood(0)
    before = peak_bytes(web.pid)
    with ThreadPoolExecutor(16) as pool:
        for _ in pool.map(flood, range(32)):
            pass
    # 8 GiB are announced; the sockets' and the server's buffers are what they are without a body
    assert peak_bytes(web.pid) - before < 64 << 20


@pytest.mark.skipif(sys.platform != "linux", reason="prlimit is Linux's")
def test_those_who_say_nothing_take_no_place_of_others(tmp_path: Path) -> None:
    """More connections than the process may have files: silent ones, beginnings of a head, and of a body."""
    files, each = 256, 150
    with running_web(tmp_path, 1, files) as web, ExitStack() as connections:
        address = urlsplit(web.server.url)
        assert address.hostname is not None and address.port is not None
        body = b"POST /v1/jars/upload HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nx"
        for beginning in (b"", b"GET /livez HTT", body):
            for _ in range(each):
                connection = connections.enter_context(socket.create_connection((address.hostname, address.port), 30))
                connection.sendall(beginning)
            assert RestClient(web.server).jobs() == []
        waiting = [c for c in psutil.Process(web.pid).net_connections("tcp") if c.status == psutil.CONN_ESTABLISHED]
        assert len(waiting) <= files // 4 + 5


def test_flinks_own_run_is_told_how_programs_are_submitted(server: Server) -> None:
    """It sends some 42 MB, and reads its answer afterwards."""
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=60)
    try:
        headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "multipart/form-data; boundary=x"}
        connection.request("POST", "/v1/jobs", b"x" * (42 << 20), headers)
        answer = connection.getresponse()
        [error] = json.loads(answer.read())["errors"]
    finally:
        connection.close()
    assert answer.status == 405 and "tidemark run" in error


FAILED_JOB = """
import django
django.setup()
from tests.dispatcher import rows
job = rows.ended_job("FAILED")
rows.failure_of(job, 0, "no year")
print(job.id)
"""


@pytest.mark.slow
@pytest.mark.skipif(FLINK_LIB is None, reason="FLINK_LIB names no directory with the jars of Flink 2.3")
def test_flinks_own_client_learns_why_a_job_failed(server: Server, web: WebProcess) -> None:
    job_id = web.run_python(FAILED_JOB).strip()
    address = urlsplit(server.url)
    command = ("java", "-cp", f"{FLINK_LIB}/*", str(PROBE), str(address.hostname), str(address.port), job_id)
    headers = {"FLINK_REST_CLIENT_HEADERS": f"Authorization:Bearer {server.token}"}
    told = subprocess.run(command, env=os.environ | headers, capture_output=True, text=True, timeout=120, check=False)
    assert told.stdout.splitlines()[:3] == ["FAILED", "ValueError", "ValueError: no year"], told.stderr
