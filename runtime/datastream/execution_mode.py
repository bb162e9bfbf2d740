"""RuntimeExecutionMode at PyFlink's module path."""

from __future__ import annotations

import enum

__all__ = ["RuntimeExecutionMode"]


class RuntimeExecutionMode(enum.Enum):
    """How a program is executed. Only STREAMING can be: the others are refused when the program is executed."""

    STREAMING = 0
    BATCH = 1
    AUTOMATIC = 2
