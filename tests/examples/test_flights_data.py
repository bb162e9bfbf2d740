"""The flights data has the numbers that the flights job is held against."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from examples.flights_batch import MS_PER_HOUR, expected_windows, late_flights
from examples.tools.replay_flights import FLIGHTS, replay, write_replay
from examples.worst_hours import read_windows, worst_hours


@pytest.fixture(scope="module")
def stream() -> pl.DataFrame:
    return replay(pl.read_parquet(FLIGHTS))


def test_the_year_has_its_flights(stream: pl.DataFrame) -> None:
    assert stream.height == 336_776
    assert stream["dep_delay"].null_count() == 8_255


def test_windows_hold_every_flown_flight() -> None:
    windows = expected_windows()
    assert windows.height == 19_434
    assert windows["flights"].sum() == 328_521


def test_a_bound_of_a_day_finds_nothing_late_and_two_hours_5360_flights(stream: pl.DataFrame) -> None:
    assert late_flights(stream, 24).height == 0
    assert late_flights(stream, 2).height == 5_360


def test_late_flights_agree_with_a_plain_loop(stream: pl.DataFrame) -> None:
    head = stream.head(60_000)
    watermark, late = -(2**63), []
    for row in head.filter(pl.col("dep_delay").is_not_null()).iter_rows(named=True):
        event_time = row["sched_dep"]
        if event_time // MS_PER_HOUR * MS_PER_HOUR + MS_PER_HOUR - 1 <= watermark:
            late.append(row)
        watermark = max(watermark, event_time - 2 * MS_PER_HOUR - 1)
    assert late
    assert late_flights(head, 2).to_dicts() == late


def test_the_stream_is_in_the_order_of_actual_then_scheduled_departure(stream: pl.DataFrame) -> None:
    places = stream.select(
        (pl.col("sched_dep") + pl.col("dep_delay").cast(pl.Int64).fill_null(0) * 60_000).alias("actual"), "sched_dep"
    )
    assert places.equals(places.sort("actual", "sched_dep"))


def test_the_replay_writes_one_json_object_per_flight(tmp_path: Path) -> None:
    flights = tmp_path / "flights.parquet"
    pl.read_parquet(FLIGHTS).head(1_000).write_parquet(flights)
    write_replay(tmp_path / "out" / "flights.ndjson", flights)
    lines = (tmp_path / "out" / "flights.ndjson").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1_000
    assert list(json.loads(lines[0])) == ["sched_dep", "origin", "dest", "carrier", "flight", "dep_delay"]
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["flights.ndjson"]


def test_worst_hours_come_from_the_part_files(tmp_path: Path) -> None:
    (tmp_path / "windows").mkdir()
    expected_windows().write_ndjson(tmp_path / "windows" / "part-0.ndjson")
    worst = worst_hours(read_windows(tmp_path), top=3, min_flights=10)
    assert worst["mean_delay"].is_sorted(descending=True)
    assert worst.row(0, named=True)["hour"] == "2013-09-02 16:00"


def test_worst_hours_of_an_empty_directory_say_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"run flight_delays\.py"):
        read_windows(tmp_path)
