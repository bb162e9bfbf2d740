"""Browser and server reach nothing but themselves: the demonstration, its page and previews work as ever."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.stack import ROOT

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

#: a namespace with a network that consists of loopback, which is down at first
ALONE = ("unshare", "--map-root-user", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")


def why_not_alone() -> str | None:
    """Return why this machine makes no such namespace; None if it does."""
    try:
        done = subprocess.run((*ALONE, "true"), capture_output=True, check=False)
    except OSError as error:
        return f"unshare and ip are needed (util-linux, iproute2): {error}"
    return None if done.returncode == 0 else f"namespaces are not allowed: {done.stderr.decode().strip()}"


def test_all_works_where_there_is_no_network(tmp_path: Path) -> None:
    reason = why_not_alone()
    if reason is not None:
        pytest.skip(reason)
    visited = subprocess.run(
        (*ALONE, sys.executable, "-m", "tests.e2e.offline", str(tmp_path / "home")),
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=540,
    )
    assert visited.returncode == 0, visited.stderr[-4000:]
