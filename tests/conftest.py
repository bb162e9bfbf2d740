"""Fixtures and hooks of all tests: the check for leaked threads and processes, and the count of job runs.

A test that leaves a thread or a child process behind fails, after a grace time in which they may end. Spark's own are
left out: its JVM and py4j's threads live as long as the test process.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import settings

from tests.job_runs import add_runs, runs
from tests.support.programs import JAVA_OPTIONS

# a busy machine makes single examples slow at random; the time of a test as a whole is limited anyway
settings.register_profile("tidemark", deadline=None)
settings.load_profile("tidemark")

#: Seconds that threads and processes have to end in after a test. Below ~5 a loaded machine gives false alarms; more
#: only costs where something is left behind.
LEAK_GRACE_SECONDS = 10.0


def _children() -> set[int]:
    """Pids of this process's direct children, without those that belong to the interpreter or to Spark."""
    pids: set[int] = set()
    tasks = Path(f"/proc/{os.getpid()}/task")
    try:
        # the kernel's own list costs microseconds, psutil's scan of all processes milliseconds per test
        for task in tasks.iterdir():
            pids.update(int(pid) for pid in (task / "children").read_text().split())
    except OSError:
        pids = {child.pid for child in psutil.Process().children()}
    return {pid for pid in pids if not _is_expected(pid)}


def _is_expected(pid: int) -> bool:
    try:
        command = " ".join(psutil.Process(pid).cmdline())
    except psutil.NoSuchProcess:
        return True
    expected = ("org.apache.spark", "runtime.execution.zygote", "resource_tracker", "forkserver")
    return any(part in command for part in expected)


def _threads(spark: bool) -> set[threading.Thread]:
    """Live Python threads; in Spark tests without the daemon ones, which are py4j's."""
    return {
        thread
        for thread in threading.enumerate()
        # a dummy stands for a foreign thread that once ran Python code (gRPC's); nobody can join it
        if not isinstance(thread, threading._DummyThread) and not (spark and thread.daemon)
    }


@pytest.fixture(autouse=True)
def no_leaks(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail the test if it leaves threads or child processes behind."""
    spark = request.node.get_closest_marker("spark") is not None
    threads, children = _threads(spark), _children()
    yield
    deadline = time.monotonic() + LEAK_GRACE_SECONDS
    for thread in _threads(spark) - threads:
        # one that another thread is starting at the moment cannot be joined yet
        while thread.ident is None and time.monotonic() < deadline:
            time.sleep(0.01)
        thread.join(max(0.0, deadline - time.monotonic()))
    leaked_threads = _threads(spark) - threads
    leaked_children = _children() - children
    if leaked_children:
        alive = [psutil.Process(pid) for pid in leaked_children if psutil.pid_exists(pid)]
        _, still = psutil.wait_procs(alive, timeout=max(0.0, deadline - time.monotonic()))
        leaked_children = {process.pid for process in still}
    assert not leaked_threads, f"threads left behind: {sorted(thread.name for thread in leaked_threads)}"
    assert not leaked_children, f"child processes left behind: {sorted(leaked_children)}"


@pytest.fixture
def keyboard() -> Iterator[None]:
    """SIGINT interrupts this process and those it starts; it is ignored where tests were started in the background, and
    is PySpark's where there was a session."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the files first that may take longest, so that no process is left with one of them at the end."""
    longest: dict[Path, float] = {}
    for item in items:
        marker = item.get_closest_marker("timeout")
        limit_s = float(marker.args[0]) if marker is not None and marker.args else 0.0
        longest[item.path] = max(longest.get(item.path, 0.0), limit_s)
    items.sort(key=lambda item: -longest[item.path])


def pytest_configure() -> None:
    """Before anything starts a JVM."""
    os.environ.update(JAVA_OPTIONS)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand on what this process has counted, if it is one of several."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["job_runs"] = runs()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Collect the counts of a finished test process."""
    add_runs(getattr(node, "workeroutput", {}).get("job_runs", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many jobs each execution kind ran."""
    counted = runs()
    if counted:
        terminalreporter.write_sep("-", "job runs")
        for kind, count in counted.items():
            terminalreporter.write_line(f"{kind}: {count}")
