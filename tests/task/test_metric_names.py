"""docs/metrics.md lists exactly what a running job reports, and covers all that Flink has."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from runtime.common import Duration, Time, WatermarkStrategy
from runtime.connectors import BlackHoleSink, DataGeneratorSource
from runtime.connectors.index_source import IndexSource
from runtime.core.batch import RecordBatch
from runtime.datastream import CoMapFunction, StreamExecutionEnvironment
from runtime.datastream.window import TumblingEventTimeWindows
from runtime.execution.mini_cluster import MiniCluster
from runtime.jobmaster.client_outputs import ClientOutputs
from runtime.jobmaster.metric_names import with_names
from runtime.operators.source import SplitReader
from runtime.testing.clock import ManualClock
from tests.datastream.running import environment
from tests.job_runs import record_run

PAGE = Path(__file__).resolve().parents[2] / "docs" / "metrics.md"
NAME = re.compile(r"`([^`]+)`")

#: semantics of Flink 2.3, operator and task metrics as seen over REST
OF_FLINK = """
numRecordsIn numRecordsOut numRecordsInPerSecond numRecordsOutPerSecond numBytesIn numBytesOut numBytesInPerSecond
numBytesOutPerSecond currentInputWatermark currentInput1Watermark currentInput2Watermark currentOutputWatermark
numLateRecordsDropped lateRecordsDroppedRate watermarkLatency currentFetchEventTimeLag currentEmitEventTimeLag
watermarkLag sourceIdleTime pendingRecords pendingBytes numRecordsInErrors unassignedSplits watermarkAlignmentDrift
activeTimeMsPerSecond idleTimeMsPerSecond pausedTimeMsPerSecond numRecordsSend numBytesSend numRecordsSendErrors
currentSendTime totalCommittables successfulCommittables failedCommittables retriedCommittables
alreadyCommittedCommittables pendingCommittables busyTimeMsPerSecond backPressuredTimeMsPerSecond
softBackPressuredTimeMsPerSecond hardBackPressuredTimeMsPerSecond maxSoftBackPressureTimeMs maxHardBackPressureTimeMs
isBackPressured accumulateBusyTimeMs accumulateIdleTimeMs accumulateBackPressuredTimeMs changelogBusyTimeMsPerSecond
mailboxMailsPerSecond mailboxLatencyMs_* mailboxQueueSize numFiredTimers numFiredTimersPerSecond initializationTime
numBuffersInLocal numBuffersInRemote numBytesInLocal numBytesInRemote numBuffersOut debloatedBufferSize
estimatedTimeToConsumeBuffersMs inPoolUsage outPoolUsage inputQueueLength inputQueueSize outputQueueLength
outputQueueSize inputFloatingBuffersUsage inputExclusiveBuffersUsage
"""


def section(title: str) -> set[str]:
    """Names in the first column of a section's table."""
    text = PAGE.read_text(encoding="utf-8").partition(f"## {title}\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("|")]
    return {name for row in rows for name in NAME.findall(row)}


class NumbersSource(IndexSource):
    """Numbers of which the readers know how many are to come; several splits are read at once."""

    splits_at_once = 2

    def __init__(self, count: int, rows_per_second: float) -> None:
        super().__init__(count, rows_per_second)

    def produced_type(self) -> None:
        return None

    def generate(self, start: int, stop: int) -> RecordBatch:
        return RecordBatch.of_values([(n, n) for n in range(start, stop)])

    def create_reader(self, split: Any, position: Any | None, context: Any) -> SplitReader:
        reader = super().create_reader(split, position, context)
        reader.pending_records = lambda: split.stop - reader.position  # type: ignore[method-assign]
        return reader


class Either(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return value

    def map2(self, value: Any) -> Any:
        return value


def program(env: StreamExecutionEnvironment) -> None:
    """Every kind of operator that has metrics of its own."""
    strategy = (
        WatermarkStrategy.for_monotonous_timestamps()
        .with_timestamp_assigner(lambda pair, _: pair[1])
        .with_watermark_alignment("all", Duration.of_seconds(60), Duration.of_millis(100))
    )
    numbers = env.from_source(NumbersSource(400, 200), strategy, "numbers")
    others = env.from_source(DataGeneratorSource(lambda n: (n, n), 400, 200), strategy, "others")
    keyed = numbers.key_by(lambda pair: pair[0] % 3)
    windows = keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(50)))
    sums = windows.reduce(lambda a, b: (a[0], a[1] + b[1])).name("sums")
    sums.connect(others).map(Either()).name("either").sink_to(BlackHoleSink()).name("end")


