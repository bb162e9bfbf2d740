"""TemporalJoin: joins each left record with the version of the right side that was valid at its event time.

The right stream is a log of versions per key: a record is valid from its event time until the next one's; None ends
the validity of the one before. A left record waits until the watermark has passed it, since a version with an earlier
time may still come, and is then joined with the version of the greatest time <= its own. A left record behind the
watermark is late: it goes to the late side output, or is dropped and counted. A late version still counts for the left
records that wait. The last version of each key that the watermark has passed is kept as long as the job lives.
Used by the task's thread. Source: Flink, TemporalRowTimeJoinOperator (SQL: FOR SYSTEM_TIME AS OF).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from runtime.common.typeinfo import TypeInformation, Types
from runtime.core.batch import NO_TIMESTAMP
from runtime.operators.declared_states import states_with_functions
from runtime.operators.errors import failing_index, user_function_error
from runtime.operators.interval_join import JoinContext, missing_timestamp
from runtime.operators.late_records import LateRecords
from runtime.operators.operator import OperatorContext
from runtime.operators.output import Output
from runtime.operators.output_tag import OutputTag
from runtime.operators.two_input import KeyedTwoInputOperator
from runtime.operators.two_input_functions import ProcessJoinFunction
from runtime.state.backend import Timer
from runtime.state.descriptors import MapStateDescriptor
from runtime.state.state_meta import DeclaredStates, keyed_state

LEFT_STATE = "temporal-left"
"""Name of the state with the left records that wait: event time → records."""
VERSIONS_STATE = "temporal-versions"
"""Name of the state with the versions: event time → [record]."""

_JOIN, _PRUNE = 0, 1
"""Namespaces of timers: left records become due; versions before that time become useless."""


class TemporalJoinOperator(KeyedTwoInputOperator):
    """Input 0 is the left side, input 1 brings the versions."""

    def __init__(self, factory: TemporalJoinOperatorFactory) -> None:
        super().__init__([factory.function], factory.key_selectors, factory.output_type)
        self._function = factory.function
        self._types = factory.input_types
        self._late_tag = factory.late_tag
        self._is_left_outer = factory.is_left_outer

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._late = LateRecords(context)

    def open(self) -> None:
        self._left, self._versions = (
            self.backend.get_state(descriptor, fitted=True) for descriptor in _descriptors(self._types)
        )
        self._ctx = JoinContext()
        super().open()

    def process_rows(self, index: int, values: list[Any], timestamps: list[int], keys: list[Any]) -> None:
        set_key = self.backend.set_current_key
        process = self._process_version if index else self._process_left
        rows = iter(values)
        try:
            for value, timestamp, key in zip(rows, timestamps, keys, strict=True):
                set_key(key)
                if timestamp == NO_TIMESTAMP:
                    raise missing_timestamp(self.context)
                process(value, timestamp)
        except Exception as error:
            record = values[failing_index(rows, len(values))]
            raise user_function_error(self.context, error, record) from error

    def _process_left(self, value: Any, timestamp: int) -> None:
        if timestamp <= self.timers.current_watermark:
            if self._late_tag is None:
                self._late.drop(value, self._types[0], timestamp, self.timers.current_watermark)
            else:
                self.collector.add_side(self._late_tag, value, timestamp)
            return
        waiting = self._left.get(timestamp)
        self._left.put(timestamp, [value] if waiting is None else [*waiting, value])
        self.timers.register_event_time_timer(timestamp, _JOIN)

    def _process_version(self, value: Any, timestamp: int) -> None:
        self._versions.put(timestamp, [value])
        watermark = self.timers.current_watermark
        if timestamp > watermark:
            self.timers.register_event_time_timer(timestamp, _PRUNE)
        else:
            self._prune(watermark)

    def on_event_time(self, timer: Timer) -> None:
        timestamp = timer.timestamp
        if timer.namespace == _PRUNE:
            self._prune(timestamp)
            return
        waiting = self._left.get(timestamp)
        self._left.remove(timestamp)
        version_time = self._latest_until(timestamp)
        version = None if version_time is None else self._versions.get(version_time)[0]
        if version is None:
            if not self._is_left_outer:
                return
            version_time = NO_TIMESTAMP
        assert version_time is not None
        self._emit(waiting, version, timestamp, version_time)

    def _emit(self, waiting: list[Any], version: Any, timestamp: int, version_time: int) -> None:
        ctx, process = self._ctx, self._function.process_element
        ctx.left = ctx.result = timestamp
        ctx.right = version_time
        rows = iter(waiting)
        try:
            for left in rows:
                self.collector.add_results(process(left, version, ctx), timestamp)
        except Exception as error:
            record = waiting[failing_index(rows, len(waiting))]
            raise user_function_error(self.context, error, record, process) from error

    def _prune(self, until: int) -> None:
        """Forget the versions that end at or before `until`: left records up to then have been joined."""
        latest = self._latest_until(until)
        if latest is not None:
            for time in list(self._versions):
                if time < latest:
                    self._versions.remove(time)

    def _latest_until(self, timestamp: int) -> int | None:
        return max((time for time in self._versions if time <= timestamp), default=None)


def _descriptors(input_types: Sequence[TypeInformation | None]) -> list[MapStateDescriptor]:
    left_type, right_type = (None if t is None else Types.LIST(t) for t in input_types)
    return [
        MapStateDescriptor(LEFT_STATE, Types.LONG(), left_type),
        # a list, since None is a version too, while a map's value cannot be told from a missing one
        MapStateDescriptor(VERSIONS_STATE, Types.LONG(), right_type),
    ]


@dataclass(frozen=True)
class TemporalJoinOperatorFactory:
    """TemporalJoin.

    Args:
        function: makes the results of a left record and its version; they carry the left record's event time.
        key_selectors: of the left and the right input.
        is_left_outer: whether a left record without a version is joined with None (its context then tells
            NO_TIMESTAMP as right time) instead of being left out.
        input_types: of the left and the right records; None = Python objects.
        late_tag: side output of the late left records; None = they are dropped.
        output_type: type of the results; None = Python objects.

    Raises:
        TypeError: the function is no ProcessJoinFunction.
    """

    function: ProcessJoinFunction
    key_selectors: tuple[Any, Any]
    is_left_outer: bool = False
    input_types: tuple[TypeInformation | None, TypeInformation | None] = (None, None)
    late_tag: OutputTag | None = None
    output_type: TypeInformation | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.function, ProcessJoinFunction):
            raise TypeError(f"a temporal join needs a ProcessJoinFunction, not {self.function!r}")

    @property
    def declared_states(self) -> DeclaredStates:
        own = [keyed_state(descriptor) for descriptor in _descriptors(self.input_types)]
        return states_with_functions([self.function, *self.key_selectors], own)

    def create(self) -> TemporalJoinOperator:
        return TemporalJoinOperator(self)
