"""The command line beside the running stack, which it finds by its home."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.cluster.stack import ROOT
from tests.e2e.site import DEMO, HELLO, PROGRAMS, Site
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


def tidemark(site: Site, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a command of the CLI to its end."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TIDEMARK_")}
    return subprocess.run(
        (sys.executable, "-m", "runtime.client.cli", *map(str, arguments)),
        cwd=ROOT,
        env=environment | {"TIDEMARK_HOME": str(site.stack.home)},
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
    )


def test_list_and_info_tell_of_the_demo_and_the_processes_of_its_slots(site: Site) -> None:
    job_id = site.wait_for_demo()
    listed = tidemark(site, "list")
    assert listed.returncode == 0
    assert f"{job_id}  {DEMO}" in listed.stdout
    info = json.loads(tidemark(site, "info", "--json", job_id[:8]).stdout)
    assert info["state"] == "RUNNING"
    assert [slot["slot"] for slot in info["slots"]] == [0, 1]
    for slot in info["slots"]:
        assert "pyspark" in " ".join(psutil.Process(slot["pid"]).cmdline())


def test_run_waits_for_the_end_of_a_bounded_job_and_logs_show_its_output(site: Site) -> None:
    ran = tidemark(site, "run", HELLO, "--", "--count", 1000)
    assert ran.returncode == 0, ran.stderr
    job_id = site.job_ids("hello events")[0]
    assert f"Job {job_id} is FINISHED" in ran.stdout
    assert "written" in ran.stdout
    logs = tidemark(site, "logs", job_id)
    assert "(home," in logs.stdout


def test_run_ends_with_1_and_the_reason_when_the_job_fails(site: Site) -> None:
    ran = tidemark(site, "run", PROGRAMS / "failing.py")
    assert ran.returncode == 1
    assert ran.stderr.count("\n") == 1
    assert "ValueError: no tide has the number 7" in ran.stderr


def test_cancel_ends_a_detached_job(site: Site) -> None:
    ran = tidemark(site, "run", "--detached", PROGRAMS / "unbounded.py")
    assert ran.returncode == 0, ran.stderr
    job_id = site.job_ids("endless numbers")[0]
    site.wait_for_state(job_id, "RUNNING")
    cancelled = tidemark(site, "cancel", job_id)
    assert (cancelled.returncode, cancelled.stdout) == (0, f"Job {job_id} is CANCELED\n")
    assert job_id not in tidemark(site, "list").stdout
    assert job_id in tidemark(site, "list", "--all").stdout


@pytest.mark.usefixtures("keyboard")
def test_ctrl_c_while_the_server_plans_the_program_leaves_no_job_behind(site: Site, tmp_path: Path) -> None:
    program = tmp_path / "slowly_planned.py"
    lines = (PROGRAMS / "unbounded.py").read_text().replace("endless numbers", "slowly planned")
    program.write_text(f"import time\n\ntime.sleep(3)\n{lines}")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TIDEMARK_")}
    with subprocess.Popen(
        (sys.executable, "-m", "runtime.client.cli", "run", "--detached", str(program)),
        cwd=ROOT,
        env=environment | {"TIDEMARK_HOME": str(site.stack.home)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        wait_until(lambda: is_planning(site), 30, "the server plans the program")
        process.send_signal(signal.SIGINT)
        told, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    [job_id] = site.job_ids("slowly planned")
    assert f"Job {job_id} is CANCELED" in told


def is_planning(site: Site) -> bool:
    """Return whether the web process is planning a program."""
    for process in site.stack.processes():
        # it may end while it is looked at
        with suppress(psutil.Error):
            if "runtime.client.extract_child" in process.cmdline():
                return True
    return False


def test_a_directory_of_modules_runs_in_the_slots(site: Site, tmp_path: Path) -> None:
    (tmp_path / "two-modules").mkdir()
    (tmp_path / "two-modules" / "helpers.py").write_text("def shout(n):\n    return f'number {n}!'\n")
    (tmp_path / "two-modules" / "main.py").write_text(
        "import helpers\n"
        "from runtime.datastream import StreamExecutionEnvironment\n"
        "env = StreamExecutionEnvironment.get_execution_environment()\n"
        "env.from_collection([1, 2]).map(helpers.shout).print()\n"
        "env.execute('two modules')\n"
    )
    ran = tidemark(site, "run", tmp_path / "two-modules")
    assert ran.returncode == 0, ran.stderr
    assert tidemark(site, "logs", "--kind", "out", "--tail", 1, "two modules").stdout == "number 2!\n"
