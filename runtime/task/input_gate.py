"""InputGate: all channels into one input of a task, merged into one sequence of elements.

Channels are polled in turn, but for those that a checkpoint has blocked; watermarks, marks and idleness go through the
valve, so that what comes out speaks for the whole input. What a restore brings of a channel comes out before anything
new. Used by the task's thread only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from runtime.core.batch import Mark, RecordBatch
from runtime.core.elements import (
    CheckpointBarrier,
    EndOfInput,
    LatencyMarker,
    StreamElement,
    Watermark,
    WatermarkStatus,
)
from runtime.network.channel import InputChannel
from runtime.task.watermark_valve import WatermarkValve

GateElement = RecordBatch | Watermark | WatermarkStatus | LatencyMarker | CheckpointBarrier | EndOfInput


class UnexpectedElementError(Exception):
    """A channel delivered something that has no place at this point of the protocol."""


class GateListener(Protocol):
    """Learns of barriers and ends while the gate is polled, before anything behind them comes out.

    Channels go by their index among all channels of the task.
    """

    def on_barrier(self, channel: int, barrier: CheckpointBarrier) -> None: ...

    def on_channel_ended(self, channel: int) -> None: ...


class InputGate:
    """The channels of one input; several edges of a union may lead into it.

    Args:
        input_index: of the task's head.
        channels: polled in turn.
        listener: None = barriers have no place here, and nobody wants to know of ends.
        first_channel: index of the first channel among all of the task.
    """

    def __init__(
        self,
        input_index: int,
        channels: Sequence[InputChannel],
        listener: GateListener | None = None,
        first_channel: int = 0,
    ) -> None:
        self.input_index = input_index
        self.channels = list(channels)
        self.first_channel = first_channel
        self.valve = WatermarkValve(len(self.channels))
        #: index within the gate of the channel that the last element came from
        self.last_channel = 0
        self._listener = listener
        self._open = len(self.channels)
        self._next = 0
        self._pending: list[GateElement] = []
        self._is_blocked = [False] * len(self.channels)
        self._num_blocked = 0
        #: what a restore has brought, with the channel that it belongs to
        self._restored: deque[tuple[int, StreamElement]] = deque()

    @property
    def has_ended(self) -> bool:
        """Return whether END_OF_INPUT has come out."""
        return self._open == 0 and not self._pending

    def has_data(self) -> bool:
        """Return whether `poll` may return an element."""
        if self._pending or self._restored:
            return True
        if not self._num_blocked:
            return any(c.has_data() for c in self.channels)
        return any(c.has_data() for c, blocked in zip(self.channels, self._is_blocked, strict=True) if not blocked)

    def block(self, index: int) -> None:
        """Stop polling this channel; its data stays where it is."""
        if not self._is_blocked[index]:
            self._is_blocked[index] = True
            self._num_blocked += 1

    def unblock_all(self) -> None:
        """Poll all channels again."""
        self._is_blocked = [False] * len(self.channels)
        self._num_blocked = 0

    def take_in(self, index: int, elements: Sequence[StreamElement]) -> None:
        """Let these come out of a channel before anything else."""
        self._restored.extend((index, element) for element in elements)

    def restored_of(self, index: int) -> list[StreamElement]:
        """Return the rest of the elements that were taken in for a channel."""
        return [element for owner, element in self._restored if owner == index]

    def poll(self) -> GateElement | None:
        """Return the next element of the merged input, or None if nothing is there; EndOfInput comes once, at the end.

        A barrier has been told to the listener when it comes out.
        """
        if self._pending:
            return self._pending.pop(0)
        while self._restored:
            index, element = self._restored.popleft()
            merged = self._merge(index, element)
            if merged is not None:
                self.last_channel = index
                return merged
        count = len(self.channels)
        for step in range(count):
            index = (self._next + step) % count
            if self._num_blocked and self._is_blocked[index]:
                continue
            polled = self.channels[index].poll()
            while polled is not None:
                merged = self._merge(index, polled)
                if merged is not None:
                    self._next = (index + 1) % count
                    self.last_channel = index
                    return merged
                # the element changed nothing for the input as a whole: look further in the same channel
                polled = self.channels[index].poll()
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
        if isinstance(element, CheckpointBarrier) and self._listener is not None:
            self._listener.on_barrier(self.first_channel + index, element)
            return element
        if isinstance(element, EndOfInput):
            if self._listener is not None:
                self._listener.on_channel_ended(self.first_channel + index)
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
