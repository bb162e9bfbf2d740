"""CheckpointingMode at PyFlink's module path."""

from __future__ import annotations

import enum

__all__ = ["CheckpointingMode"]


class CheckpointingMode(enum.Enum):
    """Says how often a record may take effect on state when a job is restored."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
