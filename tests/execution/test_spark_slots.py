"""Slots as processes on Spark: where they run, what passes between them, and what happens when one dies or freezes."""

from __future__ import annotations

import gc
import os
import signal
import socket
import stat
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

import runtime.execution.continuous as continuous
from runtime.common import Configuration, WatermarkStrategy
from runtime.connectors import BlackHoleSink, DataGeneratorSource
from runtime.connectors.files.file_sink import FileSink
from runtime.core.garbage import THRESHOLDS
from runtime.datastream import JobClient, StreamExecutionEnvironment
from runtime.execution.errors import JobExecutionError
from runtime.execution.spark_session import acquire_context
from runtime.execution.spark_stages import SparkStages
from runtime.jobmaster.job_state import JobState
from tests.execution.conftest import StartJob, alive, is_producing, pids_of
from tests.job_runs import record_run
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark

NOTICED_WITHIN_S = 10.0
FIXED_DELAY = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "3",
    "restart-strategy.fixed-delay.delay": "200 ms",
}


#: of Spark's transport: a question, and that it was not answered
RPC_REQUEST, RPC_FAILURE = 3, 5


def state_of(client: JobClient) -> JobState:
    return client.get_status().state


def test_a_keyed_job_at_parallelism_2_uses_two_processes_of_one_spark_application(start_job: StartJob) -> None:
    client = start_job()
    wait_until(lambda: is_producing(client), 30, "the job's start")
    pids = pids_of(client)
    assert len(set(pids)) == 2
    assert os.getpid() not in pids
    daemons = {psutil.Process(pid).ppid() for pid in pids}
    assert len(daemons) == 1
    # forked from the zygote of this program
    zygote = psutil.Process(daemons.pop()).parent()
    assert zygote is not None
    assert zygote.ppid() == os.getpid()

    def remote_bytes() -> int:
        return sum(int(str(task.metrics.get("numBytesInRemote", 0))) for task in client.get_status().tasks)

    wait_until(lambda: remote_bytes() > 0, 5, "bytes over Flight")


def test_slots_look_for_garbage_seldom_and_not_at_what_they_have_imported() -> None:
    env = StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_dict({"execution.target": "spark", "parallelism.default": "1"})
    )
    seen = env.from_collection([0]).map(lambda _: (gc.get_threshold(), gc.get_freeze_count() > 10_000))
    with seen.execute_and_collect() as records:
        assert list(records) == [(THRESHOLDS, True)]
    record_run("spark local")


def test_a_local_session_reads_nothing_of_whoever_does_not_know_its_secret() -> None:
    """Its port takes Java objects: any user of the machine could run code as this one."""
    port = acquire_context(Configuration(), 1).getConf().get("spark.driver.port")
    assert port is not None
    no_addresses, receiver = b"\0\0", b"nobody"
    java_string = b"\xac\xed\0\x05t\0\x05hello"
    question = no_addresses + struct.pack(">H", len(receiver)) + receiver + java_string
    frame = struct.pack(">BqI", RPC_REQUEST, 1, len(question)) + question
    with socket.create_connection(("127.0.0.1", int(port)), 10) as stranger, stranger.makefile("rb") as answers:
        stranger.sendall(struct.pack(">q", 8 + len(frame)) + frame)
        answer = answers.read(struct.unpack(">q", answers.read(8))[0] - 8)
    # without a secret it would say that it cannot find nobody
    assert answer[0] == RPC_FAILURE and b"Expected SaslMessage" in answer, answer


def test_nobody_else_on_the_machine_has_workers_forked() -> None:
    """Spark's daemon forks one for whoever connects."""
    context = acquire_context(Configuration(), 1)
    SparkStages(context).warm_up()
    forked = [
        process
        for process in psutil.Process().children(recursive=True)
        if "runtime.execution.zygote" in process.cmdline()
    ]
    assert len(forked) > 1
    for process in forked:
        assert [each.laddr for each in process.net_connections("inet") if each.status == psutil.CONN_LISTEN] == []
    directory = context.getConf().get("spark.python.unix.domain.socket.dir")
    assert directory is not None
    assert list(Path(directory).glob(".*.sock")) and stat.S_IMODE(Path(directory).stat().st_mode) == 0o700


def test_warming_up_starts_what_workers_are_forked_from() -> None:
    context = acquire_context(Configuration(), 1)

    def daemons() -> list[psutil.Process]:
        found = []
        for process in psutil.Process().children(recursive=True):
            # others end meanwhile
            with suppress(psutil.Error):
                if "runtime.execution.zygote" in process.cmdline() and process.ppid() != os.getpid():
                    found.append(process)
        return found

    for process in daemons():
        process.kill()
    wait_until(lambda: not daemons(), 10, "the end of the workers' parent")
    SparkStages(context).warm_up()
    wait_until(lambda: bool(daemons()), 30, "another one")


def test_cancel_ends_the_job_within_2_seconds_and_leaves_no_process(start_job: StartJob) -> None:
    client = start_job()
    wait_until(lambda: is_producing(client), 30, "the job's start")
    pids = pids_of(client)
    started = time.monotonic()
    client.cancel().result(10)
    assert time.monotonic() - started < 2
    assert state_of(client) is JobState.CANCELED
    wait_until(lambda: not alive(pids), 5, "the end of the slots' processes")


