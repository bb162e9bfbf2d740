"""The flights job as a batch computation in Polars: what a correct run of flight_delays.py must give.

Independent on purpose: imports nothing of the engine and reads the Parquet file, not the replayed stream.

    python examples/flights_batch.py
"""

from __future__ import annotations

import polars as pl

from examples.tools.replay_flights import FLIGHTS, scheduled_departure

MS_PER_HOUR = 3_600_000


def expected_windows(flights: pl.DataFrame | None = None) -> pl.DataFrame:
    """All (origin, hour of scheduled departure in UTC) with flights that were flown, sorted by both.

    Args:
        flights: the columns of the file FLIGHTS, which is read if None is given.

    Returns:
        origin, window_start and window_end (text, as 2013-01-01T10:00:00Z), flights, mean_delay (minutes: the whole
        sum divided once, so independent of order), max_delay (minutes); 19,434 rows for the whole year.
    """
    flights = pl.read_parquet(FLIGHTS) if flights is None else flights
    start = pl.col("window_start")
    delay = pl.col("dep_delay").cast(pl.Int64)
    return (
        flights.filter(pl.col("dep_time").is_not_null())
        .with_columns(scheduled_departure().dt.truncate("1h").alias("window_start"))
        .group_by("origin", "window_start")
        .agg(pl.len().alias("flights"), (delay.sum() / pl.len()).alias("mean_delay"), delay.max().alias("max_delay"))
        .sort("origin", "window_start")
        .select(
            "origin",
            start.dt.strftime("%Y-%m-%dT%H:%M:%SZ"),
            (start + pl.duration(hours=1)).dt.strftime("%Y-%m-%dT%H:%M:%SZ").alias("window_end"),
            "flights",
            "mean_delay",
            "max_delay",
        )
    )


def late_flights(stream: pl.DataFrame, max_delay_hours: int) -> pl.DataFrame:
    """The flights that a replay of the whole stream, row by row, finds late.

    A flight is late if its hour's window had been closed before it came: window end - 1 <= watermark, where the
    watermark is the highest event time of the earlier flown flights, minus the bound, minus 1 ms.

    Args:
        stream: what `replay` returns, in its order.
        max_delay_hours: the bound of the out-of-orderness.
    """
    flown = stream.filter(pl.col("dep_delay").is_not_null())
    watermark = pl.col("sched_dep").cum_max().shift(1) - max_delay_hours * MS_PER_HOUR - 1
    window_end = pl.col("sched_dep") // MS_PER_HOUR * MS_PER_HOUR + MS_PER_HOUR
    return flown.filter((window_end - 1 <= watermark).fill_null(False))


if __name__ == "__main__":
    print(expected_windows())
