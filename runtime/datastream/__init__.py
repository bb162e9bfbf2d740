"""The DataStream API, with PyFlink's names: a PyFlink program runs with `pyflink` replaced by `runtime`."""

from typing import TYPE_CHECKING

from runtime.common import exclusions as _exclusions
from runtime.datastream.async_data_stream import AsyncDataStream as AsyncDataStream
from runtime.datastream.broadcast_stream import BroadcastStream as BroadcastStream
from runtime.datastream.checkpoint_config import CheckpointConfig as CheckpointConfig
from runtime.datastream.checkpoint_storage import CheckpointStorage as CheckpointStorage
from runtime.datastream.checkpoint_storage import FileSystemCheckpointStorage as FileSystemCheckpointStorage
from runtime.datastream.checkpoint_storage import JobManagerCheckpointStorage as JobManagerCheckpointStorage
from runtime.datastream.checkpointing_mode import CheckpointingMode as CheckpointingMode
from runtime.datastream.connected_streams import BroadcastConnectedStream as BroadcastConnectedStream
from runtime.datastream.connected_streams import ConnectedStreams as ConnectedStreams
from runtime.datastream.data_stream import CachedDataStream as CachedDataStream
from runtime.datastream.data_stream import DataStream as DataStream
from runtime.datastream.data_stream import DataStreamError as DataStreamError
from runtime.datastream.data_stream import DataStreamSink as DataStreamSink
from runtime.datastream.data_stream import KeyedStream as KeyedStream
from runtime.datastream.execution_mode import RuntimeExecutionMode as RuntimeExecutionMode
from runtime.datastream.externalized_checkpoint_retention import (
    ExternalizedCheckpointRetention as ExternalizedCheckpointRetention,
)
from runtime.datastream.functions import AggregateFunction as AggregateFunction
from runtime.datastream.functions import AllWindowFunction as AllWindowFunction
from runtime.datastream.functions import AsyncFunction as AsyncFunction
from runtime.datastream.functions import AsyncFunctionDescriptor as AsyncFunctionDescriptor
from runtime.datastream.functions import AsyncRetryPredicate as AsyncRetryPredicate
from runtime.datastream.functions import AsyncRetryStrategy as AsyncRetryStrategy
from runtime.datastream.functions import BroadcastProcessFunction as BroadcastProcessFunction
from runtime.datastream.functions import CheckpointedFunction as CheckpointedFunction
from runtime.datastream.functions import CoFlatMapFunction as CoFlatMapFunction
from runtime.datastream.functions import CoGroupFunction as CoGroupFunction
from runtime.datastream.functions import CoMapFunction as CoMapFunction
from runtime.datastream.functions import CoProcessFunction as CoProcessFunction
from runtime.datastream.functions import FilterFunction as FilterFunction
from runtime.datastream.functions import FlatJoinFunction as FlatJoinFunction
from runtime.datastream.functions import FlatMapFunction as FlatMapFunction
from runtime.datastream.functions import FunctionInitializationContext as FunctionInitializationContext
from runtime.datastream.functions import FunctionSnapshotContext as FunctionSnapshotContext
from runtime.datastream.functions import JoinFunction as JoinFunction
from runtime.datastream.functions import KeyedBroadcastProcessFunction as KeyedBroadcastProcessFunction
from runtime.datastream.functions import KeyedCoProcessFunction as KeyedCoProcessFunction
from runtime.datastream.functions import KeyedProcessFunction as KeyedProcessFunction
from runtime.datastream.functions import KeyedStateFunction as KeyedStateFunction
from runtime.datastream.functions import KeySelector as KeySelector
from runtime.datastream.functions import MapFunction as MapFunction
from runtime.datastream.functions import Partitioner as Partitioner
from runtime.datastream.functions import ProcessAllWindowFunction as ProcessAllWindowFunction
from runtime.datastream.functions import ProcessFunction as ProcessFunction
from runtime.datastream.functions import ProcessJoinFunction as ProcessJoinFunction
from runtime.datastream.functions import ProcessWindowFunction as ProcessWindowFunction
from runtime.datastream.functions import ReduceFunction as ReduceFunction
from runtime.datastream.functions import RuntimeContext as RuntimeContext
from runtime.datastream.functions import WindowFunction as WindowFunction
from runtime.datastream.iterator import CloseableIterator as CloseableIterator
from runtime.datastream.job_client import JobClient as JobClient
from runtime.datastream.joined_streams import CoGroupedStreams as CoGroupedStreams
from runtime.datastream.joined_streams import IntervalJoin as IntervalJoin
from runtime.datastream.joined_streams import JoinedStreams as JoinedStreams
from runtime.datastream.joined_streams import TemporalJoin as TemporalJoin
from runtime.datastream.output_tag import OutputTag as OutputTag
from runtime.datastream.slot_sharing_group import MemorySize as MemorySize
from runtime.datastream.slot_sharing_group import SlotSharingGroup as SlotSharingGroup
from runtime.datastream.state_backend import EmbeddedRocksDBStateBackend as EmbeddedRocksDBStateBackend
from runtime.datastream.state_backend import HashMapStateBackend as HashMapStateBackend
from runtime.datastream.state_backend import PredefinedOptions as PredefinedOptions
from runtime.datastream.state_backend import StateBackend as StateBackend
from runtime.datastream.stream_execution_environment import StreamExecutionEnvironment as StreamExecutionEnvironment
from runtime.datastream.time_domain import TimeDomain as TimeDomain
from runtime.datastream.timerservice import TimerService as TimerService
from runtime.datastream.window import CountTrigger as CountTrigger
from runtime.datastream.window import CountWindow as CountWindow
from runtime.datastream.window import EventTimeTrigger as EventTimeTrigger
from runtime.datastream.window import GlobalWindow as GlobalWindow
from runtime.datastream.window import MergingWindowAssigner as MergingWindowAssigner
from runtime.datastream.window import ProcessingTimeTrigger as ProcessingTimeTrigger
from runtime.datastream.window import TimeWindow as TimeWindow
from runtime.datastream.window import Trigger as Trigger
from runtime.datastream.window import TriggerResult as TriggerResult
from runtime.datastream.window import Window as Window
from runtime.datastream.window import WindowAssigner as WindowAssigner
from runtime.datastream.windowed_stream import AllWindowedStream as AllWindowedStream
from runtime.datastream.windowed_stream import WindowedStream as WindowedStream

