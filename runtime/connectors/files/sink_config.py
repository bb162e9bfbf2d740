"""Where a file sink puts its files and when it begins new ones. Source: PyFlink, connectors/file_system.py."""

from __future__ import annotations

import datetime
import re
import zoneinfo
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

_JAVA_PATTERN = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}


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
        """What part files begin with.

        Raises:
            ValueError: it is empty, has a slash, or begins with `.` or `_` (readers pass such files over).
        """
        if not prefix or "/" in prefix or prefix[0] in "._":
            raise ValueError(f"part prefix {prefix!r} is no beginning of a visible file name")
        self._config = OutputFileConfig(prefix, self._config.part_suffix)
        return self

    def with_part_suffix(self, suffix: str) -> OutputFileConfigBuilder:
        """What part files end with, `.txt` for example.

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


class BucketAssigner(ABC):
    """Chooses the directory below the base path by the time of writing."""

    @abstractmethod
    def bucket_id(self, now_ms: int) -> str:
        """Relative directory for what is written now; "" is the base path."""

    @staticmethod
    def base_path_bucket_assigner() -> BucketAssigner:
        """Everything goes to the base path; Tidemark's default."""
        return _BasePathBucketAssigner()

    @staticmethod
    def date_time_bucket_assigner(format_str: str = "yyyy-MM-dd--HH", timezone_id: str | None = None) -> BucketAssigner:
        """A directory per span of wall-clock time.

        Args:
            format_str: made of yyyy, MM, dd, HH, mm, ss and other characters.
            timezone_id: such as "Europe/Berlin"; None = the machine's.

        Raises:
            ValueError: the format has letters that it must not have, or the zone is unknown.
        """
        return _DateTimeBucketAssigner(format_str, timezone_id)


class _BasePathBucketAssigner(BucketAssigner):
    def bucket_id(self, now_ms: int) -> str:
        return ""


class _DateTimeBucketAssigner(BucketAssigner):
    def __init__(self, format_str: str, timezone_id: str | None) -> None:
        parts = re.findall(r"[A-Za-z]+|[^A-Za-z]+", format_str)
        unknown = [part for part in parts if part[0].isalpha() and part not in _JAVA_PATTERN]
        if unknown or not parts or ".." in format_str or format_str.startswith("/"):
            raise ValueError(f"bucket format {format_str!r} must be made of {', '.join(_JAVA_PATTERN)} and separators")
        self._format = "".join(_JAVA_PATTERN.get(part, part.replace("%", "%%")) for part in parts)
        try:
            self._zone = None if timezone_id is None else zoneinfo.ZoneInfo(timezone_id)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError) as error:
            raise ValueError(f"unknown time zone {timezone_id!r}") from error

    def bucket_id(self, now_ms: int) -> str:
        now = datetime.datetime.fromtimestamp(now_ms / 1000.0, datetime.UTC)
        return now.astimezone(self._zone).strftime(self._format)


@dataclass(frozen=True, slots=True)
class RollingPolicy:
    """When a part file is finished and a new one begun; looked at after each batch and at the bucket check interval."""

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
        """Whether a part file in that state is to be finished."""
        return (
            (self.part_size_bytes is not None and size_bytes >= self.part_size_bytes)
            or (self.rollover_interval_ms is not None and age_ms >= self.rollover_interval_ms)
            or (self.inactivity_interval_ms is not None and inactive_ms >= self.inactivity_interval_ms)
        )
