"""RuntimeExecutionMode at PyFlink's module path."""

from __future__ import annotations

import enum

__all__ = ["RuntimeExecutionMode"]


class RuntimeExecutionMode(enum.Enum):
    """Mode in which a program is executed.

    STREAMING processes records as they come and emits results as soon as they are known. BATCH reads bounded sources
    to their end and emits final results, each once. AUTOMATIC is BATCH if all sources are bounded, else STREAMING.
    """

    STREAMING = 0
    BATCH = 1
    AUTOMATIC = 2
