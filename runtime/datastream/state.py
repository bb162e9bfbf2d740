"""State descriptors and state objects, at PyFlink's module path."""

from runtime.state.descriptors import AggregatingStateDescriptor as AggregatingStateDescriptor
from runtime.state.descriptors import ListStateDescriptor as ListStateDescriptor
from runtime.state.descriptors import MapStateDescriptor as MapStateDescriptor
from runtime.state.descriptors import ReducingStateDescriptor as ReducingStateDescriptor
from runtime.state.descriptors import StateDescriptor as StateDescriptor
from runtime.state.descriptors import ValueStateDescriptor as ValueStateDescriptor
from runtime.state.state import AggregatingState as AggregatingState
from runtime.state.state import AppendingState as AppendingState
from runtime.state.state import BroadcastState as BroadcastState
from runtime.state.state import ListState as ListState
from runtime.state.state import MapState as MapState
from runtime.state.state import MergingState as MergingState
from runtime.state.state import OperatorStateStore as OperatorStateStore
from runtime.state.state import ReadOnlyBroadcastState as ReadOnlyBroadcastState
from runtime.state.state import ReducingState as ReducingState
from runtime.state.state import State as State
from runtime.state.state import ValueState as ValueState
from runtime.state.ttl import StateTtlConfig as StateTtlConfig

__all__ = [
    "AggregatingState",
    "AggregatingStateDescriptor",
    "AppendingState",
    "BroadcastState",
    "ListState",
    "ListStateDescriptor",
    "MapState",
    "MapStateDescriptor",
    "MergingState",
    "OperatorStateStore",
    "ReadOnlyBroadcastState",
    "ReducingState",
    "ReducingStateDescriptor",
    "State",
    "StateDescriptor",
    "StateTtlConfig",
    "ValueState",
    "ValueStateDescriptor",
]
