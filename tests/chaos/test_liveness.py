"""A job that stands still behind a fault is a violation, whatever it says of itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, replace

import pytest

from tests.chaos import runner
from tests.chaos.program import ProgramStatus
from tests.chaos.runner import ChaosRun, StalledError

RUNNING = ProgramStatus(pid=1, state="RUNNING", attempt=0, completed=3)


class Watched(ChaosRun):
    """A run whose program is alive, and whose status is what the test writes."""

    is_alive = True

    def has_ended(self) -> bool:
        return not self.is_alive

    def _log_tail(self) -> str:
        return ""

    def says(self, status: ProgramStatus) -> None:
        (self.directory / "status.json").write_text(json.dumps(asdict(status)))


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    monkeypatch.setattr(runner, "LIVENESS_TIMEOUT_S", 0.2)
    monkeypatch.setattr(runner, "MOST_PATIENCE", 1.0)
    watched = Watched(7)
    yield watched
    watched.is_alive = False
    watched.close()


def test_a_job_that_says_running_and_does_nothing_hangs(run: Watched) -> None:
    run.says(RUNNING)
    with pytest.raises(StalledError, match="fault: output or a checkpoint, the job hangs: not within"):
        run.wait_recovered(RUNNING, since=0.0, restarts=False, fault="fault")


@pytest.mark.parametrize("sign", ["checkpoint", "output"])
def test_a_checkpoint_or_output_is_a_sign_of_life(run: Watched, sign: str) -> None:
    run.says(RUNNING)
    asked, looks = run.status, 0

    def status() -> ProgramStatus:
        nonlocal looks
        looks += 1
        found = asked()
        # at the next look it has got further
        if sign == "checkpoint":
            run.says(replace(found, completed=found.completed + 1))
        else:
            (run.directory / "out" / "part-0-0").write_bytes(b"")
        return found

    run.status = status  # type: ignore[method-assign]
    run._wait_progress("fault")
    # it compared what it had seen with what came then, and waited no longer
    assert 2 <= looks <= 3
