"""TaskInput: gates in turn, batches in slices, and what a snapshot has to hold of them."""

from __future__ import annotations

import pytest

from runtime.core.batch import Mark, RecordBatch
from runtime.core.elements import END_OF_INPUT, Watermark
from runtime.metrics import MetricRegistry
from runtime.network.channel import ChannelId
from runtime.task.input_gate import GateElement, InputGate
from runtime.task.task_input import TaskInput
from tests.task.test_input_gate import ScriptedChannel, batch


def input_of(*channels: ScriptedChannel) -> TaskInput:
    """Return an input with one gate for each channel."""
    gates = [InputGate(index, [channel], first_channel=index) for index, channel in enumerate(channels)]
    return TaskInput(gates, MetricRegistry().root().counter("numRecordsIn"))


def values(element: GateElement | None) -> list[object]:
    assert isinstance(element, RecordBatch)
    return element.values()


def test_a_batch_comes_in_slices_and_is_counted_once() -> None:
    task_input = input_of(ScriptedChannel(0, batch("a", "b", "c", "d", "e")))
    assert [values(task_input.next(2)) for _ in range(3)] == [["a", "b"], ["c", "d"], ["e"]]
    assert task_input.next(2) is None
    assert task_input.num_records == 5


def test_a_batch_that_fits_is_not_copied() -> None:
    whole = batch("a", "b")
    assert input_of(ScriptedChannel(0, whole)).next(2) is whole


def test_a_batch_is_worked_off_before_another_gate_is_polled() -> None:
    task_input = input_of(ScriptedChannel(0, batch("a", "b")), ScriptedChannel(1, batch("c")))
    seen = [(values(task_input.next(1)), task_input.input_index) for _ in range(3)]
    assert seen == [(["a"], 0), (["b"], 0), (["c"], 1)]


def test_gates_are_polled_in_turn() -> None:
    task_input = input_of(ScriptedChannel(0, batch("a"), batch("b")), ScriptedChannel(1, batch("c"), batch("d")))
    assert [values(task_input.next(9)) for _ in range(4)] == [["a"], ["c"], ["b"], ["d"]]


def test_the_rest_that_is_put_back_comes_first_and_whole() -> None:
    task_input = input_of(ScriptedChannel(0, batch("a", "b", "c")))
    task_input.next(2)
    task_input.put_back(batch("b"))
    assert task_input.has_data()
    assert values(task_input.next(0)) == ["b"]
    assert values(task_input.next(2)) == ["c"]


def test_a_snapshot_holds_what_no_operator_has_seen() -> None:
    task_input = input_of(ScriptedChannel(0), ScriptedChannel(1, batch("a", "b", "c")))
    assert task_input.unread() is None
    task_input.next(1)
    task_input.put_back(batch("a"))
    unread = task_input.unread()
    assert unread is not None
    assert (unread.channel, [values(e) for e in unread.elements]) == (1, [["a"], ["b", "c"]])
    assert [values(task_input.next(9)) for _ in range(2)] == [["a"], ["b", "c"]], "a snapshot takes nothing away"
    assert task_input.unread() is None


def test_a_rest_without_rows_is_held_as_its_watermarks() -> None:
    task_input = input_of(ScriptedChannel(0, batch("a")))
    task_input.next(1)
    task_input.put_back(batch(marks=(Mark(0, 7), Mark(0, 9))))
    unread = task_input.unread()
    assert unread is not None
    assert unread.elements == [Watermark(7), Watermark(9)]


def test_what_was_in_flight_comes_before_anything_else() -> None:
    task_input = input_of(ScriptedChannel(0, batch("new")), ScriptedChannel(1))
    task_input.take_in(ChannelId(0, 0, 0), [batch("restored")])
    assert values(task_input.next(9)) == ["restored"]
    with pytest.raises(LookupError, match="to restore"):
        task_input.take_in(ChannelId(9, 0, 0), [])


def test_the_input_has_ended_when_all_its_gates_have() -> None:
    task_input = input_of(ScriptedChannel(0, END_OF_INPUT), ScriptedChannel(1, END_OF_INPUT))
    assert task_input.next(9) is END_OF_INPUT
    assert not task_input.has_ended
    assert task_input.next(9) is END_OF_INPUT
    assert task_input.has_ended
    assert not task_input.has_data()
