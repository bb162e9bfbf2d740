"""Metrics of a task's channels, under Flink's names.

A "buffer" is a batch, or one of the frames that a batch was cut into on its way to another process; the sizes of what
stays inside the process are estimates. Pure. Source: Flink, TaskIOMetricGroup and NettyShuffleMetricFactory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from runtime.network.channel import ChannelStatistics, InputChannel, OutputChannel

EDGE = "edge."
"""What the metrics of an edge begin with; its id and a dot follow."""
INPUT = "Shuffle.Netty.Input.Buffers."
OUTPUT = "Shuffle.Netty.Output.Buffers."


def io_totals(received: Sequence[ChannelStatistics], sent: Sequence[ChannelStatistics]) -> dict[str, int]:
    """Return the counters that only grow, of which there are rates too."""
    return {
        "numBytesIn": sum(s.bytes for s in received),
        "numBytesOut": sum(s.bytes for s in sent),
        "numBytesInLocal": sum(s.bytes for s in received if not s.remote),
        "numBytesInRemote": sum(s.bytes for s in received if s.remote),
        "numBuffersInLocal": sum(s.batches for s in received if not s.remote),
        "numBuffersInRemote": sum(s.batches for s in received if s.remote),
        "numBuffersOut": sum(s.batches for s in sent),
    }


def edge_totals(
    received: Iterable[tuple[InputChannel, ChannelStatistics]], sent: Iterable[tuple[OutputChannel, ChannelStatistics]]
) -> dict[str, int]:
    """Return the counters of each edge that only grow. At the end of a job, what was sent over an edge is what was
    received over it: a record that is broadcast counts once for each consumer.
    """
    totals: dict[str, int] = {}
    for channels, way in ((received, "In"), (sent, "Out")):
        for channel, statistics in channels:
            edge = f"{EDGE}{channel.channel_id.edge_id}"
            records, size = f"{edge}.numRecords{way}", f"{edge}.numBytes{way}"
            totals[records] = totals.get(records, 0) + statistics.rows
            totals[size] = totals.get(size, 0) + statistics.bytes
    return totals


def edge_queues(
    received: Iterable[tuple[InputChannel, ChannelStatistics]], sent: Iterable[tuple[OutputChannel, ChannelStatistics]]
) -> dict[str, object]:
    """Return what waits at this end of each edge: elements and bytes.

    The queue of a channel inside the process belongs to both ends: it counts as the consumer's.
    """
    queues: dict[str, int] = {}
    for channels, end in ((received, "input"), (sent, "output")):
        for channel, statistics in channels:
            edge = f"{EDGE}{channel.channel_id.edge_id}.{end}"
            is_counted = end == "input" or statistics.remote
            for name, waiting in (("QueueLength", statistics.queued_elements), ("QueueSize", statistics.queued_bytes)):
                queues[edge + name] = queues.get(edge + name, 0) + (waiting if is_counted else 0)
    return dict(queues)


def queue_metrics(
    received: Sequence[ChannelStatistics], sent: Sequence[ChannelStatistics], bytes_in_per_second: float
) -> dict[str, object]:
    """Return how full the queues are; usages are fractions of 1, above 1 if a step has overdrawn.

    Args:
        received: of the channels into the task.
        sent: of the channels out of it.
        bytes_in_per_second: how fast the task consumes lately.
    """
    metrics: dict[str, object] = {}
    if received:
        windows = sum(s.window_bytes for s in received)
        queued = sum(s.queued_bytes for s in received)
        floating = sum(s.floating_bytes for s in received)
        # every channel of a gate reports the size of their shared pool
        pool = max(s.pool_bytes for s in received)
        metrics |= {
            INPUT + "inputQueueLength": sum(s.queued_elements for s in received),
            INPUT + "inputQueueSize": queued,
            INPUT + "inPoolUsage": _part(queued, windows + floating),
            INPUT + "inputExclusiveBuffersUsage": _part(min(queued, windows), windows),
            INPUT + "inputFloatingBuffersUsage": _part(floating, pool),
            "estimatedTimeToConsumeBuffersMs": _part(1000.0 * queued, bytes_in_per_second),
        }
    if sent:
        waiting = sum(s.queued_bytes for s in sent)
        metrics |= {
            OUTPUT + "outputQueueLength": sum(s.queued_elements for s in sent),
            OUTPUT + "outputQueueSize": waiting,
            # the fullest channel decides whether the task goes on
            OUTPUT + "outPoolUsage": max(_part(s.queued_bytes, s.window_bytes) for s in sent),
        }
    return metrics


def _part(amount: float, whole: float) -> float:
    return amount / whole if whole > 0 else 0.0
