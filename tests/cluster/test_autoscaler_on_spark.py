"""A job that cannot keep up with one subtask, on a session cluster: its autoscaler gives it more, and says why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.stack import Stack, running_stack
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(400)]

RECORDS, PER_SECOND = 12_000, 250
#: one subtask does fewer than 150 records per second
PROGRAM = """
import sys
import time

from runtime.common.watermark_strategy import WatermarkStrategy
from runtime.connectors.datagen import DataGeneratorSource
from runtime.datastream.connectors.file_system import FileSink
from runtime.common.serialization import Encoder
from runtime.datastream import StreamExecutionEnvironment

directory, records, rate = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])


def slow(number):
    time.sleep(0.007)
    return f"{number}"


env = StreamExecutionEnvironment.get_execution_environment()
source = DataGeneratorSource(lambda index: index, count=records, rows_per_second=rate)
numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
sink = FileSink.for_row_format(directory, Encoder.simple_string_encoder()).build()
numbers.rebalance().map(slow).name("slow").sink_to(sink)
env.execute("slow")
"""
OPTIONS = {
    "execution.checkpointing.interval": "1 s",
    "job.autoscaler.stabilization.interval": "2 s",
    "job.autoscaler.metrics.window": "5 s",
    "job.autoscaler.vertex.max-parallelism": "3",
    "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling": "5 s",
}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running_stack(tmp_path_factory.mktemp("home"), TIDEMARK_SLOTS="4") as running:
        yield running


@pytest.fixture(autouse=True)
def no_leaks() -> None:
    """The stack outlives the tests; its processes are looked after by `running_stack`."""


def submit(stack: Stack, directory: Path, records: int, **options: str) -> str:
    program = directory / "slow.py"
    program.write_text(PROGRAM)
    out = directory / "out"
    args = [str(out), str(records), str(PER_SECOND)]
    return stack.client.run(stack.client.upload(program), args, OPTIONS | options, 1, None)


def parallelism(stack: Stack, job_id: str) -> dict[str, int]:
    return {vertex["name"]: vertex["parallelism"] for vertex in stack.client.live(job_id)["vertices"]}


def visible(directory: Path) -> list[str]:
    files = (path for path in directory.rglob("*") if path.is_file() and not path.name.startswith((".", "_")))
    return sorted((line for path in files for line in path.read_text().split()), key=int)


def test_a_job_that_cannot_keep_up_gets_subtasks_and_its_output_is_exact(stack: Stack, tmp_path: Path) -> None:
    job_id = submit(stack, tmp_path, RECORDS, **{"job.autoscaler.enabled": "true"})
    client = stack.client
    wait_until(lambda: client.live(job_id)["state"] == "RUNNING", 90, "the job runs")
    wait_until(lambda: client.autoscaler(job_id)["reason"].startswith(("stabilising", "measuring")), 30, "a reason")
    wait_until(lambda: bool(client.autoscaler(job_id)["decisions"]), 60, "a decision")
    took = wait_until(lambda: max(parallelism(stack, job_id).values()) >= 2, 60, "two subtasks")

    def first() -> dict[str, Any]:
        return dict(client.autoscaler(job_id)["decisions"][-1])

    wait_until(lambda: first()["cost_ms"] is not None, 30, "what the rescaling has cost")
    for change in first()["changes"].values():
        print(f"{change['name']} from {change['before']} to {change['after']}: {change['reason']}")
    [change] = [change for change in first()["changes"].values() if change["name"].startswith("slow")]
    print(f"two subtasks {took:.1f} s after the decision; cost {first()['cost_ms']:.0f} ms")
    assert (change["before"], change["after"]) == (1, 2)
    assert "Busy" in change["reason"] and "needs 2 subtasks at 70%" in change["reason"]
    assert client.autoscaler(job_id)["enabled"] is True
    wait_until(lambda: client.live(job_id)["state"] == "FINISHED", 200, "the job's end")
    assert visible(tmp_path / "out") == [str(number) for number in range(RECORDS)]
    ended = client.autoscaler(job_id)
    assert (ended["enabled"], ended["vertices"]) == (False, {})
    assert all(change["after"] <= 3 for d in ended["decisions"] for change in d["changes"].values())


def test_it_is_off_until_it_is_switched_on(stack: Stack, tmp_path: Path) -> None:
    job_id = submit(stack, tmp_path, 1_000_000)
    client = stack.client
    wait_until(lambda: client.live(job_id)["state"] == "RUNNING", 90, "the job runs")
    assert client.autoscaler(job_id) == {
        "enabled": False,
        "switched": None,
        "reason": "",
        "vertices": {},
        "decisions": [],
    }
    assert client.switch_autoscaler(job_id, True)["enabled"] is True
    wait_until(lambda: max(parallelism(stack, job_id).values()) >= 2, 90, "two subtasks")
    assert client.switch_autoscaler(job_id, False)["enabled"] is False
    wait_until(lambda: client.live(job_id)["autoscaler"] == {"enabled": False}, 30, "it is off")
    request = client.rescale(job_id, {v["id"]: 1 for v in client.live(job_id)["vertices"]})
    wait_until(lambda: client.operation(job_id, request)["state"] == "COMPLETED", 60, "what a user wants counts")
    assert client.operation(job_id, request)["result"].get("error") is None
    wait_until(lambda: set(parallelism(stack, job_id).values()) == {1}, 30, "one subtask")
    client.cancel(job_id)
    wait_until(lambda: client.live(job_id)["state"] == "CANCELED", 30, "the job's end")
