"""FinalRowsOutput: of a changelog, only what stands at the end of the batch leaves, as inserts."""

from __future__ import annotations

from runtime.common.types import Row, RowKind
from runtime.core.batch import Mark, RecordBatch
from runtime.core.elements import MAX_WATERMARK, Watermark
from runtime.operators.final_rows import FinalRowsOutput
from runtime.operators.output_tag import OutputTag
from runtime.testing.harness import OutputRecord, RecordingOutput


def change(kind: RowKind, *values: object) -> Row:
    row = Row(*values)
    row.set_row_kind(kind)
    return row


def records(output: RecordingOutput) -> list[OutputRecord]:
    return [element for element in output.elements if isinstance(element, OutputRecord)]


INSERT, BEFORE, AFTER, DELETE = RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER, RowKind.DELETE


def test_rows_that_were_taken_back_never_leave() -> None:
    recorded = RecordingOutput()
    output = FinalRowsOutput(recorded)
    rows = [
        change(INSERT, "a", 1),
        change(INSERT, "b", [7]),
        change(BEFORE, "a", 1),
        change(AFTER, "a", 2),
        change(INSERT, "c", 3),
        change(DELETE, "c", 3),
        change(INSERT, "twice", 0),
        change(INSERT, "twice", 0),
    ]
    output.collect(RecordBatch.of_values(rows, list(range(8)), [Mark(8, 100)]))
    assert not records(recorded)
    output.emit_watermark(Watermark(MAX_WATERMARK))
    found = [(r.value[0], r.value[1], r.value.get_row_kind(), r.timestamp) for r in records(recorded)]
    assert found == [
        ("b", [7], INSERT, 1),
        ("a", 2, INSERT, 3),
        ("twice", 0, INSERT, 7),
        ("twice", 0, INSERT, 7),
    ]
    output.emit_watermark(Watermark(MAX_WATERMARK))
    assert len(records(recorded)) == 4


def test_side_outputs_pass_at_once() -> None:
    recorded = RecordingOutput()
    tag = OutputTag("late")
    FinalRowsOutput(recorded).collect(RecordBatch.of_values(["x"], [1]), tag)
    assert recorded.sides == {"late": [OutputRecord("x", 1)]}
