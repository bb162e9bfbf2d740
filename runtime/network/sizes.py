"""Sizes of batches in bytes: exact for columns, a running estimate from samples for Python values."""

from __future__ import annotations

import pickle

from runtime.core.batch import RecordBatch

_SAMPLE_ROWS = 16
_SAMPLE_EVERY = 64
"""Batches between samples: a sample takes some 10 µs, so it must be rare; records of a stream seldom change size."""
_DEFAULT_ROW_BYTES = 64.0
"""Assumed where values cannot be pickled (which only a channel inside a process accepts)."""


class SizeEstimator:
    """Estimates the bytes of one channel's batches. Not thread-safe: one writer, one estimator."""

    __slots__ = ("_countdown", "_row_bytes")

    def __init__(self) -> None:
        self._row_bytes = 0.0
        self._countdown = 0

    def size_of(self, batch: RecordBatch) -> int:
        """Return the bytes of the records and event times; at least 1 a row."""
        timestamps = 8 * batch.num_rows if batch.has_timestamps else 0
        if batch.has_arrow:
            return max(int(batch.arrow().nbytes), batch.num_rows) + timestamps
        if self._countdown == 0 and batch.num_rows:
            self._sample(batch)
            self._countdown = _SAMPLE_EVERY
        self._countdown = max(0, self._countdown - 1)
        return int(self._row_bytes * batch.num_rows) + timestamps

    def _sample(self, batch: RecordBatch) -> None:
        values = batch.values()
        sample = values[:: max(1, len(values) // _SAMPLE_ROWS)][:_SAMPLE_ROWS]
        try:
            row_bytes = max(1.0, len(pickle.dumps(sample, protocol=5)) / len(sample))
        except Exception:  # user objects may refuse in any way
            row_bytes = _DEFAULT_ROW_BYTES
        self._row_bytes = row_bytes if self._row_bytes == 0.0 else (self._row_bytes + row_bytes) / 2
