"""SourceOperator and SourceCoordinator: the protocol, event time over several splits, restores, failures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from runtime.common import Duration, Types
from runtime.common.typeinfo import RowTypeInfo
from runtime.common.watermark_strategy import WatermarkStrategy
from runtime.connectors import CollectionSource, DataGeneratorSource, NumberSequenceSource
from runtime.connectors.postgres_source import PostgresSource
from runtime.connectors.split_queue import SplitQueue
from runtime.core.batch import RecordBatch
from runtime.core.elements import MAX_WATERMARK, WatermarkStatus
from runtime.operators.source import (
    NoSplit,
    ReaderContext,
    ReadStatus,
    Source,
    SourceError,
    SourceSplit,
    SplitEnumerator,
    SplitReader,
)
from runtime.operators.source_operator import EmitStatus, SourceOperatorFactory
from runtime.state.snapshot import OperatorSnapshot
from runtime.state.state_meta import StateMeta
from runtime.testing.clock import ManualClock
from tests.connectors.rigs import SourceRig, run_with_rescaling

AT_ONCE = {"pipeline.auto-watermark-interval": "0"}


class ListsSource(Source):
    """Each split is a list of event times; the record is its event time. NOTHING_YET where a list has None."""

    def __init__(self, *lists: Sequence[int | None]) -> None:
        self.lists = lists

    def produced_type(self) -> None:
        return None

    def create_enumerator(self, parallelism: int, restored: Any | None) -> SplitEnumerator:
        ids = [str(i) for i in range(len(self.lists))] if restored is None else restored
        return SplitQueue([SourceSplit(i) for i in ids], self.split_to_json)

    def create_reader(self, split: SourceSplit, position: Any | None, context: ReaderContext) -> SplitReader:
        return ListReader(self.lists[int(split.split_id)], position or 0)

    def split_to_json(self, split: SourceSplit) -> Any:
        return split.split_id

    def split_from_json(self, value: Any) -> SourceSplit:
        return SourceSplit(value)


class ListReader(SplitReader):
    def __init__(self, times: Sequence[int | None], position: int) -> None:
        self.times = times
        self._position = position

    @property
    def position(self) -> int:
        return self._position

    def read(self, max_rows: int) -> RecordBatch | ReadStatus:
        rows: list[int] = []
        while self._position < len(self.times) and len(rows) < max_rows:
            time = self.times[self._position]
            if time is None:
                if not rows:
                    self._position += 1
                    return ReadStatus.NOTHING_YET
                break
            self._position += 1
            rows.append(time)
        return RecordBatch.of_values(rows, list(rows)) if rows else ReadStatus.END_OF_SPLIT


class TurnsSource(ListsSource):
    """Reads its lists in turn."""

    splits_at_once = 2


class BlocksSource(TurnsSource):
    """Before every other record there is something to prepare."""

    def create_reader(self, split: SourceSplit, position: Any | None, context: ReaderContext) -> SplitReader:
        return BlockReader(self.lists[int(split.split_id)], position or 0)


class BlockReader(ListReader):
    is_prepared = False

    def prepare(self) -> bool:
        was_prepared, self.is_prepared = self.is_prepared, True
        return not was_prepared and self._position % 2 == 0

    def read(self, max_rows: int) -> RecordBatch | ReadStatus:
        self.is_prepared = False
        return super().read(max_rows)


class LaterSource(ListsSource):
    """Its enumerator has nothing to give until splits are put back."""

    def create_enumerator(self, parallelism: int, restored: Any | None) -> SplitEnumerator:
        return LaterEnumerator([], self.split_to_json)


class LaterEnumerator(SplitQueue):
    def next_split(self, subtask_index: int) -> SourceSplit | NoSplit:
        split = super().next_split(subtask_index)
        return NoSplit.LATER if split is NoSplit.NEVER else split


def square(index: int) -> int:
    return index * index


def bounded(delay_ms: int = 0) -> WatermarkStrategy:
    return WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(delay_ms))


def test_subtasks_share_the_splits_and_end_with_the_last_watermark() -> None:
    rig = SourceRig(ListsSource([1, 2], [3], [4, 5], [6]), parallelism=3).run(max_rows=1)
    assert sorted(rig.values) == [1, 2, 3, 4, 5, 6]
    assert all(output.batches for output in rig.outputs)
    assert [rig.watermarks(i) for i in range(3)] == [[MAX_WATERMARK]] * 3
    assert rig.operators[0].emit_next(1) is EmitStatus.END_OF_INPUT
    assert rig.watermarks(0) == [MAX_WATERMARK]


def test_more_subtasks_than_splits_end_at_once() -> None:
    rig = SourceRig(CollectionSource([1, 2, 3], Types.LONG()), parallelism=4).run(max_rows=2)
    assert rig.values == [1, 2, 3]


def test_marks_are_exact_within_a_split_and_never_fall_at_the_next() -> None:
    rig = SourceRig(ListsSource([10, 30, 20], [5, 25, 50]), strategy=bounded(), configuration=AT_ONCE).run()
    seen = [getattr(e, "timestamp", None) if not hasattr(e, "value") else e.value for e in rig.outputs[0].elements]
    assert seen == [10, 9, 30, 29, 20, 5, 25, 50, 49, MAX_WATERMARK]


def test_a_begun_split_holds_the_watermark_back_after_a_restore() -> None:
    source = ListsSource([10, 11, 12], [100, 101, 102])
    rig = SourceRig(source, 2, bounded(), configuration=AT_ONCE)
    for _ in range(3):
        rig.step(1)
    snapshots = rig.snapshot()
    assert sorted(s.watermark for s in snapshots) == [9, 99]
    rig.close()
    # one subtask gets both splits and reads the later one first
    restored = SourceRig(source, 1, bounded(), snapshots[::-1], configuration=AT_ONCE)
    order = [state.split.split_id for state in restored.operators[0]._queue]
    restored.run(1)
    assert sorted(restored.values) == [11, 12, 101, 102]
    limit = 10 if order == ["1", "0"] else 99
    marks = restored.watermarks()
    assert marks == sorted(marks) and marks[0] == 9
    first_two = restored.outputs[0].elements[:5]
    assert all(e.timestamp <= limit for e in first_two if not hasattr(e, "value"))  # type: ignore[union-attr]


def test_periodic_watermarks_come_from_the_timer_while_nothing_is_read() -> None:
    rig = SourceRig(ListsSource([10, 20, None, 30]), strategy=bounded(1), clock=ManualClock(1000))
    for _ in range(3):
        rig.step(1)
    assert rig.watermarks() == []
    assert rig.values == [10]
    rig.step(1)
    rig.clock.advance(200)
    rig.timers.run_due()
    assert rig.watermarks() == [18]
    rig.run()
    assert rig.watermarks() == [18, MAX_WATERMARK]


def test_an_idle_source_says_so_and_is_active_again_with_the_next_record() -> None:
    strategy = bounded().with_idleness(Duration.of_millis(500))
    rig = SourceRig(ListsSource([10, None, 20]), strategy=strategy)
    for _ in range(4):
        rig.step(10)
    rig.clock.advance(200)
    rig.timers.run_due()
    rig.clock.advance(400)
    rig.timers.run_due()
    rig.run()
    statuses = [e for e in rig.outputs[0].elements if isinstance(e, WatermarkStatus)]
    assert statuses == [WatermarkStatus.IDLE, WatermarkStatus.ACTIVE]


def test_a_source_that_is_not_asked_for_records_is_not_idle() -> None:
    rig = SourceRig(ListsSource([10, 20]), strategy=bounded().with_idleness(Duration.of_millis(500)))
    for _ in range(3):
        rig.step(1)
    # back-pressure: the task does not call emit_next for a while
    for _ in range(5):
        rig.clock.advance(400)
        rig.timers.run_due()
    rig.run()
    assert not [e for e in rig.outputs[0].elements if isinstance(e, WatermarkStatus)]


def test_a_reader_without_data_is_asked_again_after_the_poll_interval() -> None:
    rig = SourceRig(ListsSource([None, 1]), clock=ManualClock(1000))
    for _ in range(2):
        rig.step(1)
    assert rig.operators[0].emit_next(1) is EmitStatus.NOTHING_AVAILABLE
    assert rig.operators[0].next_wakeup_ms() == 1050
    assert rig.run().values == [1]


def test_waiting_subtasks_are_told_when_splits_come_back() -> None:
    rig = SourceRig(LaterSource([1], [2]), parallelism=2)
    for _ in range(3):
        assert not rig.step(1)
    assert [op.emit_next(1) for op in rig.operators] == [EmitStatus.NOTHING_AVAILABLE] * 2
    assert rig.operators[0].next_wakeup_ms() is None
    rig.coordinator.add_splits_back([SourceSplit("0"), SourceSplit("1")])
    rig.deliver()
    for _ in range(4):
        rig.step(1)
    assert sorted(rig.values) == [1, 2]
    rig.close()


@pytest.mark.parametrize("deliver_requests", [False, True])
@pytest.mark.parametrize("steps", range(7))
def test_an_assignment_under_way_at_the_snapshot_is_neither_lost_nor_repeated(
    steps: int, deliver_requests: bool
) -> None:
    source = ListsSource([1, 2], [3, 4], [5], [6])
    rig = SourceRig(source, 2)
    for _ in range(steps):
        rig.step(1)
    for operator in rig.operators:
        operator.emit_next(1)
    if deliver_requests:
        rig.deliver_requests()
    snapshots = rig.snapshot()
    rig.close()
    restored = SourceRig(source, 3, snapshots=snapshots).run(1)
    assert sorted(rig.values + restored.values) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    "source",
    [
        NumberSequenceSource(-5, 40),
        CollectionSource(range(46)),
        DataGeneratorSource(square, count=46),
        ListsSource(*([i, i + 1] for i in range(20))),
    ],
    ids=lambda source: type(source).__name__,
)
@pytest.mark.parametrize("max_rows", [1, 5])
def test_restore_at_one_two_one_continues_exactly(source: Source, max_rows: int) -> None:
    assert sorted(run_with_rescaling(source, max_rows)) == sorted(SourceRig(source).run().values)


def test_what_a_reader_prepares_is_a_step_of_its_own_and_the_same_splits_turn_follows() -> None:
    def played(source: Source) -> tuple[list[Any], int]:
        rig = SourceRig(source)
        steps = 1
        while not rig.step(1):
            steps += 1
        rig.close()
        return rig.values, steps

    plain, steps = played(TurnsSource([1, 2, 3], [11, 12]))
    # before 1, 3, 11 and the end of the second list
    assert played(BlocksSource([1, 2, 3], [11, 12])) == (plain, steps + 4)


def test_the_restored_watermark_is_emitted_first() -> None:
    rig = SourceRig(ListsSource([]), snapshots=[OperatorSnapshot(watermark=77)]).run()
    assert rig.watermarks() == [77, MAX_WATERMARK]


def divide(index: int) -> float:
    return 1 / (index - 5)


def test_a_failing_reader_is_told_with_source_split_and_place() -> None:
    with pytest.raises(SourceError, match=r"source numbers, split 0-10: the generator failed at index 5: ZeroDivision"):
        SourceRig(DataGeneratorSource(divide, count=10)).run(3)


def test_unknown_events_are_refused() -> None:
    rig = SourceRig(ListsSource([1]))
    with pytest.raises(TypeError, match="cannot handle"):
        rig.operators[0].handle_event("hello")
    with pytest.raises(TypeError, match="cannot handle"):
        rig.coordinator.handle_event(0, "hello", lambda to, event: None)
    rig.close()


def test_what_was_read_of_one_table_is_not_taken_for_another() -> None:
    def splits(table: str) -> StateMeta:
        source = PostgresSource("unused", table, RowTypeInfo([Types.LONG()], ["id"]), None, None, None, None)
        return SourceOperatorFactory(source, WatermarkStrategy.no_watermarks(), "table").declared_states.states[0]

    assert splits("orders").is_readable_as(splits("orders"))
    assert not splits("orders").is_readable_as(splits("customers"))
    assert "of the table orders" in splits("orders").describe()
    old = replace(splits("orders"), serializer="json<ranges of a table>")
    assert old.is_readable_as(splits("orders"))
