"""Partial aggregates before the exchange: what comes out behind it is what one phase gives."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.common import Row, RowKind
from runtime.core.batch import Mark, RecordBatch
from runtime.core.column_keys import ColumnKeys
from runtime.core.elements import Watermark
from runtime.network.partitioners import KeyGroupSelector
from runtime.operators.columnar.aggregates import aggregate_spec
from runtime.operators.columnar.input_checks import ChangelogInputError
from runtime.operators.columnar.local_aggregate import LocalAggregateOperatorFactory
from runtime.operators.columnar.panes import Panes, panes_of
from runtime.operators.columnar.window_aggregate import WindowAggregateOperatorFactory, WindowAggregateSpec
from runtime.operators.errors import MissingTimestampError
from runtime.operators.output import Output
from runtime.operators.output_tag import OutputTag
from runtime.operators.windowing.assigners import (
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from runtime.operators.windowing.cumulative_windows import CumulativeEventTimeWindows
from runtime.state.errors import StateMigrationError
from runtime.state.snapshot import OperatorSnapshot
from runtime.testing.harness import OneInputHarness
from tests.operators.columnar.runs import (
    AGGREGATES,
    END,
    ROWS,
    Run,
    batch_of,
    feed,
    normalized,
    played,
    runs,
)

ASSIGNERS: list[WindowAssigner[Any, Any]] = [
    TumblingEventTimeWindows(10),
    SlidingEventTimeWindows(12, 4, 1),
    SlidingEventTimeWindows(10, 4, 0),
    CumulativeEventTimeWindows(12, 4, 2),
]


def spec_of(assigner: WindowAssigner[Any, Any], takes_partials: bool) -> WindowAggregateSpec:
    panes = panes_of(assigner)
    assert panes is not None
    return WindowAggregateSpec(aggregate_spec(ROWS, ["key"], AGGREGATES, {}), panes, takes_partials=takes_partials)


class Recorder(Output):
    """Keeps batches and watermarks in order, as columns."""

    def __init__(self) -> None:
        self.seen: list[RecordBatch | Watermark] = []

    def collect(self, batch: RecordBatch, tag: OutputTag | None = None) -> None:
        self.seen.append(batch)

    def emit_watermark(self, watermark: Watermark) -> None:
        self.seen.append(watermark)


def local_harness(spec: WindowAggregateSpec, snapshot: OperatorSnapshot | None = None) -> tuple[Any, Recorder]:
    """The first phase, with its output recorded."""
    harness = OneInputHarness(LocalAggregateOperatorFactory(spec), input_type=ROWS, snapshot=snapshot)
    recorder = Recorder()
    harness.operator.setup(harness.operator.context, recorder)
    return harness, recorder


def behind_the_exchange(
    spec: WindowAggregateSpec, seen: list[RecordBatch | Watermark], parallelism: int
) -> tuple[list[str], int]:
    """What the second phase makes of the first one's output: its rows, and how many it dropped."""
    selector = KeyGroupSelector(parallelism, ColumnKeys(["key"], spec.partial_type), 128)
    values: list[str] = []
    dropped = 0
    for subtask in range(parallelism):
        with OneInputHarness(WindowAggregateOperatorFactory(spec), None, parallelism, subtask) as harness:
            for element in seen:
                part = selector.split(element)[subtask] if isinstance(element, RecordBatch) else element
                if isinstance(part, RecordBatch):
                    harness.process_batch(part)
                elif part is not None:
                    harness.process_watermark(part.timestamp)
            values += [repr((normalized(value), timestamp)) for value, timestamp in harness.records]
            dropped += harness.counter("numLateRecordsDropped")
    return sorted(values), dropped


@pytest.mark.parametrize("assigner", ASSIGNERS, ids=repr)
@settings(max_examples=10, deadline=None)
@given(run=runs(), cut=st.booleans(), parallelism=st.sampled_from([1, 2]), interrupted=st.booleans())
def test_two_phases_give_what_one_gives(
    assigner: WindowAssigner[Any, Any], run: Run, cut: bool, parallelism: int, interrupted: bool
) -> None:
    expected, _, dropped = played(WindowAggregateOperatorFactory(spec_of(assigner, False)), run, cut)
    spec = spec_of(assigner, True)
    local, recorder = local_harness(spec)
    with local:
        feed(local, run, cut)
        if interrupted:
            saved = local.snapshot()
    seen = recorder.seen
    if interrupted:
        local, recorder = local_harness(spec, saved)
    with local:
        local.process_watermark(END)
    everything = sorted(value for values, _ in expected for value in values)
    # what was recorded before may be split again: frames do not change
    assert behind_the_exchange(spec, [*seen, *(recorder.seen if interrupted else [])], parallelism) == (
        everything,
        dropped,
    )


def test_watermarks_that_fire_nothing_pass_rows_that_wait() -> None:
    local, recorder = local_harness(spec_of(TumblingEventTimeWindows(10), True))
    rows = [Row(key=key, number=1, text=None, amount=None) for key in "aab"]
    with local:
        local.process_watermark(0)
        local.process_batch(batch_of(rows, [1, 2, 3], [Mark(1, 1), Mark(3, 2)], True))
        local.process_watermark(8)
        assert recorder.seen == [Watermark(0), Watermark(2), Watermark(8)]
        local.process_watermark(9)
    (partials,) = recorder.seen[3:]
    assert isinstance(partials, RecordBatch)
    assert sorted((row["key"], row["__rows"]) for row in partials.values()) == [("a", 2), ("b", 1)]
    assert partials.marks == (Mark(2, 9),) or list(partials.marks) == [Mark(2, 9)]


def test_what_waits_leaves_when_the_input_ends() -> None:
    local, recorder = local_harness(spec_of(TumblingEventTimeWindows(10), True))
    with local:
        local.process_batch(batch_of([Row(key="a", number=1, text=None, amount=None)], [1], [], True))
        local.finish()
    assert [element.num_rows for element in recorder.seen if isinstance(element, RecordBatch)] == [1]


def test_the_first_phase_refuses_what_the_second_would() -> None:
    local, _ = local_harness(spec_of(TumblingEventTimeWindows(10), True))
    with local:
        with pytest.raises(MissingTimestampError):
            local.process([Row(key="a", number=1, text=None, amount=None)])
        with pytest.raises(ChangelogInputError):
            local.process([Row.of_kind(RowKind.DELETE, key="a", number=1, text=None, amount=None)], [1])
        saved = local.snapshot()
    other = WindowAggregateSpec(aggregate_spec(ROWS, ["key"], ["count(*) AS n"], {}), Panes(10, 10, 10, 0))
    with pytest.raises(StateMigrationError):
        local_harness(other, saved)
