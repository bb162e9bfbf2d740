"""The archive of this package that executors get: they read the package's own data from it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from runtime.execution.spark_session import _package_archive

PROGRAM = """
import runtime
print(runtime.__file__)
from runtime.common import Types
from runtime.connectors import ReplaySource
from runtime.connectors.flights import flights
print(flights().height)
from runtime.pipeline.templates import templates
print(len(templates()))
from runtime.pipeline.sql_words import sql_functions
print(bool(sql_functions()))
"""


def test_executors_read_the_packages_data_from_the_archive(tmp_path: Path) -> None:
    archive = _package_archive()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(archive)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    where, *found = done.stdout.splitlines()
    assert where.startswith(str(archive))
    assert found == ["336776", "13", "True"]
