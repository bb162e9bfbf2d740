"""The replay keeps to the clock, to its order and to its positions; the flights are whole."""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest

from runtime.common import Row, Types, WatermarkStrategy
from runtime.connectors.flights import FLIGHT_TYPE, flights
from runtime.connectors.replay import (
    DAY_MS,
    MS_PER_HOUR,
    POLL_MS,
    LaneReader,
    LaneSplit,
    ReplaySource,
    lane_split,
    slices_of,
)
from runtime.core.batch import RecordBatch
from runtime.operators.source import Boundedness, ReadStatus, SourceError
from runtime.testing.clock import ManualClock
from tests.connectors.rigs import SourceRig, run_with_rescaling
from tests.datastream.running import environment, values_of

DAYS = 365
FLIGHTS = ReplaySource.flights(repeat=True)


def reader(
    slice_number: int, lane: int, lanes: int, clock: ManualClock, position: int = 0, source: ReplaySource = FLIGHTS
) -> LaneReader:
    return LaneReader(source, lane_split(slice_number, lane, lanes), position, clock)


def due_ms(lane: LaneReader) -> npt.NDArray[np.float64]:
    assert lane._due is not None
    return lane._due


def read_all(lane: LaneReader, clock: ManualClock, limit: int | None = None) -> list[tuple[float, Row, int]]:
    """(time, row, event time) until the split ends or `limit` rows have come, polling as the source operator does."""
    found: list[tuple[float, Row, int]] = []
    while limit is None or len(found) < limit:
        result = lane.read(8192)
        if isinstance(result, RecordBatch):
            times = result.timestamps()
            assert times is not None
            found += [(clock.monotonic_ms(), row, at) for row, at in zip(result.values(), times, strict=True)]
        elif result is ReadStatus.END_OF_SPLIT:
            return found
        else:
            clock.advance(POLL_MS)
    return found


# --- flights ----------------------------------------------------------------------------------------------------------


def test_the_year_is_whole_and_in_order() -> None:
    days = slices_of(FLIGHTS.recording).frames
    assert len(days) == DAYS
    assert sum(day.height for day in days) == 336_776
    assert sum(day["dep_delay"].null_count() for day in days) == 8_255
    assert all(day["__due_ms"].is_sorted() and day["__due_ms"].max() <= DAY_MS for day in days)  # type: ignore[operator]


def test_something_moves_at_any_time() -> None:
    days = slices_of(FLIGHTS.recording).frames
    due = np.concatenate([day["__due_ms"].to_numpy() + i * DAY_MS for i, day in enumerate(days)])
    # a day is stretched by what its pauses were cut by; two pauses meet where a day ends
    assert np.diff(due).max() <= 3 * MS_PER_HOUR / 2


def test_a_day_takes_24_seconds_and_comes_in_small_batches() -> None:
    clock = ManualClock()
    found = read_all(reader(0, 0, 2, clock), clock)
    assert len(found) == (slices_of(FLIGHTS.recording).frames[0].height + 1) // 2
    assert clock.monotonic_ms() == pytest.approx(24_000, abs=POLL_MS)
    times = np.array([at for at, _, _ in found])
    assert np.unique(times, return_counts=True)[1].max() < 15


def test_lanes_together_are_the_day() -> None:
    fast = ReplaySource.flights(speed=None)
    found: Counter[str] = Counter()
    for lane in range(3):
        clock = ManualClock()
        found.update(repr(row) for _, row, _ in read_all(reader(9, lane, 3, clock, source=fast), clock))
        assert clock.monotonic_ms() == 0
    day = slices_of(fast.recording).frames[9].select(FLIGHT_TYPE.get_field_names())
    assert found == Counter(repr(Row(**row)) for row in day.to_dicts())


def test_a_reader_goes_on_where_another_stopped() -> None:
    clock = ManualClock()
    whole = [row for _, row, _ in read_all(reader(3, 1, 2, clock), clock)]
    first = reader(3, 1, 2, clock)
    head = [row for _, row, _ in read_all(first, clock, limit=100)]
    assert first.position == len(head)
    later = ManualClock(5_000)
    tail = [row for _, row, _ in read_all(reader(3, 1, 2, later, first.position), later)]
    assert head + tail == whole