def test_kill_9_of_a_slot_fails_the_job_with_the_cause(start_job: StartJob) -> None:
    client = start_job()
    wait_until(lambda: is_producing(client), 30, "the job's start")
    pids = pids_of(client)
    os.kill(pids[0], signal.SIGKILL)
    wait_until(lambda: state_of(client) is JobState.FAILED, NOTICED_WITHIN_S, "the job's failure")
    with pytest.raises(JobExecutionError, match=rf"slot \d \(pid {pids[0]} on .*\) was lost"):
        client.get_job_execution_result().result(10)
    wait_until(lambda: not alive(pids), 10, "the end of the attempt's processes")


def test_kill_9_of_a_slot_restarts_the_job_by_its_strategy(start_job: StartJob) -> None:
    client = start_job(**FIXED_DELAY)
    wait_until(lambda: is_producing(client), 30, "the job's start")
    pids = pids_of(client)
    os.kill(pids[1], signal.SIGKILL)
    wait_until(lambda: client.get_status().attempt == 1 and is_producing(client), NOTICED_WITHIN_S, "the restart")
    assert not set(pids_of(client)) & set(pids)
    assert f"pid {pids[1]}" in client.get_status().exceptions[-1].cause.message
    wait_until(lambda: not alive(pids), 10, "the end of the old attempt's processes")


def test_a_frozen_slot_is_noticed_and_replaced(start_job: StartJob) -> None:
    client = start_job(**FIXED_DELAY)
    wait_until(lambda: is_producing(client), 30, "the job's start")
    pids = pids_of(client)
    os.kill(pids[0], signal.SIGSTOP)
    wait_until(lambda: state_of(client) is not JobState.RUNNING, NOTICED_WITHIN_S, "the loss of the slot")
    wait_until(lambda: client.get_status().attempt == 1 and is_producing(client), NOTICED_WITHIN_S, "the restart")
    assert "no heartbeat" in client.get_status().exceptions[-1].cause.message
    wait_until(lambda: not alive(pids), 10, "the end of the old attempt's processes")


@pytest.mark.parametrize("frozen_s", [8, pytest.param(30, marks=pytest.mark.slow)])
def test_nothing_of_a_slot_that_thaws_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, frozen_s: int
) -> None:
    # as on another machine, where nobody can kill the frozen process: it has to be kept out by its attempt alone
    monkeypatch.setattr(continuous, "kill_worker", lambda host, pid: False)
    monkeypatch.setattr(SparkStages, "cancel", lambda self, group: None)
    rows = 6000
    configuration = Configuration.from_dict(
        {"execution.target": "spark", "parallelism.default": "2", "task.cancellation.timeout": "1 s"} | FIXED_DELAY
    )
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    numbers = DataGeneratorSource(lambda index: index, count=rows, rows_per_second=rows / (frozen_s + 8))
    stream = env.from_source(numbers, WatermarkStrategy.no_watermarks(), "numbers").key_by(lambda n: n % 16)
    stream.map(lambda n: n).sink_to(FileSink.for_ndjson(str(tmp_path)).build())
    client = env.execute_async("thaw")
    record_run("spark local")
    wait_until(lambda: is_producing(client), 30, "the job's start")
    frozen = pids_of(client)[0]
    os.kill(frozen, signal.SIGSTOP)
    frozen_at = time.monotonic()
    wait_until(lambda: client.get_status().attempt == 1 and is_producing(client), 2 * NOTICED_WITHIN_S, "the restart")
    wait_until(lambda: time.monotonic() - frozen_at >= frozen_s, frozen_s + 1, "the thaw")
    assert alive([frozen])
    os.kill(frozen, signal.SIGCONT)
    wait_until(lambda: not alive([frozen]), 10, "the thawed slot's own end")
    client.get_job_execution_result().result(90)
    assert client.get_status().attempt == 1
    found = sorted(int(line) for path in tmp_path.rglob("part-*") for line in path.read_text().splitlines())
    assert found == list(range(rows))
    assert not list(tmp_path.rglob(".part-*"))


def test_a_call_that_does_not_return_is_shown_and_ends_when_it_does(tmp_path: Path) -> None:
    answered = tmp_path / "answered"

    def asks_a_slow_service(value: int) -> int:
        while not answered.exists():
            time.sleep(0.05)
        return value

    client = asking(asks_a_slow_service)
    wait_until(lambda: len(client.get_status().stalls) > 0, 30, "the stall is told")
    [stall] = client.get_status().stalls
    assert "in asks_a_slow_service" in stall.stack.splitlines()[0]
    assert "asks" in stall.task_name
    answered.touch()
    assert client.get_job_execution_result().result(30)
    status = client.get_status()
    assert (status.state, status.restarts, status.stalls) == (JobState.FINISHED, 0, ())


def test_a_job_whose_user_code_never_returns_can_be_cancelled() -> None:
    def spins(value: int) -> int:
        while True:
            value += 1

    client = asking(spins)
    wait_until(lambda: len(client.get_status().stalls) > 0, 30, "the stall is told")
    pids = pids_of(client)
    client.cancel().result(30)
    wait_until(lambda: state_of(client) is JobState.CANCELED, 30, "the end")
    wait_until(lambda: not alive(pids), 10, "the process was killed")


def asking(function: Callable[[int], int]) -> JobClient:
    """A job that runs, with one task that calls a function."""
    settings = {"execution.target": "spark", "parallelism.default": "1", "task.cancellation.timeout": "2 s"}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    env.from_collection([0]).map(function).name("asks").sink_to(BlackHoleSink())
    client = env.execute_async("asks")
    record_run("spark local")
    return client
