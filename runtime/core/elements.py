"""Elements of a stream beside record batches: watermarks, status, latency markers, barriers, the end.

All are immutable and cross process boundaries; `runtime.network.frames` encodes them.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from runtime.core.batch import RecordBatch
from runtime.core.checkpoint_options import CheckpointOptions
from runtime.core.ids import CheckpointId, OperatorId

MIN_WATERMARK = -(2**63)
"""No statement about event time has been made yet."""
MAX_WATERMARK = 2**63 - 1
"""No more events will come; emitted at the end of bounded input."""


@dataclass(frozen=True, slots=True)
class Watermark:
    """No more records with an event time <= `timestamp` (ms since the epoch) are expected."""

    timestamp: int


class WatermarkStatus(enum.Enum):
    """Says whether a channel takes part in the watermark of its consumer."""

    ACTIVE = 0
    IDLE = -1


@dataclass(frozen=True, slots=True)
class LatencyMarker:
    """A probe that a source emits; it passes operators by and is measured on arrival."""

    marked_time_ms: int
    operator_id: OperatorId
    subtask_index: int


@dataclass(frozen=True, slots=True)
class CheckpointBarrier:
    """Cuts the stream: everything before it belongs to the checkpoint, everything after it does not."""

    checkpoint_id: CheckpointId
    timestamp_ms: int
    """Wall-clock time of the trigger."""
    options: CheckpointOptions


@dataclass(frozen=True, slots=True)
class EndOfInput:
    """Says that the channel's producer is done and nothing follows, which tells the end from a broken channel."""


StreamElement = RecordBatch | Watermark | WatermarkStatus | LatencyMarker | CheckpointBarrier | EndOfInput
END_OF_INPUT = EndOfInput()
