"""ScriptedSource: what it emits, crashes as often as they should be, exact positions, checkpoints that it waits for."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.common import Types, WatermarkStrategy
from runtime.core.elements import MAX_WATERMARK, Watermark, WatermarkStatus
from runtime.operators.source import Boundedness, ReadStatus, SourceError, SourceSplit
from runtime.state.snapshot import OperatorSnapshot
from runtime.testing import ScriptedCrash, ScriptedSource, crash, idle, pause, record, until_checkpoint, watermark
from runtime.testing.clock import ManualClock
from runtime.testing.harness import OutputRecord
from tests.connectors.rigs import SourceRig, read_split, reader_context

SPLIT = SourceSplit("0")


def seen(rig: SourceRig, subtask: int = 0) -> list[Any]:
    """Values, and watermarks as [timestamp], and status, in order."""
    found: list[Any] = []
    for element in rig.outputs[subtask].elements:
        if isinstance(element, Watermark):
            found.append([element.timestamp])
        else:
            found.append(element if isinstance(element, WatermarkStatus) else getattr(element, "value", element))
    return found


def test_records_and_watermarks_come_as_they_are_written() -> None:
    source = ScriptedSource([watermark(1), "a", record("b", 5), watermark(4), watermark(3), "c", watermark(9)])
    rig = SourceRig(source).run()
    assert seen(rig) == [[1], "a", "b", [4], "c", [9], [MAX_WATERMARK]]
    assert [r.timestamp for r in rig.outputs[0].elements if isinstance(r, OutputRecord)] == [-(2**63), 5, -(2**63)]


def test_watermarks_come_one_by_one_too() -> None:
    source = ScriptedSource([watermark(1), "a", record("b", 5), watermark(4), "c", watermark(9)], batch_rows=1)
    assert seen(SourceRig(source).run(max_rows=1)) == [[1], "a", "b", [4], "c", [9], [MAX_WATERMARK]]


def test_watermarks_of_a_strategy_come_beside() -> None:
    source = ScriptedSource([record("a", 5), record("b", 8), watermark(20), record("c", 9), record("d", 30)])
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    rig = SourceRig(source, strategy=strategy, configuration={"pipeline.auto-watermark-interval": "0"}).run()
    assert seen(rig) == ["a", [4], "b", [20], "c", "d", [29], [MAX_WATERMARK]]


def test_the_slowest_split_holds_the_watermark_back_unless_it_is_idle() -> None:
    fast, slow = [watermark(10), "fast", pause(100)], [watermark(3), "slow", idle(50), "behind"]
    rig = SourceRig(ScriptedSource(fast, slow, splits_at_once=2)).run()
    assert [element for element in seen(rig) if element != "fast"] == ["slow", [3], [10], "behind", [MAX_WATERMARK]]


def test_a_split_that_is_idle_makes_its_subtask_idle_until_it_has_something() -> None:
    rig = SourceRig(ScriptedSource(["a", idle(50), "b", pause(50), "c"])).run()
    assert seen(rig) == ["a", WatermarkStatus.IDLE, WatermarkStatus.ACTIVE, "b", "c", [MAX_WATERMARK]]
    assert rig.clock.now_ms() >= 100


def test_a_crash_happens_as_often_as_it_says() -> None:
    source = ScriptedSource([1, crash("once"), 2, crash("twice", times=2), 3])
    reached: list[str] = []
    for _ in range(4):
        reader = pickle.loads(pickle.dumps(source)).create_reader(SPLIT, None, reader_context())
        try:
            while reader.read(1) is not ReadStatus.END_OF_SPLIT:
                pass
            reached.append("end")
        except ScriptedCrash as error:
            reached.append(str(error))
    assert reached == ["once", "twice", "twice", "end"]


def test_a_crash_is_remembered_by_the_source_that_was_made_and_not_by_its_like(tmp_path: Path) -> None:
    for directory in (None, tmp_path):
        for _ in range(2):
            source = ScriptedSource([crash("first")], directory=directory)
            with pytest.raises(ScriptedCrash, match="first"):
                read_split(source, SPLIT)
            assert read_split(source, SPLIT) == []


def test_another_process_needs_a_directory(tmp_path: Path) -> None:
    source = ScriptedSource([crash("elsewhere")])
    source._marks._pid = -1  # type: ignore[attr-defined]
    with pytest.raises(SourceError, match="give ScriptedSource a directory"):
        read_split(source, SPLIT)


def test_a_source_waits_for_its_checkpoint(tmp_path: Path) -> None:
    for directory in (None, tmp_path):
        source = ScriptedSource([1, until_checkpoint(2), 2, until_checkpoint(2), 3], directory=directory)
        reader = source.create_reader(SPLIT, None, reader_context())
        reader.read(10)
        assert reader.read(10) is ReadStatus.NOTHING_YET
        reader.notify_checkpoint_complete(1)
        assert reader.read(10) is ReadStatus.NOTHING_YET
        assert reader.position == 1
        reader.notify_checkpoint_complete(3)
        assert read_split(source, SPLIT, reader.position) == [2, 3]


def test_the_operator_tells_its_readers_of_checkpoints() -> None:
    rig = SourceRig(ScriptedSource(["a", until_checkpoint(1), "b"]))
    for _ in range(5):
        rig.step(10)
    assert rig.values == ["a"]
    rig.operators[0].notify_checkpoint_complete(1)
    assert rig.run().values == ["a", "b"]


def test_a_source_that_waits_for_ever_has_no_bound() -> None:
    assert ScriptedSource([1]).boundedness is Boundedness.BOUNDED
    source = ScriptedSource([1], [2, pause()])
    assert source.boundedness is Boundedness.CONTINUOUS_UNBOUNDED
    clock = ManualClock()
    reader = source.create_reader(SourceSplit("1"), 1, reader_context(clock))
    for _ in range(3):
        assert reader.read(1) is ReadStatus.NOTHING_YET
        clock.advance(10**9)


def test_values_are_converted_to_the_type() -> None:
    assert read_split(ScriptedSource([1, record(2, 3)], type_info=Types.DOUBLE()), SPLIT) == [1.0, 2.0]
    with pytest.raises(TypeError, match="element 1 of split 0"):
        ScriptedSource([1, "x"], type_info=Types.LONG())


def test_what_makes_no_sense_is_refused() -> None:
    for make in (ScriptedSource, lambda: crash(times=0), lambda: pause(-1), lambda: ScriptedSource([1], batch_rows=0)):
        with pytest.raises(ValueError):
            make()


ELEMENTS = st.one_of(
    st.integers(0, 9), st.just(watermark(5)), st.just(pause(20)), st.just(idle(20)), st.just(record("r", 1))
)


@given(
    st.lists(st.lists(ELEMENTS, max_size=8), min_size=1, max_size=4),
    st.integers(1, 3),
    st.integers(1, 2),
    st.tuples(st.integers(0, 15), st.integers(0, 15)),
)
def test_nothing_is_lost_or_read_again_across_restores(
    splits: list[list[Any]], max_rows: int, splits_at_once: int, steps: tuple[int, int]
) -> None:
    source = ScriptedSource(*splits, splits_at_once=splits_at_once)
    records: list[Any] = []
    snapshots: Sequence[OperatorSnapshot] = ()
    for parallelism, count in zip((1, 2), steps, strict=True):
        rig = SourceRig(source, parallelism, snapshots=snapshots)
        for _ in range(count):
            rig.step(max_rows)
            rig.clock.advance(15)
        snapshots = rig.snapshot()
        rig.close()
        records += rig.values
    records += SourceRig(source, 1, snapshots=snapshots).run(max_rows).values
    expected: list[Any] = [value for split in splits for value in split if isinstance(value, int)]
    expected += ["r" for split in splits for value in split if value == record("r", 1)]
    assert sorted(map(str, records)) == sorted(map(str, expected))
