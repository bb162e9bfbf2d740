"""A sink a hundred times slower than its source, on Spark: the source waits, memory stays, cancel works."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import pytest

from runtime.common import Configuration, WatermarkStrategy
from runtime.connectors import BlackHoleSink, DataGeneratorSource
from runtime.datastream import JobClient, StreamExecutionEnvironment
from runtime.jobmaster.job_state import JobState
from tests.execution.conftest import alive, is_producing, pids_of
from tests.job_runs import record_run
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

RECORD_BYTES = 200
SLOW_ROWS_PER_SECOND = 500.0
MAX_GROWTH_BYTES = 50 << 20


def slowed(record: tuple[int, bytes]) -> tuple[int, bytes]:
    """Takes 1/500 s for a record, of which the source makes 100,000 a second and more."""
    threading.Event().wait(1.0 / SLOW_ROWS_PER_SECOND)
    return record


@contextmanager
def slow_job() -> Iterator[JobClient]:
    configuration = Configuration.from_dict({"execution.target": "spark", "parallelism.default": "2"})
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    source = DataGeneratorSource(lambda index: (index, bytes(RECORD_BYTES)))
    records = env.from_source(source, WatermarkStrategy.no_watermarks(), "fast")
    records.key_by(lambda record: record[0] % 64).map(slowed).sink_to(BlackHoleSink()).name("slow")
    client = env.execute_async("slow sink")
    record_run("spark local")
    try:
        wait_until(lambda: is_producing(client), 60, "the job's start")
        yield client
    finally:
        client.cancel().result(15)


def rate(client: JobClient, name: str, metric: str) -> list[float]:
    """The metric of each subtask of the task with `name` in its name."""
    return [float(str(task.metrics[metric])) for task in client.get_status().tasks if name in task.name]


def rss_bytes(pid: int) -> int:
    return int(psutil.Process(pid).memory_info().rss)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("seconds", [120])
def test_a_slow_sink_holds_its_source_back_within_bounded_memory(seconds: int) -> None:
    with slow_job() as client:
        pids = pids_of(client)
        started = time.monotonic()
        wait_until(lambda: time.monotonic() - started >= seconds / 4, seconds, "the first quarter")
        early = {pid: rss_bytes(pid) for pid in pids}
        grown = dict.fromkeys(pids, 0)

        def observed() -> bool:
            for pid in pids:
                grown[pid] = max(grown[pid], rss_bytes(pid) - early[pid])
            return time.monotonic() - started >= seconds

        wait_until(observed, seconds, "the end")
        print(f"grown by {[n >> 20 for n in grown.values()]} MiB from {[n >> 20 for n in early.values()]}")
        assert max(grown.values()) < MAX_GROWTH_BYTES, grown

        # "high" is more than half of the time
        assert min(rate(client, "fast", "backPressuredTimeMsPerSecond")) > 500
        assert min(rate(client, "slow", "busyTimeMsPerSecond")) > 900
        assert max(rate(client, "slow", "backPressuredTimeMsPerSecond")) == 0
        assert max(rate(client, "fast", "busyTimeMsPerSecond")) < 200

        cancelled = time.monotonic()
        client.cancel().result(10)
        took_s = time.monotonic() - cancelled
        print(f"cancelled in {took_s:.2f} s")
        assert client.get_status().state is JobState.CANCELED
        assert took_s <= 2.0
        wait_until(lambda: not alive(pids), 10, "the end of the slots' processes")