__all__ = [
    "AggregateFunction",
    "AllWindowFunction",
    "AllWindowedStream",
    "AsyncDataStream",
    "AsyncFunction",
    "AsyncFunctionDescriptor",
    "AsyncRetryPredicate",
    "AsyncRetryStrategy",
    "BroadcastConnectedStream",
    "BroadcastProcessFunction",
    "BroadcastStream",
    "CachedDataStream",
    "CheckpointConfig",
    "CheckpointStorage",
    "CheckpointedFunction",
    "CheckpointingMode",
    "CloseableIterator",
    "CoFlatMapFunction",
    "CoGroupFunction",
    "CoGroupedStreams",
    "CoMapFunction",
    "CoProcessFunction",
    "ConnectedStreams",
    "CountTrigger",
    "CountWindow",
    "DataStream",
    "DataStreamError",
    "DataStreamSink",
    "EmbeddedRocksDBStateBackend",
    "EventTimeTrigger",
    "ExternalizedCheckpointRetention",
    "FileSystemCheckpointStorage",
    "FilterFunction",
    "FlatJoinFunction",
    "FlatMapFunction",
    "FunctionInitializationContext",
    "FunctionSnapshotContext",
    "GlobalWindow",
    "HashMapStateBackend",
    "IntervalJoin",
    "JobClient",
    "JobManagerCheckpointStorage",
    "JoinFunction",
    "JoinedStreams",
    "KeySelector",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "KeyedStateFunction",
    "KeyedStream",
    "MapFunction",
    "MemorySize",
    "MergingWindowAssigner",
    "OutputTag",
    "Partitioner",
    "PredefinedOptions",
    "ProcessAllWindowFunction",
    "ProcessFunction",
    "ProcessJoinFunction",
    "ProcessWindowFunction",
    "ProcessingTimeTrigger",
    "ReduceFunction",
    "RuntimeContext",
    "RuntimeExecutionMode",
    "SlotSharingGroup",
    "StateBackend",
    "StreamExecutionEnvironment",
    "TemporalJoin",
    "TimeDomain",
    "TimeWindow",
    "TimerService",
    "Trigger",
    "TriggerResult",
    "Window",
    "WindowAssigner",
    "WindowFunction",
    "WindowedStream",
]

if not TYPE_CHECKING:
    __getattr__ = _exclusions.refusing_module(__name__)
