"""Peeks inside a slot: what samplers keep, that they never wait, and that nothing is left of them."""

from __future__ import annotations

import datetime
import json
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from runtime.common import Row, Types
from runtime.common.typeinfo import RowTypeInfo
from runtime.core.arrow import to_arrow
from runtime.core.batch import Mark, RecordBatch
from runtime.core.checkpoint_options import CheckpointOptions
from runtime.core.elements import END_OF_INPUT, CheckpointBarrier, Watermark, WatermarkStatus
from runtime.core.ids import CheckpointId, OperatorId, VertexId
from runtime.operators.outputs import ChainingOutput, TaggedOutput
from runtime.task.messages import EdgePeeked, PeekedElement, StartPeek, StopPeek
from runtime.task.peek_values import PeekedValues
from runtime.task.peeks import ELEMENT_BYTES, MAX_PEEKS, SEND_INTERVAL_MS, Allowance, Peek, RowSampler
from runtime.task.slot_codec import decode_slot_messages, encode_slot_messages
from runtime.testing.clock import ManualClock
from tests.task.rigs import SlotRig, environment

ROW = Types.ROW_NAMED(["n", "password"], [Types.LONG(), Types.STRING()])
LEASE_MS = 30_000


def same(value: Any) -> Any:
    return value


class Rig:
    """A slot of two chained operators and an edge behind them; the test emits what the first one would."""

    def __init__(self, options: dict[str, str] | None = None) -> None:
        env = environment(1, options)
        mapped = env.from_collection([], Types.LONG()).map(same).name("map")
        mapped.rebalance().map(same).name("last").print()
        self.slots = SlotRig(env).start()
        self.vertex = self.slots.graph.vertices[0]
        self.clock = self.slots.clock

    @property
    def edge(self) -> int:
        return self.slots.graph.edges[0].edge_id

    @property
    def chained(self) -> OperatorId:
        return self.vertex.operators[1].operator_id

    def output(self, edge: int | OperatorId) -> TaggedOutput:
        output = self.slots.task().output_to(edge)
        assert output is not None
        return output

    def start(self, edge: int | OperatorId | None = None, peek_id: str = "p", **changed: Any) -> TaggedOutput:
        edge = self.chained if edge is None else edge
        fields: dict[str, Any] = {
            "subtasks": (0,),
            "interval_ms": 50.0,
            "max_bytes": 100_000,
            "lease_ms": LEASE_MS,
        } | changed
        self.slots.tell(StartPeek(peek_id, self.vertex.vertex_id, edge, False, **fields))
        return self.output(edge)

    def seen(self) -> list[EdgePeeked]:
        """Return what the slot says once it is time."""
        del self.slots.link.sent[:]
        self.clock.advance(int(SEND_INTERVAL_MS))
        self.slots.slot.step()
        return self.slots.link.all(EdgePeeked)

    def elements(self) -> list[PeekedElement]:
        return [element for message in self.seen() for element in message.elements]


def numbers(count: int, marks: list[Mark] | None = None) -> RecordBatch:
    return RecordBatch.of_values(list(range(count)), [1_000 + n for n in range(count)], marks or [], Types.LONG())


def told(elements: list[PeekedElement]) -> list[tuple[str, int | None, str]]:
    return [(element.kind, element.timestamp, element.text) for element in elements]


def test_rows_come_with_their_times_and_marks_in_order() -> None:
    rig = Rig()
    output = rig.start(interval_ms=1.0)
    rig.clock.advance(1_000)
    output.emit_watermark_status(WatermarkStatus.ACTIVE)
    output.collect(numbers(3, [Mark(1, 900), Mark(2, 1_001)]))
    output.show_to_tap(CheckpointBarrier(CheckpointId(7), 0, CheckpointOptions("", "")))
    output.emit_watermark(Watermark(2_000))
    output.emit_watermark(Watermark(3_000))
    output.show_to_tap(END_OF_INPUT)
    assert told(rig.elements()) == [
        ("status", None, "ACTIVE"),
        ("row", 1_000, "0"),
        ("watermark", 900, ""),
        ("row", 1_001, "1"),
        ("watermark", 1_001, ""),
        ("row", 1_002, "2"),
        ("barrier", None, "7"),
        ("watermark", 3_000, ""),
        ("end", None, ""),
    ]


def test_no_more_rows_than_the_rate_are_seen_and_all_are_counted() -> None:
    rig = Rig()
    output = rig.start(interval_ms=50.0)
    rows = total = 0
    for _ in range(40):
        for _ in range(10):
            output.collect(numbers(1_000))
        [message] = rig.seen()
        rows += len(message.elements)
        total += message.num_rows
    # ten seconds at twenty rows a second
    assert 195 <= rows <= 201
    assert total == 400_000


