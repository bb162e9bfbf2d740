"""Prints the worst hours of the year from what flight_delays.py has written.

python examples/worst_hours.py DIR [--top 12] [--min-flights 10]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import polars as pl

ROW = "{origin:<7} {hour:<17} {flights:>7} {mean:>11} {max:>11}"


def read_windows(directory: Path) -> pl.DataFrame:
    """All windows of a run; its part files lie in `directory`/windows.

    Raises:
        SystemExit: there are none.
    """
    parts = sorted((directory / "windows").rglob("*.ndjson"))
    if not parts:
        sys.exit(
            f"worst_hours: {directory / 'windows'} has no part files; run flight_delays.py --output {directory} first"
        )
    return pl.concat([pl.read_ndjson(part) for part in parts])


def worst_hours(windows: pl.DataFrame, top: int, min_flights: int) -> pl.DataFrame:
    """The `top` hours with the highest mean delay among those with at least `min_flights`, worst first."""
    return (
        windows.filter(pl.col("flights") >= min_flights)
        .sort(["mean_delay", "origin", "window_start"], descending=[True, False, False])
        .head(top)
        .with_columns(
            pl.col("window_start")
            .str.to_datetime("%Y-%m-%dT%H:%M:%SZ", time_zone="UTC")
            .dt.convert_time_zone("America/New_York")
            .dt.strftime("%Y-%m-%d %H:%M")
            .alias("hour")
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Print the worst hours of the year.")
    parser.add_argument("directory", type=Path, metavar="DIR")
    parser.add_argument("--top", type=int, default=12)
    parser.add_argument("--min-flights", type=int, default=10, help="leave out hours with fewer flights")
    options = parser.parse_args()
    windows = read_windows(options.directory)
    worst = worst_hours(windows, options.top, options.min_flights)
    print(f"\nThe worst hours of 2013 among {windows.height:,} (scheduled departure, New York time)\n")
    print(ROW.format(origin="airport", hour="hour", flights="flights", mean="mean (min)", max="worst (min)"))
    print(ROW.format(origin="-" * 7, hour="-" * 17, flights="-" * 7, mean="-" * 11, max="-" * 11))
    for row in worst.iter_rows(named=True):
        mean = f"{row['mean_delay']:.1f}"
        print(
            ROW.format(origin=row["origin"], hour=row["hour"], flights=row["flights"], mean=mean, max=row["max_delay"])
        )


if __name__ == "__main__":
    main()
