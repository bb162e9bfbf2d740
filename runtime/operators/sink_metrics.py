"""Metrics of a sink operator, under Flink's names. Kept by the task's thread.

Source: Flink, InternalSinkWriterMetricGroup and InternalSinkCommitterMetricGroup.
"""

from __future__ import annotations

from collections.abc import Callable

from runtime.core.clock import Clock
from runtime.metrics import MetricGroup
from runtime.operators.sink import CommitTally


class SinkMetrics:
    """Metrics of one sink operator.

    Args:
        group: the operator's.
        clock: times the writes.
        pending: gives the number of committables that are not committed yet.
    """

    def __init__(self, group: MetricGroup, clock: Clock, pending: Callable[[], int]) -> None:
        self._clock = clock
        self._send_ms = self._total_send_ms = 0.0
        self._records = group.counter("numRecordsSend")
        self._errors = group.counter("numRecordsSendErrors")
        self._committables = group.counter("totalCommittables")
        self._successful = group.counter("successfulCommittables")
        self._failed = group.counter("failedCommittables")
        self._retried = group.counter("retriedCommittables")
        self._already_committed = group.counter("alreadyCommittedCommittables")
        group.gauge("currentSendTime", lambda: self._send_ms)
        group.gauge("totalSendTime", lambda: round(self._total_send_ms))
        group.gauge("pendingCommittables", pending)

    def now_ms(self) -> float:
        """Return the time, to be handed to `written`."""
        return self._clock.monotonic_ms()

    def written(self, rows: int, started_ms: float) -> None:
        """Note that the writer has taken a batch."""
        self._send_ms = self._clock.monotonic_ms() - started_ms
        self._total_send_ms += self._send_ms
        self._records.inc(rows)

    def write_failed(self, rows: int) -> None:
        """Note that the writer has refused a batch."""
        self._errors.inc(rows)

    def prepared(self, committables: int) -> None:
        """Note that the writer has made committables."""
        self._committables.inc(committables)

    def committed(self, committables: int, started_ms: float, tally: CommitTally | None = None) -> None:
        """Note that committables are visible."""
        self._total_send_ms += self._clock.monotonic_ms() - started_ms
        if tally is not None:
            self._already_committed.inc(tally.already_committed)
            self._retried.inc(tally.retried)
            committables -= tally.already_committed
        self._successful.inc(committables)

    def commit_failed(self, committables: int) -> None:
        """Note that committables are not visible, and stay pending."""
        self._failed.inc(committables)
