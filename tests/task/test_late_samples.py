"""Samples of records that were dropped as late: their limits, and that they come to whoever looks."""

from __future__ import annotations

import json
from typing import Any

from runtime.common import Types
from runtime.common.types import Row
from runtime.core.ids import OperatorId
from runtime.task.late_samples import INTERVAL_MS, MAX_CHARS, MAX_SAMPLES, LateSamples
from runtime.task.messages import EdgePeeked, PeekedElement, StartPeek
from runtime.task.peek_values import PeekedValues
from runtime.task.peeks import SEND_INTERVAL_MS
from runtime.task.slot_codec import decode_slot_messages, encode_slot_messages
from runtime.testing.clock import ManualClock
from tests.task.rigs import SlotRig, environment

ROW = Types.ROW_NAMED(["n", "password"], [Types.LONG(), Types.STRING()])


class Dropping:
    """Samples of an operator that drops what the test says."""

    def __init__(self) -> None:
        self.clock = ManualClock(1_000_000)
        self.samples = LateSamples(self.clock, PeekedValues((), str))

    def drop(self, value: Any, after_ms: float = INTERVAL_MS) -> None:
        self.clock.advance(int(after_ms))
        if self.samples.dropped(1):
            self.samples.take(value, ROW, 5_000, 9_000)


def test_a_sample_says_what_was_dropped_when_and_by_how_much_it_was_late() -> None:
    dropping = Dropping()
    dropping.drop(Row(7, "hunter2"))
    [sample] = dropping.samples.since(0)
    assert json.loads(sample.text) == {"n": 7, "password": "******"}
    assert (sample.timestamp, sample.watermark, sample.passed_ms) == (5_000, 9_000, dropping.clock.now_ms())
    assert (sample.row_kind, sample.is_cut) == ("+I", False)


def test_all_records_are_counted_and_ten_a_second_are_kept() -> None:
    dropping = Dropping()
    for number in range(1_000):
        dropping.drop(number, 1)
    assert dropping.samples.num_records == 1_000
    assert 9 <= len(dropping.samples.since(0)) <= 10


def test_the_newest_are_kept_within_their_number_and_bytes() -> None:
    dropping = Dropping()
    for number in range(3 * MAX_SAMPLES):
        dropping.drop(number)
    assert [sample.text for sample in dropping.samples.since(0)] == [
        str(n) for n in range(2 * MAX_SAMPLES, 3 * MAX_SAMPLES)
    ]
    for _ in range(MAX_SAMPLES):
        dropping.drop(["x" * 400] * 50)
    kept = dropping.samples.since(0)
    assert 1 <= len(kept) < MAX_SAMPLES and sum(len(sample.text) for sample in kept) <= MAX_CHARS


def test_no_code_of_a_record_is_called() -> None:
    class Hostile:
        @property  # type: ignore[misc]
        def __class__(self) -> type:
            raise RuntimeError

    dropping = Dropping()
    dropping.drop(Hostile())
    assert len(dropping.samples.since(0)) == dropping.samples.num_records == 1


class Rig:
    """A slot of one task, whose operators drop what the test says."""

    def __init__(self, options: dict[str, str] | None = None) -> None:
        env = environment(1, options)
        env.from_collection([], Types.LONG()).map(lambda value: value).name("map").print()
        self.slots = SlotRig(env).start()
        self.vertex = self.slots.graph.vertices[0]
        self.operator = self.vertex.operators[1].operator_id

    def samples(self) -> LateSamples | None:
        return self.slots.task().late_samples(self.operator)

    def look(self, operator: OperatorId | None = None, max_bytes: int = 100_000) -> None:
        edge = self.operator if operator is None else operator
        self.slots.tell(StartPeek("p", self.vertex.vertex_id, edge, True, (0,), 50.0, max_bytes, 30_000))

    def seen(self) -> list[PeekedElement]:
        del self.slots.link.sent[:]
        self.slots.clock.advance(int(SEND_INTERVAL_MS))
        self.slots.slot.step()
        told = self.slots.link.all(EdgePeeked)
        assert decode_slot_messages(encode_slot_messages(told)) == told
        self.rows = sum(message.num_rows for message in told)
        return [element for message in told for element in message.elements]

    def drop(self, value: Any) -> None:
        samples = self.samples()
        assert samples is not None
        self.slots.clock.advance(int(INTERVAL_MS))
        if samples.dropped(3):
            samples.take(value, None, 5_000, 9_000)


def test_who_looks_sees_what_was_dropped_before_and_then_what_is_dropped_once() -> None:
    rig = Rig()
    rig.drop(1)
    rig.drop(2)
    rig.look()
    seen = rig.seen()
    assert [(e.kind, e.text, e.timestamp, e.watermark) for e in seen] == [
        ("late", "1", 5_000, 9_000),
        ("late", "2", 5_000, 9_000),
    ]
    assert rig.rows == 6
    rig.look()
    assert rig.seen() == []
    rig.drop(3)
    assert [element.text for element in rig.seen()] == ["3"] and rig.rows == 3


def test_nobody_looks_at_an_operator_that_the_slot_does_not_have_and_a_peek_leaves_nothing() -> None:
    rig = Rig()
    rig.look(OperatorId("f" * 32))
    assert not rig.slots.slot._peeks
    rig.look()
    assert rig.slots.slot._peeks
    rig.slots.clock.advance(31_000)
    rig.slots.slot.step()
    assert not rig.slots.slot._peeks


def test_samples_that_do_not_fit_into_the_lease_are_counted() -> None:
    rig = Rig()
    rig.drop("x" * 400)
    rig.look(max_bytes=100)
    assert rig.seen() == []
    assert rig.slots.link.all(EdgePeeked)[0].num_dropped == 1


def test_a_job_whose_rows_nobody_may_see_keeps_no_samples() -> None:
    assert Rig({"web.peek.enable": "false"}).samples() is None
