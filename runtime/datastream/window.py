"""Windows, their assigners and triggers, at PyFlink's module path."""

from runtime.operators.windowing.assigners import GlobalWindows as GlobalWindows
from runtime.operators.windowing.assigners import SlidingEventTimeWindows as SlidingEventTimeWindows
from runtime.operators.windowing.assigners import SlidingProcessingTimeWindows as SlidingProcessingTimeWindows
from runtime.operators.windowing.assigners import TumblingEventTimeWindows as TumblingEventTimeWindows
from runtime.operators.windowing.assigners import TumblingProcessingTimeWindows as TumblingProcessingTimeWindows
from runtime.operators.windowing.assigners import WindowAssigner as WindowAssigner
from runtime.operators.windowing.triggers import ContinuousEventTimeTrigger as ContinuousEventTimeTrigger
from runtime.operators.windowing.triggers import CountTrigger as CountTrigger
from runtime.operators.windowing.triggers import EventTimeTrigger as EventTimeTrigger
from runtime.operators.windowing.triggers import NeverTrigger as NeverTrigger
from runtime.operators.windowing.triggers import ProcessingTimeTrigger as ProcessingTimeTrigger
from runtime.operators.windowing.triggers import PurgingTrigger as PurgingTrigger
from runtime.operators.windowing.triggers import Trigger as Trigger
from runtime.operators.windowing.triggers import TriggerResult as TriggerResult
from runtime.operators.windowing.windows import CountWindow as CountWindow
from runtime.operators.windowing.windows import GlobalWindow as GlobalWindow
from runtime.operators.windowing.windows import TimeWindow as TimeWindow
from runtime.operators.windowing.windows import Window as Window
