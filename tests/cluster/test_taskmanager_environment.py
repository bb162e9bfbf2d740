"""What a TaskManager leaves in its environment, which the slots and the JVM inherit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

_PROGRAM = """
import json, os, django
os.environ["DJANGO_SETTINGS_MODULE"] = "tests.django_settings"
django.setup()
from django.core.management import CommandError, call_command
from backend.cluster.management.commands import taskmanager
from runtime.execution.errors import ExecutionError

def acquire_context(*_):
    # the JVM would start here
    print(json.dumps(dict(os.environ)), flush=True)
    raise ExecutionError("no Spark today")

taskmanager.acquire_context = acquire_context
try:
    call_command("taskmanager")
except CommandError as error:
    assert "no Spark today" in str(error)
"""


def inherited(home: Path, **variables: str) -> dict[str, str]:
    """Return the environment in which a TaskManager with these variables starts its session of Spark."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        env={**os.environ, "TIDEMARK_HOME": str(home), **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return result


def test_what_references_may_name_is_not_in_the_slots_environment(tmp_path: Path) -> None:
    left = inherited(
        tmp_path,
        SHOP_PASSWORD="k4n4ry",
        SHOP_URL="k4n4ry-2",
        OTHER="stays",
        TIDEMARK_REFERENCE_VARIABLES="SHOP_*",
    )
    assert not any("k4n4ry" in value for value in left.values())
    assert left["OTHER"] == "stays" and "PATH" in left


def test_what_is_not_listed_stays(tmp_path: Path) -> None:
    left = inherited(tmp_path, SHOP_PASSWORD="shown", SHOP_URL="k4n4ry", TIDEMARK_REFERENCE_VARIABLES="SHOP_URL")
    assert left["SHOP_PASSWORD"] == "shown" and "SHOP_URL" not in left
