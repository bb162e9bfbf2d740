"""InputGate: all channels into one input of a task, merged into one sequence of elements.

Channels are polled in turn; watermarks, marks and idleness go through the valve, so that what comes out speaks for the
whole input. Used by the task's thread only.
"""

from __future__ import annotations

from collections.abc import Sequence

from runtime.core.batch import Mark, RecordBatch
from runtime.core.elements import EndOfInput, LatencyMarker, Watermark, WatermarkStatus
from runtime.network.channel import InputChannel
from runtime.task.watermark_valve import WatermarkValve

GateElement = RecordBatch | Watermark | WatermarkStatus | LatencyMarker | EndOfInput


class UnexpectedElementError(Exception):
    """A channel delivered something that has no place at this point of the protocol."""


class InputGate:
    """The channels of one input; several edges of a union may lead into it."""

    def __init__(self, input_index: int, channels: Sequence[InputChannel]) -> None:
        self.input_index = input_index
        self.channels = list(channels)
        self.valve = WatermarkValve(len(self.channels))
        self._open = len(self.channels)
        self._next = 0
        self._pending: list[GateElement] = []

    @property
    def has_ended(self) -> bool:
        """Whether END_OF_INPUT has come out."""
        return self._open == 0 and not self._pending

    def has_data(self) -> bool:
        """Whether `poll` may return an element."""
        return bool(self._pending) or any(c.has_data() for c in self.channels)

    def poll(self) -> GateElement | None:
        """The next element of the merged input, or None if nothing is there; EndOfInput comes once, at the end."""
        if self._pending:
            return self._pending.pop(0)
        count = len(self.channels)
        for step in range(count):
            index = (self._next + step) % count
            element = self.channels[index].poll()
            while element is not None:
                merged = self._merge(index, element)
                if merged is not None:
                    self._next = (index + 1) % count
                    return merged
                # the element changed nothing for the input as a whole: look further in the same channel
                element = self.channels[index].poll()
        return None

    def _merge(self, index: int, element: object) -> GateElement | None:
        if isinstance(element, RecordBatch):
            if element.marks:
                return element.with_marks(self._merge_marks(index, element.marks))
            return element
        if isinstance(element, Watermark):
            risen = self.valve.on_watermark(index, element.timestamp)
            return None if risen is None else Watermark(risen)
        if isinstance(element, WatermarkStatus):
            return self._first(*self.valve.on_status(index, element))
        if isinstance(element, LatencyMarker):
            return element
        if isinstance(element, EndOfInput):
            self._open -= 1
            first = self._first(*self.valve.on_end(index))
            if self._open:
                return first
            if first is None:
                return element
            self._pending.append(element)
            return first
        raise UnexpectedElementError(f"{type(element).__name__} in channel {self.channels[index].channel_id}")

    def _merge_marks(self, index: int, marks: Sequence[Mark]) -> list[Mark]:
        on_watermark = self.valve.on_watermark
        merged = []
        for offset, watermark in marks:
            risen = on_watermark(index, watermark)
            if risen is not None:
                merged.append(Mark(offset, risen))
        return merged

    def _first(self, risen: int | None, status: WatermarkStatus | None) -> GateElement | None:
        elements: list[GateElement] = []
        if risen is not None:
            elements.append(Watermark(risen))
        if status is not None:
            elements.append(status)
        if not elements:
            return None
        self._pending.extend(elements[1:])
        return elements[0]
