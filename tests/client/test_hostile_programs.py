"""Hostile programs in a child: what they get at, what they leave behind, what they use up.

The child is a module of a few lines, run as extraction and previews run theirs.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest

from runtime.client.children import ChildResult, run_child
from runtime.client.confinement import MAX_PROCESSES, USUAL, Confinement
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel of Linux")

ROOT = Path(__file__).resolve().parents[2]
BEGIN = """
import json, os, socket, subprocess, sys, time
from pathlib import Path
from runtime.client.child_process import begin, limit

answer_fd, request = begin()
def answer(value):
    os.write(answer_fd, json.dumps(value).encode())
    os.close(answer_fd)
"""


def run_hostile(
    tmp_path: Path,
    text: str,
    *,
    timeout_s: float = 60.0,
    confinement: Confinement = USUAL,
    memory_mib: int = 4096,
) -> ChildResult:
    modules, directory = tmp_path / "modules", tmp_path / "child"
    modules.mkdir(exist_ok=True)
    directory.mkdir(exist_ok=True)
    (modules / "hostile.py").write_text(BEGIN + textwrap.dedent(text))
    return run_child(
        "hostile",
        json.dumps({"outside": str(tmp_path)}),
        directory,
        timeout_s,
        [modules],
        confinement=confinement,
        memory_bytes=memory_mib << 20,
    )


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


# --- what it gets at --------------------------------------------------------------------------------------------------

#: stands for the web process: secrets in its environment, its memory and its home
WEB = """
import json, os, sys
from pathlib import Path
from runtime.client.confinement import Confinement, hide_process
from tests.client.test_hostile_programs import SPY, run_hostile

hide_process()
home = Path(sys.argv[1])
secret = (home / "home/secret-key").read_text()
result = run_hostile(home, SPY, confinement=Confinement(hidden=[str(home / "home")]))
print(result.answer.decode() or result.output)
"""
SPY = """
found, tried = [], 0
def look(path):
    global tried
    tried += 1
    try:
        with open(path, "rb") as file:
            if b"canary" in file.read(1 << 20):
                found.append(str(path))
    except OSError:
        pass

pid = os.getppid()
seen = set()
for pid in [os.getppid(), *[int(name) for name in range(1, os.getpid())]]:
    for name in ("environ", "mem", "cmdline", "maps", "auxv", "fd/3", "root/etc/shadow", "cwd/secret-key"):
        look(f"/proc/{pid}/{name}")
outside = Path(request["outside"])
for name in ("secret-key", "db.sqlite3"):
    look(outside / "home" / name)
look(outside / "home/../home/secret-key")
os.symlink(outside / "home/secret-key", "link")
look("link")
try:
    os.link(outside / "home/secret-key", "hard")
    look("hard")
except OSError:
    pass
look(Path("/proc/self/root") / str(outside / "home/secret-key").lstrip("/"))
found += [name for name, value in os.environ.items() if "canary" in value]
answer({"found": found, "tried": tried > 100})
"""


def test_a_program_reads_no_secret_of_the_process_that_plans_it_nor_of_its_home(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    for name in ("secret-key", "db.sqlite3"):
        (home / name).write_text("canary")
    environment = {**os.environ, "DATABASE_URL": "postgres://a:canary@b/c", "PYTHONPATH": str(ROOT)}
    web = subprocess.run(
        [sys.executable, "-c", WEB, str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert json.loads(web.stdout) == {"found": [], "tried": True}


def test_a_program_reads_data_and_itself(tmp_path: Path) -> None:
    (tmp_path / "flights.csv").write_text("a,b")
    hidden = tmp_path / "home"
    hidden.mkdir()
    (hidden / "program.py").write_text("print()")
    text = """
    answer([Path(request["outside"], name).read_text() for name in ("flights.csv", "home/program.py")])
    """
    confinement = Confinement(hidden=[str(hidden)], readable=[str(hidden / "program.py")])
    assert json.loads(run_hostile(tmp_path, text, confinement=confinement).answer) == ["a,b", "print()"]


def test_a_program_writes_in_its_own_directory_only(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text("")
    text = """
    Path("own").write_text("x")
    refused = 0
    for path in ("code.py", "new", "../new"):
        try:
            Path(request["outside"], path).write_text("x")
        except OSError:
            refused += 1
    code = request["outside"] + "/code.py"
    for act in (os.unlink, lambda path: os.truncate(path, 0)):
        try:
            act(code)
        except OSError:
            refused += 1
    answer(refused)
    """
    assert json.loads(run_hostile(tmp_path, text).answer) == 5
    assert (tmp_path / "code.py").read_text() == ""


@pytest.mark.parametrize("has_network", [False, True])
def test_a_program_has_a_network_only_where_it_may(tmp_path: Path, has_network: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        text = f"""
        try:
            socket.create_connection(("127.0.0.1", {server.getsockname()[1]}), 5).close()
            answer("connected")
        except OSError as error:
            answer("refused")
        """
        result = run_hostile(tmp_path, text, confinement=Confinement(has_network=has_network))
    assert json.loads(result.answer) == ("connected" if has_network else "refused")


def test_a_program_has_no_capability_and_gets_none(tmp_path: Path) -> None:
    text = """
    lines = Path(f"/proc/{os.getpid()}/status").read_text().splitlines()
    status = dict(line.split(":\\t") for line in lines if ":\\t" in line)
    answer([int(status[name], 16) for name in ("CapEff", "CapPrm", "CapBnd")] + [int(status["NoNewPrivs"])])
    """
    assert json.loads(run_hostile(tmp_path, text).answer) == [0, 0, 0, 1]


def test_a_program_ends_no_process_of_the_server(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "600"]) as bystander:
        text = f"""
        ended = 0
        for pid in ({bystander.pid}, os.getppid(), {os.getpid()}):
            try:
                os.kill(pid, 0)
                ended += 1
            except OSError:
                pass
        answer(ended)
        """
        ended = json.loads(run_hostile(tmp_path, text).answer)
        bystander.kill()
    assert ended == 0


# --- what it leaves behind --------------------------------------------------------------------------------------------

LEAVER = """
import os, sys, time
for _ in range(2):
    if os.fork():
        os._exit(0)
    os.setsid()
