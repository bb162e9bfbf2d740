"""The demonstration's source keeps to the clock and to its positions, and the program can be submitted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from examples import flights_live
from examples.flights_replay import (
    DAY_MS,
    DAYS,
    LONGEST_PAUSE_MS,
    POLL_MS,
    FlightsReplay,
    LaneReader,
    LaneSplit,
    lane_split,
    yearly_flights,
)
from runtime.client.extract import extract_job_graph
from runtime.core.batch import RecordBatch
from runtime.operators.source import ReadStatus
from runtime.testing.clock import ManualClock


def read_all(reader: LaneReader, clock: ManualClock, limit: int | None = None) -> list[tuple[float, dict[str, Any]]]:
    """(time, flight) until the split ends or `limit` flights have come, polling as the source operator does."""
    found: list[tuple[float, dict[str, Any]]] = []
    while limit is None or len(found) < limit:
        result = reader.read(8192)
        if isinstance(result, RecordBatch):
            found += [(clock.monotonic_ms(), value) for value in result.values()]
        elif result is ReadStatus.END_OF_SPLIT:
            return found
        else:
            clock.advance(POLL_MS)
    return found


def test_the_year_is_whole_and_in_order() -> None:
    days = yearly_flights().partitions
    assert len(days) == DAYS
    assert sum(day.height for day in days) == 336_776
    assert all(day["due_ms"].is_sorted() and day["due_ms"].max() <= DAY_MS for day in days)  # type: ignore[operator]


def test_something_moves_at_any_time() -> None:
    due = np.concatenate([day["due_ms"].to_numpy() + i * DAY_MS for i, day in enumerate(yearly_flights().partitions)])
    # a day is stretched by what its pauses were cut by; two pauses meet where a day ends
    assert np.diff(due).max() <= 3 * LONGEST_PAUSE_MS


def test_a_day_takes_24_seconds_and_comes_in_small_batches() -> None:
    clock = ManualClock()
    found = read_all(LaneReader(lane_split(0, 0, 2), 0, 1.0, clock), clock)
    assert len(found) == (yearly_flights().partitions[0].height + 1) // 2
    assert clock.monotonic_ms() == pytest.approx(24_000, abs=POLL_MS)
    times = np.array([at for at, _ in found])
    assert np.unique(times, return_counts=True)[1].max() < 15


def test_lanes_together_are_the_day() -> None:
    flights: list[str] = []
    for lane in range(3):
        clock = ManualClock()
        flights += [
            json.dumps(f, sort_keys=True)
            for _, f in read_all(LaneReader(lane_split(9, lane, 3), 0, 50.0, clock), clock)
        ]
    day = yearly_flights().partitions[9].drop("due_ms")
    assert sorted(flights) == sorted(json.dumps(f, sort_keys=True) for f in day.to_dicts())


def test_a_reader_goes_on_where_another_stopped() -> None:
    clock = ManualClock()
    whole = [flight for _, flight in read_all(LaneReader(lane_split(3, 1, 2), 0, 20.0, clock), clock)]
    first = LaneReader(lane_split(3, 1, 2), 0, 20.0, clock)
    head = [flight for _, flight in read_all(first, clock, limit=100)]
    assert first.position == len(head)
    later = ManualClock(5_000)
    tail = [flight for _, flight in read_all(LaneReader(lane_split(3, 1, 2), first.position, 20.0, later), later)]
    assert head + tail == whole


def test_the_second_year_is_the_first_one_365_days_later() -> None:
    clock = ManualClock()
    first, second = (
        read_all(LaneReader(lane_split(day, 0, 1), 0, 100.0, clock), clock, limit=10)[:10] for day in (4, 4 + DAYS)
    )
    shift = DAYS * DAY_MS
    assert [flight | {"sched_dep": flight["sched_dep"] + shift} for _, flight in first] == [f for _, f in second]


def test_a_reader_that_was_held_up_goes_on_later_and_not_in_a_burst() -> None:
    clock = ManualClock()
    reader = LaneReader(lane_split(0, 0, 1), 0, 1.0, clock)
    read_all(reader, clock, limit=50)
    clock.advance(10_000)
    batch = reader.read(8192)
    assert isinstance(batch, RecordBatch)
    assert batch.num_rows < 120


def test_each_subtask_gets_its_own_lane_day_by_day() -> None:
    source = FlightsReplay()
    enumerator = source.create_enumerator(2, None)
    given = [enumerator.next_split(subtask) for subtask in (0, 1, 1, 0)]
    assert given == [lane_split(0, 0, 2), lane_split(0, 1, 2), lane_split(1, 1, 2), lane_split(1, 0, 2)]
    same = source.create_enumerator(2, json.loads(json.dumps(enumerator.snapshot())))
    assert same.next_split(0) == lane_split(2, 0, 2)


def test_after_rescaling_every_flight_still_belongs_to_one_split() -> None:
    source = FlightsReplay()
    old = source.create_enumerator(3, None)
    dealt = [old.next_split(subtask) for subtask in (0, 0, 1)]
    new = source.create_enumerator(2, json.loads(json.dumps(old.snapshot())))
    dealt += [new.next_split(subtask) for subtask in (0, 1) * 4]
    covered: dict[int, list[float]] = {}
    for split in dealt:
        assert isinstance(split, LaneSplit)
        covered.setdefault(split.day, []).append(1 / split.lanes)
    # days 0 and 1 of three lanes, then day 2 on of two
    assert [sum(covered[day]) for day in (0, 1, 2)] == pytest.approx([1, 1, 1])


def test_the_speed_must_be_above_zero() -> None:
    with pytest.raises(ValueError, match="speed"):
        FlightsReplay(0)


def test_the_program_can_be_submitted() -> None:
    program = Path(flights_live.__file__)
    job = extract_job_graph(program, parallelism=2)
    assert job.graph.name == flights_live.JOB_NAME
    assert {vertex.name: vertex.parallelism for vertex in job.graph.vertices} == {
        "Source: flights -> flown": 2,
        "by airport and hour -> late -> Sink: late flights": 2,
        "by carrier and day": 2,
        "board -> Sink: windows": 1,
    }
    assert not job.warnings


def test_a_window_reads_well() -> None:
    window = ("EWR", "2013-01-01T10:00:00Z", "2013-01-01T11:00:00Z", 12, 3.25, 44)
    assert flights_live.describe(window) == (
        "2013-01-01T10:00:00Z  EWR    12 flights  mean delay    3.2 min  highest   44 min"
    )


def test_paced_days_keep_the_flights_of_the_file() -> None:
    flights = pl.concat([day.drop("due_ms") for day in yearly_flights().partitions])
    assert flights["dep_delay"].null_count() == 8_255
