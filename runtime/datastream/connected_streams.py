"""ConnectedStreams and BroadcastConnectedStream: two streams that one function is to see both of.

Source: PyFlink, data_stream.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from runtime.common.typeinfo import TypeInformation
from runtime.operators.broadcast_operators import BroadcastProcessOperatorFactory
from runtime.operators.checkpointed_function import CheckpointedFunction
from runtime.operators.co_operators import CoProcessOperatorFactory
from runtime.operators.two_input_functions import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
)
from runtime.state.descriptors import MapStateDescriptor

__all__ = ["BroadcastConnectedStream", "ConnectedStreams"]

if TYPE_CHECKING:
    from runtime.datastream.broadcast_stream import BroadcastStream
    from runtime.datastream.data_stream import DataStream


class ConnectedStreams:
    """Two streams, possibly of different types; keyed if both are."""

    def __init__(self, stream1: DataStream, stream2: DataStream) -> None:
        self.stream1 = stream1
        self.stream2 = stream2

    def key_by(
        self, key_selector1: Any, key_selector2: Any, key_type: TypeInformation | None = None
    ) -> ConnectedStreams:
        """Bring records of both streams with equal keys to the same subtask, with common state."""
        return ConnectedStreams(
            self.stream1.key_by(key_selector1, key_type), self.stream2.key_by(key_selector2, key_type)
        )

    def map(self, func: CoMapFunction, output_type: TypeInformation | None = None) -> DataStream:
        """Emit at most one record for each.

        Raises:
            TypeError: `func` is no CoMapFunction.
        """
        if not isinstance(func, CoMapFunction):
            raise TypeError(f"map() of connected streams needs a CoMapFunction, not {func!r}")
        return self._add("Co-Map", func, output_type)

    def flat_map(self, func: CoFlatMapFunction, output_type: TypeInformation | None = None) -> DataStream:
        """Emit any number of records for each.

        Raises:
            TypeError: `func` is no CoFlatMapFunction.
        """
        if not isinstance(func, CoFlatMapFunction):
            raise TypeError(f"flat_map() of connected streams needs a CoFlatMapFunction, not {func!r}")
        return self._add("Co-Flat Map", func, output_type)

    def process(
        self, func: CoProcessFunction | KeyedCoProcessFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Emit any number of records for each, with event time, side outputs, and timers if both streams are keyed.

        Raises:
            TypeError: `func` is neither, or a KeyedCoProcessFunction on streams that are not both keyed.
        """
        if not isinstance(func, (CoProcessFunction, KeyedCoProcessFunction)):
            raise TypeError(
                f"process() of connected streams needs a CoProcessFunction or a KeyedCoProcessFunction, not {func!r}"
            )
        return self._add("Keyed Co-Process" if self._is_keyed() else "Co-Process", func, output_type)

    def _is_keyed(self) -> bool:
        return self.stream1.key_selector is not None and self.stream2.key_selector is not None

    def _add(self, name: str, func: Any, output_type: TypeInformation | None) -> DataStream:
        keys = (self.stream1.key_selector, self.stream2.key_selector) if self._is_keyed() else None
        factory = CoProcessOperatorFactory(func, output_type, keys)
        is_stateful = self._is_keyed() or isinstance(func, CheckpointedFunction)
        return self.stream1.transform_two(self.stream2, name, factory, output_type, is_stateful=is_stateful)


class BroadcastConnectedStream:
    """A stream, keyed or not, and a broadcast one whose state its function may read."""

    def __init__(
        self,
        non_broadcast_stream: DataStream,
        broadcast_stream: BroadcastStream,
        broadcast_state_descriptors: Sequence[MapStateDescriptor],
    ) -> None:
        self.non_broadcast_stream = non_broadcast_stream
        self.broadcast_stream = broadcast_stream
        self.broadcast_state_descriptors = list(broadcast_state_descriptors)

    def process(
        self,
        func: BroadcastProcessFunction[Any, Any, Any] | KeyedBroadcastProcessFunction[Any, Any, Any, Any],
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Emit any number of records for each of both streams.

        Raises:
            TypeError: `func` is not of the kind that goes with the stream that is not broadcast.
        """
        stream = self.non_broadcast_stream
        factory = BroadcastProcessOperatorFactory(
            func, self.broadcast_state_descriptors, stream.key_selector, output_type
        )
        name = "Co-Process-Broadcast" if stream.key_selector is None else "Keyed-Co-Process-Broadcast"
        return stream.transform_two(self.broadcast_stream.input_stream, name, factory, output_type, is_stateful=True)
