"""BatchInput: what an operator is given in a batch, and in which order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runtime.core.batch import RecordBatch
from runtime.core.elements import END_OF_INPUT, MAX_WATERMARK, StreamElement, Watermark, WatermarkStatus
from runtime.metrics import MetricRegistry
from runtime.operators.input_order import InputOrder
from runtime.operators.operator import StreamOperator
from runtime.operators.output import Input
from runtime.task.batch_input import BatchInput
from runtime.task.input_gate import InputGate
from tests.task.test_input_gate import ScriptedChannel, batch

AT_ONCE, BEHIND, BY_KEY = InputOrder.AS_THEY_COME, InputOrder.BEHIND_OTHERS, InputOrder.BY_KEY


class Head(StreamOperator):
    """An operator that wants its inputs in these orders; a record's key is its first letter."""

    def __init__(self, *orders: InputOrder) -> None:
        self._orders = orders

    @property
    def inputs(self) -> list[Input]:
        return []

    def input_order(self, input_index: int) -> InputOrder:
        return self._orders[input_index]

    def keys_of_input(self, input_index: int, batch: RecordBatch) -> list[Any]:
        return [value[0] for value in batch.values()]


def given(head: Head, path: Path, *channels: list[StreamElement]) -> list[tuple[int, object]]:
    """Return what the operator is given, record by record, as (input, record or element)."""
    gates = [InputGate(i, [ScriptedChannel(i, *elements)], None, i) for i, elements in enumerate(channels)]
    task_input = BatchInput(gates, MetricRegistry().root().counter("in"), head, {}, lambda: path, 1 << 20)
    found: list[tuple[int, object]] = []
    while task_input.has_data():
        task_input.gather()
        element = task_input.next(2)
        if isinstance(element, RecordBatch):
            found += [(task_input.input_index, value) for value in element.values()]
        elif element is not None:
            found.append((task_input.input_index, element))
            if element is END_OF_INPUT:
                # a task finishes with the last end, and not before
                assert task_input.has_ended is (len([e for _, e in found if e is END_OF_INPUT]) == len(channels))
    return found


def test_records_come_by_key_once_the_input_has_ended(tmp_path: Path) -> None:
    end = Watermark(MAX_WATERMARK)
    channel: list[StreamElement] = [batch("b1", "a1"), Watermark(5), WatermarkStatus.IDLE, batch("a2")]
    channel += [end, END_OF_INPUT]
    found = given(Head(BY_KEY), tmp_path, channel)
    assert found == [(0, "a1"), (0, "a2"), (0, "b1"), (0, end), (0, END_OF_INPUT)]


def test_nothing_is_given_before_every_input_has_ended(tmp_path: Path) -> None:
    gates = [InputGate(0, [ScriptedChannel(0, batch("a"), END_OF_INPUT)]), InputGate(1, [ScriptedChannel(1)], None, 1)]
    head = Head(BY_KEY, BY_KEY)
    task_input = BatchInput(gates, MetricRegistry().root().counter("in"), head, {}, lambda: tmp_path)
    assert task_input.gather()
    assert task_input.next(9) is None and not task_input.has_data() and not task_input.has_ended


def test_rules_come_before_the_records_that_they_are_for(tmp_path: Path) -> None:
    records: list[StreamElement] = [batch("x", "y"), Watermark(MAX_WATERMARK), END_OF_INPUT]
    rules: list[StreamElement] = [batch("r1"), batch("r2"), Watermark(MAX_WATERMARK), END_OF_INPUT]
    found = given(Head(BEHIND, AT_ONCE), tmp_path, records, rules)
    end = Watermark(MAX_WATERMARK)
    assert found == [
        *[(1, "r1"), (1, "r2"), (1, end), (1, END_OF_INPUT)],
        *[(0, "x"), (0, "y"), (0, end), (0, END_OF_INPUT)],
    ]


def test_inputs_that_are_keyed_alike_come_together(tmp_path: Path) -> None:
    left: list[StreamElement] = [batch("b1", "a1"), END_OF_INPUT]
    right: list[StreamElement] = [batch("a2", "c2"), END_OF_INPUT]
    found = given(Head(BY_KEY, BY_KEY), tmp_path, left, right)
    assert [value for value in found if isinstance(value[1], str)] == [(0, "a1"), (1, "a2"), (0, "b1"), (1, "c2")]
    assert found[4:] == [(i, Watermark(MAX_WATERMARK)) for i in (0, 1)] + [(i, END_OF_INPUT) for i in (0, 1)]


@pytest.mark.parametrize("orders", [(AT_ONCE,), (AT_ONCE, AT_ONCE)])
def test_what_needs_no_order_is_given_at_once(tmp_path: Path, orders: tuple[InputOrder, ...]) -> None:
    gates = [InputGate(i, [ScriptedChannel(i, batch("a"))], None, i) for i in range(len(orders))]
    task_input = BatchInput(gates, MetricRegistry().root().counter("in"), Head(*orders), {}, lambda: tmp_path)
    assert not task_input.gather()
    element = task_input.next(9)
    assert isinstance(element, RecordBatch) and element.values() == ["a"]
