"""Several open splits, and watermark alignment: who waits for whom, within a source and between sources."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from runtime.common import Duration
from runtime.common.watermark_strategy import WatermarkAlignment, WatermarkStrategy
from runtime.core.elements import MAX_WATERMARK, Watermark, WatermarkStatus
from runtime.core.ids import operator_id_of
from runtime.operators.source import NoSplit, SourceSplit, SplitEnumerator
from runtime.operators.source_operator import EmitStatus
from runtime.operators.watermark_alignment import AlignmentGroup, AlignWatermark, SourceWatermark
from runtime.testing.clock import ManualClock
from runtime.testing.harness import OutputRecord
from tests.connectors.rigs import SourceRig
from tests.connectors.test_source_operator import AT_ONCE, ListsSource, bounded

HERE, THERE = operator_id_of("here"), operator_id_of("there")


class LogSource(ListsSource):
    """Partitions without an order among them: a subtask reads all of its own in turn."""

    splits_at_once = 100

    def create_enumerator(self, parallelism: int, restored: Any | None) -> SplitEnumerator:
        ids = [str(i) for i in range(len(self.lists))] if restored is None else restored
        return _Partitions(ids, parallelism, self.split_to_json)


class _Partitions(SplitEnumerator):
    def __init__(self, ids: list[str], parallelism: int, to_json: Any) -> None:
        self._ids = list(ids)
        self._parallelism = parallelism
        self._to_json = to_json

    def next_split(self, subtask_index: int) -> SourceSplit | NoSplit:
        for split_id in self._ids:
            if int(split_id) % self._parallelism == subtask_index:
                self._ids.remove(split_id)
                return SourceSplit(split_id)
        return NoSplit.NEVER

    def add_splits_back(self, splits: Any) -> None:
        self._ids += [split.split_id for split in splits]

    def snapshot(self) -> Any:
        return list(self._ids)


def aligned(max_drift_ms: int, group: str = "g") -> WatermarkStrategy:
    drift = Duration.of_millis(max_drift_ms)
    return bounded().with_watermark_alignment(group, drift, Duration.of_millis(100))


def report_and_answer(rig: SourceRig) -> None:
    """Let one update interval pass."""
    rig.clock.advance(100)
    rig.timers.run_due()
    rig.deliver()


def test_splits_are_read_in_turn_and_the_least_of_their_watermarks_counts() -> None:
    rig = SourceRig(LogSource([10, 40, 70], [20, 30, 80]), strategy=bounded(), configuration=AT_ONCE).run(max_rows=1)
    assert sorted(rig.values) == [10, 20, 30, 40, 70, 80]
    watermark = -(2**63)
    for element in rig.outputs[0].elements:
        if isinstance(element, OutputRecord):
            # nothing is late by what the source itself has said
            assert element.value > watermark
        elif isinstance(element, Watermark):
            assert element.timestamp > watermark
            watermark = element.timestamp
    assert watermark == MAX_WATERMARK


@given(
    st.lists(st.lists(st.one_of(st.integers(0, 100), st.none()), max_size=8), min_size=1, max_size=4),
    st.integers(1, 3),
    st.integers(1, 2),
)
def test_watermark_never_passes_what_an_open_split_may_still_bring(
    lists: list[list[int | None]], max_rows: int, parallelism: int
) -> None:
    ascending = [[t if t is None else 1000 * i + t for i, t in enumerate(times)] for times in lists]
    source = LogSource(*ascending)
    rig = SourceRig(source, parallelism, bounded(), configuration=AT_ONCE)
    rig.run(max_rows)
    expected = sorted(t for times in ascending for t in times if t is not None)
    assert sorted(rig.values) == expected
    for subtask in range(parallelism):
        watermarks = rig.watermarks(subtask)
        assert watermarks == sorted(set(watermarks)) and watermarks[-1] == MAX_WATERMARK


def test_a_split_without_records_holds_the_others_back_until_it_is_idle() -> None:
    nothing: list[int | None] = [None] * 50
    strategy = bounded().with_idleness(Duration.of_millis(500))
    rig = SourceRig(LogSource([10, 20, *nothing], [*nothing, 15]), strategy=strategy, configuration=AT_ONCE)
    for _ in range(8):
        rig.step(1)
    assert rig.values == [10, 20]
    before = rig.watermarks()
    for _ in range(4):
        rig.clock.advance(200)
        rig.step(1)
        rig.timers.run_due()
    # all are idle after half a second: the source says so
    statuses = [e for e in rig.outputs[0].elements if isinstance(e, WatermarkStatus)]
    assert statuses == [WatermarkStatus.IDLE]
    rig.run()
    assert rig.watermarks()[: len(before)] == before and rig.values == [10, 20, 15]


def test_open_splits_and_their_positions_are_in_the_snapshot() -> None:
    source = LogSource([10, 40, 70], [20, 30, 80], [5])
    rig = SourceRig(source, strategy=bounded(), configuration=AT_ONCE)
    for _ in range(12):
        rig.step(1)
    snapshots = rig.snapshot()
    rig.close()
    items = [json.loads(item) for item in snapshots[0].operator_states["source-splits"].items]
    assert len(items) >= 2 and any(item["position"] for item in items)
    restored = SourceRig(source, 2, bounded(), snapshots, configuration=AT_ONCE).run(max_rows=1)
    assert sorted(rig.values + restored.values) == [5, 10, 20, 30, 40, 70, 80]


def test_a_split_that_is_ahead_of_the_group_is_not_read_until_it_has_caught_up() -> None:
    fast: list[int | None] = [100, 200, 300, 400]
    slow: list[int | None] = [10, None, None, None, None, 350, None, None]
    clock = ManualClock()
    rig = SourceRig(LogSource(fast, slow), strategy=aligned(50), clock=clock, configuration=AT_ONCE)
    for _ in range(7):
        rig.step(1)
    report_and_answer(rig)
    read = len([value for value in rig.values if value in fast])
    for _ in range(2):
        rig.step(1)
    # the slow split stands at 10, so nothing beyond 59 is allowed
    assert len([value for value in rig.values if value in fast]) == read < 4
    for _ in range(8):
        clock.advance(50)
        rig.step(1)
        rig.timers.run_due()
        rig.deliver()
    assert 350 in rig.values
    rig.run(max_rows=1)
    assert sorted(rig.values) == [10, 100, 200, 300, 350, 400]


def test_a_paused_source_has_nothing_to_emit_and_waits_for_an_event() -> None:
    rig = SourceRig(ListsSource([100, 200]), strategy=aligned(50), configuration=AT_ONCE)
    for _ in range(3):
        rig.step(1)
    operator = rig.operators[0]
    operator.handle_event(AlignWatermark(60, 39))
    assert operator.emit_next(1) is EmitStatus.NOTHING_AVAILABLE
    assert operator.next_wakeup_ms() is None
    assert operator.metrics.alignment_drift_ms == 39
    operator.handle_event(AlignWatermark(160, 0))
    assert operator.emit_next(1) is EmitStatus.MORE_AVAILABLE


def test_a_paused_source_is_not_idle() -> None:
    strategy = aligned(50).with_idleness(Duration.of_millis(300))
    rig = SourceRig(ListsSource([100, 200]), strategy=strategy, configuration=AT_ONCE)
    for _ in range(3):
        rig.step(1)
    rig.operators[0].handle_event(AlignWatermark(60, 39))
    for _ in range(6):
        rig.operators[0].emit_next(1)
        rig.clock.advance(100)
        rig.timers.run_due()
    assert not [e for e in rig.outputs[0].elements if isinstance(e, WatermarkStatus)]


def test_group_is_limited_by_the_least_of_those_who_have_reported() -> None:
    group = AlignmentGroup(WatermarkAlignment("g", 50, 100), HERE)
    assert group.report(0, 1000) == AlignWatermark(1050, 0)
    assert group.report(1, 400) == AlignWatermark(450, 0)
    assert group.report(0, 1000) == AlignWatermark(450, 600)
    # a subtask that is idle or has ended holds nobody up
    assert group.report(1, MAX_WATERMARK) == AlignWatermark(1050, 0)
    assert group.report(0, MAX_WATERMARK) == AlignWatermark(MAX_WATERMARK, 0)


def test_sources_of_a_group_hear_of_each_other_and_of_no_other_group() -> None:
    here = AlignmentGroup(WatermarkAlignment("g", 50, 100), HERE)
    there = AlignmentGroup(WatermarkAlignment("g", 20, 100), THERE)
    assert here.news() is None
    here.report(0, 1000)
    there.report(0, 100)
    message = there.news()
    assert message == SourceWatermark("g", THERE, 100)
    assert there.news() is None
    here.hear(message)
    here.hear(SourceWatermark("other", operator_id_of("elsewhere"), -5))
    assert here.report(0, 1000) == AlignWatermark(150, 900)
    there.hear(SourceWatermark("g", HERE, 1000))
    assert there.report(0, 100) == AlignWatermark(120, 0)
