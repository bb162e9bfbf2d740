"""`make run` as a whole: real processes, real kills. One stack serves the tests of this file, in their order."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.cluster.leaks import answers_with, frames_of, stored_with, subscribe
from tests.cluster.log_reading import read_log
from tests.cluster.proving import proving_job
from tests.cluster.stack import ROOT, Stack, running_stack
from tests.support.waiting import wait_until

# a loaded machine takes a minute to start a JVM
pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

DEMO = "Flights live"
HOLDS_SLOTS = """
from runtime.common.watermark_strategy import WatermarkStrategy
from runtime.connectors.datagen import DataGeneratorSource
from runtime.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
source = DataGeneratorSource(lambda index: index, rows_per_second=100)
env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").map(lambda x: f"n {x}").print()
env.execute("numbers")
"""

TWO_REGIONS = """
from runtime.common.watermark_strategy import WatermarkStrategy
from runtime.connectors.datagen import DataGeneratorSource
from runtime.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
for side in ("left", "right"):
    source = DataGeneratorSource(lambda index: index, rows_per_second=100)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), side).slot_sharing_group(side)
    numbers.map(lambda x: f"n {x}").print()
env.execute("two regions")
"""

SAMPLED = """
import threading
import time
from runtime.common.watermark_strategy import WatermarkStrategy
from runtime.connectors.datagen import DataGeneratorSource
from runtime.datastream import StreamExecutionEnvironment

def burn(seconds):
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        sum(range(100))

def slow():
    burn(0.007)

def fast():
    burn(0.003)

def work(number):
    slow()
    fast()
    if number == 3000:
        threading.Event().wait()
    return number

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
source = DataGeneratorSource(lambda index: index, rows_per_second=1000)
numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
numbers.rebalance().map(work).name("work").print()
env.execute("sampled")
"""
"""Seven of ten parts of its time in one function; hangs after half a minute."""

MARK = "k4n4ry"
"""In all canaries: what is left of one after another was taken out of it is found, too."""
CANARY, REFERRED, FILED = f"{MARK}-8d1f0c", f"{MARK}-r3f-77aa01", f"{MARK}-f1l-9c3b02"
LEAKY = """
import logging
import os
import sys
from runtime.common import SecretRef, secret_text
from runtime.common.watermark_strategy import WatermarkStrategy
from runtime.connectors.datagen import DataGeneratorSource
from runtime.datastream import StreamExecutionEnvironment
from runtime.operators import MapFunction

secrets = [
    SecretRef("pg-main", "url"),
    SecretRef("shop", "url"),
    secret_text("postgresql://tide:${env:SHOP_REFERRED}@db/shop"),
    secret_text("${file:FILE}"),
]

class Leak(MapFunction):
    def open(self, context):
        self.secrets = [*map(SecretRef.reveal, secrets), context.get_job_parameter("db.password", "none")]
        self.secrets.append(context.get_job_parameter("referred", "none"))

    def map(self, number):
        if number % 100 == 50:
            print("printed", self.secrets, sys.argv, dict(os.environ))
            logging.getLogger("leaky").warning("logged %s %s", self.secrets, dict(os.environ))
        if number == 200:
            raise RuntimeError(f"cannot reach {self.secrets} with {os.environ['SHOP_PASSWORD']}")
        return number

print("planned", sys.argv, dict(os.environ))
env = StreamExecutionEnvironment.get_execution_environment()
env.get_config().set_global_job_parameters(
    {"db.password": sys.argv[2], "db.url": sys.argv[3], "referred": "${env:SHOP_REFERRED}"}
)
source = DataGeneratorSource(lambda index: index, rows_per_second=100)
numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
numbers.map(Leak()).name("to " + sys.argv[2]).print()
env.execute("leaky")
"""
"""Shows what it was given wherever it can; what its functions need while they run has names there."""


@pytest.fixture(scope="module")
def referred(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that references may name."""
    path = tmp_path_factory.mktemp("files") / "referred"
    path.write_text(f"{FILED}\n")
    return path


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, referred: Path) -> Iterator[Stack]:
    canaries = {"SHOP_PASSWORD": CANARY, "TIDEMARK_SECRET_SHOP_URL": f"postgresql://tide:{CANARY}@db/shop"}
    canaries |= {"SHOP_REFERRED": REFERRED, "TIDEMARK_REFERENCE_VARIABLES": "SHOP_REFERRED"}
    canaries["TIDEMARK_REFERENCE_FILES"] = str(referred)
    with running_stack(tmp_path_factory.mktemp("home"), TIDEMARK_SLOTS="4", **canaries) as running:
        yield running


