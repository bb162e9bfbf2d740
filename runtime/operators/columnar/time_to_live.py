"""Time to live of what running column operators keep of a key: in processing time, from the last write. Pure."""

from __future__ import annotations

from typing import TypeVar

from runtime.common.time import Time
from runtime.state.descriptors import StateDescriptor
from runtime.state.ttl import StateTtlConfig

DescriptorT = TypeVar("DescriptorT", bound=StateDescriptor)


def with_ttl(descriptor: DescriptorT, ttl_ms: int | None) -> DescriptorT:
    """Return the descriptor, with a time to live if there is one: reads do not prolong it, and expired is not seen."""
    if ttl_ms is not None:
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(ttl_ms)).build())
    return descriptor
