"""Partial aggregates before the exchange: what comes out behind it is what one phase gives."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.common import Row, RowKind
from runtime.core.batch import Mark, RecordBatch
from runtime.core.column_keys import ColumnKeys
from runtime.core.elements import LatencyMarker, Watermark, WatermarkStatus
from runtime.core.ids import CheckpointId
from runtime.network.partitioners import KeyGroupSelector
from runtime.operators.columnar.aggregates import aggregate_spec
from runtime.operators.columnar.input_checks import ChangelogInputError
from runtime.operators.columnar.local_aggregate import LocalAggregateOperatorFactory
from runtime.operators.columnar.local_sessions import LocalSessionOperatorFactory
from runtime.operators.columnar.panes import Panes, panes_of
from runtime.operators.columnar.session_aggregate import SessionAggregateOperatorFactory, SessionAggregateSpec
from runtime.operators.columnar.window_aggregate import WindowAggregateSpec
from runtime.operators.columnar.window_factory import WindowAggregateOperatorFactory
from runtime.operators.errors import MissingTimestampError
from runtime.operators.operator import OperatorFactory
from runtime.operators.output import Output
from runtime.operators.output_tag import OutputTag
from runtime.operators.windowing.assigners import (
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from runtime.operators.windowing.cumulative_windows import CumulativeEventTimeWindows
from runtime.operators.windowing.session_windows import EventTimeSessionWindows
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
    EventTimeSessionWindows(5),
]
MORE = ("approx_quantile(number, 0.5) AS middle",)


def spec_of(assigner: WindowAssigner[Any, Any], takes_partials: bool) -> Any:
    aggregates = aggregate_spec(ROWS, ["key"], [*AGGREGATES, *MORE], {})
    if isinstance(assigner, EventTimeSessionWindows):
        return SessionAggregateSpec(aggregates, assigner.session_gap_ms, takes_partials=takes_partials)
    panes = panes_of(assigner)
    assert panes is not None
    return WindowAggregateSpec(aggregates, panes, takes_partials=takes_partials)


def first_phase(spec: Any) -> OperatorFactory:
    if isinstance(spec, SessionAggregateSpec):
        return LocalSessionOperatorFactory(spec)
    return LocalAggregateOperatorFactory(spec)


def second_phase(spec: Any) -> OperatorFactory:
    if isinstance(spec, SessionAggregateSpec):
        return SessionAggregateOperatorFactory(spec)
    return WindowAggregateOperatorFactory(spec)


class Recorder(Output):
    """Keeps batches and watermarks in order, as columns."""

    def __init__(self) -> None:
        self.seen: list[RecordBatch | Watermark] = []

    def collect(self, batch: RecordBatch, tag: OutputTag | None = None) -> None:
        self.seen.append(batch)

    def emit_watermark(self, watermark: Watermark) -> None:
        self.seen.append(watermark)

    def emit_watermark_status(self, status: WatermarkStatus) -> None:
        raise AssertionError(status)

    def emit_latency_marker(self, marker: LatencyMarker) -> None:
        raise AssertionError(marker)


def local_harness(spec: Any, snapshot: OperatorSnapshot | None = None) -> tuple[Any, Recorder]:
    """The first phase, with its output recorded."""
    harness = OneInputHarness(first_phase(spec), input_type=ROWS, snapshot=snapshot)
    recorder = Recorder()
    harness.operator.setup(harness.operator.context, recorder)
    return harness, recorder


def behind_the_exchange(spec: Any, seen: list[RecordBatch | Watermark], parallelism: int) -> tuple[list[str], int]:
    """Return the second phase's rows for the first one's output, and the number of dropped rows."""
    selector = KeyGroupSelector(parallelism, ColumnKeys(["key"], spec.partial_type), 128)
    values: list[str] = []
    dropped = 0
    for subtask in range(parallelism):
        with OneInputHarness(second_phase(spec), None, parallelism, subtask) as harness:
            for element in seen:
                part = selector.split(element)[subtask] if isinstance(element, RecordBatch) else element
                if isinstance(part, RecordBatch):
                    harness.process_batch(part)
                elif part is not None:
                    harness.process_watermark(part.timestamp)
            values += [repr((normalized(value), timestamp)) for value, timestamp in harness.records]
            dropped += harness.counter("numLateRecordsDropped")
    return sorted(values), dropped


def check_two_phases(
    assigner: WindowAssigner[Any, Any], run: Run, cut: bool, parallelism: int, interrupted: bool
) -> None:
    expected, _, dropped = played(second_phase(spec_of(assigner, False)), run, cut)
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


@pytest.mark.parametrize("assigner", ASSIGNERS, ids=repr)
@settings(max_examples=5, deadline=None)
@given(run=runs(), cut=st.booleans(), parallelism=st.sampled_from([1, 2]), interrupted=st.booleans())
def test_two_phases_give_what_one_gives(
    assigner: WindowAssigner[Any, Any], run: Run, cut: bool, parallelism: int, interrupted: bool
) -> None:
    check_two_phases(assigner, run, cut, parallelism, interrupted)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("assigner", ASSIGNERS, ids=repr)
@settings(max_examples=60, deadline=None)
@given(run=runs(30), cut=st.booleans(), parallelism=st.sampled_from([1, 2]), interrupted=st.booleans())
def test_two_phases_give_what_one_gives_in_many_runs(
    assigner: WindowAssigner[Any, Any], run: Run, cut: bool, parallelism: int, interrupted: bool
) -> None:
    check_two_phases(assigner, run, cut, parallelism, interrupted)


def test_what_waits_leaves_before_a_barrier() -> None:
    for assigner in (TumblingEventTimeWindows(10), EventTimeSessionWindows(5)):
        local, recorder = local_harness(spec_of(assigner, True))
        with local:
            local.process_batch(batch_of([Row(key="a", number=1, text=None, amount=None)], [1], [], True))
            assert recorder.seen == []
            local.operator.prepare_snapshot_pre_barrier(CheckpointId(1))
            assert len(recorder.seen) == 1
            assert local.snapshot().operator_states["partials"].items == []


def test_rows_that_may_be_late_go_on_one_by_one_and_others_as_sessions() -> None:
    local, recorder = local_harness(spec_of(EventTimeSessionWindows(5), True))
    rows = [Row(key="a", number=number, text=None, amount=None) for number in range(4)]
    with local:
        local.process_batch(batch_of(rows[:2], [20, 24], [Mark(2, 18)], True))
        assert recorder.seen == [Watermark(18)]
        local.process_batch(batch_of(rows[2:], [10, 12], [], True))
        local.process_batch(batch_of(rows[2:], [30, 31], [], True))
        local.process_watermark(29)
    batches = [batch for batch in recorder.seen if isinstance(batch, RecordBatch)]
    bounds = [[(row["__start"], row["__end"], row["__rows"]) for row in batch.values()] for batch in batches]
    assert bounds == [[(20, 29, 2)], [(10, 15, 1), (12, 17, 1)], [(30, 36, 2)]]


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
        local.process([Row(key="a", number=1, text=None, amount=None)], [1])
        saved = local.snapshot()
    other = WindowAggregateSpec(aggregate_spec(ROWS, ["key"], ["count(*) AS n"], {}), Panes(10, 10, 10, 0))
    with pytest.raises(StateMigrationError):
        local_harness(other, saved)
