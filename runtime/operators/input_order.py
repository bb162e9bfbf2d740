"""InputOrder: the order in which an operator is given its input in a batch. Pure.

A stream has no order but that of arrival. A batch is complete before it is processed, so that it can be given key by
key, and one input after another. Source: Flink, StreamConfig.InputRequirement.
"""

from __future__ import annotations

import enum

__all__ = ["InputOrder"]


class InputOrder(enum.Enum):
    """Order of the records of one input in a batch."""

    AS_THEY_COME = enum.auto()
    """At once."""
    BEHIND_OTHERS = enum.auto()
    """In the order of arrival, when the inputs that are given as they come have ended."""
    BY_KEY = enum.auto()
    """Likewise, key by key, and those of a key by event time; inputs that are keyed alike are merged."""