def supervisor(**environment: str) -> subprocess.CompletedProcess[str]:
    """A `make run` that should not come far."""
    return subprocess.run(
        (sys.executable, "-m", "backend.supervisor"),
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def records_in(stack: Stack) -> int:
    return sum(int(vertex["metrics"]["records_in"]) for vertex in stack.live(DEMO)["vertices"])


def lives(pid: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def is_running(stack: Stack, name: str) -> bool:
    document = stack.live(name)
    return document["state"] == "RUNNING" and all(vertex["state"] == "RUNNING" for vertex in document["vertices"])


def test_the_demo_moves(stack: Stack) -> None:
    wait_until(lambda: is_running(stack, DEMO), 30, "the demo runs")
    before = records_in(stack)
    wait_until(lambda: records_in(stack) > before, 10, "records move")
    for vertex in stack.live(DEMO)["vertices"]:
        for subtask in vertex["subtasks"]:
            times = subtask["metrics"]
            assert times["busy"] + times["idle"] + times["back_pressured"] == 1000
            assert psutil.pid_exists(subtask["pid"])


def test_a_frozen_jobmanager_is_told_within_five_seconds(stack: Stack) -> None:
    wait_until(lambda: not stack.live(DEMO)["freshness"]["is_stale"], 10, "a live document")
    pid = stack.pid_of("jobmanager")
    os.kill(pid, signal.SIGSTOP)
    try:
        wait_until(lambda: bool(stack.live(DEMO)["freshness"]["is_stale"]), 5, "the document calls itself old")
        told = stack.live(DEMO)["freshness"]
        assert told["source"] == "live" and told["age_ms"] > 3_000
        assert told["reason"].startswith("The JobManager has sent no heartbeat for")
    finally:
        os.kill(pid, signal.SIGCONT)
    wait_until(lambda: not stack.live(DEMO)["freshness"]["is_stale"], 10, "a live document again")


def test_secrets_are_their_owners_only_and_not_in_the_slots_environment(stack: Stack) -> None:
    for name in ("admin-token", "secret-key", "redis-url"):
        assert (stack.home / name).stat().st_mode & 0o077 == 0, name
    pid = stack.live(DEMO)["vertices"][0]["subtasks"][0]["pid"]
    names = psutil.Process(pid).environ()
    assert not {
        "REDIS_URL",
        "DATABASE_URL",
        "TIDEMARK_ADMIN_TOKEN",
        "TIDEMARK_CLUSTER_KEY",
        "TIDEMARK_SECRET_KEY",
    } & set(names)


def test_secrets_of_jobs_are_in_the_environment_of_jobmanagers_only(stack: Stack) -> None:
    [supervisor, *others] = stack.processes()
    assert supervisor.environ()["SHOP_REFERRED"] == REFERRED
    holders = {name for name in ("web", "jobmanager", "taskmanager") if stack.pid_of(name) in _holders(others)}
    assert holders == {"jobmanager"} and len(_holders(others)) == 1


def _holders(processes: Iterable[psutil.Process]) -> set[int]:
    """Return the processes that have a secret of jobs, but for SHOP_PASSWORD, which is none."""
    secret = {"SHOP_REFERRED", "TIDEMARK_SECRET_SHOP_URL"}
    found: set[int] = set()
    for process in processes:
        # slots come and go
        with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            if secret & set(process.environ()):
                found.add(process.pid)
    return found


def test_a_secret_put_through_everything_is_in_nothing_that_the_cluster_tells_or_stores(
    stack: Stack, referred: Path, tmp_path: Path
) -> None:
    kept = stack.home / "secrets.json"
    url = f"postgresql://tide:{CANARY}@db/shop"
    kept.write_text(json.dumps({"pg-main": {"url": url}}))
    kept.chmod(0o600)
    program = tmp_path / "leaky.py"
    program.write_text(LEAKY.replace("FILE}", f"{referred}}}"))
    options = {"execution.checkpointing.interval": "500 ms", "api.token": CANARY, "shop.url": url}
    arguments = ["--db-password", CANARY, url, f"--token={CANARY}"]
    with frames_of(stack) as (socket, frames):
        subscribe(socket, "cluster")
        job = stack.client.run(stack.client.upload(program), arguments, options, 1, None)
        for topic in ("", "/operators"):
            subscribe(socket, f"job:{job}{topic}")
        wait_until(lambda: stack.client.live(job)["restarts"] > 0, 60, "the failure that quotes the secrets")
        document = stack.client.live(job)
        [vertex] = [vertex["id"] for vertex in document["vertices"] if "to <" in vertex["name"]]
        subscribe(socket, f"job:{job}/vertex:{vertex}")
        wait_until(lambda: stack.client.checkpoints(job)["counts"]["completed"] > 0, 60, "a checkpoint behind it")
        message = document["exceptions"][0]["message"]
        assert "cannot reach ['<" in message and "] with <" in message
        names = {"job_id": job, "application_id": job, "vertex_id": vertex, "index": "0", "attempt": "0"}
        found, good = answers_with(stack, MARK, names | {"taskmanager_id": document["exceptions"][0]["taskmanager"]})
        assert good > 50 and not found
        stack.client.cancel(job)
        wait_until(lambda: stack.client.live(job)["state"] == "CANCELED", 20, "the job's end")
        wait_until(lambda: any('"snapshot"' in frame and vertex in frame for frame in frames), 10, "the vertex")
    assert len(frames) > 5 and not any(MARK in frame for frame in frames)
    attempt = stack.home / "logs" / "jobs" / job / "attempt-0"
    printed = [read_log(attempt / f"slot-0.{kind}") for kind in ("out", "log")]
    shown = ("<env:SHOP_REFERRED>", "<file:/", "<env:SHOP_REFERRED>@db")
    assert all(any(name in text for text in printed) for name in shown)
    assert any("printed ['<" in text for text in printed) and any("logged ['<" in text for text in printed)
    assert not any(MARK in text for text in printed)
    assert not stored_with(stack, MARK, {kept})
    assert not any(MARK in line for line in stack.lines)
    kept.unlink()


def test_a_second_run_on_the_same_home_is_refused_in_one_line(stack: Stack) -> None:
    result = supervisor(TIDEMARK_HOME=str(stack.home))
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    assert f"already runs in {stack.home} (process {stack.process.pid})" in result.stderr


def test_a_taken_port_is_refused_in_one_line(stack: Stack, tmp_path: Path) -> None:
    result = supervisor(TIDEMARK_HOME=str(tmp_path), TIDEMARK_PORT=str(stack.port))
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    assert f"port {stack.port}" in result.stderr


def test_a_job_without_enough_slots_waits_and_starts_when_they_come(stack: Stack, tmp_path: Path) -> None:
    program = tmp_path / "numbers.py"
    program.write_text(HOLDS_SLOTS)
    artifact = stack.client.upload(program)
    first = stack.client.run(artifact, parallelism=2, args=[], configuration={}, entry=None)
    wait_until(lambda: stack.client.live(first)["state"] == "RUNNING", 30, "the first job runs")
    second = stack.client.run(artifact, parallelism=2, args=[], configuration={}, entry=None)
    wait_until(lambda: "needs 2 slots" in stack.client.live(second)["waiting_for"], 10, "the second job says why")
    stack.client.cancel(first)
    wait_until(lambda: stack.client.live(first)["state"] == "CANCELED", 10, "the first job's end")
    wait_until(lambda: stack.client.live(second)["state"] == "RUNNING", 30, "the second job runs")
    printed = stack.home / "logs" / "jobs" / second / "attempt-0" / "slot-0.out"
    wait_until(lambda: "n " in read_log(printed), 10, "what it prints")
    stack.client.cancel(second)
    wait_until(lambda: stack.client.live(second)["state"] == "CANCELED", 10, "the second job's end")


def test_a_region_whose_process_dies_is_restarted_alone(stack: Stack, tmp_path: Path) -> None:
    program = tmp_path / "regions.py"
    program.write_text(TWO_REGIONS)
    checkpoints = {"execution.checkpointing.interval": "1 s"}
    job = stack.client.run(stack.client.upload(program), parallelism=1, args=[], configuration=checkpoints, entry=None)

    def subtasks() -> dict[str, tuple[int, int]]:
        """Attempt and process of each vertex."""
        vertices = stack.client.live(job)["vertices"]
        return {v["name"]: (v["subtasks"][0]["attempt"], v["subtasks"][0]["pid"]) for v in vertices}

    wait_until(lambda: is_running(stack, "two regions"), 60, "both regions run")
    left, right = sorted(name for name in subtasks())
    before = subtasks()
    [taskmanager] = {s["taskmanager"] for v in stack.client.live(job)["vertices"] for s in v["subtasks"]}
    os.kill(before[right][1], signal.SIGKILL)
    wait_until(lambda: subtasks()[right][0] == 1 and is_running(stack, "two regions"), 30, "one region runs again")
    assert subtasks()[left] == before[left]
    document = stack.client.live(job)
    assert document["attempt"] == 1
    failure = document["exceptions"][0]
    assert failure["location"].endswith(f":{before[right][1]}") and failure["taskmanager"] == taskmanager
    stack.client.cancel(job)
    wait_until(lambda: stack.client.live(job)["state"] == "CANCELED", 10, "the job's end")


@pytest.mark.slow
def test_what_a_vertex_does_is_sampled_also_while_a_call_hangs(stack: Stack, tmp_path: Path) -> None:
    program = tmp_path / "sampled.py"
    program.write_text(SAMPLED)
    # the call never returns: when the job is cancelled, its slot is killed
    impatient = {"task.cancellation.timeout": "3 s"}
    job = stack.client.run(stack.client.upload(program), [], impatient, 1, None)
    wait_until(lambda: is_running(stack, "sampled"), 60, "the job runs")
    [vertex] = [v["id"] for v in stack.live("sampled")["vertices"] if v["name"].startswith("work")]

    def sample(duration_ms: int) -> dict[str, Any]:
        stacks = stack.client.stacks(job, vertex)
        before = 0 if stacks is None else stacks["number"]
        stack.client.sample_stacks(job, vertex, duration_ms)
        found: list[dict[str, Any]] = []

        def is_there() -> bool:
            stacks = stack.client.stacks(job, vertex)
            found[:] = [stacks] if stacks is not None and stacks["number"] > before else []
            return bool(found)

        wait_until(is_there, duration_ms / 1000 + 20, "the samples")
        return found[0]

    samples = sample(5_000)

    def share(function: str) -> float:
        on_cpu = sum(
            count
            for _, frames, count, _ in samples["stacks"]
            if any(samples["frames"][frame].startswith(f"{function} (sampled.py:") for frame in frames)
        )
        return float(on_cpu / sum(count for _, _, count, _ in samples["stacks"]))

    assert samples["subtasks"] == [0] and samples["count"] > 100
    assert share("slow") == pytest.approx(0.7, abs=0.1)
    assert share("fast") == pytest.approx(0.3, abs=0.1)
    wait_until(lambda: bool(stack.live("sampled")["stalls"]), 120, "the call that hangs")
    threads = sample(0)["threads"]
    assert any("threading.Event().wait()" in thread["stack"] for thread in threads)
    stack.client.cancel(job)
    wait_until(lambda: stack.client.live(job)["state"] == "CANCELED", 60, "the job's end")


def test_jobs_run_on_while_redis_is_away_and_commands_reach_them_afterwards(stack: Stack, tmp_path: Path) -> None:
    before = stack.live(DEMO)
    redis = stack.pid_of("redis")
    os.kill(redis, signal.SIGKILL)
    wait_until(lambda: stack.pid_of("redis") != redis, 10, "another Redis")
    wait_until(lambda: stack.live(DEMO)["version"] > before["version"] + 2, 20, "news again")
    after = stack.live(DEMO)
    assert (after["attempt"], after["restarts"]) == (before["attempt"], before["restarts"])
    program = tmp_path / "numbers.py"
    program.write_text(HOLDS_SLOTS)
    job = stack.client.run(stack.client.upload(program), [], {}, 1, None)
    wait_until(lambda: stack.client.live(job)["state"] == "RUNNING", 40, "a job that was deployed afterwards")
    stack.client.cancel(job)
    wait_until(lambda: stack.client.live(job)["state"] == "CANCELED", 10, "its end")


def test_a_killed_jobmanager_is_replaced_and_jobs_do_not_notice(stack: Stack, tmp_path: Path) -> None:
    with proving_job(stack, tmp_path) as proving:
        proving.wait_until_it_moves("the self-proving job runs")
        before, slots, completed = stack.live(DEMO), proving.slots(), proving.completed()
        leader = stack.pid_of("jobmanager")
        os.kill(leader, signal.SIGKILL)
        wait_until(lambda: stack.pid_of("jobmanager") != leader, 30, "another jobmanager")
        wait_until(lambda: proving.completed() > completed, 40, "the next checkpoint")
        wait_until(lambda: is_running(stack, DEMO), 40, "the demo runs")
        after = stack.live(DEMO)
        assert (after["attempt"], after["restarts"]) == (before["attempt"], before["restarts"]), after["exceptions"]
        assert proving.live()["attempt"] == 0, proving.live()["exceptions"]
        assert proving.slots() == slots
        proving.wait_until_it_moves("the self-proving job goes on")
        proving.stop()


def test_a_taskmanager_whose_jvm_died_ends_and_is_replaced(stack: Stack) -> None:
    before = stack.live(DEMO)
    taskmanager = stack.pid_of("taskmanager")
    [jvm] = [p for p in psutil.Process(taskmanager).children() if "java" in p.name()]
    slots = [subtask["pid"] for vertex in before["vertices"] for subtask in vertex["subtasks"]]
    jvm.kill()
    wait_until(lambda: stack.pid_of("taskmanager") != taskmanager, 20, "another TaskManager")
    wait_until(lambda: not any(lives(pid) for pid in slots), 5, "the end of its slots")
    wait_until(lambda: stack.live(DEMO)["restarts"] > before["restarts"], 90, "a restart")
    wait_until(lambda: is_running(stack, DEMO), 90, "the demo runs again")


@pytest.mark.slow
def test_a_taskmanager_whose_jvm_is_frozen_ends_and_is_replaced(stack: Stack) -> None:
    before, taskmanager = stack.live(DEMO), stack.pid_of("taskmanager")
    [jvm] = [p for p in psutil.Process(taskmanager).children() if "java" in p.name()]
    slots = [subtask["pid"] for vertex in before["vertices"] for subtask in vertex["subtasks"]]
    jvm.suspend()
    wait_until(lambda: stack.pid_of("taskmanager") != taskmanager, 90, "another TaskManager")
    wait_until(lambda: not any(lives(pid) for pid in (*slots, jvm.pid)), 10, "the end of its slots and JVM")
    wait_until(lambda: stack.live(DEMO)["restarts"] > before["restarts"], 90, "a restart")
    wait_until(lambda: is_running(stack, DEMO), 90, "the demo runs again")


def test_a_signal_ends_everything_within_ten_seconds(stack: Stack) -> None:
    everything = stack.processes()
    assert len(everything) > 5
    stack.process.terminate()
    _, alive = psutil.wait_procs(everything, timeout=10)
    assert not alive, [process.cmdline() for process in alive]
    assert stack.process.wait(1) == 0
    assert not (stack.home / "url").exists()
