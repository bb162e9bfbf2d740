"""Flink's own clients drive a whole cluster: flink-rest-client from PyPI, and the command line of Flink 2.3.

The command line is run where FLINK_LIB names the directory of Flink's jars (`pyflink/lib` of apache-flink-libraries).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.stack import Stack, running_stack
from tests.support.tools import needs_tools, tool_packages
from tests.support.waiting import wait_until

pytestmark = [
    needs_tools,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(400),
    # the client leaves the file of an upload to the garbage collector
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

FLINK_LIB = os.environ.get("FLINK_LIB")
COUNTS = """
import sys

from runtime.common.typeinfo import Types
from runtime.common.watermark_strategy import WatermarkStrategy
from runtime.connectors.datagen import DataGeneratorSource
from runtime.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from runtime.datastream.state import ValueStateDescriptor


class Count(KeyedProcessFunction):
    def open(self, context: RuntimeContext):
        self.count = context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, context):
        self.count.update((self.count.value() or 0) + 1)
        yield self.count.value()


name = sys.argv[sys.argv.index("--name") + 1]
env = StreamExecutionEnvironment.get_execution_environment()
env.enable_checkpointing(1000)
source = DataGeneratorSource(lambda index: index % 2, rows_per_second=100)
numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
numbers.key_by(lambda number: number).process(Count()).uid("count").print().uid("print")
env.execute(name)
"""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running_stack(tmp_path_factory.mktemp("home"), TIDEMARK_SLOTS="4") as running:
        yield running


@pytest.fixture(scope="module")
def token(stack: Stack) -> str:
    return (stack.home / "admin-token").read_text().strip()


@pytest.fixture(scope="module")
def client(stack: Stack, token: str) -> Iterator[Any]:
    sys.path.append(str(tool_packages()))
    # as in the client's documentation, with the token where a proxy's password would be
    yield import_module("flink_rest_client").FlinkRestClient.get(host=f"token:{token}@127.0.0.1", port=stack.port)
    sys.path.remove(str(tool_packages()))


def state_of(client: Any, job_id: str) -> str:
    return str(client.jobs.get(job_id)["state"])


def wait_for_state(client: Any, job_id: str, state: str) -> None:
    wait_until(lambda: state_of(client, job_id) == state, 90, f"the job is {state}")


def is_up(client: Any, job_id: str) -> bool:
    job = client.jobs.get(job_id)
    return job["state"] == "RUNNING" and all(vertex["status"] == "RUNNING" for vertex in job["vertices"])


def location_of(trigger: Any) -> str:
    """Wait for a savepoint, and return where it is."""
    wait_until(lambda: trigger.status["status"]["id"] == "COMPLETED", 60, "the savepoint")
    operation = trigger.status["operation"]
    assert "failure-cause" not in operation, operation
    return str(operation["location"])


def test_the_python_client_uploads_runs_saves_stops_and_restores(stack: Stack, client: Any, tmp_path: Path) -> None:
    program = tmp_path / "counts.py"
    program.write_text(COUNTS)
    uploaded = client.jars.upload(str(program))
    assert uploaded["status"] == "success"
    jar = uploaded["filename"].rsplit("/", 1)[-1]
    assert jar in [entry["id"] for entry in client.jars.all()["files"]]
    job = client.jars.run(jar, arguments={"name": "counts"}, parallelism=1)
    wait_until(lambda: is_up(client, job), 90, "all tasks run")
    wait_until(lambda: bool(client.jobs.get_checkpoint_ids(job)), 60, "a checkpoint")

    first = location_of(client.jobs.create_savepoint(job, target_directory=None))
    assert state_of(client, job) == "RUNNING" and Path(first.removeprefix("file:")).exists()
    last = location_of(client.jobs.stop(job, target_directory=None))
    wait_for_state(client, job, "FINISHED")
    assert last != first

    again = client.jars.run(jar, arguments={"name": "restored"}, parallelism=1, savepoint_path=last)
    wait_until(lambda: is_up(client, again), 90, "all tasks run again")
    restored = client.jobs.get_checkpoints(again)["latest"]["restored"]
    assert (restored["is_savepoint"], restored["external_path"]) == (True, last)
    assert client.jobs.terminate(again)
    wait_for_state(client, again, "CANCELED")
    assert client.jars.delete(jar)


def test_the_python_client_reads_everything(stack: Stack, client: Any, tmp_path: Path) -> None:
    program = tmp_path / "reads.py"
    program.write_text(COUNTS)
    job = client.jars.upload_and_run(str(program), arguments={"name": "reads"}, parallelism=1)
    wait_until(lambda: is_up(client, job), 90, "all tasks run")
    wait_until(lambda: bool(client.jobs.get_checkpoint_ids(job)), 60, "a checkpoint")
    assert client.overview()["taskmanagers"] == 1 and client.config()["flink-version"].startswith("2.")
    assert client.datasets() == []
    assert job in client.jobs.job_ids() and job in [entry["jid"] for entry in client.jobs.overview()]
    assert {"numRestarts", "lastCheckpointDuration"} <= set(client.jobs.metric_names())
    assert client.jobs.get_metrics(job, metric_names=["numRestarts"]) == {"numRestarts": "0"}
    for read in (
        client.jobs.get_config,
        client.jobs.get_exceptions,
        client.jobs.get_execution_result,
        client.jobs.get_plan,
        client.jobs.get_accumulators,
        client.jobs.get_checkpointing_configuration,
    ):
        assert read(job)
    [checkpoint, *_] = client.jobs.get_checkpoint_ids(job)
    assert client.jobs.get_checkpoint_details(job, checkpoint, show_subtasks=True)["status"] == "COMPLETED"
    for vertex_id in client.jobs.get_vertex_ids(job):
        vertex = client.jobs.get_vertex(job, vertex_id)
        assert vertex.details() and vertex.backpressure() and vertex.taskmanagers() and vertex.subtasktimes()
        assert vertex.watermarks() is not None and vertex.metric_names()
        assert vertex.subtasks.subtask_ids() == [0]
        assert vertex.subtasks.get(0)["status"] == "RUNNING" and vertex.subtasks.get_attempt(0)
        assert vertex.subtasks.accumulators() is not None and vertex.subtasks.metrics() is not None
    [taskmanager] = client.taskmanagers.all()
    for about in (client.taskmanagers.get, client.taskmanagers.get_logs, client.taskmanagers.get_thread_dump):
        assert about(taskmanager["id"])
    assert client.taskmanagers.get_metrics(taskmanager["id"]) and client.taskmanagers.metric_names()
    assert client.jobmanager.config() and client.jobmanager.logs() and client.jobmanager.metrics()
    client.jobs.terminate(job)
    wait_for_state(client, job, "CANCELED")


@pytest.fixture
def flink(stack: Stack, token: str, tmp_path: Path) -> Callable[..., str]:
    """Runs a command of Flink's command line, and returns what it prints."""
    options = {"rest.address": "127.0.0.1", "rest.port": stack.port, "execution.target": "remote"}
    (tmp_path / "config.yaml").write_text("".join(f"{name}: {value}\n" for name, value in options.items()))
    environment = os.environ | {
        "FLINK_CONF_DIR": str(tmp_path),
        "FLINK_REST_CLIENT_HEADERS": f"Authorization:Bearer {token}",
    }

    def run(*arguments: str) -> str:
        command = ("java", "-cp", f"{FLINK_LIB}/*", "org.apache.flink.client.cli.CliFrontend", *arguments)
        result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    return run


