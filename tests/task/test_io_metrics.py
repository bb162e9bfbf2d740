"""Sums of the metrics of a task's channels."""

from __future__ import annotations

from runtime.network.channel import ChannelStatistics
from runtime.task.io_metrics import INPUT, OUTPUT, io_totals, queue_metrics


def channel(queued: int, remote: bool = True, floating: int = 0, pool: int = 0) -> ChannelStatistics:
    return ChannelStatistics(
        bytes=1000,
        batches=10,
        rows=100,
        queued_bytes=queued,
        remote=remote,
        queued_elements=queued // 10,
        window_bytes=100,
        floating_bytes=floating,
        pool_bytes=pool,
    )


def test_totals_tell_what_came_from_other_processes() -> None:
    totals = io_totals([channel(0), channel(0), channel(0, remote=False)], [channel(0)])
    assert totals == {
        "numBytesIn": 3000,
        "numBytesOut": 1000,
        "numBytesInLocal": 1000,
        "numBytesInRemote": 2000,
        "numBuffersInLocal": 10,
        "numBuffersInRemote": 20,
        "numBuffersOut": 10,
    }


def test_usages_are_parts_of_windows_and_pool() -> None:
    metrics = queue_metrics([channel(150, floating=100, pool=400), channel(50, pool=400)], [], 2000.0)
    assert metrics[INPUT + "inputQueueLength"] == 20
    assert metrics[INPUT + "inputQueueSize"] == 200
    assert metrics[INPUT + "inPoolUsage"] == 200 / 300
    assert metrics[INPUT + "inputExclusiveBuffersUsage"] == 1.0
    assert metrics[INPUT + "inputFloatingBuffersUsage"] == 100 / 400
    assert metrics["estimatedTimeToConsumeBuffersMs"] == 100.0
    assert not [name for name in metrics if name.startswith(OUTPUT)]


def test_the_fullest_way_out_counts_and_an_overdraft_shows() -> None:
    metrics = queue_metrics([], [channel(10), channel(130)], 0.0)
    assert metrics == {
        OUTPUT + "outputQueueLength": 14,
        OUTPUT + "outputQueueSize": 140,
        OUTPUT + "outPoolUsage": 1.3,
    }


def test_nothing_is_divided_by_zero() -> None:
    metrics = queue_metrics([channel(10)], [], 0.0)
    assert metrics["estimatedTimeToConsumeBuffersMs"] == 0.0
    assert metrics[INPUT + "inputFloatingBuffersUsage"] == 0.0
