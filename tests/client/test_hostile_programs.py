"""Hostile programs in a child: what they get at, what they leave behind, what they use up.

The child is a module of a few lines, run as extraction and previews run theirs.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import pwd
import socket
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from runtime.client.children import ChildResult, run_child
from runtime.client.confinement import MAX_PROCESSES, USUAL, Confinement, dot_files
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


def test_a_program_reads_no_dot_files_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "person"
    (home / ".keys").mkdir(parents=True)
    for name in (".netrc", ".keys/own"):
        (home / name).write_text("canary")
    (home / "flights.csv").write_text("a,b")
    monkeypatch.setenv("HOME", str(home))
    text = """
    home, read = Path(request["outside"], "person"), []
    for name in (".netrc", ".keys/own", "flights.csv"):
        try:
            read.append((home / name).read_text())
        except OSError:
            pass
    answer(read)
    """
    assert json.loads(run_hostile(tmp_path, text).answer) == ["a,b"]


@pytest.mark.skipif(os.getuid() != 0, reason="others than root do not read it anyway")
def test_a_program_of_root_reads_nothing_of_the_system_that_only_root_reads(tmp_path: Path) -> None:
    text = """
    read = []
    for name in ("passwd", "shadow", "gshadow", "sudoers"):
        try:
            Path("/etc", name).read_bytes()
            read.append(name)
        except OSError:
            pass
    answer(read)
    """
    assert json.loads(run_hostile(tmp_path, text).answer) == ["passwd"]


def test_dot_files_are_those_of_the_account_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    account = SimpleNamespace(pw_dir=str(tmp_path / "account"))
    for name in ("account/.ssh", "account/data", "other/.ssh"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: account)
    monkeypatch.setenv("HOME", str(tmp_path / "other"))
    assert dot_files() == [str(tmp_path / "account/.ssh"), str(tmp_path / "other/.ssh")]


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


@pytest.mark.parametrize("offset", [0, 0x40000000], ids=["own", "x32"])
def test_a_program_changes_no_mode_owner_time_or_attribute_of_a_file_outside(tmp_path: Path, offset: int) -> None:
    secret = tmp_path / "home/secret-key"
    secret.parent.mkdir(mode=0o700)
    secret.write_text("canary")
    secret.chmod(0o600)
    before = [path.stat() for path in (secret, secret.parent)]
    text = f"""
    import ctypes, struct
    libc = ctypes.CDLL(None, use_errno=True)
    number = {{"x86_64": {{"chmod": 90, "fchmodat": 268, "utimensat": 280}}}}.get(
        os.uname().machine, {{"fchmodat": 53, "utimensat": 88}}
    )
    home = Path(request["outside"], "home")
    flags = ctypes.create_string_buffer(struct.pack("=I", 0x80), 8)
    opened = os.open(home, os.O_PATH)
    for path in (home, home / "secret-key"):
        name = str(path).encode()
        if {offset} == 0:
            for act in (
                lambda: os.chmod(path, 0o777),
                lambda: os.chown(path, os.getuid(), os.getgid()),
                lambda: os.lchown(path, os.getuid(), os.getgid()),
                lambda: os.chown("secret-key", os.getuid(), os.getgid(), dir_fd=opened),
                lambda: os.utime(path),
                lambda: os.utime(path, (1, 1), follow_symlinks=False),
                lambda: os.setxattr(path, "user.mark", b"x"),
                lambda: os.removexattr(path, "user.mark"),
            ):
                try:
                    act()
                except OSError:
                    pass
        if "chmod" in number:
            libc.syscall({offset} + number["chmod"], name, 0o777)
        libc.syscall({offset} + number["fchmodat"], -100, name, 0o777)
        libc.syscall({offset} + number["utimensat"], -100, name, None, 0)
        libc.syscall({offset} + 452, -100, name, 0o777, 0)
        libc.syscall({offset} + 469, -100, name, flags, 24, 0)
    answer("tried")
    """
    confinement = Confinement(hidden=[str(secret.parent)])
    assert json.loads(run_hostile(tmp_path, text, confinement=confinement).answer) == "tried"
    for then, path in zip(before, (secret, secret.parent), strict=True):
        now = path.stat()
        # every change of an attribute sets the time of the last change
        assert (now.st_mode, now.st_mtime_ns, now.st_ctime_ns) == (then.st_mode, then.st_mtime_ns, then.st_ctime_ns)
    assert os.listxattr(secret) == []


def test_a_readable_file_outside_keeps_its_mode_and_its_flags(tmp_path: Path) -> None:
    data = tmp_path / "flights.csv"
    data.write_text("a,b")
    before = data.stat()
    text = """
    import ctypes, fcntl, struct
    with open(Path(request["outside"], "flights.csv")) as file:
        os.fchmod(file.fileno(), 0o777)
        os.utime(file.fileno())
        codes = []
        for command in (0x40086602, 0x401C5820, 0x40087602):
            try:
                fcntl.ioctl(file, command, struct.pack("=IIIIII", 0x80, 0, 0, 0, 0, 0) + bytes(8))
                codes.append(0)
            except OSError as error:
                codes.append(error.errno)
    answer(codes)
    """
    assert json.loads(run_hostile(tmp_path, text).answer) == [errno.EPERM] * 3
    after = data.stat()
    assert (after.st_mode, after.st_ctime_ns) == (before.st_mode, before.st_ctime_ns)


def test_a_program_sets_no_limit_and_no_priority_of_another_process(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "600"]) as bystander:
        text = f"""
        import resource
        codes = []
        for act in (
            lambda: resource.prlimit({bystander.pid}, resource.RLIMIT_NOFILE, (3, 3)),
            lambda: os.setpriority(os.PRIO_PROCESS, {bystander.pid}, 19),
            lambda: os.sched_setaffinity({bystander.pid}, [0]),
            lambda: os.sched_setscheduler({bystander.pid}, os.SCHED_IDLE, os.sched_param(0)),
        ):
            try:
                act()
                codes.append(0)
            except OSError as error:
                codes.append(error.errno)
        os.nice(1)
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        answer(codes)
        """
        codes = json.loads(run_hostile(tmp_path, text).answer)
        bystander.kill()
    assert codes == [errno.EPERM] * 4


def test_libraries_copy_unpack_and_pickle_in_a_programs_directory(tmp_path: Path) -> None:
    text = """
    import pickle, shutil, tarfile, tempfile, zipfile
    import cloudpickle, pyarrow, pyspark.sql
    Path("a").write_text("x")
    os.chmod("a", 0o600)
    shutil.copy("a", "b")
    shutil.copy2("a", "c")
    Path("tree").mkdir()
    shutil.move("c", "tree/c")
    shutil.copytree("tree", "copied")
    Path("a").touch()
    with zipfile.ZipFile("z.zip", "w") as archive:
        archive.write("a")
    with zipfile.ZipFile("z.zip") as archive:
        archive.extractall("unzipped")
    with tarfile.open("t.tar", "w") as archive:
        archive.add("tree")
    with tarfile.open("t.tar") as archive:
        archive.extractall("untarred", filter="data")
    with tempfile.TemporaryDirectory() as directory, tempfile.NamedTemporaryFile(dir=directory) as file:
        file.write(cloudpickle.dumps(lambda: 1))
        file.flush()
        value = pickle.loads(Path(file.name).read_bytes())()
    table = pyarrow.table({"n": [value]}).to_pydict()
    shutil.rmtree("copied")
    answer([Path(name).read_text() for name in ("b", "unzipped/a", "untarred/tree/c")] + table["n"])
    """
    result = run_hostile(tmp_path, text)
    assert json.loads(result.answer) == ["x", "x", "x", 1], result.output


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


@pytest.mark.parametrize("has_network", [False, True])
def test_a_socket_that_is_a_file_is_connected_to_only_with_a_network(tmp_path: Path, has_network: bool) -> None:
    # paths of sockets are short
    with tempfile.TemporaryDirectory() as directory, socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{directory}/docker.sock")
        server.listen()
        text = f"""
        first, second = socket.socketpair()
        first.send(b"x")
        try:
            socket.socket(socket.AF_UNIX).connect("{directory}/docker.sock")
            answer("connected")
        except OSError as error:
            answer("refused")
        """
        result = run_hostile(tmp_path, text, confinement=Confinement(has_network=has_network))
    assert json.loads(result.answer) == ("connected" if has_network else "refused")


def test_a_program_has_no_socket_to_the_host_of_a_virtual_machine(tmp_path: Path) -> None:
    text = """
    try:
        answer(socket.socket(socket.AF_VSOCK).family)
    except OSError as error:
        answer(error.errno)
    """
    assert json.loads(run_hostile(tmp_path, text).answer) == errno.EAFNOSUPPORT


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


def test_a_program_makes_nothing_that_outlives_it_in_the_kernel(tmp_path: Path) -> None:
    key = 0x7D000000 | os.getpid()
    text = f"""
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    codes = []
    for act in (
        lambda: libc.shmget({key}, 1 << 20, 0o1600),
        lambda: libc.semget({key}, 1, 0o1600),
        lambda: libc.msgget({key}, 0o1600),
        lambda: libc.mq_open(b"/tidemark-{key}", os.O_CREAT | os.O_RDWR, 0o600, None),
        lambda: libc.syscall({{"x86_64": 248}}.get(os.uname().machine, 217), b"user", b"{key}", b"x", 1, -4),
    ):
        codes.append(ctypes.get_errno() if act() < 0 else 0)
    answer(codes)
    """
    try:
        assert json.loads(run_hostile(tmp_path, text).answer) == [errno.EPERM] * 5
    finally:
        for made in ("-M", "-S", "-Q"):
            subprocess.run(["ipcrm", made, str(key)], capture_output=True, check=False)
        with contextlib.suppress(OSError):
            Path(f"/dev/mqueue/tidemark-{key}").unlink()


def test_a_program_has_no_files_in_memory_which_no_process_seems_to_hold(tmp_path: Path) -> None:
    text = """
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    codes = []
    for act in (
        lambda: os.memfd_create("hoard"),
        lambda: libc.syscall(425, 8, bytes(120)),
        lambda: libc.syscall(447, 0),
    ):
        try:
            codes.append(ctypes.get_errno() if act() < 0 else 0)
        except OSError as error:
            codes.append(error.errno)
    answer(codes)
    """
    assert json.loads(run_hostile(tmp_path, text).answer) == [errno.ENOSYS] * 3


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
