"""A Flight echo in the process of a slot whose loop never rests: the network's threads get their turn soon enough."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow.flight as fl
import pytest

from runtime.common import Configuration, WatermarkStrategy
from runtime.connectors import BlackHoleSink, DataGeneratorSource
from runtime.datastream import JobClient, MapFunction, RuntimeContext, StreamExecutionEnvironment
from tests.execution.conftest import is_producing
from tests.job_runs import record_run
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

MAX_P99_MS = 25.0
ROUND_TRIPS = 1000


class EchoServer(fl.FlightServerBase):  # pyarrow is not typed
    """Sends back what it is sent, as the network's handler threads do."""

    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        while True:
            try:
                writer.write_metadata(reader.read_chunk().app_metadata)
            except StopIteration:
                return


class BusyWithEcho(MapFunction):
    """Pure Python work on each record, and an echo server beside it."""

    def __init__(self, port_file: Path) -> None:
        self._port_file = port_file

    def open(self, runtime_context: RuntimeContext) -> None:
        self._server = EchoServer("grpc+tcp://127.0.0.1:0")
        self._port_file.write_text(str(self._server.port))

    def map(self, value: int) -> int:
        total = 0
        for number in range(2000):
            total += number * value
        return total

    def close(self) -> None:
        self._server.shutdown()


def round_trips_ms(port: int) -> list[float]:
    """Times of echoes, ascending."""
    client = fl.FlightClient(f"grpc+tcp://127.0.0.1:{port}")
    writer, reader = client.do_exchange(fl.FlightDescriptor.for_command(b"echo"))
    taken = []
    for _ in range(ROUND_TRIPS):
        started = time.perf_counter()
        writer.write_metadata(b"ping" * 16)
        assert reader.read_chunk().app_metadata is not None
        taken.append((time.perf_counter() - started) * 1000)
    writer.done_writing()
    writer.close()
    client.close()
    return sorted(taken)


def busy_ms(client: JobClient) -> float:
    """Per second, of the task that works hardest."""
    return max(float(str(task.metrics["busyTimeMsPerSecond"])) for task in client.get_status().tasks)


def test_echo_beside_a_busy_slot_takes_at_most_25_ms_at_p99(tmp_path: Path) -> None:
    configuration = Configuration.from_dict({"execution.target": "spark", "parallelism.default": "1"})
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    port_file = tmp_path / "port"
    numbers = env.from_source(DataGeneratorSource(lambda index: index), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.rebalance().map(BusyWithEcho(port_file)).sink_to(BlackHoleSink())
    client = env.execute_async("busy")
    record_run("spark local")
    try:
        wait_until(lambda: is_producing(client), 60, "the job's start")
        wait_until(lambda: busy_ms(client) > 900, 30, "full load")
        taken = round_trips_ms(int(port_file.read_text()))
        assert busy_ms(client) > 900
    finally:
        client.cancel().result(15)
    p50, p99 = taken[len(taken) // 2], taken[int(len(taken) * 0.99)]
    print(f"echo beside a busy slot: p50 {p50:.1f} ms, p99 {p99:.1f} ms")
    assert p99 <= MAX_P99_MS
