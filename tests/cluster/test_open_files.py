"""The limit of open files, in a process of its own."""

from __future__ import annotations

import subprocess
import sys

from tests.cluster.stack import ROOT

PROGRAM = """
import resource
from backend.cluster.open_files import raise_open_files
resource.setrlimit(resource.RLIMIT_NOFILE, (300, 400))
from runtime.jobmaster.control_server import max_connections
few = max_connections()
print(raise_open_files(), few, max_connections())
"""


def test_a_process_may_open_as_much_as_the_machine_lets_it_and_a_job_takes_a_quarter() -> None:
    told = subprocess.run((sys.executable, "-c", PROGRAM), cwd=ROOT, check=True, stdout=-1, text=True, timeout=60)
    assert told.stdout.split() == ["400", "75", "100"]