@pytest.mark.skipif(FLINK_LIB is None, reason="FLINK_LIB names no directory with the jars of Flink 2.3")
def test_flinks_command_line_lists_saves_stops_and_cancels(
    client: Any, flink: Callable[..., str], tmp_path: Path
) -> None:
    program = tmp_path / "line.py"
    program.write_text(COUNTS)
    jar = client.jars.upload(str(program))["filename"].rsplit("/", 1)[-1]
    job = client.jars.run(jar, arguments={"name": "lined"}, parallelism=1)
    wait_until(lambda: is_up(client, job), 90, "all tasks run")
    assert f"{job} : lined (RUNNING)" in flink("list")
    assert "completed" in flink("checkpoint", job).lower()
    saved = re.search(r"file:\S+", flink("savepoint", job))
    assert saved is not None
    assert "Savepoint completed" in flink("stop", job)
    wait_for_state(client, job, "FINISHED")
    again = client.jars.run(jar, arguments={"name": "again"}, parallelism=1, savepoint_path=saved[0])
    wait_until(lambda: is_up(client, again), 90, "all tasks run again")
    assert "Cancelled job" in flink("cancel", again)
    wait_for_state(client, again, "CANCELED")
    assert "disposed" in flink("savepoint", "-dispose", saved[0])
