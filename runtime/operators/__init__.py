"""Operators: the processing of records in a chain, from user functions to windows, sources and sinks.

The names listed here are the public ones, which `runtime.datastream` re-exports under PyFlink's module paths. An
operator instance belongs to one subtask and is used by its task's thread only.
"""

from runtime.operators.async_functions import AsyncFunction as AsyncFunction
from runtime.operators.async_functions import AsyncFunctionDescriptor as AsyncFunctionDescriptor
from runtime.operators.async_functions import AsyncRetryPredicate as AsyncRetryPredicate
from runtime.operators.async_functions import AsyncRetryStrategy as AsyncRetryStrategy
from runtime.operators.async_functions import (
    ExponentialBackoffDelayRetryStrategy as ExponentialBackoffDelayRetryStrategy,
)
from runtime.operators.async_functions import FixedDelayRetryStrategy as FixedDelayRetryStrategy
from runtime.operators.async_functions import NoRetryStrategy as NoRetryStrategy
from runtime.operators.async_functions import RetryPredicate as RetryPredicate
from runtime.operators.async_operator import AsyncWaitOperatorFactory as AsyncWaitOperatorFactory
from runtime.operators.broadcast_operators import BroadcastProcessOperatorFactory as BroadcastProcessOperatorFactory
from runtime.operators.checkpointed_function import CheckpointedFunction as CheckpointedFunction
from runtime.operators.checkpointed_function import FunctionInitializationContext as FunctionInitializationContext
from runtime.operators.checkpointed_function import FunctionSnapshotContext as FunctionSnapshotContext
from runtime.operators.co_operators import CoProcessOperatorFactory as CoProcessOperatorFactory
from runtime.operators.errors import MissingTimestampError as MissingTimestampError
from runtime.operators.errors import OperatorError as OperatorError
from runtime.operators.errors import StateAccessError as StateAccessError
from runtime.operators.errors import UserFunctionError as UserFunctionError
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
from runtime.operators.functions import TimeDomain as TimeDomain
from runtime.operators.functions import TimerService as TimerService
from runtime.operators.functions import WindowFunction as WindowFunction
from runtime.operators.interval_join import IntervalJoinOperatorFactory as IntervalJoinOperatorFactory
from runtime.operators.map_operators import FilterOperatorFactory as FilterOperatorFactory
from runtime.operators.map_operators import FlatMapOperatorFactory as FlatMapOperatorFactory
from runtime.operators.map_operators import MapOperatorFactory as MapOperatorFactory
from runtime.operators.output_tag import OutputTag as OutputTag
from runtime.operators.process_operators import KeyedProcessOperatorFactory as KeyedProcessOperatorFactory
from runtime.operators.process_operators import ProcessOperatorFactory as ProcessOperatorFactory
from runtime.operators.reduce import AccumulateFunction as AccumulateFunction
from runtime.operators.reduce import AccumulateType as AccumulateType
from runtime.operators.reduce import ReduceOperatorFactory as ReduceOperatorFactory
from runtime.operators.temporal_join import TemporalJoinOperatorFactory as TemporalJoinOperatorFactory
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
from runtime.operators.watermarks import (
    TimestampsAndWatermarksOperatorFactory as TimestampsAndWatermarksOperatorFactory,
)
from runtime.operators.windowing.assigners import GlobalWindows as GlobalWindows
from runtime.operators.windowing.assigners import MergingWindowAssigner as MergingWindowAssigner
from runtime.operators.windowing.assigners import SlidingEventTimeWindows as SlidingEventTimeWindows
from runtime.operators.windowing.assigners import SlidingProcessingTimeWindows as SlidingProcessingTimeWindows
from runtime.operators.windowing.assigners import TumblingEventTimeWindows as TumblingEventTimeWindows
from runtime.operators.windowing.assigners import TumblingProcessingTimeWindows as TumblingProcessingTimeWindows
from runtime.operators.windowing.assigners import WindowAssigner as WindowAssigner
from runtime.operators.windowing.contents import AggregateContents as AggregateContents
from runtime.operators.windowing.contents import ListContents as ListContents
from runtime.operators.windowing.contents import ReduceContents as ReduceContents
from runtime.operators.windowing.continuous_triggers import ContinuousEventTimeTrigger as ContinuousEventTimeTrigger
from runtime.operators.windowing.continuous_triggers import (
    ContinuousProcessingTimeTrigger as ContinuousProcessingTimeTrigger,
)
from runtime.operators.windowing.count_windows import CountSlidingWindowAssigner as CountSlidingWindowAssigner
from runtime.operators.windowing.count_windows import CountTumblingWindowAssigner as CountTumblingWindowAssigner
from runtime.operators.windowing.cumulative_windows import CumulativeEventTimeWindows as CumulativeEventTimeWindows
from runtime.operators.windowing.cumulative_windows import (
    CumulativeProcessingTimeWindows as CumulativeProcessingTimeWindows,
)
from runtime.operators.windowing.evictors import CountEvictor as CountEvictor
from runtime.operators.windowing.evictors import DeltaEvictor as DeltaEvictor
from runtime.operators.windowing.evictors import Evictor as Evictor
from runtime.operators.windowing.evictors import TimeEvictor as TimeEvictor
from runtime.operators.windowing.evictors import TimestampedValue as TimestampedValue
from runtime.operators.windowing.factory import WindowOperatorFactory as WindowOperatorFactory
from runtime.operators.windowing.java_triggers import DeltaFunction as DeltaFunction
from runtime.operators.windowing.java_triggers import DeltaTrigger as DeltaTrigger
from runtime.operators.windowing.java_triggers import ProcessingTimeoutTrigger as ProcessingTimeoutTrigger
from runtime.operators.windowing.session_windows import DynamicEventTimeSessionWindows as DynamicEventTimeSessionWindows
from runtime.operators.windowing.session_windows import (
    DynamicProcessingTimeSessionWindows as DynamicProcessingTimeSessionWindows,
)
from runtime.operators.windowing.session_windows import EventTimeSessionWindows as EventTimeSessionWindows
from runtime.operators.windowing.session_windows import ProcessingTimeSessionWindows as ProcessingTimeSessionWindows
from runtime.operators.windowing.session_windows import SessionWindowTimeGapExtractor as SessionWindowTimeGapExtractor
from runtime.operators.windowing.triggers import CountTrigger as CountTrigger
from runtime.operators.windowing.triggers import EventTimeTrigger as EventTimeTrigger
from runtime.operators.windowing.triggers import NeverTrigger as NeverTrigger
from runtime.operators.windowing.triggers import ProcessingTimeTrigger as ProcessingTimeTrigger
from runtime.operators.windowing.triggers import PurgingTrigger as PurgingTrigger
from runtime.operators.windowing.triggers import Trigger as Trigger
from runtime.operators.windowing.triggers import TriggerContext as TriggerContext
from runtime.operators.windowing.triggers import TriggerResult as TriggerResult
from runtime.operators.windowing.windows import CountWindow as CountWindow
from runtime.operators.windowing.windows import CountWindowSerializer as CountWindowSerializer
from runtime.operators.windowing.windows import GlobalWindow as GlobalWindow
from runtime.operators.windowing.windows import GlobalWindowSerializer as GlobalWindowSerializer
from runtime.operators.windowing.windows import TimeWindow as TimeWindow
from runtime.operators.windowing.windows import TimeWindowSerializer as TimeWindowSerializer
from runtime.operators.windowing.windows import Window as Window
