"""SessionWindowOperator: event-time sessions with the default trigger, with a fast path for the common cases.

Nearly every element opens a key's only session, lies within it or extends it; these three cases are implemented here,
without the trigger. The merging operator, whose state and timers these are, handles all others and all timers. Used by
the task's thread.
"""

from __future__ import annotations

from typing import Any

from runtime.core.batch import NO_TIMESTAMP
from runtime.operators.windowing.merging_window_set import has_touching_windows
from runtime.operators.windowing.merging_windows import MergingWindowOperator
from runtime.operators.windowing.triggers import EventTimeTrigger
from runtime.operators.windowing.window_operator import WindowSpec, missing_timestamp
from runtime.operators.windowing.windows import TimeWindow


def is_plain_session(spec: WindowSpec) -> bool:
    """Return whether the operator of this module serves these windows."""
    return (
        has_touching_windows(spec.assigner)
        and spec.assigner.is_event_time()
        and spec.evictor is None
        and type(spec.trigger) is EventTimeTrigger
    )


class SessionWindowOperator(MergingWindowOperator):
    """Sessions that fire once the watermark has passed them."""

    def process_element(self, value: Any, timestamp: int) -> None:
        if timestamp == NO_TIMESTAMP:
            raise missing_timestamp(self.context)
        assigned = self._spec.assigner.assign_windows(value, timestamp, self._assigner_context)
        pairs = self._open_windows.value()
        if pairs is not None and len(pairs) > 1:
            self._add_to_windows(value, timestamp, assigned)
            return
        (window,) = assigned
        namespace = (window.start, window.end)
        watermark, lateness_ms = self.timers.current_watermark, self._spec.allowed_lateness_ms
        if pairs is None:
            if window.end - 1 + lateness_ms <= watermark:
                self._skip_late(value, timestamp)
                return
            state_namespace = namespace
            self._open_windows.update([(namespace, namespace)])
            self._register_end(namespace)
        else:
            old, state_namespace = pairs[0]
            if old[0] > namespace[1] or old[1] < namespace[0]:
                self._add_to_windows(value, timestamp, assigned)
                return
            namespace = (min(old[0], namespace[0]), max(old[1], namespace[1]))
            if namespace != old:
                self.timers.delete_event_time_timer(old[1] - 1, old)
                if lateness_ms:
                    self._delete_cleanup(self._cleanup_time(TimeWindow(*old)), old)
                self._open_windows.update([(namespace, state_namespace)])
                self._register_end(namespace)
        self._state.set_current_namespace(state_namespace)
        self._contents.add(self._state, value)
        if namespace[1] - 1 <= watermark:
            self._fire(TimeWindow(*namespace), namespace, state_namespace)

    def _register_end(self, namespace: tuple[int, int]) -> None:
        last = namespace[1] - 1
        if last > self.timers.current_watermark:
            self.timers.register_event_time_timer(last, namespace)
        if self._spec.allowed_lateness_ms:
            self._register_cleanup(self._cleanup_time(TimeWindow(*namespace)), namespace)