def test_readers_of_micro_batches_keep_the_pace_of_one_reader() -> None:
    clock, steady = ManualClock(), ManualClock()
    one = reader(3, 1, 2, steady)
    expected, found = 0, 0
    position: Any = 0
    for _ in range(8):
        steady.advance(2_500)
        expected = int(np.searchsorted(due_ms(one), steady.monotonic_ms(), side="right"))
        of_batch = LaneReader(FLIGHTS, lane_split(3, 1, 2), position, clock, in_batches=True)
        clock.advance(2_500)
        while isinstance(batch := of_batch.read(8192), RecordBatch):
            found += batch.num_rows
        position = of_batch.position
        assert found == expected
    assert found > 100
    # and on with the pace that it had, in either execution
    assert LaneReader(FLIGHTS, lane_split(3, 1, 2), position, clock).position == found


def test_the_second_year_is_the_first_one_365_days_later() -> None:
    clock = ManualClock()
    first, second = (read_all(reader(day, 0, 1, clock), clock, limit=10)[:10] for day in (4, 4 + DAYS))
    year = datetime.timedelta(days=DAYS)
    for (_, row, at), (_, again, at_again) in zip(first, second, strict=True):
        moved = row.as_dict() | {"sched_dep": row["sched_dep"] + year, "departed": row["departed"] + year}
        assert again.as_dict() == moved and at_again == at + DAYS * DAY_MS
        assert at == row["sched_dep"].replace(tzinfo=datetime.UTC).timestamp() * 1000


def test_a_reader_that_was_held_up_goes_on_later_and_not_in_a_burst() -> None:
    clock = ManualClock()
    lane = reader(0, 0, 1, clock)
    read_all(lane, clock, limit=50)
    clock.advance(10_000)
    batch = lane.read(8192)
    assert isinstance(batch, RecordBatch)
    assert batch.num_rows < 120


def test_each_subtask_gets_its_own_lane_slice_by_slice() -> None:
    enumerator = FLIGHTS.create_enumerator(2, None)
    given = [enumerator.next_split(subtask) for subtask in (0, 1, 1, 0)]
    assert given == [lane_split(0, 0, 2), lane_split(0, 1, 2), lane_split(1, 1, 2), lane_split(1, 0, 2)]
    same = FLIGHTS.create_enumerator(2, json.loads(json.dumps(enumerator.snapshot())))
    assert same.next_split(0) == lane_split(2, 0, 2)


def test_after_rescaling_every_row_still_belongs_to_one_split() -> None:
    old = FLIGHTS.create_enumerator(3, None)
    dealt = [old.next_split(subtask) for subtask in (0, 0, 1)]
    new = FLIGHTS.create_enumerator(2, json.loads(json.dumps(old.snapshot())))
    dealt += [new.next_split(subtask) for subtask in (0, 1) * 4]
    covered: dict[int, list[float]] = {}
    for split in dealt:
        assert isinstance(split, LaneSplit)
        covered.setdefault(split.slice, []).append(1 / split.lanes)
    # days 0 and 1 of three lanes, then day 2 on of two
    assert [sum(covered[day]) for day in (0, 1, 2)] == pytest.approx([1, 1, 1])


def test_the_flights_are_packaged(tmp_path: Path) -> None:
    root, name = Path(__file__).parents[2], "runtime/connectors/data/flights.parquet"
    for part in ("runtime/__init__.py", "runtime/connectors/__init__.py", name):
        (tmp_path / part).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / part).write_bytes((root / part).read_bytes() if (root / part).exists() else b"")
    # the setuptools that comes with Python may be older than this form of a licence
    settings = (root / "pyproject.toml").read_text().replace('license = "Apache-2.0"\n', "")
    (tmp_path / "pyproject.toml").write_text(settings)
    # what a wheel holds is what this step collects
    command = [sys.executable, "-c", "from setuptools import setup; setup()", "build", "--build-lib", "made"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "made" / name).read_bytes() == (root / name).read_bytes()


# --- files ------------------------------------------------------------------------------------------------------------

ROWS = Types.ROW_NAMED(["id", "at", "came"], [Types.LONG(), Types.LONG(), Types.LONG()])


def recorded(directory: Path, suffix: str = "parquet") -> list[Path]:
    """Two files: 100 rows, a second apart; every tenth comes five seconds late."""
    frame = pl.DataFrame({"id": range(100)}).with_columns(at=pl.col("id") * 1000)
    frame = frame.with_columns(came=pl.when(pl.col("id") % 10 == 9).then(pl.col("at") + 5_500))
    paths = [directory / f"{part}.{suffix}" for part in range(2)]
    for path, half in zip(paths, (frame[:50], frame[50:]), strict=True):
        getattr(half, f"write_{suffix}")(path)
    return paths


