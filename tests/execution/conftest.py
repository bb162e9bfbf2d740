"""Jobs on Spark for the tests of slots, failures and restarts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import psutil
import pytest

from runtime.common import Configuration, Types, WatermarkStrategy
from runtime.connectors import BlackHoleSink, DataGeneratorSource
from runtime.datastream import JobClient, StreamExecutionEnvironment
from runtime.jobmaster.job_state import JobState
from runtime.task.messages import TaskState
from tests.job_runs import record_run
from tests.support.waiting import wait_until

StartJob = Callable[..., JobClient]


def pids_of(client: JobClient) -> list[int]:
    return [slot.pid for slot in client.get_status().slots if slot.pid is not None]


def alive(pids: list[int]) -> list[int]:
    """Return the pids of running processes, without zombies."""
    found = []
    for pid in pids:
        try:
            if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                found.append(pid)
        except psutil.NoSuchProcess:
            continue
    return found


def is_producing(client: JobClient) -> bool:
    """Return whether the job runs and its last operator has received records in the current attempt."""
    status = client.get_status()
    return status.state is JobState.RUNNING and all(
        task.state is TaskState.RUNNING and int(str(task.metrics.get("numRecordsIn", 0))) > 0 for task in status.tasks
    )


def has_ended(pids: list[int]) -> bool:
    return not alive(pids)


@pytest.fixture
def start_job() -> Iterator[StartJob]:
    """Start an endless keyed job at parallelism 2 on Spark; it is cancelled at the end of the test."""
    started: list[JobClient] = []

    def start(**options: str) -> JobClient:
        configuration = Configuration.from_dict({"execution.target": "spark", "parallelism.default": "2"} | options)
        env = StreamExecutionEnvironment.get_execution_environment(configuration)
        numbers = DataGeneratorSource(lambda index: (index % 10, index), rows_per_second=2000)
        keyed = env.from_source(numbers, WatermarkStrategy.no_watermarks(), "numbers").key_by(lambda pair: pair[0])
        counts = keyed.reduce(lambda a, b: (a[0], a[1] + b[1])).map(lambda pair: pair[1], output_type=Types.LONG())
        counts.sink_to(BlackHoleSink())
        client = env.execute_async("endless")
        started.append(client)
        record_run("spark local")
        return client

    yield start
    for client in started:
        pids = pids_of(client)
        client.cancel().result(15)
        wait_until(partial(has_ended, pids), 10, "the end of the slots' processes")
