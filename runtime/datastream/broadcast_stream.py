"""BroadcastStream: a stream whose records reach every subtask, and the states that they may fill there.

All that can be done with it is to connect another stream with it. Source: PyFlink, data_stream.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from runtime.state.descriptors import MapStateDescriptor

__all__ = ["BroadcastStream"]

if TYPE_CHECKING:
    from runtime.datastream.data_stream import DataStream


class BroadcastStream:
    """Made by `DataStream.broadcast(descriptor, …)`.

    Args:
        input_stream: partitioned by broadcast already.
        broadcast_state_descriptors: at least one.

    Raises:
        TypeError: a descriptor is no MapStateDescriptor.
    """

    def __init__(self, input_stream: DataStream, broadcast_state_descriptors: Sequence[MapStateDescriptor]) -> None:
        for descriptor in broadcast_state_descriptors:
            if not isinstance(descriptor, MapStateDescriptor):
                raise TypeError(f"broadcast() needs MapStateDescriptors, not {descriptor!r}")
        self.input_stream = input_stream
        self.broadcast_state_descriptors = list(broadcast_state_descriptors)
