"""Partitioning: deals the records of an edge out to the consumer's subtasks. Source: Flink, StreamPartitioner."""

from __future__ import annotations

import enum


class Partitioning(enum.Enum):
    """The value is the ship strategy that Flink shows in plans."""

    FORWARD = "FORWARD"
    REBALANCE = "REBALANCE"
    RESCALE = "RESCALE"
    SHUFFLE = "SHUFFLE"
    BROADCAST = "BROADCAST"
    GLOBAL = "GLOBAL"
    KEY_GROUP = "HASH"
    CUSTOM = "CUSTOM"

    @property
    def is_pointwise(self) -> bool:
        """Return whether a producer subtask is connected to some consumers only."""
        return self in (Partitioning.FORWARD, Partitioning.RESCALE)
