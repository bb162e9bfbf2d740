"""AlignedWindowOperator: tumbling and sliding event-time windows with the default trigger, many elements at a time.

The elements of a batch are first sorted into cells, one for each key and window; a cell is worked into the state when
its window fires or the batch ends. A key and window thus cost once per batch what the general operator pays for each
element. State and timers are those of the general operator, so snapshots fit both. Used by the task's thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from runtime.common.typeinfo import TypeInformation
from runtime.core.batch import NO_TIMESTAMP
from runtime.core.elements import MAX_WATERMARK
from runtime.core.keys import encode_key
from runtime.operators.errors import failing_index, user_function_error
from runtime.operators.windowing.assigners import SlidingEventTimeWindows, TumblingEventTimeWindows
from runtime.operators.windowing.window_operator import WindowOperator, WindowSpec, missing_timestamp
from runtime.operators.windowing.windows import Namespace, TimeWindow
from runtime.state.backend import Timer

Cells = dict[Any, list[Any]]

_PLAIN_TYPES = frozenset({str, bytes, type(None)})
_NUMBER_TYPES = frozenset({int, float, bool})


def is_aligned(spec: WindowSpec) -> bool:
    """Whether the operator of this module serves these windows (their trigger is known to be the default one)."""
    assigner = spec.assigner
    if spec.evictor is not None or type(assigner) not in (TumblingEventTimeWindows, SlidingEventTimeWindows):
        return False
    assert isinstance(assigner, (TumblingEventTimeWindows, SlidingEventTimeWindows))
    # otherwise elements between the same two window starts belong to different windows
    return assigner.size_ms % assigner.slide_ms == 0


class AlignedWindowOperator(WindowOperator):
    """Windows that all keys share, and that fire once the watermark has passed them."""

    def __init__(self, spec: WindowSpec, key_selector: Any, output_type: TypeInformation | None) -> None:
        super().__init__(spec, key_selector, output_type)
        assigner = spec.assigner
        assert isinstance(assigner, (TumblingEventTimeWindows, SlidingEventTimeWindows))
        self._size_ms = assigner.size_ms
        self._slide_ms = assigner.slide_ms
        self._offset_ms = assigner.offset_ms
        self._lateness_ms = spec.allowed_lateness_ms
        #: window start → what the key is told apart by → elements that are not in the state yet
        self._cells: dict[int, Cells] = {}
        #: what keys are told apart by → key; None if keys are told apart by themselves
        self._key_by_id: dict[Any, Any] | None = None

    def prepare_keys(self, keys: list[Any]) -> list[Any]:
        """What the keys of a batch are told apart by: a dict would take 1, 1.0 and True for the same key."""
        if _are_distinct(keys):
            self._key_by_id = None
            return keys
        rows = iter(keys)
        try:
            ids: list[Any] = list(map(encode_key, rows))
        except Exception as error:
            key = keys[failing_index(rows, len(keys))]
            raise user_function_error(self.context, error, key, self._key_selector, during="encoding a key") from error
        self._key_by_id = dict(zip(ids, keys, strict=True))
        return ids

    def process_rows(self, values: list[Any], timestamps: list[int], keys: list[Any]) -> None:
        rows = iter(values)
        try:
            self._sort_into_cells(rows, timestamps, keys)
        except Exception as error:
            record = values[failing_index(rows, len(values))]
            raise user_function_error(self.context, error, record, self._contents.function) from error

    def _sort_into_cells(self, rows: Iterator[Any], timestamps: list[int], keys: list[Any]) -> None:
        slide, offset = self._slide_ms, self._offset_ms
        last_start: int | None = None
        open_windows: list[tuple[int, Cells]] = []
        fired_windows: list[int] = []
        cells: Cells = {}
        is_simple = False
        for value, timestamp, key in zip(rows, timestamps, keys, strict=True):
            start = timestamp - (timestamp - offset) % slide
            if start != last_start:
                last_start = start
                open_windows, fired_windows = self._windows_from(start)
                is_simple = len(open_windows) == 1 and not fired_windows
                if is_simple:
                    cells = open_windows[0][1]
            if is_simple:
                if key in cells:
                    cells[key].append(value)
                else:
                    cells[key] = [value]
                    self._register_timers(key, open_windows[0][0])
                continue
            if fired_windows:
                self._fire_again(value, key, fired_windows)
            elif not open_windows:
                self._skip_late(value, timestamp)
            for window_start, window_cells in open_windows:
                if key in window_cells:
                    window_cells[key].append(value)
                else:
                    window_cells[key] = [value]
                    self._register_timers(key, window_start)

    def end_batch(self) -> None:
        self._flush_cells()

    def on_event_time(self, timer: Timer) -> None:
        if self._cells:
            self._flush_cells()
            self.backend.set_current_key(timer.key)
        namespace: tuple[int, int] = timer.namespace
        window = TimeWindow(*namespace)
        if timer.timestamp == window.max_timestamp():
            self._fire(window, namespace, namespace)
        if timer.timestamp == self._cleanup_time(window):
            self._state.set_current_namespace(namespace)
            self._state.clear()
            if self._lateness_ms:
                self.timers.delete_event_time_timer(window.max_timestamp(), namespace)
            self._clear_window_function(window, namespace)

    def _windows_from(self, last_start: int) -> tuple[list[tuple[int, Cells]], list[int]]:
        """The windows of elements of which `last_start` is the last window's start.

        Returns:
            The windows that have not fired, with their cells, and the starts of those that have but still take
            elements; windows that take none are left out.
        """
        if last_start <= NO_TIMESTAMP:
            raise missing_timestamp(self.context)
        fired_start = self.timers.current_watermark - self._size_ms + 1
        late_start = fired_start - self._lateness_ms
        open_windows: list[tuple[int, Cells]] = []
        fired: list[int] = []
        for start in range(last_start, last_start - self._size_ms, -self._slide_ms):
            if start > fired_start:
                open_windows.append((start, self._cells.setdefault(start, {})))
            elif start > late_start:
                fired.append(start)
        return open_windows, fired

    def _register_timers(self, key_id: Any, start: int) -> None:
        end = start + self._size_ms
        namespace = (start, end)
        self.backend.set_current_key(key_id if self._key_by_id is None else self._key_by_id[key_id])
        self.timers.register_event_time_timer(end - 1, namespace)
        if self._lateness_ms:
            cleanup_time = min(end - 1 + self._lateness_ms, MAX_WATERMARK)
            self.timers.register_event_time_timer(cleanup_time, namespace)

    def _fire_again(self, value: Any, key_id: Any, fired_windows: list[int]) -> None:
        """Add an element to windows that have fired, each of which then fires again at once."""
        self.backend.set_current_key(key_id if self._key_by_id is None else self._key_by_id[key_id])
        for start in fired_windows:
            # nothing of such a window is in a cell: its cells were worked in when its timer fired
            window = TimeWindow(start, start + self._size_ms)
            namespace = (start, window.end)
            self._add_to_state(namespace, [value])
            self._fire(window, namespace, namespace)
            self.timers.register_event_time_timer(self._cleanup_time(window), namespace)

    def _flush_cells(self) -> None:
        all_cells, self._cells = self._cells, {}
        set_key, key_by_id = self.backend.set_current_key, self._key_by_id
        for start, cells in all_cells.items():
            namespace = (start, start + self._size_ms)
            for key_id, elements in cells.items():
                set_key(key_id if key_by_id is None else key_by_id[key_id])
                self._add_to_state(namespace, elements)

    def _add_to_state(self, namespace: Namespace, elements: list[Any]) -> None:
        self._state.set_current_namespace(namespace)
        rows = iter(elements)
        try:
            self._contents.add_all(self._state, rows)
        except Exception as error:
            record = elements[failing_index(rows, len(elements))]
            raise user_function_error(self.context, error, record, self._contents.function) from error


def _are_distinct(keys: list[Any]) -> bool:
    """Whether a dict tells these keys apart as the key encoding does (it may tell more of them apart)."""
    types = set(map(type, keys))
    if types == {tuple}:
        types = set(map(type, chain.from_iterable(keys)))
    return len(types & _NUMBER_TYPES) <= 1 and types <= _PLAIN_TYPES | _NUMBER_TYPES