print(os.getpid(), flush=True)
time.sleep(600)
"""


def test_a_grandchild_of_another_session_without_a_trace_in_its_environment_ends_too(tmp_path: Path) -> None:
    text = f"""
    started = subprocess.run([sys.executable, "-c", {LEAVER!r}], env={{}}, stdout=open("pid", "w"))
    while not Path("pid").read_text().endswith("\\n"):
        time.sleep(0.01)
    answer(int(Path("pid").read_text()))
    """
    pid = json.loads(run_hostile(tmp_path, text).answer)
    assert is_gone(pid)


KILLED = """
import sys
from pathlib import Path
from tests.client.test_hostile_programs import run_hostile
run_hostile(Path(sys.argv[1]), sys.argv[2])
"""


def test_all_of_a_program_ends_with_the_web_process(tmp_path: Path) -> None:
    text = f"""
    subprocess.run([sys.executable, "-c", {LEAVER!r}], env={{}}, stdout=open("pid", "w"))
    while True:
        pass
    """
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path), textwrap.dedent(text)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as web:
        told = tmp_path / "child/pid"
        wait_until(lambda: told.exists() and told.read_text().endswith("\n"), 60, "the grandchild")
        pid = int(told.read_text())
        web.kill()
    wait_until(lambda: is_gone(pid), 15, "the end of the grandchild")


# --- what it uses up --------------------------------------------------------------------------------------------------


def test_a_program_that_forks_without_end_is_stopped(tmp_path: Path) -> None:
    text = """
    while True:
        try:
            if os.fork() == 0:
                time.sleep(600)
        except OSError:
            time.sleep(0.01)
    """
    result = run_hostile(tmp_path, text)
    assert not result.timed_out
    assert f"more than {MAX_PROCESSES} processes" in result.output
    assert not [p for p in psutil.process_iter(["cwd"]) if p.info["cwd"] == str(tmp_path / "child")]


def test_processes_that_use_too_much_memory_together_are_stopped(tmp_path: Path) -> None:
    text = """
    for _ in range(3):
        if os.fork() == 0:
            hog = bytearray(b"x") * (60 << 20)
            time.sleep(600)
    time.sleep(600)
    """
    assert "more than 128 MiB of memory" in run_hostile(tmp_path, text, memory_mib=128).output


def test_a_program_that_makes_files_without_end_is_stopped(tmp_path: Path) -> None:
    text = """
    for number in range(1_000_000):
        os.close(os.open(str(number), os.O_CREAT))
    """
    assert "files" in run_hostile(tmp_path, text, timeout_s=240.0).output


def test_open_files_are_limited(tmp_path: Path) -> None:
    text = """
    held = []
    try:
        while True:
            held.append(open(os.devnull))
    except OSError:
        held.pop().close()
        answer(len(held))
    """
    assert json.loads(run_hostile(tmp_path, text).answer) < 256


def test_a_child_ends_as_it_would_without_its_launcher(tmp_path: Path) -> None:
    assert run_hostile(tmp_path, "os._exit(7)").exit_code == 7
    assert run_hostile(tmp_path, "os.kill(os.getpid(), 9)").exit_code == -9
