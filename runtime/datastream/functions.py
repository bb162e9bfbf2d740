"""User functions and their contexts, at PyFlink's module path."""

from typing import TYPE_CHECKING

from runtime.common import exclusions as _exclusions
from runtime.operators.async_functions import AsyncFunction as AsyncFunction
from runtime.operators.async_functions import AsyncFunctionDescriptor as AsyncFunctionDescriptor
from runtime.operators.async_functions import AsyncRetryPredicate as AsyncRetryPredicate
from runtime.operators.async_functions import AsyncRetryStrategy as AsyncRetryStrategy
from runtime.operators.checkpointed_function import CheckpointedFunction as CheckpointedFunction
from runtime.operators.checkpointed_function import FunctionInitializationContext as FunctionInitializationContext
from runtime.operators.checkpointed_function import FunctionSnapshotContext as FunctionSnapshotContext
from runtime.operators.functions import AggregateFunction as AggregateFunction
from runtime.operators.functions import AllWindowFunction as AllWindowFunction
from runtime.operators.functions import FilterFunction as FilterFunction
from runtime.operators.functions import FlatMapFunction as FlatMapFunction
from runtime.operators.functions import Function as Function
from runtime.operators.functions import KeyedProcessFunction as KeyedProcessFunction
from runtime.operators.functions import KeyedStateStore as KeyedStateStore
from runtime.operators.functions import KeySelector as KeySelector
from runtime.operators.functions import MapFunction as MapFunction
from runtime.operators.functions import NullByteKeySelector as NullByteKeySelector
from runtime.operators.functions import Partitioner as Partitioner
from runtime.operators.functions import ProcessAllWindowFunction as ProcessAllWindowFunction
from runtime.operators.functions import ProcessFunction as ProcessFunction
from runtime.operators.functions import ProcessWindowFunction as ProcessWindowFunction
from runtime.operators.functions import ReduceFunction as ReduceFunction
from runtime.operators.functions import RuntimeContext as RuntimeContext
from runtime.operators.functions import TimerService as TimerService
from runtime.operators.functions import WindowFunction as WindowFunction
from runtime.operators.two_input_functions import BaseBroadcastProcessFunction as BaseBroadcastProcessFunction
from runtime.operators.two_input_functions import BroadcastProcessFunction as BroadcastProcessFunction
from runtime.operators.two_input_functions import CoFlatMapFunction as CoFlatMapFunction
from runtime.operators.two_input_functions import CoGroupFunction as CoGroupFunction
from runtime.operators.two_input_functions import CoMapFunction as CoMapFunction
from runtime.operators.two_input_functions import CoProcessFunction as CoProcessFunction
from runtime.operators.two_input_functions import FlatJoinFunction as FlatJoinFunction
from runtime.operators.two_input_functions import JoinFunction as JoinFunction
from runtime.operators.two_input_functions import KeyedBroadcastProcessFunction as KeyedBroadcastProcessFunction
from runtime.operators.two_input_functions import KeyedCoProcessFunction as KeyedCoProcessFunction
from runtime.operators.two_input_functions import KeyedStateFunction as KeyedStateFunction
from runtime.operators.two_input_functions import ProcessJoinFunction as ProcessJoinFunction

__all__ = [
    "AggregateFunction",
    "AllWindowFunction",
    "AsyncFunction",
    "AsyncFunctionDescriptor",
    "AsyncRetryPredicate",
    "AsyncRetryStrategy",
    "BaseBroadcastProcessFunction",
    "BroadcastProcessFunction",
    "CheckpointedFunction",
    "CoFlatMapFunction",
    "CoGroupFunction",
    "CoMapFunction",
    "CoProcessFunction",
    "FilterFunction",
    "FlatJoinFunction",
    "FlatMapFunction",
    "Function",
    "FunctionInitializationContext",
    "FunctionSnapshotContext",
    "JoinFunction",
    "KeySelector",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "KeyedStateFunction",
    "KeyedStateStore",
    "MapFunction",
    "NullByteKeySelector",
    "Partitioner",
    "ProcessAllWindowFunction",
    "ProcessFunction",
    "ProcessJoinFunction",
    "ProcessWindowFunction",
    "ReduceFunction",
    "RuntimeContext",
    "TimerService",
    "WindowFunction",
]

if not TYPE_CHECKING:
    __getattr__ = _exclusions.refusing_module(__name__)
