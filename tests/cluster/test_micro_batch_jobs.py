"""Jobs whose tasks run in passes, on a cluster: a TaskManager drives them, whatever is killed, and streams move on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from backend.cluster.replacement_machine import OPEN_STATES
from runtime.client import cli
from runtime.client.rest import RestoreRequest
from runtime.execution.batch_drivers import MODULE
from tests.cluster.stack import Stack, running_stack
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

COUNTS = """
import sys
from runtime.common import Encoder, Types, WatermarkStrategy
from runtime.connectors.datagen import DataGeneratorSource
from runtime.datastream import MapFunction, StreamExecutionEnvironment
from runtime.datastream.connectors.file_system import FileSink

directory, count, rate = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
env = StreamExecutionEnvironment.get_execution_environment()
is_broken = "broken" in sys.argv and env.get_configuration().get_string("execution.mode", "") == "micro-batch"
source = DataGeneratorSource(lambda index: index, count, rows_per_second=rate, type_info=Types.LONG())
numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
class Check(MapFunction):
    def open(self, runtime_context):
        if is_broken:
            raise ValueError("not in batches")
    def map(self, number):
        if number % 1000 == 0:
            print("seen", number)
        return number
counted = numbers.map(Check(), Types.LONG()).key_by(lambda number: number % 7, Types.LONG())
counted = counted.map(lambda number: (number % 7, number), Types.TUPLE([Types.LONG(), Types.LONG()])).uid("count")
sink = FileSink.for_row_format(directory, Encoder.simple_string_encoder()).build()
counted.map(lambda pair: str(pair[1]), Types.STRING()).sink_to(sink).uid("files")
env.execute("counts")
"""
SLOTS, DEMO_SLOTS = 6, 2
"""Of the TaskManager, and of the demonstration's job, which runs beside."""
BATCHES = {
    "execution.mode": "micro-batch",
    "execution.checkpointing.interval": "500 ms",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "20",
    "restart-strategy.fixed-delay.delay": "100 ms",
}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running_stack(tmp_path_factory.mktemp("home"), TIDEMARK_SLOTS=str(SLOTS)) as running:
        yield running


