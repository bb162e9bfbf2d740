"""The leader's document of jobs with planted causes: the page and the command line tell the same of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from backend.cluster.live_document import LiveDocument
from backend.cluster.models import Job
from backend.cluster.wall_dates import WallDates
from backend.live.topics import job_document
from runtime.datastream import StreamExecutionEnvironment
from runtime.testing.clock import ManualClock
from tests.client.fake_cluster import FakeCluster, document
from tests.execution.planted import CONTAINERS, PLANTED, TAKES, WITHIN_MS, Container, Diagnosed

STARTED_MS = 1_700_000_000_000


def watched(program: Callable[[StreamExecutionEnvironment], None], parallelism: int) -> dict[str, Any]:
    """Run a job, as its leader sees it, until a cause is known; return the last document."""
    clock = ManualClock(STARTED_MS)
    TAKES.append(clock.advance)
    job = Diagnosed(program, parallelism, clock)
    row = Job(id="a" * 32, name="planted", state="RUNNING", created_at=STARTED_MS)
    live = LiveDocument(row, job.graph)
    dates = WallDates(clock.now_ms(), clock.monotonic_ms())
    while clock.monotonic_ms() < WITHIN_MS:
        job.findings()
        seen = live.build(job.cluster.driver.status(), {}, clock.now_ms(), (), dates)
        if seen.get("causes"):
            break
    job.end()
    TAKES.pop()
    return seen


@pytest.mark.parametrize(("program", "parallelism", "cause", "name"), PLANTED)
def test_the_page_and_the_command_line_name_the_planted_cause(
    program: Callable[[StreamExecutionEnvironment], None],
    parallelism: int,
    cause: str,
    name: str,
    cluster: FakeCluster,
    tidemark: Callable[..., int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("runtime.task.memory._CGROUP", tmp_path)
    CONTAINERS.append(Container(tmp_path))
    seen = watched(program, parallelism)
    shown = job_document(seen)
    [told, *_] = shown["derived"]["causes"].values()
    vertex = shown["static"]["vertices"][told["vertex"]]
    assert (told["cause"], name in vertex["name"]) == (cause, True)
    cluster.documents = [document() | seen | {"id": document()["id"], "name": "three numbers"}]
    assert tidemark("info", "three numbers") == 0
    why = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Why: ")]
    assert why[0] == f"Why: {vertex['name']} {told['text']}"