@pytest.mark.parametrize("suffix", ["parquet", "csv", "ndjson"])
def test_rows_of_files_come_in_the_order_in_which_they_are_due(suffix: str, tmp_path: Path) -> None:
    row_type = None if suffix == "parquet" else ROWS
    source = ReplaySource.of_files(
        *recorded(tmp_path, suffix), time_column="at", due_column="came", row_type=row_type, speed=None, slice_ms=7_000
    )
    assert source.produced_type() == ROWS and source.boundedness is Boundedness.BOUNDED
    rig = SourceRig(source).run_to_end()
    ids = [row.id for row in rig.values]
    assert sorted(ids) == list(range(100))
    assert ids[:16] == [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 9, 15]
    assert [at for batch, _ in rig.outputs[0].batches for at in batch.timestamps() or ()] == [i * 1000 for i in ids]


def test_files_are_replayed_once_at_any_parallelism_and_after_rescaling(tmp_path: Path) -> None:
    source = ReplaySource.of_files(*recorded(tmp_path), time_column="at", speed=None, slice_ms=7_000)
    assert sorted(row.id for row in SourceRig(source, 3).run_to_end(max_rows=3).values) == list(range(100))
    assert sorted(row.id for row in run_with_rescaling(source, 5)) == list(range(100))


def test_the_speed_and_pauses_set_the_time_that_a_slice_takes(tmp_path: Path) -> None:
    source = ReplaySource.of_files(*recorded(tmp_path), time_column="at", speed=10, repeat=True, slice_ms=50_000)
    clock = ManualClock()
    found = read_all(reader(1, 0, 1, clock, source=source), clock)
    assert clock.monotonic_ms() == pytest.approx(5_000, abs=POLL_MS)
    assert [at for at, _, _ in found][:30:10] == pytest.approx([0, 1_000, 2_000], abs=POLL_MS)
    again = read_all(reader(3, 0, 1, clock, source=source), clock)
    assert [row["at"] for _, row, _ in again] == [row["at"] + 100_000 for _, row, _ in found]
    paused = tmp_path / "paused.parquet"
    pl.DataFrame({"at": [0, 1, 90, 91]}).write_parquet(paused)
    source = ReplaySource.of_files(paused, time_column="at", speed=1, slice_ms=100, longest_pause_ms=9)
    # pauses of 1, 9, 1 and 9 ms instead of 1, 89, 1 and 9, stretched to 100 ms
    assert slices_of(source.recording).frames[0]["__due_ms"].to_list() == [0, 5, 50, 55]


def test_a_replay_in_a_job_makes_its_watermarks(tmp_path: Path) -> None:
    env = environment(2)
    source = ReplaySource.of_files(*recorded(tmp_path), time_column="at", speed=None)
    stream = env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "replay")
    counts = stream.with_columns("1 AS one").key_by_columns("one").aggregate_columns("count(*) AS n")
    assert values_of(counts)[-1]["n"] == 100


def test_what_cannot_be_replayed_is_refused(tmp_path: Path) -> None:
    [path, _] = recorded(tmp_path)

    def refused(match: str, **other: Any) -> None:
        arguments: dict[str, Any] = {"time_column": "at"} | other
        with pytest.raises(ValueError, match=match):
            ReplaySource.of_files(path, **arguments)

    refused("speed", speed=0)
    refused("no column 'x'", time_column="x")
    refused("no column 'x'", due_column="x")
    refused("slice_ms", slice_ms=0)
    refused("must be LONG", time_column="n", row_type=Types.ROW_NAMED(["n"], [Types.STRING()]))
    with pytest.raises(ValueError, match="at least one file"):
        ReplaySource.of_files(time_column="at")
    with pytest.raises(SourceError, match=r"nope.parquet cannot be read"):
        ReplaySource.of_files(tmp_path / "nope.parquet", time_column="at")

    def failing(match: str, source: ReplaySource) -> None:
        with pytest.raises(SourceError, match=match):
            slices_of(source.recording)

    nope = ReplaySource.of_files(tmp_path / "nope.parquet", time_column="at", row_type=ROWS)
    failing("nope.parquet cannot be replayed", nope)
    failing("no time in column 'came'", ReplaySource.of_files(path, time_column="came"))
    long = tmp_path / "long.parquet"
    pl.DataFrame({"at": [0, 10**9]}).write_parquet(long)
    failing("at most 100000", ReplaySource.of_files(long, time_column="at", slice_ms=1))
    empty = tmp_path / "empty.parquet"
    pl.DataFrame(schema={"at": pl.Int64}).write_parquet(empty)
    failing("no row", ReplaySource.of_files(empty, time_column="at"))


def test_the_flights_have_no_row_without_a_time() -> None:
    assert flights()["sched_dep"].null_count() == 0
