"""The whole of `make run` killed, or stopped, and started again: jobs go on where they were, exactly."""

from __future__ import annotations

import signal
from pathlib import Path

import psutil
import pytest

from tests.cluster.stack import Stack, running_stack
from tests.e2e.counted import COUNTED, check_exactly_once, total
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(480)]

DEMO = "Flights live"
COUNTED_NAME = "counted numbers"
START_S = 120.0


@pytest.fixture(autouse=True)
def no_leaks() -> None:
    """Stacks are looked after below."""


def wait_for(stack: Stack, name: str) -> None:
    wait_until(lambda: stack.job(name)["state"] == "RUNNING", START_S, f"{name} runs")


def wait_for_attempt_after(stack: Stack, name: str, attempt: int) -> None:
    """Until a leader runs the job again, the page is served what the database knows of the last attempt."""
    wait_until(lambda: stack.live(name)["attempt"] > attempt, START_S, f"{name} begins again")


def kill_all(stack: Stack) -> None:
    processes = stack.processes()
    for process in processes:
        process.suspend()
    for process in processes:
        process.kill()
    psutil.wait_procs(processes, timeout=20)


def completed(stack: Stack, name: str) -> int:
    """Number of the job's latest checkpoint."""
    latest = stack.client.checkpoints(stack.job(name)["jid"])["latest"]["completed"]
    return 0 if latest is None else int(latest["id"])


@pytest.mark.parametrize("way", ["kill -9", "Ctrl-C"])
def test_jobs_go_on_exactly_after_a_restart_of_everything(tmp_path: Path, way: str) -> None:
    home, output = tmp_path / "home", tmp_path / "out"
    home.mkdir()
    with running_stack(home, TIDEMARK_SLOTS="4") as stack:
        client = stack.client
        artifact = client.upload(COUNTED)
        job_id = client.run(artifact, ["--output", str(output)], {}, 2, None)
        wait_for(stack, COUNTED_NAME)
        wait_for(stack, DEMO)
        wait_until(lambda: total(output) > 0 and completed(stack, DEMO) > 0, START_S, "checkpoints are complete")
        before_it = {name: stack.live(name) for name in (DEMO, COUNTED_NAME)}
        demo_id, last = stack.job(DEMO)["jid"], completed(stack, DEMO)
        if way == "kill -9":
            kill_all(stack)
        else:
            everything = stack.processes()
            stack.process.send_signal(signal.SIGINT)
            _, alive = psutil.wait_procs(everything, timeout=12)
            assert not alive
    before = total(output)
    with running_stack(home, TIDEMARK_SLOTS="4") as stack:
        for name, document in before_it.items():
            wait_for_attempt_after(stack, name, document["attempt"])
            wait_for(stack, name)
        assert (stack.job(COUNTED_NAME)["jid"], stack.job(DEMO)["jid"]) == (job_id, demo_id), "the same jobs"
        for name, document in before_it.items():
            after = stack.live(name)
            # whatever is stopped as planned is no failure of its jobs
            is_failure = int(way == "kill -9")
            assert after["restarts"] == document["restarts"] + is_failure, after["exceptions"]
            assert after["failures"] == document["failures"] + is_failure, after["exceptions"]
        restored = stack.client.checkpoints(demo_id)["latest"]["restored"]
        assert restored["id"] >= last
        wait_until(lambda: total(output) > before, START_S, "it goes on")
        request_id = stack.client.stop(job_id, None, "CANONICAL", drain=False)
        wait_until(lambda: stack.client.operation(job_id, request_id)["state"] == "COMPLETED", 60, "the stop")
        assert "error" not in stack.client.operation(job_id, request_id)["result"]
        assert stack.job(COUNTED_NAME)["state"] == "FINISHED"
        assert check_exactly_once(output) > before
        # what it does not need any more is gone
        assert not list((home / "checkpoints").glob(f"{job_id}/*"))
