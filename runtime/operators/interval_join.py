"""IntervalJoin: pairs of records with equal keys whose event times are at most so far apart.

A pair (left, right) is found if left.time + lower <= right.time <= left.time + upper. Both sides are buffered by event
time, and a bucket is removed by a timer once nothing that is not late can meet it. A record behind the watermark is
late: it meets nothing and goes to its side's late output, or is dropped and counted. Used by the task's thread.
Source: Flink, IntervalJoinOperator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from runtime.common.typeinfo import TypeInformation, Types
from runtime.core.batch import NO_TIMESTAMP
from runtime.operators.declared_states import states_with_functions
from runtime.operators.errors import MissingTimestampError, failing_index, user_function_error
from runtime.operators.late_records import LateRecords
from runtime.operators.operator import OperatorContext
from runtime.operators.output import Output
from runtime.operators.output_tag import OutputTag
from runtime.operators.two_input import KeyedTwoInputOperator
from runtime.operators.two_input_functions import ProcessJoinFunction
from runtime.state.backend import Timer
from runtime.state.descriptors import MapStateDescriptor
from runtime.state.state_meta import DeclaredStates, keyed_state

LEFT, RIGHT = 0, 1
BUFFERS = ("left-buffer", "right-buffer")
"""Names of the two states: event time → records."""


class JoinContext(ProcessJoinFunction.Context):
    """Context of a pair."""

    __slots__ = ("left", "result", "right")

    def __init__(self) -> None:
        self.left = self.right = self.result = NO_TIMESTAMP

    def get_left_timestamp(self) -> int:
        return self.left

    def get_right_timestamp(self) -> int:
        return self.right

    def get_timestamp(self) -> int:
        return self.result


@dataclass(frozen=True)
class IntervalJoinSpec:
    """Describes an interval join; see `IntervalJoinOperatorFactory`."""

    lower_ms: int
    upper_ms: int
    input_types: tuple[TypeInformation | None, TypeInformation | None]
    late_tags: tuple[OutputTag | None, OutputTag | None]


class IntervalJoinOperator(KeyedTwoInputOperator):
    """Input 0 is the left side, input 1 the right one."""

    def __init__(
        self,
        spec: IntervalJoinSpec,
        function: ProcessJoinFunction,
        key_selectors: tuple[Any, Any],
        output_type: TypeInformation | None,
    ) -> None:
        super().__init__([function], key_selectors, output_type)
        self._spec = spec
        self._function = function
        #: by side: least and greatest difference from a record's own time to the other side's
        self._bounds = ((spec.lower_ms, spec.upper_ms), (-spec.upper_ms, -spec.lower_ms))

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._late = LateRecords(context)

    def open(self) -> None:
        self._buffers = tuple(
            self.backend.get_state(descriptor, fitted=True) for descriptor in _buffers(self._spec.input_types)
        )
        self._ctx = JoinContext()
        super().open()

    def process_rows(self, index: int, values: list[Any], timestamps: list[int], keys: list[Any]) -> None:
        set_key, join = self.backend.set_current_key, self._join
        # event time does not move between two watermarks
        watermark = self.timers.current_watermark
        rows = iter(values)
        try:
            for value, timestamp, key in zip(rows, timestamps, keys, strict=True):
                set_key(key)
                if timestamp == NO_TIMESTAMP:
                    raise missing_timestamp(self.context)
                if timestamp < watermark:
                    self._skip_late(index, value, timestamp)
                else:
                    join(index, value, timestamp)
        except Exception as error:
            record = values[failing_index(rows, len(values))]
            raise user_function_error(self.context, error, record, self._function.process_element) from error

    def on_event_time(self, timer: Timer) -> None:
        side = timer.namespace
        self._buffers[side].remove(timer.timestamp - max(self._bounds[side][1], 0))

    def _join(self, side: int, value: Any, timestamp: int) -> None:
        own, others = self._buffers[side], self._buffers[1 - side]
        bucket = own.get(timestamp)
        if bucket is None:
            own.put(timestamp, [value])
        else:
            own.put(timestamp, [*bucket, value])
        lower, upper = self._bounds[side]
        first, last = timestamp + lower, timestamp + upper
        met = [(time, records) for time, records in others.items() if first <= time <= last]
        met.sort(key=_time_of)
        for other_time, records in met:
            for record in records:
                if side == LEFT:
                    self._emit(value, record, timestamp, other_time)
                else:
                    self._emit(record, value, other_time, timestamp)
        self.timers.register_event_time_timer(timestamp + max(upper, 0), side)

    def _emit(self, left: Any, right: Any, left_time: int, right_time: int) -> None:
        ctx = self._ctx
        ctx.left, ctx.right = left_time, right_time
        ctx.result = left_time if left_time > right_time else right_time
        self.collector.add_results(self._function.process_element(left, right, ctx), ctx.result)

    def _skip_late(self, side: int, value: Any, timestamp: int) -> None:
        tag = self._spec.late_tags[side]
        if tag is None:
            self._late.drop(value, self._spec.input_types[side], timestamp, self.timers.current_watermark)
        else:
            self.collector.add_side(tag, value, timestamp)


def missing_timestamp(context: OperatorContext) -> MissingTimestampError:
    """Return the error for a record without event time in front of a join by event time."""
    return MissingTimestampError(
        f"operator {context.operator_name!r} joins by event time, but a record has none: "
        "call assign_timestamps_and_watermarks() on both streams before key_by()"
    )


def _time_of(bucket: tuple[int, list[Any]]) -> int:
    return bucket[0]


def _buffers(input_types: Sequence[TypeInformation | None]) -> list[MapStateDescriptor]:
    lists = [None if type_info is None else Types.LIST(type_info) for type_info in input_types]
    return [MapStateDescriptor(name, Types.LONG(), of_time) for name, of_time in zip(BUFFERS, lists, strict=True)]


@dataclass(frozen=True)
class IntervalJoinOperatorFactory:
    """IntervalJoin.

    Args:
        function: makes the results of a pair; they carry the later of the two event times.
        key_selectors: of the left and the right input.
        lower_ms: least difference right - left in event time, inclusive.
        upper_ms: greatest difference, inclusive; below `lower_ms` there are no pairs.
        input_types: of the left and the right records; None = Python objects.
        late_tags: side outputs of the late records of either side; None = they are dropped.
        output_type: type of the results; None = Python objects.

    Raises:
        TypeError: the function is no ProcessJoinFunction.
    """

    function: ProcessJoinFunction
    key_selectors: tuple[Any, Any]
    lower_ms: int
    upper_ms: int
    input_types: tuple[TypeInformation | None, TypeInformation | None] = (None, None)
    late_tags: tuple[OutputTag | None, OutputTag | None] = (None, None)
    output_type: TypeInformation | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.function, ProcessJoinFunction):
            raise TypeError(f"an interval join needs a ProcessJoinFunction, not {self.function!r}")

    @property
    def declared_states(self) -> DeclaredStates:
        own = [keyed_state(descriptor) for descriptor in _buffers(self.input_types)]
        return states_with_functions([self.function, *self.key_selectors], own)

    def create(self) -> IntervalJoinOperator:
        spec = IntervalJoinSpec(self.lower_ms, self.upper_ms, self.input_types, self.late_tags)
        return IntervalJoinOperator(spec, self.function, self.key_selectors, self.output_type)
