"""The outputs: tags, copies, counts, watermarks of side outputs; and the collector in front of them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from runtime.common.typeinfo import Types
from runtime.core.batch import Mark, RecordBatch
from runtime.core.elements import LatencyMarker, StreamElement, Watermark, WatermarkStatus
from runtime.core.ids import OperatorId
from runtime.metrics import Counter
from runtime.operators.output_tag import OutputTag
from runtime.operators.outputs import (
    BroadcastingOutputCollector,
    ChainingOutput,
    CopyingChainingOutput,
    DiscardingOutput,
    RecordWriterOutput,
)

SIDE = OutputTag("side")


class Recorder:
    """An Input and a record writer that keep what they are given."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def process_batch(self, batch: RecordBatch) -> None:
        self.seen.append(batch)

    emit = process_batch

    def process_watermark(self, watermark: Watermark) -> None:
        self.seen.append(watermark)

    def process_watermark_status(self, status: WatermarkStatus) -> None:
        self.seen.append(status)

    def process_latency_marker(self, marker: LatencyMarker) -> None:
        self.seen.append(marker)

    def broadcast(self, element: StreamElement) -> None:
        self.seen.append(element)

    emit_randomly = process_latency_marker


def test_an_output_takes_what_its_tag_says() -> None:
    main, side = Recorder(), Recorder()
    count = Counter()
    output = BroadcastingOutputCollector([ChainingOutput(main, None, count), ChainingOutput(side, "side", count)])
    plain, tagged = RecordBatch.of_values([1, 2]), RecordBatch.of_values([3])
    output.collect(plain)
    output.collect(tagged, SIDE)
    output.collect(tagged, OutputTag("nobody"))
    assert (main.seen, side.seen) == ([plain], [tagged])
    assert count.get_count() == 3


def test_a_record_that_goes_several_ways_has_left_once() -> None:
    count = Counter()
    output = BroadcastingOutputCollector([RecordWriterOutput(Recorder(), None, count) for _ in range(3)])
    output.collect(RecordBatch.of_values([1, 2]))
    assert count.get_count() == 2


def test_watermarks_and_status_go_everywhere_and_a_latency_marker_one_way() -> None:
    elements = [Watermark(5), WatermarkStatus.IDLE]
    marker = LatencyMarker(1, OperatorId("a"), 0)
    chained, written = Recorder(), Recorder()
    output = BroadcastingOutputCollector([ChainingOutput(chained, "side"), RecordWriterOutput(written)])
    for out in (output, DiscardingOutput()):
        out.emit_watermark(elements[0])  # type: ignore[arg-type]
        out.emit_watermark_status(elements[1])  # type: ignore[arg-type]
        out.emit_latency_marker(marker)
        out.collect(RecordBatch.of_values([]), SIDE)
    seen = [[e for e in recorder.seen if not isinstance(e, RecordBatch)] for recorder in (chained, written)]
    assert sorted(seen, key=len) == [elements, [*elements, marker]]


def test_marks_of_the_main_output_are_watermarks_of_a_side_output_without_records() -> None:
    side = Recorder()
    output = ChainingOutput(side, "side")
    output.collect(RecordBatch.of_values([1, 2], marks=[Mark(1, 10), Mark(2, 20)]))
    output.emit_watermark(Watermark(20))
    assert side.seen == [Watermark(20)]


def test_marks_that_a_side_output_has_had_do_not_come_twice() -> None:
    side = Recorder()
    output = RecordWriterOutput(side, "side")
    own = RecordBatch.of_values([1], marks=[Mark(1, 20)])
    output.collect(own, SIDE)
    output.collect(RecordBatch.of_values([1], marks=[Mark(1, 20)]))
    assert side.seen == [own]


def test_object_reuse_hands_on_the_very_records() -> None:
    target, record = Recorder(), {"a": [1]}
    ChainingOutput(target).collect(RecordBatch.of_values([record]))
    assert target.seen[0].values()[0] is record


def test_without_object_reuse_records_are_copied_unless_they_cannot_change() -> None:
    target, record = Recorder(), {"a": [1]}
    output = CopyingChainingOutput(target)
    output.collect(RecordBatch.of_values([record], [7], [Mark(1, 3)]))
    output.collect(RecordBatch.of_values([(1, "x")]))
    copied, passed = target.seen
    assert copied.values() == [record]
    assert copied.values()[0]["a"] is not record["a"]
    assert (copied.timestamps(), copied.marks) == ([7], [Mark(1, 3)])
    assert passed.values() == [(1, "x")]


def test_columns_are_not_copied_but_values_made_of_them_are_one_consumers() -> None:
    one, two = Recorder(), Recorder()
    output = BroadcastingOutputCollector([CopyingChainingOutput(one), CopyingChainingOutput(two)])
    row_type = Types.ROW_NAMED(["n"], [Types.LONG()])
    columns = pa.record_batch({"n": pa.array([1, 2], pa.int64())})
    output.collect(RecordBatch.of_arrow(columns, row_type, marks=[Mark(1, 4)]))
    assert one.seen[0].arrow() is columns
    assert one.seen[0].marks == [Mark(1, 4)]
    assert one.seen[0].values()[0] is not two.seen[0].values()[0]
