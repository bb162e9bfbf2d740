"""Names and rolling of a file sink's part files. Source: PyFlink, connectors/file_system.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from runtime.connectors.files.buckets import BucketAssigner as BucketAssigner


@dataclass(frozen=True, slots=True)
class OutputFileConfig:
    """Names of part files: `<prefix>-<uid>-<subtask>-<n><suffix>`."""

    part_prefix: str = "part"
    part_suffix: str | None = None
    """None: the format's own, `.ndjson` for example."""
    OutputFileConfigBuilder: ClassVar[type[OutputFileConfigBuilder]]

    @staticmethod
    def builder() -> _Builder:
        return _Builder()

    def get_part_prefix(self) -> str:
        return self.part_prefix

    def get_part_suffix(self) -> str:
        return self.part_suffix or ""


class OutputFileConfigBuilder:
    """Makes an OutputFileConfig."""

    def __init__(self) -> None:
        self._config = OutputFileConfig()

    def with_part_prefix(self, prefix: str) -> OutputFileConfigBuilder:
        """Set the beginning of part files' names.

        Raises:
            ValueError: it is empty, has a slash, or begins with `.` or `_` (readers pass such files over).
        """
        if not prefix or "/" in prefix or prefix[0] in "._":
            raise ValueError(f"part prefix {prefix!r} cannot begin a visible file name")
        self._config = OutputFileConfig(prefix, self._config.part_suffix)
        return self

    def with_part_suffix(self, suffix: str) -> OutputFileConfigBuilder:
        """Set the end of part files' names, `.txt` for example.

        Raises:
            ValueError: it has a slash.
        """
        if "/" in suffix:
            raise ValueError(f"part suffix {suffix!r} must not have a slash")
        self._config = OutputFileConfig(self._config.part_prefix, suffix)
        return self

    def build(self) -> OutputFileConfig:
        return self._config


# inside OutputFileConfig, PyFlink's nested name hides the module's
_Builder = OutputFileConfigBuilder
OutputFileConfig.OutputFileConfigBuilder = OutputFileConfigBuilder


@dataclass(frozen=True, slots=True)
class RollingPolicy:
    """Decides when to finish a part file and begin a new one; checked after each batch and at the bucket check
    interval.
    """

    part_size_bytes: int | None
    rollover_interval_ms: int | None
    inactivity_interval_ms: int | None
    rolls_on_checkpoint: bool

    @staticmethod
    def default_rolling_policy(
        part_size: int = 128 << 20, rollover_interval: int = 60_000, inactivity_interval: int = 60_000
    ) -> RollingPolicy:
        """Roll by size (bytes), age and time without a write (both ms).

        Raises:
            ValueError: a number is not above 0.
        """
        if min(part_size, rollover_interval, inactivity_interval) <= 0:
            raise ValueError("part size, rollover and inactivity interval of a rolling policy must be above 0")
        return RollingPolicy(part_size, rollover_interval, inactivity_interval, False)

    @staticmethod
    def on_checkpoint_rolling_policy() -> RollingPolicy:
        """Roll at every checkpoint and at no other time."""
        return RollingPolicy(None, None, None, True)

    def is_due(self, size_bytes: int, age_ms: int, inactive_ms: int) -> bool:
        """Return whether to finish a part file in that state."""
        return (
            (self.part_size_bytes is not None and size_bytes >= self.part_size_bytes)
            or (self.rollover_interval_ms is not None and age_ms >= self.rollover_interval_ms)
            or (self.inactivity_interval_ms is not None and inactive_ms >= self.inactivity_interval_ms)
        )
