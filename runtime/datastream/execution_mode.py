"""RuntimeExecutionMode at PyFlink's module path."""

from __future__ import annotations

import enum

__all__ = ["RuntimeExecutionMode"]


class RuntimeExecutionMode(enum.Enum):
    """Mode in which a program is executed. Only STREAMING works: others are refused when the program is executed."""

    STREAMING = 0
    BATCH = 1
    AUTOMATIC = 2
