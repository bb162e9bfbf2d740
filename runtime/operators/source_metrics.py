"""Metrics of a source operator, under Flink's names.

Kept by the task's thread; the gauges are read by the same thread when it answers a heartbeat.
Source: Flink, InternalSourceReaderMetricGroup.
"""

from __future__ import annotations

import enum
from collections.abc import Callable

from runtime.core.batch import NO_TIMESTAMP, RecordBatch
from runtime.core.elements import MAX_WATERMARK, MIN_WATERMARK
from runtime.metrics import MetricGroup
from runtime.metrics.time_shares import TimeShares
from runtime.operators.operator import OperatorContext


class SplitActivity(enum.Enum):
    """State of a split's watermark: it advances, counts as idle, or waits for the alignment group."""

    ACTIVE = "active"
    IDLE = "idle"
    PAUSED = "paused"


class SplitMetrics:
    """Metrics of one split, of a source that reads several at once.

    Args:
        operator_group: of the source operator.
        split_id: names the split.
        context: of the operator.
        watermark: gives the split's watermark.
        waits: returns whether its last read has found nothing.
    """

    def __init__(
        self,
        operator_group: MetricGroup,
        split_id: str,
        context: OperatorContext,
        watermark: Callable[[], int],
        waits: Callable[[], bool],
    ) -> None:
        self._shares = shares = TimeShares(context.clock, SplitActivity.ACTIVE)
        self.switch = shares.switch
        of_split = operator_group.add_group("split", split_id)
        of_split.gauge("isWaiting", waits)
        group = of_split.add_group("watermark")
        group.gauge("currentWatermark", watermark)
        group.gauge("activeTimeMsPerSecond", lambda: shares.rates()[SplitActivity.ACTIVE])
        group.gauge("idleTimeMsPerSecond", lambda: shares.rates()[SplitActivity.IDLE])
        group.gauge("pausedTimeMsPerSecond", lambda: shares.rates()[SplitActivity.PAUSED])
        group.gauge("accumulatedActiveTimeMs", lambda: shares.totals_ms()[SplitActivity.ACTIVE])
        group.gauge("accumulatedIdleTimeMs", lambda: shares.totals_ms()[SplitActivity.IDLE])
        group.gauge("accumulatedPausedTimeMs", lambda: shares.totals_ms()[SplitActivity.PAUSED])


class SourceMetrics:
    """Metrics of one source operator.

    Args:
        context: of the operator.
        watermark: gives the operator's watermark.
        pending_records: gives the records that are there to be read, None if unknown.

    Attributes:
        alignment_drift_ms: how far the watermark was ahead of the alignment group's.
    """

    def __init__(
        self, context: OperatorContext, watermark: Callable[[], int], pending_records: Callable[[], int | None]
    ) -> None:
        self._clock = context.clock
        self._watermark = watermark
        self._emit_lag_ms: int | None = None
        self._emitted_ms = context.clock.monotonic_ms()
        self._is_waiting = False
        self.alignment_drift_ms: int | None = None
        group = context.metrics
        group.counter("numRecordsInErrors")
        group.gauge("currentEmitEventTimeLag", lambda: self._emit_lag_ms)
        group.gauge("watermarkLag", self._watermark_lag_ms)
        group.gauge("sourceIdleTime", self._idle_ms)
        group.gauge("pendingRecords", pending_records)
        group.gauge("watermarkAlignmentDrift", lambda: self.alignment_drift_ms)

    def emitted(self, batch: RecordBatch) -> None:
        """Note that a batch of at least one row goes out."""
        self._is_waiting = False
        self._emitted_ms = self._clock.monotonic_ms()
        if batch.has_timestamps:
            timestamps = batch.slice(batch.num_rows - 1, batch.num_rows).timestamps()
            if timestamps and timestamps[0] != NO_TIMESTAMP:
                self._emit_lag_ms = self._clock.now_ms() - timestamps[0]

    def nothing_to_read(self) -> None:
        """Note that the source has nothing to emit."""
        self._is_waiting = True

    def _idle_ms(self) -> float:
        return self._clock.monotonic_ms() - self._emitted_ms if self._is_waiting else 0.0

    def _watermark_lag_ms(self) -> int | None:
        watermark = self._watermark()
        return None if watermark in (MIN_WATERMARK, MAX_WATERMARK) else self._clock.now_ms() - watermark
