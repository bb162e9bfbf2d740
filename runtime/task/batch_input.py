"""BatchInput: a task's input in a batch, in the order that its head asks for.

Every channel is read as it comes, so that no producer is held up by another one's input: what has to wait is held
(`runtime.task.held_rows`) until all inputs have ended. Watermarks and statuses of those inputs are left out; a
MAX_WATERMARK and the end follow their last row. Loop's thread only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from runtime.common.typeinfo import TypeInformation
from runtime.core.batch import RecordBatch
from runtime.core.elements import END_OF_INPUT, MAX_WATERMARK, Watermark
from runtime.metrics import Counter
from runtime.operators.input_order import InputOrder
from runtime.operators.operator import StreamOperator
from runtime.task.held_rows import DEFAULT_HELD_BYTES, HeldBatch, HeldRows, merged
from runtime.task.input_gate import GateElement, InputGate
from runtime.task.task_input import TaskInput

_GATHERED_AT_ONCE = 16
"""Batches that are put aside in one step: about as much work as a slice of records."""


class BatchInput(TaskInput):
    """The inputs of one task in a batch.

    Args:
        gates: one for each input of the head; at least one.
        records_in: counts what is given to the operator.
        head: says the order.
        record_types: by index of the input.
        directory: makes the place for what does not fit the memory.
        max_held_bytes: of each input that is held.
    """

    def __init__(
        self,
        gates: Sequence[InputGate],
        records_in: Counter,
        head: StreamOperator,
        record_types: Mapping[int, TypeInformation | None],
        directory: Callable[[], Path],
        max_held_bytes: int = DEFAULT_HELD_BYTES,
    ) -> None:
        super().__init__(gates, records_in)
        self._record_types = record_types
        self._held: dict[int, HeldRows] = {}
        self._keyed: list[int] = []
        for gate in gates:
            index = gate.input_index
            order = head.input_order(index)
            if order is InputOrder.AS_THEY_COME:
                continue
            keys_of = partial(head.keys_of_input, index) if order is InputOrder.BY_KEY else None
            self._held[index] = HeldRows(record_types.get(index), keys_of, directory, max_held_bytes)
            if keys_of is not None:
                self._keyed.append(index)
        #: what was held, once all inputs have ended
        self._given: Iterator[tuple[int, GateElement]] | None = None
        self._is_over = not self._held

    @property
    def has_ended(self) -> bool:
        return self._is_over and super().has_ended

    def has_data(self) -> bool:
        return super().has_data() or (not self._is_over and super().has_ended)

    def gather(self) -> bool:
        """Put aside what has come and must wait; returns whether anything was, and then there is nothing to process."""
        if self._is_over or self._given is not None:
            return False
        for gathered in range(_GATHERED_AT_ONCE):
            if not self._gather_one():
                return gathered > 0
        return True

    def _gather_one(self) -> bool:
        for gate in self.gates:
            rows = self._held.get(gate.input_index)
            if rows is not None and (element := gate.poll()) is not None:
                if isinstance(element, RecordBatch):
                    rows.add(element)
                return True
        return False

    def _poll(self) -> GateElement | None:
        if self._is_over:
            return super()._poll()
        if self._given is None:
            element = self._poll_others()
            if element is not None or not super().has_ended:
                return element
            self._given = self._give()
        given = next(self._given, None)
        if given is None:
            self._is_over = True
            return None
        self.input_index, element = given
        return element

    def _poll_others(self) -> GateElement | None:
        """Return the next element of the inputs that are given as they come."""
        for gate in self.gates:
            if gate.input_index not in self._held and (element := gate.poll()) is not None:
                self.input_index = gate.input_index
                return element
        return None

    def _give(self) -> Iterator[tuple[int, GateElement]]:
        for index, rows in self._held.items():
            if index not in self._keyed:
                for batch in rows.in_order():
                    yield index, batch
        for given in self._merged():
            yield given.input_index, given.batch
        for index in self._held:
            yield index, Watermark(MAX_WATERMARK)
        last = list(self._held)[-1]
        for index in self._held:
            # the task ends with the last one
            self._is_over = index == last
            yield index, END_OF_INPUT

    def _merged(self) -> Iterator[HeldBatch]:
        keyed = [(index, self._held[index], self._record_types.get(index)) for index in self._keyed]
        return merged(keyed) if keyed else iter(())
