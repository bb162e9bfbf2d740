"""Writes the flights as a stream that is out of order by nature: NDJSON in the order in which they really left.

A record's event time is its scheduled departure; its place in the file is by actual departure (scheduled time + delay),
then by scheduled departure, then as in the Parquet file. Cancelled flights have no actual departure and stand at their
scheduled time. Records lie up to 22 hours behind later ones.

    python examples/tools/replay_flights.py OUT.ndjson
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import polars as pl

FLIGHTS = Path(__file__).resolve().parents[2] / "runtime" / "connectors" / "data" / "flights.parquet"
TIME_ZONE = "America/New_York"
MS_PER_MINUTE = 60_000


def scheduled_departure() -> pl.Expr:
    """Scheduled departure in UTC, from local date and HHMM.

    An hour that daylight saving time repeats counts as its first pass, one that it skips is an error; no flight of the
    data is scheduled in either.
    """
    hhmm = pl.col("sched_dep_time").cast(pl.Int32)
    local = pl.col("date").cast(pl.Datetime("ms")) + pl.duration(hours=hhmm // 100, minutes=hhmm % 100)
    return local.dt.replace_time_zone(TIME_ZONE, ambiguous="earliest").dt.convert_time_zone("UTC")


def replay(flights: pl.DataFrame) -> pl.DataFrame:
    """The records of the stream in their order.

    Args:
        flights: the columns of the file FLIGHTS.

    Returns:
        sched_dep (ms since the epoch), origin, dest, carrier, flight, dep_delay (minutes, null = cancelled).
    """
    delay_ms = pl.col("dep_delay").cast(pl.Int64).fill_null(0) * MS_PER_MINUTE
    return (
        flights.with_columns(scheduled_departure().dt.epoch("ms").alias("sched_dep"))
        .with_columns((pl.col("sched_dep") + delay_ms).alias("actual_dep"))
        .sort("actual_dep", "sched_dep", maintain_order=True)
        .select("sched_dep", "origin", "dest", "carrier", "flight", "dep_delay")
    )


def write_replay(output: Path, flights: Path = FLIGHTS) -> None:
    """Write the stream to `output`, about 33 MB; the file appears under its name once it is complete."""
    output.parent.mkdir(parents=True, exist_ok=True)
    unfinished = output.with_name(f".{output.name}.{os.getpid()}.unfinished")
    replay(pl.read_parquet(flights)).write_ndjson(unfinished)
    unfinished.replace(output)


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the flights as NDJSON in the order of their actual departure.")
    parser.add_argument("output", type=Path)
    options = parser.parse_args()
    write_replay(options.output)
    print(f"{options.output}: {options.output.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
