"""Windows, their assigners, triggers and evictors, at PyFlink's module path (with those that only Java has)."""

from typing import TYPE_CHECKING

from runtime.common import exclusions as _exclusions
from runtime.operators.windowing.assigners import GlobalWindows as GlobalWindows
from runtime.operators.windowing.assigners import MergingWindowAssigner as MergingWindowAssigner
from runtime.operators.windowing.assigners import SlidingEventTimeWindows as SlidingEventTimeWindows
from runtime.operators.windowing.assigners import SlidingProcessingTimeWindows as SlidingProcessingTimeWindows
from runtime.operators.windowing.assigners import TumblingEventTimeWindows as TumblingEventTimeWindows
from runtime.operators.windowing.assigners import TumblingProcessingTimeWindows as TumblingProcessingTimeWindows
from runtime.operators.windowing.assigners import WindowAssigner as WindowAssigner
from runtime.operators.windowing.continuous_triggers import ContinuousEventTimeTrigger as ContinuousEventTimeTrigger
from runtime.operators.windowing.continuous_triggers import (
    ContinuousProcessingTimeTrigger as ContinuousProcessingTimeTrigger,
)
from runtime.operators.windowing.continuous_triggers import Min as Min
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
from runtime.operators.windowing.triggers import TriggerResult as TriggerResult
from runtime.operators.windowing.windows import CountWindow as CountWindow
from runtime.operators.windowing.windows import CountWindowSerializer as CountWindowSerializer
from runtime.operators.windowing.windows import GlobalWindow as GlobalWindow
from runtime.operators.windowing.windows import GlobalWindowSerializer as GlobalWindowSerializer
from runtime.operators.windowing.windows import TimeWindow as TimeWindow
from runtime.operators.windowing.windows import TimeWindowSerializer as TimeWindowSerializer
from runtime.operators.windowing.windows import Window as Window

__all__ = [
    "ContinuousEventTimeTrigger",
    "ContinuousProcessingTimeTrigger",
    "CountEvictor",
    "CountSlidingWindowAssigner",
    "CountTrigger",
    "CountTumblingWindowAssigner",
    "CountWindow",
    "CountWindowSerializer",
    "CumulativeEventTimeWindows",
    "CumulativeProcessingTimeWindows",
    "DeltaEvictor",
    "DeltaFunction",
    "DeltaTrigger",
    "DynamicEventTimeSessionWindows",
    "DynamicProcessingTimeSessionWindows",
    "EventTimeSessionWindows",
    "EventTimeTrigger",
    "Evictor",
    "GlobalWindow",
    "GlobalWindowSerializer",
    "GlobalWindows",
    "MergingWindowAssigner",
    "Min",
    "NeverTrigger",
    "ProcessingTimeSessionWindows",
    "ProcessingTimeTrigger",
    "ProcessingTimeoutTrigger",
    "PurgingTrigger",
    "SessionWindowTimeGapExtractor",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "TimeEvictor",
    "TimeWindow",
    "TimeWindowSerializer",
    "TimestampedValue",
    "Trigger",
    "TriggerResult",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
    "Window",
    "WindowAssigner",
]

if not TYPE_CHECKING:
    __getattr__ = _exclusions.refusing_module(__name__)
