"""The process from which workers are forked has no other threads: a lock that one held would be held for ever in
workers."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from runtime.execution.spark_session import FORK_SAFE_ENVIRONMENT
from tests.support.programs import ROOT

PRELOAD = """
import sys, zipimport
from pathlib import Path
from runtime.execution.spark_daemon import preload
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