def test_after_a_pause_not_more_than_the_rows_of_a_second_follow_at_once() -> None:
    rig = Rig()
    output = rig.start(interval_ms=50.0)
    rig.clock.advance(20_000)
    output.collect(numbers(1_000))
    output.collect(numbers(1_000))
    assert len(rig.elements()) == 20


def test_rows_from_everywhere_in_a_batch_are_seen() -> None:
    rig = Rig()
    output = rig.start(interval_ms=50.0)
    found = set()
    for _ in range(30):
        output.collect(numbers(1_000))
        found |= {int(element.text) // 100 for element in rig.elements()}
    assert len(found) > 3


def test_columns_stay_columns_and_are_masked() -> None:
    rig = Rig()
    output = rig.start()
    arrow = pa.RecordBatch.from_pydict({"n": list(range(100)), "password": ["x"] * 100})
    batch = RecordBatch.of_arrow(arrow, ROW, np.arange(100, dtype=np.int64))
    output.collect(batch)
    [element] = rig.elements()
    row = json.loads(element.text)
    assert (row["n"], row["password"], element.row_kind) == (element.timestamp, "******", "+I")
    assert not batch.has_values


def test_what_does_not_fit_is_dropped_and_counted_and_the_job_goes_on() -> None:
    rig = Rig()
    output = rig.start(interval_ms=1.0, max_bytes=10 * (ELEMENT_BYTES + 4))
    for _ in range(50):
        rig.clock.advance(1)
        output.collect(RecordBatch.of_values(["ab"], None, (), Types.STRING()))
    [message] = rig.seen()
    assert len(message.elements) == 10
    assert (message.num_rows, message.num_dropped) == (50, 40)
    # a renewal brings new bytes
    rig.start(interval_ms=1.0, max_bytes=10 * (ELEMENT_BYTES + 4))
    output.collect(RecordBatch.of_values(["ab"], None, (), Types.STRING()))
    assert len(rig.elements()) == 1


def test_what_waits_for_a_jobmaster_that_takes_nothing_has_a_limit() -> None:
    rig = Rig()
    output = rig.start(interval_ms=1.0, max_bytes=20_000)
    for _ in range(LEASE_MS // 100):
        for _ in range(20):
            rig.clock.advance(5)
            output.collect(RecordBatch.of_values(["x" * 400], None, (), Types.STRING()))
        rig.slots.slot.step()
    texts = [element.text for message in rig.slots.link.all(EdgePeeked) for element in message.elements]
    assert 0 < sum(map(len, texts)) <= 20_000


def test_a_peek_ends_with_its_lease() -> None:
    rig = Rig()
    output = rig.start()
    rig.clock.advance(LEASE_MS - 1_000)
    rig.start()
    rig.clock.advance(LEASE_MS - 1_000)
    rig.slots.slot.step()
    assert output.tap is not None
    rig.clock.advance(1_000)
    rig.slots.slot.step()
    assert output.tap is None
    assert not rig.slots.slot._peeks


def test_a_peek_ends_when_it_is_stopped_and_says_what_it_has_seen() -> None:
    rig = Rig()
    output = rig.start()
    output.collect(numbers(1))
    rig.slots.tell(StopPeek("p"))
    rig.slots.tell(StopPeek("p"))
    assert output.tap is None
    assert [len(message.elements) for message in rig.slots.link.all(EdgePeeked)] == [1]


def test_two_peeks_at_an_edge_see_the_same_and_end_alone() -> None:
    rig = Rig()
    output = rig.start(peek_id="one")
    rig.start(peek_id="two")
    rig.start(peek_id="three")
    output.collect(numbers(1))
    assert [(m.peek_id, len(m.elements)) for m in rig.seen()] == [("one", 1), ("two", 1), ("three", 1)]
    rig.slots.tell(StopPeek("one"))
    rig.slots.tell(StopPeek("two"))
    output.emit_watermark(Watermark(5))
    assert [(m.peek_id, told(list(m.elements))) for m in rig.seen()] == [("three", [("watermark", 5, "")])]
    rig.slots.tell(StopPeek("three"))
    assert output.tap is None


def test_a_slot_has_only_so_many_peeks() -> None:
    rig = Rig()
    for number in range(MAX_PEEKS + 1):
        output = rig.start(peek_id=str(number))
    output.collect(numbers(1))
    assert len(rig.seen()) == MAX_PEEKS


@pytest.mark.parametrize(
    "changed", [{"edge": 99}, {"edge": OperatorId("f" * 32)}, {"subtasks": (1,)}, {"vertex_id": VertexId("f" * 32)}]
)
def test_what_the_slot_does_not_have_is_not_looked_for(changed: dict[str, Any]) -> None:
    rig = Rig()
    request: dict[str, Any] = {"vertex_id": rig.vertex.vertex_id, "edge": rig.edge, "subtasks": (0,)} | changed
    rig.slots.tell(StartPeek("p", **request, of_late=False, interval_ms=50.0, max_bytes=1_000, lease_ms=LEASE_MS))
    assert not rig.slots.slot._peeks


class NoZone(datetime.tzinfo):
    """The one code of users that the time of a row calls."""

    def utcoffset(self, moment: datetime.datetime | None) -> datetime.timedelta:
        raise RuntimeError("nowhere")

    def dst(self, moment: datetime.datetime | None) -> None:
        return None

    def tzname(self, moment: datetime.datetime | None) -> None:
        return None


def test_a_row_that_cannot_be_shown_fails_nothing() -> None:
    rig = Rig()
    output = rig.start()
    tap = output.tap
    assert tap is not None
    tap.take(RecordBatch.of_values([datetime.datetime(2024, 1, 1, tzinfo=NoZone())]))
    [message] = rig.seen()
    assert (message.elements, message.num_dropped) == ((), 1)


def test_columns_that_nobody_reads_are_not_shown() -> None:
    clock = ManualClock()
    peek = Peek(PeekedValues((), str), left_bytes=1 << 20)
    row_type = RowTypeInfo([Types.LONG(), Types.STRING(), Types.LONG()], ["id", "name", "price"])
    sampler = RowSampler(peek, 0, 50.0, clock, frozenset({"name"}))
    sampler.take(RecordBatch.of_arrow(to_arrow([Row(1, None, 5)], row_type), row_type))
    assert [element.text for element in peek.elements] == ['{"id":1,"price":5}']


class SlowClock(ManualClock):
    """A clock by which each look at it takes a time."""

    look_ms = 0.0

    def monotonic_ms(self) -> float:
        self.advance(self.look_ms)
        return super().monotonic_ms()


def test_rows_that_take_long_to_show_are_shown_more_seldom() -> None:
    clock, allowance = SlowClock(), Allowance()
    peeks = [Peek(PeekedValues((), str), allowance, left_bytes=1 << 20) for _ in range(2)]
    samplers = [RowSampler(peek, 0, 50.0, clock) for peek in peeks]
    clock.look_ms = 20.0
    begin_ms = clock._elapsed_ms
    while clock._elapsed_ms - begin_ms < 60_000:
        for sampler in samplers:
            sampler.take(numbers(1))
    # each takes 20 ms of a hundredth of a minute
    assert 20 <= sum(len(peek.elements) for peek in peeks) <= 32


def test_watermarks_of_many_subtasks_leave_room_for_rows() -> None:
    rig = Rig()
    # as of a hundred subtasks that share twenty rows a second
    output = rig.start(interval_ms=5_000.0)
    marks: list[int] = []
    for n in range(100):
        output.emit_watermark(Watermark(n))
        marks += [element.timestamp or 0 for element in rig.elements()]
    assert 5 <= len(marks) <= 6 and marks == sorted(marks)
    rig.slots.link.sent.clear()
    rig.slots.tell(StopPeek("p"))
    assert [e.timestamp for m in rig.slots.link.all(EdgePeeked) for e in m.elements] == [99]


def test_the_rest_is_said_when_the_slot_leaves() -> None:
    rig = Rig()
    output = rig.start()
    output.collect(numbers(1))
    rig.slots.release()
    assert [len(message.elements) for message in rig.slots.link.all(EdgePeeked)] == [1]


def test_columns_are_masked_that_the_job_names() -> None:
    rig = Rig({"web.peek.masked-columns": "Email"})
    output = rig.start()
    assert output.tap is not None
    output.tap.take(RecordBatch.of_values([{"email": "a@b", "n": 1}]))
    assert [json.loads(element.text) for element in rig.elements()] == [{"email": "******", "n": 1}]


def test_messages_pass_the_closed_codec() -> None:
    rig = Rig()
    output = rig.start()
    output.collect(numbers(1))
    output.emit_watermark(Watermark(5))
    messages = rig.seen()
    assert decode_slot_messages(encode_slot_messages(messages)) == messages


class _Nowhere:
    """An input that takes what it is given."""

    def process_batch(self, batch: RecordBatch) -> None: ...

    def process_watermark(self, watermark: Watermark) -> None: ...

    def process_watermark_status(self, status: WatermarkStatus) -> None: ...

    def process_latency_marker(self, marker: object) -> None: ...


def test_nothing_is_made_for_an_edge_at_which_nobody_looks() -> None:
    output, batch = ChainingOutput(_Nowhere()), numbers(10)
    calls: list[str] = []

    def trace(frame: Any, event: str, argument: object) -> None:
        if event in ("call", "c_call"):
            calls.append(frame.f_code.co_name if event == "call" else getattr(argument, "__name__", ""))

    output.collect(batch)
    blocks = sys.getallocatedblocks()
    for _ in range(100):
        output.collect(batch)
    assert sys.getallocatedblocks() - blocks < 10
    sys.setprofile(trace)
    try:
        output.collect(batch)
    finally:
        sys.setprofile(None)
    assert [name for name in calls if name != "setprofile"] == ["collect", "_forward_batch", "process_batch"]
