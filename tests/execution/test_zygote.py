"""The process from which workers are forked: it has no threads whose locks workers would inherit, and ends with its
program.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from runtime.execution.spark_daemon import ZYGOTE
from runtime.execution.spark_session import FORK_SAFE_ENVIRONMENT
from runtime.execution.zygote_process import ZygoteProcess
from tests.support.programs import ROOT
from tests.support.waiting import wait_until

PRELOAD = """
import sys, zipimport
from pathlib import Path
from runtime.execution.zygote import preload
sys.path.append(sys.argv[1])
import zipped
preload()
others = [t.joinpath("comm").read_text().strip() for t in Path("/proc/self/task").iterdir()][1:]
zips = [f for f in sys.path_importer_cache.values() if isinstance(f, zipimport.zipimporter)]
import zipped_too
print(others, zips, "polars" in sys.modules)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="threads are listed in /proc")
def test_of_what_is_imported_before_workers_are_forked_only_the_sleeping_cleaner_of_polars_has_a_thread(
    tmp_path: Path,
) -> None:
    with zipfile.ZipFile(tmp_path / "some.zip", "w") as archive:
        archive.writestr("zipped.py", "")
        archive.writestr("zipped_too.py", "")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **FORK_SAFE_ENVIRONMENT}
    done = subprocess.run(
        [sys.executable, "-c", PRELOAD, str(tmp_path / "some.zip")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.strip() == "['polars-ooc-clea'] [] True"


PROGRAM = """
import os
import sys
import zipimport
from runtime.common.configuration import Configuration
from runtime.execution.spark_session import acquire_context

context = acquire_context(Configuration(), 1)

def seen(_):
    # is the engine imported already, and is the environment that of a worker, without the way to the zygote?
    yield ("runtime.task.slot" in sys.modules, "TIDEMARK_ZYGOTE" in os.environ, os.environ["POLARS_MAX_THREADS"])
    # whoever looks for a module asks all zips on the path: are there some, and is what they hold known?
    zips = [place for place in sys.path if place.endswith(".zip") and os.path.exists(place)]
    yield len(zips) > 0, [place for place in zips if place not in zipimport._zip_directory_cache]

print(context.parallelize([0], 1).mapPartitions(seen).collect(), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def program(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TIDEMARK_HOME": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process
        process.kill()


def is_alive(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def zygotes(pid: int) -> list[psutil.Process]:
    """Return the zygotes among the children of a process."""
    return [child for child in psutil.Process(pid).children() if "runtime.execution.zygote" in child.cmdline()]


def test_workers_begin_with_the_engine_imported(program: subprocess.Popen[str]) -> None:
    assert program.stdout is not None
    assert program.stdout.readline().strip() == "[(True, False, '1'), (True, [])]"
    assert len(zygotes(program.pid)) == 1


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, None], ids=["kill -9", "SIGTERM", "its end"])
def test_no_process_outlives_its_program(program: subprocess.Popen[str], end: signal.Signals | None) -> None:
    assert program.stdin is not None
    assert program.stdout is not None
    assert program.stdout.readline()
    family = psutil.Process(program.pid).children(recursive=True)
    assert len(family) >= 4
    if end is None:
        program.stdin.close()
    else:
        program.send_signal(end)
    wait_until(lambda: not any(is_alive(process) for process in family), 20, "the end of JVM, zygote and workers")


def test_without_its_zygote_the_daemon_imports_the_engine_itself() -> None:
    environment = {**FORK_SAFE_ENVIRONMENT, "PYTHONPATH": str(ROOT)}
    zygote = ZygoteProcess(environment)
    os.kill(zygote.pid, signal.SIGKILL)
    wait_until(lambda: not zygote.is_alive(), 10, "the end of the zygote")
    request = subprocess.run(
        [sys.executable, "-c", "from runtime.execution.spark_daemon import _forked_by_zygote as f; print(f())"],
        env={**os.environ, "PYTHONPATH": str(ROOT), ZYGOTE: str(zygote.socket)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert request.stdout.strip() == "None"
    zygote.close()
    assert not zygote.socket.exists()


OWNER = """
import sys
from runtime.execution.zygote_process import ZygoteProcess

print(ZygoteProcess({}).socket, flush=True)
sys.stdin.read()
"""


def test_a_program_that_is_killed_leaves_no_socket(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER],
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        assert owner.stdout is not None
        place = Path(owner.stdout.readline().strip())
        assert place.is_socket() and place.parent.stat().st_mode & 0o077 == 0
        owner.kill()
    wait_until(lambda: not list(tmp_path.iterdir()), 120, "the zygote's end")