@pytest.fixture(scope="module")
def program(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> str:
    written = tmp_path_factory.mktemp("program") / "counts.py"
    written.write_text(COUNTS)
    return stack.client.upload(written)


def drivers(stack: Stack) -> list[psutil.Process]:
    """Return the processes that drive passes."""
    return [process for process in stack.processes() if MODULE in " ".join(arguments(process))]


def arguments(process: psutil.Process) -> list[str]:
    """Return the command line of a process; nothing if it has just ended."""
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


def free_slots(stack: Stack) -> int:
    [taskmanager] = stack.client.cluster()["taskmanagers"]
    return int(taskmanager["free_slots"])


def batches(stack: Stack, job: str) -> int:
    return int(stack.client.checkpoints(job)["counts"]["completed"])


def told(stack: Stack, job: str) -> list[dict[str, Any]]:
    """Return the traces of the job's batches."""
    document = stack.client.batches(job)
    assert document["micro_batches"] and all(batch["kind"] == "data" for batch in document["batches"])
    return list(document["batches"])


def state(stack: Stack, job: str) -> str:
    return str(stack.client.live(job)["state"])


def switch_state(stack: Stack, job: str) -> str:
    found = stack.client.switch_of(job)
    return "" if found is None else str(found["state"])


def committed(directory: Path) -> list[int]:
    files = [file for file in directory.rglob("part-*") if not file.name.startswith(".")]
    return sorted(int(line) for file in files for line in file.read_text().split())


def savepoint(stack: Stack, job: str) -> str:
    """Stop a job; returns the location of its savepoint."""
    request = stack.client.stop(job, None, "CANONICAL", drain=False)
    wait_until(lambda: stack.client.operation(job, request)["state"] == "COMPLETED", 60, "the savepoint")
    result: dict[str, Any] = stack.client.operation(job, request)["result"]
    assert "location" in result, result
    return str(result["location"])


def test_a_cancelled_job_leaves_nothing(stack: Stack, program: str, tmp_path: Path) -> None:
    free = SLOTS - DEMO_SLOTS
    wait_until(lambda: not drivers(stack) and free_slots(stack) == free, 60, "only the demonstration holds slots")
    job = stack.client.run(program, [str(tmp_path / "written"), "100000", "100"], BATCHES, 2, None)
    wait_until(lambda: state(stack, job) == "RUNNING" and batches(stack, job) > 1, 120, "batches")
    wait_until(lambda: free_slots(stack) == free - 2, 15, "the slots are taken")
    wait_until(lambda: any(b["read_records"] == b["write_records"] > 0 for b in told(stack, job)), 60, "a batch's rows")
    numbers = [batch["number"] for batch in told(stack, job)]
    assert numbers == list(range(len(numbers) - 1, -1, -1))
    # Spark says where the time of a batch went when the next one begins
    assert told(stack, job)[-1]["spark_phases"]["addBatch"] > 0
    stack.client.cancel(job)
    wait_until(lambda: state(stack, job) == "CANCELED", 30, "the job's end")
    wait_until(lambda: not drivers(stack) and free_slots(stack) == free, 15, "the driver's end")


def test_killed_drivers_repeat_nothing_and_the_job_goes_on_continuously(
    stack: Stack, program: str, tmp_path: Path
) -> None:
    written = tmp_path / "written"
    slow, fast = [[str(written), "100000", rate] for rate in ("100", "1e6")]
    job = stack.client.run(program, slow, BATCHES, 2, None)
    wait_until(lambda: state(stack, job) == "RUNNING" and batches(stack, job) > 2, 120, "batches")
    [subtask] = stack.client.live(job)["vertices"][0]["subtasks"][:1]
    [driver] = drivers(stack)
    assert subtask["pid"] == driver.pid and len(committed(written)) > 0
    for _ in range(2):
        [driver] = drivers(stack)
        known = batches(stack, job)
        driver.send_signal(signal.SIGKILL)
        wait_until(lambda known=known: batches(stack, job) > known + 2, 120, "batches of another driver")  # type: ignore[misc]
    assert stack.client.live(job)["restarts"] >= 2
    location = savepoint(stack, job)
    wait_until(lambda: state(stack, job) == "FINISHED" and not drivers(stack), 60, "the job's end")
    options = {"execution.checkpointing.interval": "500 ms"}
    following = stack.client.run(program, slow, options, 2, None, RestoreRequest(location))
    wait_until(lambda: batches(stack, following) > 2, 120, "checkpoints of the continuous job")
    location = savepoint(stack, following)
    assert 0 < len(committed(written)) < 100_000
    back = stack.client.run(program, fast, BATCHES, 1, None, RestoreRequest(location))
    wait_until(lambda: state(stack, back) == "FINISHED", 240, "the end of the input")
    assert committed(written) == list(range(100_000))
    assert "were not ended" not in (stack.home / "logs" / "taskmanager.log").read_text()


@pytest.mark.slow
def test_a_job_is_switched_to_batches_and_back_by_one_command(
    stack: Stack, program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMARK_URL", f"http://127.0.0.1:{stack.port}")
    monkeypatch.setenv("TIDEMARK_TOKEN", (stack.home / "admin-token").read_text().strip())
    written, options = tmp_path / "written", {**BATCHES, "execution.mode": "continuous"}
    job = stack.client.run(program, [str(written), "6000", "100"], options, 2, None)
    for execution in ("micro-batch", "continuous"):
        wait_until(lambda job=job: state(stack, job) == "RUNNING" and batches(stack, job) > 1, 120, "checkpoints")  # type: ignore[misc]
        assert cli.main(["switch", job, execution, "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert (told["stopped"], state(stack, job)) == (job, "FINISHED")
        job = told["jobid"]
    wait_until(lambda: state(stack, job) == "FINISHED", 240, "the end of the input")
    assert committed(written) == list(range(6000))


@pytest.mark.slow
def test_a_switch_goes_on_although_its_command_and_the_leader_are_killed(
    stack: Stack, program: str, tmp_path: Path
) -> None:
    written, options = tmp_path / "written", {**BATCHES, "execution.mode": "continuous"}
    job = stack.client.run(program, [str(written), "6000", "100", "--password", "canary-7f3a"], options, 2, None)
    wait_until(lambda: state(stack, job) == "RUNNING" and batches(stack, job) > 1, 120, "checkpoints")
    server = {
        "TIDEMARK_URL": f"http://127.0.0.1:{stack.port}",
        "TIDEMARK_TOKEN": (stack.home / "admin-token").read_text().strip(),
    }
    command = [sys.executable, "-m", "runtime.client", "switch", job, "micro-batch"]
    with subprocess.Popen(command, env=os.environ | server, stdout=subprocess.DEVNULL) as client:
        wait_until(lambda: stack.client.switch_of(job) is not None, 60, "the request")
        client.kill()
    wait_until(lambda: switch_state(stack, job) != "CHECKED", 60, "the first step of the switch")
    os.kill(stack.pid_of("jobmanager"), signal.SIGKILL)
    wait_until(lambda: switch_state(stack, job) not in OPEN_STATES, 240, "the end of the switch")
    told = stack.client.switch_of(job)
    assert told is not None and told["state"] == "RUNNING", told
    assert state(stack, job) == "FINISHED" and "canary-7f3a" not in str(told)
    following = told["goes_on_as"]
    assert stack.client.batches(following)["micro_batches"] and stack.client.switch_of(following) == told
    wait_until(lambda: state(stack, following) == "FINISHED", 240, "the end of the input")
    assert committed(written) == list(range(6000))


@pytest.mark.slow
def test_a_job_that_fails_in_batches_goes_on_as_before(
    stack: Stack,
    program: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TIDEMARK_URL", f"http://127.0.0.1:{stack.port}")
    monkeypatch.setenv("TIDEMARK_TOKEN", (stack.home / "admin-token").read_text().strip())
    written, options = tmp_path / "written", {**BATCHES, "execution.mode": "continuous"}
    job = stack.client.run(program, [str(written), "4000", "100", "broken"], options, 2, None)
    wait_until(lambda: state(stack, job) == "RUNNING" and batches(stack, job) > 1, 120, "checkpoints")
    assert cli.main(["switch", job, "micro-batch"]) == 1
    assert "not in batches" in capsys.readouterr().err
    told = stack.client.switch_of(job)
    assert told is not None and told["state"] == "ROLLED_BACK"
    again = told["goes_on_as"]
    assert not stack.client.batches(again)["micro_batches"]
    wait_until(lambda: state(stack, again) == "FINISHED", 240, "the end of the input")
    assert committed(written) == list(range(4000))


@pytest.mark.slow
def test_a_leader_that_dies_costs_no_batch(stack: Stack, program: str, tmp_path: Path) -> None:
    written = tmp_path / "written"
    slow, fast = [[str(written), "50000", rate] for rate in ("100", "1e6")]
    job = stack.client.run(program, slow, BATCHES, 2, None)
    wait_until(lambda: state(stack, job) == "RUNNING" and batches(stack, job) > 1, 120, "batches")
    wait_until(lambda: len(drivers(stack)) == 1, 15, "the end of earlier jobs")
    [before] = drivers(stack)
    known = batches(stack, job)
    os.kill(stack.pid_of("jobmanager"), signal.SIGKILL)
    wait_until(lambda: batches(stack, job) > known + 2, 120, "batches under the next leader")
    [after] = drivers(stack)
    assert after.pid != before.pid
    location = savepoint(stack, job)
    following = stack.client.run(program, fast, BATCHES, 2, None, RestoreRequest(location))
    wait_until(lambda: state(stack, following) == "FINISHED", 240, "the end of the input")
    assert committed(written) == list(range(50_000))


@pytest.mark.slow
def test_a_job_that_takes_what_is_there_stops_by_itself(stack: Stack, program: str, tmp_path: Path) -> None:
    once = BATCHES | {"execution.micro-batch.trigger": "once"}
    job = stack.client.run(program, [str(tmp_path / "written"), "100000", "100"], once, 2, None)
    wait_until(lambda: state(stack, job) == "FINISHED", 120, "the job's end")
    assert any(saved["job_id"] == job for saved in stack.client.savepoints())


@pytest.mark.slow
def test_the_output_of_a_batch_comes_once_although_its_driver_is_killed(
    stack: Stack, program: str, tmp_path: Path
) -> None:
    written = tmp_path / "written"
    blocking = {"execution.runtime-mode": "BATCH", "execution.batch-shuffle-mode": "ALL_EXCHANGES_BLOCKING"}
    wait_until(lambda: not drivers(stack), 60, "the end of earlier jobs")
    job = stack.client.run(program, [str(written), "3000", "200"], BATCHES | blocking, 2, None)
    wait_until(lambda: state(stack, job) == "RUNNING" and len(drivers(stack)) == 1, 120, "the batch runs")
    drivers(stack)[0].send_signal(signal.SIGKILL)
    wait_until(lambda: stack.client.live(job)["restarts"] == 1, 120, "another attempt")
    assert committed(written) == []
    wait_until(lambda: state(stack, job) == "FINISHED", 240, "the end of the batch")
    assert committed(written) == list(range(3000))
    assert not [file for file in written.rglob("*") if file.is_file() and file.name.startswith(".")]
    wait_until(lambda: not drivers(stack), 30, "the driver's end")


def test_a_job_that_fits_on_no_taskmanager_says_so(stack: Stack, program: str, tmp_path: Path) -> None:
    slots = int(stack.client.cluster()["taskmanagers"][0]["slots"])
    job = stack.client.run(program, [str(tmp_path / "written"), "100", "100"], BATCHES, slots + 1, None)
    wait_until(lambda: f"needs {slots + 1} slots" in str(stack.client.live(job)["waiting_for"]), 60, "the reason")
    stack.client.cancel(job)
