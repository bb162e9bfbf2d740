"""LateSamples: the newest records that an operator has dropped as late, for those who look. The loop's thread only.

A record is masked, shortened and made JSON when it is dropped: the user's code may change it afterwards. At most ten a
second cost more than a count, and what is kept has a limit in bytes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from runtime.common.typeinfo import TypeInformation
from runtime.common.types import Row
from runtime.core.clock import Clock
from runtime.task.peek_values import PeekedValues

INTERVAL_MS: Final = 100.0
"""From one sample to the next."""
MAX_SAMPLES: Final = 20
MAX_CHARS: Final = 64 << 10
"""Of all samples of an operator; the newest is kept however long it is, as it has a limit of its own."""


class LateSample(NamedTuple):
    """A record that was dropped."""

    number: int
    """Grows by one with each sample of the operator."""
    passed_ms: int
    """Wall clock."""
    timestamp: int
    watermark: int
    """The one that had passed its time."""
    text: str
    """Its value as JSON, shortened and masked."""
    row_kind: str
    is_cut: bool


class LateSamples:
    """Samples of one operator's subtask.

    Args:
        clock: for times and the rate.
        values: makes records JSON.
    """

    def __init__(self, clock: Clock, values: PeekedValues) -> None:
        self._clock = clock
        self._values = values
        self._due_ms = 0.0
        self._chars = 0
        self._samples: deque[LateSample] = deque()
        self._next = 0
        #: records that were dropped, sampled or not
        self.num_records = 0

    def dropped(self, num_records: int) -> bool:
        """Count records that were dropped; returns whether one of them is wanted."""
        self.num_records += num_records
        return self._clock.monotonic_ms() >= self._due_ms

    def take(self, value: Any, type_info: TypeInformation | None, timestamp: int, watermark: int) -> None:
        """Keep one of them."""
        self._due_ms = self._clock.monotonic_ms() + INTERVAL_MS
        try:
            text, is_cut = self._values.shown(value, type_info)
        except Exception:
            # a time zone of the user's may fail, which must not fail the task
            return
        # no code of the value's class is called
        row_kind = Row.get_row_kind(value).short_string if issubclass(type(value), Row) else ""
        now_ms = self._clock.now_ms()
        self._samples.append(LateSample(self._next, now_ms, timestamp, watermark, text, row_kind, is_cut))
        self._next += 1
        self._chars += len(text)
        while len(self._samples) > MAX_SAMPLES or (self._chars > MAX_CHARS and len(self._samples) > 1):
            self._chars -= len(self._samples.popleft().text)

    def since(self, number: int) -> Sequence[LateSample]:
        """Return the samples that are kept from this number on."""
        return [sample for sample in self._samples if sample.number >= number]
