"""A job with room between its bounds on TaskManagers that come, drain and die: the output stays exact."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cluster.proving import RECOVERY_S, ProvingJob, proving_job
from tests.cluster.stack import Stack, running_stack
from tests.cluster.test_stack import DEMO, is_running
from tests.cluster.test_two_taskmanagers import second_taskmanager, taskmanagers_of
from tests.support.standalone import standalone_cluster
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

START_S = 180.0
OPTIONS = {
    "jobmanager.scheduler": "adaptive",
    "jobmanager.adaptive-scheduler.submission.resource-stabilization-timeout": "1 s",
    "jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout": "2 s",
    "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling": "2 s",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "100",
    "restart-strategy.fixed-delay.delay": "500 ms",
}


def wait_until_it_runs_with(proving: ProvingJob, parallelism: int) -> float:
    """Wait until all vertices have a parallelism, and output goes on; seconds."""

    def has() -> bool:
        live = proving.live()
        return live["state"] == "RUNNING" and live["parallelism"] == parallelism

    took = wait_until(has, RECOVERY_S, f"parallelism {parallelism}")
    proving.wait_until_it_moves(f"it runs with {parallelism}")
    proving.check_that_nothing_visible_has_changed()
    return took


@contextmanager
def another_taskmanager(stack: Stack, master: str) -> Iterator[subprocess.Popen[bytes]]:
    """A second TaskManager, from its registration on: on a busy machine a JVM takes its time."""
    with second_taskmanager(stack, master) as second:
        wait_until(lambda: stack.client.cluster()["slots_total"] == 4, START_S, "the second TaskManager registers")
        yield second


def test_a_job_takes_what_slots_there_are_and_its_output_stays_exact(tmp_path: Path) -> None:
    (tmp_path / "spark").mkdir()
    (tmp_path / "job").mkdir()
    with (
        standalone_cluster(tmp_path / "spark", workers=2, cores=2) as master,
        running_stack(tmp_path / "home", TIDEMARK_SPARK_MASTER=master, TIDEMARK_SLOTS="2") as stack,
    ):
        client = stack.client
        wait_until(lambda: is_running(stack, DEMO), 60, "the demo runs")
        client.cancel(stack.job(DEMO)["jid"])
        with proving_job(stack, tmp_path / "job", OPTIONS, parallelism=4) as proving:
            took = {"start": wait_until_it_runs_with(proving, 2)}
            live = proving.live()
            assert live["attempt"] == 0
            assert {(v["lower_bound"], v["upper_bound"]) for v in live["vertices"]} == {(1, 4)}
            assert live["scaling"] == "2 of 4 wanted slots; waits for slots"
            with another_taskmanager(stack, master) as second:
                took["grow"] = wait_until_it_runs_with(proving, 4)
                live = proving.live()
                assert (len(taskmanagers_of(live)), live["scaling"]) == (2, "")

                second.send_signal(signal.SIGTERM)
                took["shrink"] = wait_until_it_runs_with(proving, 2)
                assert second.wait(40) == 0
            # neither growing nor shrinking is a failure, or a restart
            live = proving.live()
            assert (live["restarts"], live["failures"], live["exceptions"]) == (0, 0, [])
            assert live["attempt"] >= 2

            with another_taskmanager(stack, master) as second:
                wait_until_it_runs_with(proving, 4)
                second.kill()
                took["shrink after a death"] = wait_until_it_runs_with(proving, 2)
            live = proving.live()
            assert (live["restarts"] >= 1, live["scaling"]) == (True, "2 of 4 wanted slots; waits for slots")
            proving.stop()
            print({what: round(seconds, 1) for what, seconds in took.items()})
