"""Placements: where the regions of a job run. A leader records them before it deploys, so that the next can adopt them.

Values only. A placement is true from the moment that all slots of the region have registered until its attempt is over;
it is recorded before the first and deleted before the next attempt of the region begins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runtime.core.ids import Attempt, SlotId, VertexId
from runtime.task.messages import PROTOCOL_VERSION


@dataclass(frozen=True, slots=True)
class PlacedSlot:
    """A slot's process."""

    slot: SlotId
    pid: int
    host: str
    data_address: str
    """Of its data server, which also takes the offers of new leaders."""


@dataclass(frozen=True, slots=True)
class PlacedRegion:
    """A region whose slots have registered."""

    region: int
    attempt: Attempt
    slots: Sequence[PlacedSlot]
    parallelism: Mapping[VertexId, int]
    """Of all vertices of the job."""
    epoch: int = 0
    """Of the leader that has deployed it."""
    protocol: int = PROTOCOL_VERSION
