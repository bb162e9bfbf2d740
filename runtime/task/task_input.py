"""TaskInput: all that comes into a task, merged from its gates and cut into slices. Loop's thread only.

Gates are polled in turn. A batch is worked off in slices; the rest of one that the head puts back comes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from runtime.core.batch import RecordBatch
from runtime.core.elements import Watermark
from runtime.metrics import Counter
from runtime.network.channel import ChannelId
from runtime.task.input_gate import GateElement, InputGate


@dataclass(frozen=True, slots=True)
class Unread:
    """Rest of a batch that the task is working off."""

    channel: int
    """Index among all channels of the task."""
    elements: Sequence[RecordBatch | Watermark]
    """At least one."""


class TaskInput:
    """The inputs of one task.

    Args:
        gates: one for each input of the head; none for a source.
        records_in: counts what comes in.
    """

    def __init__(self, gates: Sequence[InputGate], records_in: Counter) -> None:
        self.gates = gates
        self.channels = [channel for gate in gates for channel in gate.channels]
        #: the head's input that the last element is for
        self.input_index = 0
        self._records_in = records_in
        #: the batch that is being worked off in slices, and how far it has got
        self._batch: RecordBatch | None = None
        self._offset = 0
        #: of the slice before, what lies behind a mark at which timers began to fire
        self._rest: RecordBatch | None = None
        #: gate that the last element came from
        self._gate = 0
        self._next_gate = 0

    @property
    def num_records(self) -> int:
        """Return how many records have come in."""
        return self._records_in.get_count()

    @property
    def has_ended(self) -> bool:
        """Return whether every input has."""
        return all(gate.has_ended for gate in self.gates)

    def has_data(self) -> bool:
        """Return whether `next` may return an element."""
        if self._batch is not None or self._rest is not None:
            return True
        return any(gate.has_data() for gate in self.gates)

    def next(self, max_rows: int) -> GateElement | None:
        """Return what comes next, or None if nothing is there; a batch of at most `max_rows` rows.

        What was put back comes whole. A slice that was returned never comes again, even if it raises.
        """
        if self._rest is not None:
            rest, self._rest = self._rest, None
            return rest
        batch, start = self._batch, self._offset
        if batch is None:
            element = self._poll()
            if not isinstance(element, RecordBatch):
                return element
            batch, start = element, 0
        stop = start + max_rows
        if stop < batch.num_rows:
            self._batch, self._offset = batch, stop
            self._records_in.inc(max_rows)
            return batch.slice(start, stop)
        self._batch = None
        # by slice: a batch that takes seconds would show as a burst, and then as none
        self._records_in.inc(batch.num_rows - start)
        return batch.slice(start, batch.num_rows) if start else batch

    def gather(self) -> bool:
        """Put aside what has come and must wait; returns whether anything was put aside."""
        return False

    def put_back(self, rest: RecordBatch) -> None:
        """Let the rest of the last slice come before anything else."""
        self._rest = rest

    def take_in(self, channel_id: ChannelId, elements: Sequence[RecordBatch | Watermark]) -> None:
        """Let these come out of a channel before anything else.

        Raises:
            LookupError: there is no such channel.
        """
        for gate in self.gates:
            for index, channel in enumerate(gate.channels):
                if channel.channel_id == channel_id:
                    gate.take_in(index, elements)
                    return
        raise LookupError(f"there is no {channel_id} to restore")

    def unread(self) -> Unread | None:
        """Return what has left a channel and no operator has seen; None: nothing."""
        elements: list[RecordBatch | Watermark] = []
        if self._rest is not None and self._rest.num_rows:
            elements.append(self._rest)
        elif self._rest is not None:
            elements += [Watermark(watermark) for _, watermark in self._rest.marks]
        if self._batch is not None:
            elements.append(self._batch.slice(self._offset, self._batch.num_rows))
        if not elements:
            return None
        gate = self.gates[self._gate]
        return Unread(gate.first_channel + gate.last_channel, elements)

    def _poll(self) -> GateElement | None:
        count = len(self.gates)
        for step in range(count):
            index = (self._next_gate + step) % count
            element = self.gates[index].poll()
            if element is not None:
                self._next_gate = (index + 1) % count
                self._gate = index
                self.input_index = self.gates[index].input_index
                return element
        return None
