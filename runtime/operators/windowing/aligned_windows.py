"""AlignedWindowOperator: tumbling and sliding event-time windows with the default trigger, many elements at a time.

The elements of a batch are first sorted into cells, one for each key and window. Each window collects the contents of
its cells in a pane, a plain dict by key, until the window fires: most keys and windows thus never reach the state
backend. Panes are written to state and timers before a snapshot, and when they have grown large; a window with
something in the state continues there. State and timers are those of the general operator, so snapshots fit both, and
windows of another size that come with a snapshot fire as they were. With an allowed lateness, and for keys that a dict
cannot distinguish, cells go to the state at once. Used by the task's thread.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from itertools import chain, islice
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
from runtime.state.snapshot import CANONICAL_SNAPSHOT, OperatorSnapshot, SnapshotRequest

Cells = dict[Any, list[Any]]
Pane = dict[Any, Any]

_PLAIN_TYPES = frozenset({str, bytes, type(None)})
_NUMBER_TYPES = frozenset({int, float, bool})
_MAX_PANE_ENTRIES = 200_000
"""Maximum number of keys and windows in panes. More would delay a checkpoint for seconds (5 µs each) and take the
memory that a state backend on disk is meant to save; with fewer, jobs with many keys access the state of every
window."""


def is_aligned(spec: WindowSpec) -> bool:
    """Return whether this module's operator serves these windows (their trigger is known to be the default one)."""
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
        #: window start → distinguishing form of the key → elements of the current batch
        self._cells: dict[int, Cells] = {}
        #: window start → key → contents of the window; nothing of these windows is in the state
        self._panes: dict[int, Pane] = {}
        #: panes that the watermark has passed, by window start, with the rest of them that has not fired
        self._firing: deque[tuple[int, Iterator[tuple[Any, Any]]]] = deque()
        #: starts of the windows with something in the state; not tracked with an allowed lateness
        self._written: set[int] = set()
        #: windows of other sizes with something in the state: the snapshot was of windows of another size
        self._foreign: set[Namespace] = set()
        #: the end of the first window that has cells or a pane, inclusive, ms
        self._next_end: float = math.inf
        #: distinguishing form of a key → key; None if keys distinguish themselves
        self._key_by_id: dict[Any, Any] | None = None
        #: the type of the numbers in the panes' keys
        self._number_type: type | None = None

    def open(self) -> None:
        super().open()
        namespaces = set(self.timers.event_time_namespaces())
        own = {namespace for namespace in namespaces if namespace[1] - namespace[0] == self._size_ms}
        self._written = {namespace[0] for namespace in own}
        self._foreign = namespaces - own

    def prepare_keys(self, keys: list[Any]) -> list[Any]:
        """Return the keys of a batch in a form that distinguishes them: a dict would take 1, 1.0 and True for one
        key."""
        number_types = _number_types(keys)
        if number_types is not None:
            self._key_by_id = None
            for number_type in number_types:
                if self._number_type not in (None, number_type):
                    self._write_panes()
                self._number_type = number_type
            return keys
        rows = iter(keys)
        try:
            ids: list[Any] = list(map(encode_key, rows))
        except Exception as error:
            key = keys[failing_index(rows, len(keys))]
            raise user_function_error(self.context, error, key, self._key_selector, during="encoding a key") from error
        self._key_by_id = dict(zip(ids, keys, strict=True))
        # the same keys may be in panes, where they are distinguished otherwise
        self._write_panes()
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
        #: by window start; only those that have one window, which has not fired
        simple: dict[int, Cells] = {}
        others: dict[int, tuple[list[Cells], list[int]]] = {}
        for value, timestamp, key in zip(rows, timestamps, keys, strict=True):
            start = timestamp - (timestamp - offset) % slide
            if start in simple:
                cells = simple[start]
                if key in cells:
                    cells[key].append(value)
                else:
                    cells[key] = [value]
                continue
            if start not in others:
                others[start] = self._windows_from(start)
            open_windows, fired_windows = others[start]
            if len(open_windows) == 1 and not fired_windows:
                simple[start] = open_windows[0]
            if fired_windows:
                self._fire_again(value, key, fired_windows)
            elif not open_windows:
                self._skip_late(value, timestamp)
            for window_cells in open_windows:
                if key in window_cells:
                    window_cells[key].append(value)
                else:
                    window_cells[key] = [value]

    def end_batch(self) -> None:
        self._settle()
        if sum(map(len, self._panes.values())) > _MAX_PANE_ENTRIES:
            self._write_panes()

    def fire_due(self) -> bool:
        watermark = self.timers.current_watermark
        if watermark >= self._next_end:
            self._settle()
            self._take_due_panes(watermark)
        return self._fire_panes() and super().fire_due()

    def snapshot_state(self, request: SnapshotRequest = CANONICAL_SNAPSHOT) -> OperatorSnapshot:
        self._write_panes()
        return super().snapshot_state(request)

    def on_event_time(self, timer: Timer) -> None:
        namespace: tuple[int, int] = timer.namespace
        window = TimeWindow(*namespace)
        if timer.timestamp == window.max_timestamp():
            self._fire(window, namespace, namespace)
        if timer.timestamp == self._cleanup_time(window):
            if window.end - window.start == self._size_ms:
                self._written.discard(window.start)
            else:
                self._foreign.discard(namespace)
            self._state.set_current_namespace(namespace)
            self._state.clear()
            if self._lateness_ms:
                self.timers.delete_event_time_timer(window.max_timestamp(), namespace)
            self._clear_window_function(window, namespace)

    def _windows_from(self, last_start: int) -> tuple[list[Cells], list[int]]:
        """Return the windows of elements of which `last_start` is the last window's start.

        Returns:
            The cells of the windows that have not fired, and the starts of those that have fired but still accept
            elements; windows that accept none are omitted.
        """
        if last_start <= NO_TIMESTAMP:
            raise missing_timestamp(self.context)
        fired_start = self.timers.current_watermark - self._size_ms + 1
        late_start = fired_start - self._lateness_ms
        open_windows: list[Cells] = []
        fired: list[int] = []
        for start in range(last_start, last_start - self._size_ms, -self._slide_ms):
            if start > fired_start:
                open_windows.append(self._cells.setdefault(start, {}))
                self._next_end = min(self._next_end, start + self._size_ms - 1)
            elif start > late_start:
                fired.append(start)
        return open_windows, fired

    def _fire_again(self, value: Any, key_id: Any, fired_windows: list[int]) -> None:
        """Add an element to windows that have fired, each of which then fires again at once."""
        self.backend.set_current_key(key_id if self._key_by_id is None else self._key_by_id[key_id])
        for start in fired_windows:
            # nothing of such a window is in a cell: its cells were folded in before it fired
            window = TimeWindow(start, start + self._size_ms)
            namespace = (start, window.end)
            self._add_to_state(namespace, [value])
            self._fire(window, namespace, namespace)
            self.timers.register_event_time_timer(self._cleanup_time(window), namespace)

    def _settle(self) -> None:
        """Fold the cells into panes, or into the state."""
        all_cells, self._cells = self._cells, {}
        keeps_panes = self._lateness_ms == 0 and self._key_by_id is None
        for start, cells in all_cells.items():
            if keeps_panes and start not in self._written:
                self._fold(self._panes.setdefault(start, {}), cells)
            else:
                self._add_cells_to_state(start, cells)

    def _fold(self, pane: Pane, cells: Cells) -> None:
        fold, kept_of = self._contents.fold, pane.get
        elements: list[Any] = []
        rows: Iterator[Any] = iter(())
        try:
            for key, elements in cells.items():
                rows = iter(elements)
                pane[key] = fold(kept_of(key), rows)
        except Exception as error:
            record = elements[failing_index(rows, len(elements))]
            raise user_function_error(self.context, error, record, self._contents.function) from error

    def _add_cells_to_state(self, start: int, cells: Cells) -> None:
        set_key, key_by_id = self.backend.set_current_key, self._key_by_id
        namespace = (start, start + self._size_ms)
        for key_id, elements in cells.items():
            set_key(key_id if key_by_id is None else key_by_id[key_id])
            self._register_timers(namespace)
            self._add_to_state(namespace, elements)
        self._written.add(start)

    def _add_to_state(self, namespace: Namespace, elements: list[Any]) -> None:
        self._state.set_current_namespace(namespace)
        rows = iter(elements)
        try:
            self._contents.add_all(self._state, rows)
        except Exception as error:
            record = elements[failing_index(rows, len(elements))]
            raise user_function_error(self.context, error, record, self._contents.function) from error

    def _register_timers(self, namespace: tuple[int, int]) -> None:
        last = namespace[1] - 1
        self.timers.register_event_time_timer(last, namespace)
        if self._lateness_ms:
            self.timers.register_event_time_timer(min(last + self._lateness_ms, MAX_WATERMARK), namespace)

    def _write_panes(self) -> None:
        """Put the panes into the state; timers then fire what is left of those that are firing."""
        panes = {**{start: dict(rest) for start, rest in self._firing}, **self._panes}
        self._panes = {}
        self._firing.clear()
        self._number_type = None
        set_key, state, write = self.backend.set_current_key, self._state, self._contents.write
        for start, pane in panes.items():
            namespace = (start, start + self._size_ms)
            state.set_current_namespace(namespace)
            for key, kept in pane.items():
                set_key(key)
                self._register_timers(namespace)
                write(state, kept)
            self._written.add(start)

    def _take_due_panes(self, watermark: int) -> None:
        """Let the panes fire that the watermark has passed, unless they must wait for their turn among windows in the
        state."""
        last_start = watermark - self._size_ms + 1
        due = sorted(start for start in self._panes if start <= last_start)
        in_state = any(start <= last_start for start in self._written)
        if due and (in_state or any(end - 1 <= watermark for _, end in self._foreign)):
            self._write_panes()
        else:
            self._firing.extend((start, iter(self._panes.pop(start).items())) for start in due)
        self._next_end = min((*self._panes, *self._cells), default=math.inf) + self._size_ms - 1

    def _fire_panes(self) -> bool:
        """Fire panes; returns False if the slice was over before the last."""
        timer_slice = self.context.timer_slice
        while self._firing:
            start, rest = self._firing[0]
            if timer_slice.left <= 0 and not timer_slice.renew():
                return False
            part = list(islice(rest, int(min(timer_slice.left, _MAX_PANE_ENTRIES))))
            timer_slice.left -= len(part)
            if part:
                self._fire_part(TimeWindow(start, start + self._size_ms), part)
            else:
                self._firing.popleft()
        return True

    def _fire_part(self, window: TimeWindow, part: list[tuple[Any, Any]]) -> None:
        """Fire a window for some keys, given with what is kept of them."""
        self.timers.num_fired += len(part)
        result_of, timestamp = self._contents.result, window.max_timestamp()
        if self._caller.function is None:
            rows = iter(part)
            try:
                results = [result_of(kept)[0] for _, kept in rows if kept is not None]
            except Exception as error:
                self.backend.set_current_key(part[failing_index(rows, len(part))][0])
                raise self._failure(error, self._contents.function, window) from error
            self.collector.values.extend(results)
            self.collector.timestamps.extend([timestamp] * len(results))
            return
        namespace = (window.start, window.end)
        set_key = self.backend.set_current_key
        for key, kept in part:
            if kept is None:  # a reduction may yield None, as it may in the state
                continue
            set_key(key)
            try:
                self._emit(window, namespace, result_of(kept))
            except Exception as error:
                raise self._failure(error, self._caller.function, window) from error
            self._clear_window_function(window, namespace)


def _number_types(keys: list[Any]) -> set[type] | None:
    """Return the types of numbers in keys that a dict distinguishes as the key encoding does: none or one.

    None if it cannot: numbers of different types may be equal, a NaN differs from itself.
    """
    types = set(map(type, keys))
    items = keys
    if types == {tuple}:
        items = list(chain.from_iterable(keys))
        types = set(map(type, items))
    numbers = types & _NUMBER_TYPES
    if len(numbers) > 1 or not types <= _PLAIN_TYPES | _NUMBER_TYPES:
        return None
    if float in numbers and any(item != item for item in items):
        return None
    return numbers
