"""LatencyStatistics: how long latency markers took from their source to each operator of a task.

A marker passes operators by, but not the queues, so what is measured is the wait in writers, channels and mailboxes.
Wall-clock times of two machines are compared: their clocks' difference is part of the result. Used by the task's thread
only. Source: Flink, LatencyStats.
"""

from __future__ import annotations

from runtime.common import options
from runtime.common.configuration import Configuration
from runtime.core.clock import Clock
from runtime.core.elements import LatencyMarker
from runtime.core.ids import OperatorId
from runtime.metrics.histogram import Histogram


class LatencyStatistics:
    """Histograms per source and operator.

    Args:
        configuration: of the job; `metrics.latency.granularity` says what is told apart.
        subtask_index: of the task.
        clock: its wall-clock time is compared with the markers'.
    """

    def __init__(self, configuration: Configuration, subtask_index: int, clock: Clock) -> None:
        self._granularity = configuration.get(options.LATENCY_GRANULARITY)
        self._history_size = configuration.get(options.LATENCY_HISTORY_SIZE)
        self._subtask_index = subtask_index
        self._clock = clock
        self._histograms: dict[str, Histogram] = {}

    def arrived(self, operator_id: OperatorId, marker: LatencyMarker) -> None:
        """Record that a marker has reached an operator."""
        name = self._name(operator_id, marker)
        histogram = self._histograms.get(name)
        if histogram is None:
            histogram = self._histograms[name] = Histogram(self._history_size)
        # a clock that is behind the source's must not make latencies negative
        histogram.update(max(0, self._clock.now_ms() - marker.marked_time_ms))

    def _name(self, operator_id: OperatorId, marker: LatencyMarker) -> str:
        source = ""
        if self._granularity != "single":
            source = f"source_id.{marker.operator_id}."
        if self._granularity == "subtask":
            source += f"source_subtask_index.{marker.subtask_index}."
        return f"latency.{source}operator_id.{operator_id}.operator_subtask_index.{self._subtask_index}.latency"

    def metrics(self) -> dict[str, object]:
        """Return `<name>_p99` and its siblings, ms."""
        return {
            f"{name}_{statistic}": value
            for name, histogram in self._histograms.items()
            for statistic, value in histogram.report().items()
        }
