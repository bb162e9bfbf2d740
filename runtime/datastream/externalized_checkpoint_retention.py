"""ExternalizedCheckpointRetention at PyFlink's module path."""

from __future__ import annotations

import enum

__all__ = ["ExternalizedCheckpointRetention"]


class ExternalizedCheckpointRetention(enum.Enum):
    """Fate of the last checkpoint of a job that was cancelled."""

    DELETE_ON_CANCELLATION = 0
    RETAIN_ON_CANCELLATION = 1
    NO_EXTERNALIZED_CHECKPOINTS = 2