@pytest.fixture(scope="module")
def reported() -> dict[str, dict[str, object]]:
    """Metrics by task name, as the JobMaster has them."""
    env = environment(1)
    program(env)
    record_run("mini-cluster")
    graph = env.create_job_graph("job")
    cluster = MiniCluster(graph, ClientOutputs(), ManualClock(1_000_000))
    seen: dict[str, dict[str, object]] = {}
    while not cluster.driver.ended.is_set():
        cluster.step()
        for task in with_names(cluster.driver.status(), graph).tasks:
            # some are told only while there is something to tell
            seen.setdefault(task.name, {}).update(task.metrics)
    return seen


def split_id_left_out(name: str) -> str:
    return re.sub(r"^split\.[^.]+\.", "split.<id>.", name)


def test_every_listed_metric_of_a_task_is_reported_and_every_reported_one_is_listed(
    reported: dict[str, dict[str, object]],
) -> None:
    operators = ("Source: numbers.", "Source: others.", "sums.", "either.", "end.")
    found = {
        re.sub(r"^(mailboxLatencyMs_).*", r"\1*", name)
        for metrics in reported.values()
        for name in metrics
        if not any(operator in name for operator in operators) and not name.startswith(("latency.", "edge."))
    }
    assert found == section("Task metrics")


def test_every_listed_metric_of_an_edge_is_reported_and_every_reported_one_is_listed(
    reported: dict[str, dict[str, object]],
) -> None:
    names = {name for metrics in reported.values() for name in metrics if name.startswith("edge.")}
    assert {re.sub(r"^edge\.\d+\.", "edge.<id>.", name) for name in names} == section("Edge metrics")


def test_every_listed_metric_of_an_operator_is_reported_and_every_reported_one_is_listed(
    reported: dict[str, dict[str, object]],
) -> None:
    found = set()
    for metrics in reported.values():
        for name in metrics:
            for operator in ("Source: numbers.", "Source: others.", "sums.", "either.", "Sink: end.", "end."):
                if name.startswith(operator):
                    found.add(split_id_left_out(name.removeprefix(operator)))
                    break
    assert found == section("Operator metrics")


def test_everything_that_flink_reports_is_reported_or_has_a_reason_not_to_be() -> None:
    without_meaning = section("Flink's metrics that have no meaning here")
    here = {name.rpartition(".")[2] for name in section("Task metrics") | section("Operator metrics")}
    assert [name for name in OF_FLINK.split() if name not in here | without_meaning] == []
    assert not here & without_meaning


def test_values_of_a_finished_job_are_consistent(reported: dict[str, dict[str, object]]) -> None:
    [source] = [metrics for name, metrics in reported.items() if name.startswith("Source: numbers")]
    assert source["numRecordsOut"] == source["Source: numbers.numRecordsOut"] == 400
    [windows] = [metrics for name, metrics in reported.items() if "sums" in name]
    assert windows["numRecordsIn"] == windows["sums.numRecordsIn"] == 400
    assert windows["numRecordsOut"] == 24
    [end] = [metrics for name, metrics in reported.items() if "end" in name]
    assert end["numRecordsIn"] == 424
    assert any(name.endswith(".numRecordsSend") and value == 424 for name, value in end.items())
    for metrics in reported.values():
        shares = [float(str(metrics[f"{kind}TimeMsPerSecond"])) for kind in ("busy", "idle", "backPressured")]
        assert sum(shares) == pytest.approx(1000)
