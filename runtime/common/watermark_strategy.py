"""WatermarkStrategy: says how event times are found and how far they have come. Operators act on it.

An operator reads `delay_ms`, `timestamp_assigner`, `idleness_ms`, `generator_factory` and `alignment`. Immutable: each
`with_…` gives a new one. Source: PyFlink, common/watermark_strategy.py; Flink, WatermarkGenerator.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runtime.common.exclusions import refusing_module
from runtime.common.time import Duration

__all__ = ["TimestampAssigner", "WatermarkAlignment", "WatermarkGenerator", "WatermarkStrategy"]


class TimestampAssigner(ABC):
    """Finds the event time of a record."""

    @abstractmethod
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        """Return the event time, ms since the epoch.

        Args:
            value: the record.
            record_timestamp: the event time it has so far, -(2**63) if none.
        """


class WatermarkGenerator(ABC):
    """Makes watermarks; one instance serves one split or one input, on its task's thread.

    Both methods return a watermark (ms: no event with that time or an earlier one will come) or None for none. Flink's
    hand it to an output instead. What does not rise above the last watermark is ignored.
    """

    @abstractmethod
    def on_event(self, event: Any, event_timestamp: int) -> int | None:
        """Handle a record; punctuated generators answer here."""

    @abstractmethod
    def on_periodic_emit(self) -> int | None:
        """Return a watermark once per `pipeline.auto-watermark-interval`; after every record if that is 0."""


@dataclass(frozen=True, slots=True)
class WatermarkAlignment:
    """Sources of a group wait for each other."""

    group: str
    max_drift_ms: int
    update_interval_ms: int


@dataclass(frozen=True, slots=True)
class WatermarkStrategy:
    """Made by one of the static methods, refined by the `with_…` methods.

    Attributes:
        delay_ms: the watermark is the greatest event time - delay_ms - 1; None if another rule holds.
        generator_factory: makes the generator that is the rule; None if another rule holds. With neither, no watermark
            is ever emitted.
        timestamp_assigner: (value, record timestamp) -> event time, ms; None = records keep the event time they have.
        timestamp_column: name of the column that holds event times, in place of an assigner.
        idleness_ms: an input without records for that long is left out; None = never.
        alignment: the group of sources that wait for each other; None = none.
    """

    delay_ms: int | None = None
    generator_factory: Callable[[], WatermarkGenerator] | None = None
    timestamp_assigner: Callable[[Any, int], int] | None = None
    idleness_ms: int | None = None
    alignment: WatermarkAlignment | None = None
    timestamp_column: str | None = None

    @staticmethod
    def for_monotonous_timestamps() -> WatermarkStrategy:
        """Make a strategy for event times that never fall within an input."""
        return WatermarkStrategy(delay_ms=0)

    @staticmethod
    def for_bounded_out_of_orderness(max_out_of_orderness: Duration) -> WatermarkStrategy:
        """Make a strategy for event times that fall back by at most that much.

        Raises:
            ValueError: the bound is negative.
        """
        if max_out_of_orderness.nanos < 0:
            raise ValueError(f"for_bounded_out_of_orderness: the bound must not be negative: {max_out_of_orderness}")
        return WatermarkStrategy(delay_ms=max_out_of_orderness.to_millis())

    @staticmethod
    def for_generator(factory: Callable[[], WatermarkGenerator]) -> WatermarkStrategy:
        """Make a strategy with a custom generator; the factory must be picklable (cloudpickle)."""
        return WatermarkStrategy(generator_factory=factory)

    @staticmethod
    def no_watermarks() -> WatermarkStrategy:
        """Make a strategy for streams that need no event time."""
        return WatermarkStrategy()

    @property
    def has_watermarks(self) -> bool:
        return self.delay_ms is not None or self.generator_factory is not None

    def with_timestamp_assigner(self, assigner: TimestampAssigner | Callable[[Any, int], int]) -> WatermarkStrategy:
        """Find event times with a TimestampAssigner or a function of the same arguments.

        Raises:
            TypeError: it is neither.
        """
        if isinstance(assigner, TimestampAssigner):
            return dataclasses.replace(self, timestamp_assigner=assigner.extract_timestamp, timestamp_column=None)
        if not callable(assigner):
            raise TypeError(f"with_timestamp_assigner: a TimestampAssigner or a function is needed, not {assigner!r}")
        return dataclasses.replace(self, timestamp_assigner=assigner, timestamp_column=None)

    def with_timestamp_column(self, column: str) -> WatermarkStrategy:
        """Find event times in a column of the records, without making Python objects of them (not in PyFlink).

        The records need a declared type; the column is a LONG (ms since the epoch), a SQL_TIMESTAMP or an INSTANT.
        """
        return dataclasses.replace(self, timestamp_column=column, timestamp_assigner=None)

    def with_idleness(self, idle_timeout: Duration) -> WatermarkStrategy:
        """Leave inputs out that have had no records for that long.

        Raises:
            ValueError: the time is not positive.
        """
        if idle_timeout.nanos <= 0:
            raise ValueError(f"with_idleness: the time must be positive: {idle_timeout}")
        # at least 1 ms: operators count in whole ones
        return dataclasses.replace(self, idleness_ms=max(1, idle_timeout.to_millis()))

    def with_watermark_alignment(
        self,
        watermark_group: str,
        max_allowed_watermark_drift: Duration,
        update_interval: Duration | None = None,
    ) -> WatermarkStrategy:
        """Let sources of the group wait for those that lag by more than the drift; checked each second by default."""
        interval = Duration.of_seconds(1) if update_interval is None else update_interval
        alignment = WatermarkAlignment(watermark_group, max_allowed_watermark_drift.to_millis(), interval.to_millis())
        return dataclasses.replace(self, alignment=alignment)


if not TYPE_CHECKING:
    __getattr__ = refusing_module(__name__)
